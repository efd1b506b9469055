//! A pair whose other side belongs to a stranger, for the fuzz targets of this project: no part of the provider.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxifabric_engine::{Frame, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken};
use oxifabric_mem::Iov;
use oxifabric_sync::lane::Cell as LaneCell;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::doorbell::Doorbell;
use crate::pair::{self, Pair};
use crate::params::{MIN_LAYOUT, Params};
use crate::pull::Desk;
use crate::region::{Region, Spare};
use crate::sys::identity::Identity;
use crate::sys::socket::{Credentials, Socket};

/// No process: what names its memory leads nowhere.
const NO_PROCESS: i32 = i32::MAX;

/// A link with one peer, of which the caller is the other side.
#[derive(Debug)]
pub struct Stranger {
    pair: Pair,
    theirs: Region,
    limits: Limits,
    _socket: UnixDatagram,
    over: bool,
}

impl Stranger {
    /// Opens a pair with a peer; `pull` says that each side reads the other's memory.
    pub fn new(peer: PeerId, pull: bool) -> Option<Self> {
        let (pair, theirs, socket) = pair_with_stranger(peer, pull)?;
        Some(Self {
            pair,
            limits: pair::limits(&smallest(), theirs.layout, pull),
            theirs,
            _socket: socket,
            over: false,
        })
    }

    /// Lets the stranger publish a cell with these words and this ring body, if there is room.
    pub fn push(&mut self, meta: u32, words: [u64; 7], body: &[u8]) {
        if let Ok(Some(start)) = self.theirs.tx.reserve(body.len()) {
            let ring = self.theirs.tx.body_mut(start, body.len());
            ring.copy_from_slice(&body[..ring.len()]);
            self.theirs
                .tx
                .push(&LaneCell { meta, words }, body.len(), false);
        }
    }

    /// Lets the stranger take what was sent to it; returns its words.
    pub fn take(&mut self, ring_len: usize) -> Option<(u32, [u64; 7])> {
        let cell = self.theirs.rx.peek()?;
        self.theirs.rx.advance(ring_len);
        Some((cell.meta, cell.words))
    }

    /// Lets the stranger write a word before the lanes: doorbells and claims.
    pub fn scribble(&mut self, index: u16, value: u64) {
        let word = self.theirs.head.word(usize::from(index) % HEAD_WORDS);
        word.store(value, Ordering::Relaxed);
    }

    /// Lets the stranger go.
    pub fn leave(&mut self) {
        self.pair.end(Errno::CONNRESET);
    }

    /// Tells whether the pair has ended.
    pub const fn is_over(&self) -> bool {
        self.over
    }
}

/// Returns a pair with a peer that is no endpoint, the other side of its memory, and the other end of its socket.
pub(crate) fn pair_with_stranger(peer: PeerId, pull: bool) -> Option<(Pair, Region, UnixDatagram)> {
    let spare = Spare::new(&smallest()).ok()?;
    let ours = spare.map().ok()?;
    let (cells, bytes) = (ours.layout.cells() as u32, ours.layout.bytes() as u32);
    let theirs = Region::adopt(&spare.file, cells, bytes, true).ok()?;
    let (socket, other) = UnixDatagram::pair().ok()?;
    socket.set_nonblocking(true).ok()?;
    let head = Arc::clone(&ours.head);
    let pair = Pair {
        peer,
        rx: ours.rx,
        judged: None,
        stalled: false,
        blocked: None,
        ending: None,
        ended_at: 0,
        departure: 0,
        cut_short: None,
        settled_by: None,
        broken: false,
        tx: ours.tx,
        bell: Doorbell::new(Arc::clone(&head), ours.side, true),
        pull,
        process: Identity::of(Credentials {
            pid: NO_PROCESS,
            uid: 0,
        }),
        socket: Some(Socket::from(OwnedFd::from(socket))),
        conn: 0,
        incarnation: 1,
        desk: Desk::new(head, ours.side, smallest().assist_size),
    };
    Some((pair, theirs, other))
}

/// The smallest lanes.
fn smallest() -> Params {
    Params {
        lane_cells: MIN_LAYOUT.cells(),
        lane_bytes: MIN_LAYOUT.bytes(),
        ..Params::of_environment().clone()
    }
}

/// Words before the lanes.
const HEAD_WORDS: usize = 1024;

impl Link for Stranger {
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn post(&mut self, to: PeerId, frame: Frame<'_>, _: TxToken) -> Result<Posted, PostError> {
        if self.over || to != self.pair.peer {
            return Err(PostError::Down(Errno::CONNRESET));
        }
        self.pair.post(&frame).map(|_| Posted::Done)
    }

    fn pull(
        &mut self,
        from: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<(), PostError> {
        if self.over || from != self.pair.peer {
            return Err(PostError::Down(Errno::CONNRESET));
        }
        self.pair.desk.begin(remote, into, token);
        self.pair.ask_for_help();
        Ok(())
    }

    fn flush(&mut self) {
        self.pair.flush();
    }

    fn poll(&mut self, _: Instant, sink: &mut impl Sink) -> usize {
        if self.over {
            return 0;
        }
        let pair = &mut self.pair;
        // Long messages go on first: so the stranger has its turn between a request for help and the first chunk.
        let mut left = 1 << 20;
        pair.desk.assist(NO_PROCESS, &mut left);
        let ended = |token, result| sink.pulled(token, result);
        let mut events = pair.desk.advance(NO_PROCESS, &mut left, ended);
        events += pair.poll(sink);
        pair.ask_for_help();
        if pair.is_over() {
            // No process copies here, whatever the claims say.
            for token in pair.desk.abandon() {
                sink.pulled(token, Err(Errno::CONNRESET));
            }
            sink.peer_down(pair.peer, Errno::CONNRESET);
            self.over = true;
        }
        events
    }

    fn resume(&mut self, _: PeerId) {
        self.pair.resume();
    }
}
