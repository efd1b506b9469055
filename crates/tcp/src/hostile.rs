//! A connection with an untrusted peer, for the fuzz targets of this project: no part of the provider.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use oxifabric_engine::PostError;
use oxifabric_tcp_stream::limits::limits;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::tcp::cm::CmKind;
use oxifabric_wire::tcp::handshake::Handshake;
use oxifabric_wire::tcp::{ByteOrder, Dialect};

use crate::cm::{CmReader, Negotiated};
use crate::conns::Conns;
use crate::driver::{ConnDriver, ConnState};
use crate::endpoint::{Endpoint, EndpointKind};
use crate::sys::Socket;

/// The longest message that is sent eagerly.
const EAGER: usize = 4096;

/// A link with one untrusted peer, whose end the fuzz target plays.
pub type Stream = Endpoint<Played>;

/// The connection, and the untrusted peer's end of it.
#[derive(Debug)]
pub struct Played {
    driver: ConnDriver,
    theirs: Option<UnixStream>,
}

impl Stream {
    /// Connects a peer that speaks as the bits of `how` say.
    ///
    /// # Errors
    /// What the operating system returns.
    pub fn new(peer: PeerId, how: u8) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let is_set = |bit: u8| how >> bit & 1 != 0;
        let order = match is_set(0) {
            true => ByteOrder::Big,
            false => ByteOrder::Little,
        };
        let named = is_set(1);
        let computes = named && order == ByteOrder::NATIVE;
        let negotiated = Negotiated {
            dialect: Dialect {
                order,
                named,
                atomics: computes && is_set(2),
            },
            rndv: is_set(3),
            collectives: computes && is_set(4),
            pid: 1,
        };
        let mut conns = Conns::open().map_err(|errno| io::Error::from_raw_os_error(errno.raw()))?;
        let mut driver = ConnDriver::new(peer, SocketAddr::from(([127, 0, 0, 1], 1)));
        let socket = Socket::from(OwnedFd::from(ours));
        driver.establish(&mut conns, socket, negotiated, false);
        driver.limits = limits(&negotiated, EAGER);
        let theirs = Some(theirs);
        let kind = Played { driver, theirs };
        Ok(Self { conns, kind })
    }

    /// Sends bytes as the untrusted peer, and reads what it was sent.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Some(theirs) = &mut self.kind.theirs {
            let mut scrap = [0; 1 << 14];
            while matches!(theirs.read(&mut scrap), Ok(1..)) {}
            // What does not fit is lost: it may be anything.
            let _ = theirs.write_all(bytes);
        }
    }

    /// Closes the untrusted peer's end.
    pub fn close(&mut self) {
        self.kind.theirs = None;
    }

    /// Returns whether the connection has ended, and the sink knows it.
    pub const fn is_over(&self) -> bool {
        matches!(self.kind.driver.state, ConnState::Idle)
    }
}

impl EndpointKind for Played {
    fn driver(&mut self, id: PeerId) -> Option<&mut ConnDriver> {
        (id == self.driver.id).then_some(&mut self.driver)
    }

    fn driver_ref(&self, _: PeerId) -> Option<&ConnDriver> {
        Some(&self.driver)
    }

    fn post_unconnected(stream: &mut Stream, _: PeerId) -> PostError {
        match stream.kind.driver.state {
            ConnState::Failed(..) => PostError::Again,
            _ => PostError::Down(Errno::CONNRESET),
        }
    }
}

/// A connection message that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct CmReading {
    /// Its kind and data, or why it is none.
    pub event: Result<(CmKind, Vec<u8>), String>,
    /// Number of bytes that it took.
    pub taken: usize,
}

/// Reads a connection message that arrives in parts of at most `part` bytes; `None` as long as it is not complete.
pub fn cm_message(bytes: &[u8], part: usize) -> Option<CmReading> {
    let mut reader = CmReader::default();
    let mut taken = 0;
    loop {
        let room = reader.room();
        let left = &bytes[taken..];
        let count = room.len().min(left.len()).min(part.max(1));
        if count == 0 {
            return None;
        }
        room[..count].copy_from_slice(&left[..count]);
        taken += count;
        let event = match reader.filled(count) {
            Ok(false) => continue,
            Ok(true) => reader.message(),
            Err(why) => Err(why),
        };
        let event = event.map(|message| {
            // Between reliable datagram endpoints its data is read as well.
            let _ = Handshake::parse(&message.data);
            (message.kind, message.data.into_vec())
        });
        let event = event.map_err(|why| why.to_string());
        return Some(CmReading { event, taken });
    }
}
