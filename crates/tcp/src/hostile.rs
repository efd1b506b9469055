//! A connection with an untrusted peer, for the fuzz targets of this project: no part of the provider.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use oxifabric_engine::{Frame, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::tcp::cm::CmKind;
use oxifabric_wire::tcp::greeting::Greeting;
use oxifabric_wire::tcp::{ByteOrder, Dialect};

use crate::cm::{CmReader, Negotiated};
use crate::conn::Conn;
use crate::driver;
use crate::rx::errno_of;
use crate::sys::Socket;

/// The longest message that is sent eagerly.
const EAGER: usize = 4096;

/// A link with one untrusted peer, whose end the fuzz target plays.
#[derive(Debug)]
pub struct Stream {
    conn: Conn,
    theirs: Option<UnixStream>,
    peer: PeerId,
    limits: Limits,
    resumed: bool,
    over: bool,
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
        Ok(Self {
            conn: Conn::new(Socket::from(OwnedFd::from(ours)), negotiated),
            theirs: Some(theirs),
            peer,
            limits: driver::limits(&negotiated, EAGER),
            resumed: false,
            over: false,
        })
    }

    /// Sends bytes as the untrusted peer, and reads what it was sent.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Some(theirs) = &mut self.theirs {
            let mut scrap = [0; 1 << 14];
            while matches!(theirs.read(&mut scrap), Ok(1..)) {}
            // What does not fit is lost: it may be anything.
            let _ = theirs.write_all(bytes);
        }
    }

    /// Closes the untrusted peer's end.
    pub fn close(&mut self) {
        self.theirs = None;
    }

    /// Returns whether the connection has ended.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    fn end(&mut self, why: Errno, sink: &mut impl Sink) -> usize {
        self.conn.abandon(why, sink);
        sink.peer_down(self.peer, why);
        self.over = true;
        1
    }
}

impl Link for Stream {
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn post(&mut self, to: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        if self.over || to != self.peer {
            return Err(PostError::Down(Errno::CONNRESET));
        }
        match self.conn.post(&frame, token, false) {
            Ok(posted) => posted,
            Err(_) => {
                // The next poll finds the end of the stream and reports it.
                self.close();
                Err(PostError::Again)
            }
        }
    }

    fn pull(&mut self, _: PeerId, _: &RemoteIov, _: Iov, _: RxToken) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    fn flush(&mut self) {
        if !self.over && self.conn.flush().is_err() {
            self.close();
        }
    }

    fn poll(&mut self, _: Instant, sink: &mut impl Sink) -> usize {
        if self.over {
            return 0;
        }
        let progress = match (self.conn.stalled(), std::mem::take(&mut self.resumed)) {
            (true, false) => return 0,
            (true, true) => self.conn.retry(self.peer, sink),
            (false, _) => self.conn.read(self.peer, sink),
        };
        if let Err(fault) = progress.end {
            assert!(!fault.to_string().is_empty());
            return self.end(errno_of(&fault), sink);
        }
        if self.conn.blocked() {
            match self.conn.write(sink) {
                Ok(_) if !self.conn.blocked() => sink.writable(self.peer),
                Ok(_) => {}
                Err(_) => return self.end(Errno::CONNRESET, sink),
            }
        }
        progress.events
    }

    fn resume(&mut self, _: PeerId) {
        self.resumed = true;
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
    let mut reader = CmReader::new();
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
            let _ = Greeting::parse(&message.data);
            (message.kind, message.data.into_vec())
        });
        let event = event.map_err(|why| why.to_string());
        return Some(CmReading { event, taken });
    }
}
