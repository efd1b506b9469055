//! The listening socket of an endpoint. Set-up path.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use oxifabric_wire::tcp::cm::CmKind;

use crate::cm::CmMessage;
use crate::sys::Socket;

/// Connections that may wait in the kernel's backlog.
const BACKLOG: i32 = 4096;

/// Connections that one poll refuses when the system has no descriptors left.
const REFUSED_PER_POLL: usize = 4;

/// The listening socket of an endpoint.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    name: SocketAddr,
    /// A descriptor that is kept for the case that there are no others left (EMFILE): with it a connection can be
    /// accepted and refused, and is the spare one then, until there is another one.
    spare: Option<OwnedFd>,
}

impl Listener {
    /// Binds to `at`; port zero means one of `ports`, or any.
    ///
    /// Only a port that was asked for may still be in use by connections of an earlier owner.
    pub(crate) fn bind(at: &SocketAddr, ports: Option<(u16, u16)>) -> io::Result<Self> {
        let socket = match (at.port(), ports) {
            (0, Some(range)) => bind_in_range(at, range)?,
            (0, None) => bound(at)?,
            _ => {
                let socket = Socket::open(at)?;
                socket.set_reuse_address()?;
                socket.bind(at)?;
                socket
            }
        };
        let name = socket.local()?;
        Ok(Self {
            socket,
            name,
            spare: None,
        })
    }

    /// Starts to take connections. From now on the address counts as reusable, which the connections inherit:
    /// so that a later owner gets it although they linger, and no process gets it while this one listens.
    pub(crate) fn listen(&mut self) -> io::Result<()> {
        self.socket.listen(BACKLOG)?;
        // Without it connections wait in the kernel until there are descriptors again.
        self.spare = keep().ok();
        self.socket.set_reuse_address()
    }

    /// Refuses some of the waiting connections, so that later ones do not all wait behind them. Returns how many were
    /// refused, and whether it can go on: without the spare descriptor the listener has to pause.
    pub(crate) fn refuse_waiting(&mut self) -> (usize, bool) {
        for refused in 0..REFUSED_PER_POLL {
            match self.refuse_one() {
                Some(true) => {}
                Some(false) => return (refused, true),
                None => return (refused, false),
            }
        }
        (REFUSED_PER_POLL, true)
    }

    /// Refuses the connection that has waited longest, by the descriptor that is kept for this; returns whether there
    /// was one. `None` if that descriptor is lost.
    fn refuse_one(&mut self) -> Option<bool> {
        drop(self.spare.take());
        let waiting = self.socket.accept();
        let came = waiting.is_ok();
        self.spare = match waiting {
            Ok((socket, _)) => {
                let _ = socket.send(CmMessage::new(CmKind::Refusal, &[]).bytes());
                socket.shut_writing();
                // If it were closed before it has asked, the kernel would answer with a reset instead of this.
                Some(socket.into())
            }
            Err(_) => keep().ok(),
        };
        self.spare.is_some().then_some(came)
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Gives up the socket, bound and not listening.
    pub(crate) fn into_socket(self) -> Socket {
        self.socket
    }

    /// Returns the address that it is bound to.
    pub(crate) fn name(&self) -> &SocketAddr {
        &self.name
    }
}

/// Opens a descriptor that only keeps its number.
fn keep() -> io::Result<OwnedFd> {
    File::open("/dev/null").map(OwnedFd::from)
}

fn bound(at: &SocketAddr) -> io::Result<Socket> {
    let socket = Socket::open(at)?;
    socket.bind(at)?;
    Ok(socket)
}

/// Tries all ports of a range, from a random one on.
fn bind_in_range(at: &SocketAddr, (low, high): (u16, u16)) -> io::Result<Socket> {
    let count = u64::from(high - low) + 1;
    let start = RandomState::new().build_hasher().finish() % count;
    for step in 0..count {
        let mut at = *at;
        at.set_port(low + ((start + step) % count) as u16);
        match bound(&at) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
