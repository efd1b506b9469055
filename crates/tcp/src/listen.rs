//! The listening socket, and connections that were accepted and whose request has not come. Set-up path.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use oxifabric_provider::descriptors;
use oxifabric_types::Instant;
use oxifabric_wire::tcp::cm::CmKind;

use crate::cm::{CmReader, Message, Unreadable, encode};
use crate::sys::Socket;

/// Connections that may wait in the kernel's backlog.
const BACKLOG: i32 = 4096;

/// Connections that one poll refuses when the system has no descriptors left.
const REFUSED_PER_POLL: usize = 4;

/// Maximum number of pending connections; when one more comes, the oldest goes.
const PENDING_MAX: usize = 256;

/// The share of the process's descriptors that pending connections may have: those that send nothing must not take the
/// last ones.
const SHARE: usize = 8;

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
                socket.reuse_address()?;
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
        self.socket.reuse_address()
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
                let _ = socket.send(&encode(CmKind::Refusal, &[]));
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

/// A connection that was accepted and whose request has not come.
#[derive(Debug)]
pub(crate) struct PendingConn {
    pub(crate) socket: Socket,
    pub(crate) from: SocketAddr,
    pub(crate) deadline: Instant,
    pub(crate) reader: CmReader,
    serial: u32,
}

/// Result of reading a connection message.
#[derive(Debug)]
pub(crate) enum CmEvent {
    /// The message is not complete yet.
    Nothing,
    /// A whole message, in the reader.
    Whole,
    /// A whole message with a greeting.
    Message(Message),
    /// Bytes that are no connection message.
    Malformed(Unreadable),
    /// The peer has closed the connection; in the middle of its message, or before it.
    Closed { within: bool },
}

impl PendingConn {
    /// Reads what has arrived on the connection.
    pub(crate) fn read_cm(&mut self) -> CmEvent {
        read_cm(&self.socket, &mut self.reader)
    }
}

/// Reads a connection message between reliable datagram endpoints, and not a byte more.
pub(crate) fn read_cm(socket: &Socket, reader: &mut CmReader) -> CmEvent {
    match read_message(socket, reader) {
        CmEvent::Whole => match reader.message() {
            Ok(message) => CmEvent::Message(message),
            Err(why) => CmEvent::Malformed(why),
        },
        event => event,
    }
}

/// Reads a connection message, and not a byte more; a whole one is left in the reader.
pub(crate) fn read_message(socket: &Socket, reader: &mut CmReader) -> CmEvent {
    loop {
        match socket.recv(reader.room()) {
            Ok(0) if reader.room().is_empty() => return CmEvent::Whole,
            Ok(0) => return gone(reader),
            Ok(count) => match reader.filled(count) {
                Ok(false) => {}
                Ok(true) => return CmEvent::Whole,
                Err(why) => return CmEvent::Malformed(why),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return CmEvent::Nothing,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return gone(reader),
        }
    }
}

fn gone(reader: &CmReader) -> CmEvent {
    CmEvent::Closed {
        within: !reader.is_empty(),
    }
}

/// All pending connections, by a key that is never used twice.
#[derive(Debug)]
pub(crate) struct PendingConns {
    list: Vec<PendingConn>,
    most: usize,
    serial: u32,
}

impl PendingConns {
    /// Returns an empty list with space for as many as this process has descriptors for.
    pub(crate) fn new() -> Self {
        Self {
            list: Vec::new(),
            most: (descriptors::limit() / SHARE).clamp(1, PENDING_MAX),
            serial: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds a connection; returns its key, and whether the oldest had to go for it.
    pub(crate) fn add(
        &mut self,
        socket: Socket,
        from: SocketAddr,
        deadline: Instant,
    ) -> (u32, bool) {
        let is_full = self.list.len() >= self.most;
        if is_full {
            self.list.remove(0);
        }
        self.serial = self.serial.wrapping_add(1);
        self.list.push(PendingConn {
            socket,
            from,
            deadline,
            serial: self.serial,
            reader: CmReader::new(),
        });
        (self.serial, is_full)
    }

    pub(crate) fn get(&mut self, key: u32) -> Option<&mut PendingConn> {
        self.list.iter_mut().find(|pending| pending.serial == key)
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, key: u32) -> Option<PendingConn> {
        let at = self.list.iter().position(|pending| pending.serial == key)?;
        Some(self.list.remove(at))
    }

    /// Returns when the request of the next connection must have come.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.list.first().map(|pending| pending.deadline)
    }

    /// Removes one connection whose time is over.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<PendingConn> {
        let first = self.list.first()?;
        (first.deadline <= now).then(|| self.list.remove(0))
    }
}
