//! A connection with an untrusted peer, for the fuzz targets of this project: no part of the provider.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxifabric_engine::{
    Frame, Limits, Link, PostError, Posted, RemoteIov, RmaOp, RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_sync::spsc::Cell as LaneCell;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::conn::{self, Conn};
use crate::direct::DirectAccess;
use crate::doorbell::Doorbell;
use crate::params::{MIN_LAYOUT, Params};
use crate::pull::CmaQueue;
use crate::region::{Region, Spare};
use crate::sys::identity::Identity;
use crate::sys::socket::{Credentials, Socket};

/// No process: an address in its memory leads nowhere.
const NO_PROCESS: i32 = i32::MAX;

/// A link with one untrusted peer, whose side the fuzz target plays.
#[derive(Debug)]
pub struct UntrustedPeer {
    conn: Conn,
    theirs: Region,
    limits: Limits,
    _socket: UnixDatagram,
    over: bool,
}

impl UntrustedPeer {
    /// Opens a connection with a peer; `pull` is whether each side reads the other's memory.
    pub fn new(peer: PeerId, pull: bool) -> Option<Self> {
        let (conn, theirs, socket) = untrusted_conn(peer, pull)?;
        Some(Self {
            conn,
            limits: conn::limits(&smallest(), theirs.layout, pull),
            theirs,
            _socket: socket,
            over: false,
        })
    }

    /// Publishes a cell of the untrusted peer with these words and this ring body, if there is room.
    pub fn push(&mut self, meta: u32, words: [u64; 7], body: &[u8]) {
        if let Ok(Some(start)) = self.theirs.tx.reserve(body.len()) {
            let ring = self.theirs.tx.body_mut(start, body.len());
            ring.copy_from_slice(&body[..ring.len()]);
            self.theirs
                .tx
                .push(&LaneCell { meta, words }, body.len(), false);
        }
    }

    /// Takes what was sent to the untrusted peer; returns its words.
    pub fn take(&mut self, ring_len: usize) -> Option<(u32, [u64; 7])> {
        let cell = self.theirs.rx.peek()?;
        self.theirs.rx.advance(ring_len);
        Some((cell.meta, cell.words))
    }

    /// Writes a word before the lanes as the untrusted peer: doorbells and claims.
    pub fn scribble(&mut self, index: u16, value: u64) {
        let word = self.theirs.head.word(usize::from(index) % HEAD_WORDS);
        word.store(value, Ordering::Relaxed);
    }

    /// Ends the connection, as if the untrusted peer had gone.
    pub fn leave(&mut self) {
        self.conn.end(Errno::CONNRESET);
    }

    /// Returns whether the connection has ended.
    pub const fn is_over(&self) -> bool {
        self.over
    }
}

/// Returns a connection with a peer that is no endpoint, the other side of its memory, and the other end of its socket.
pub(crate) fn untrusted_conn(peer: PeerId, pull: bool) -> Option<(Conn, Region, UnixDatagram)> {
    let spare = Spare::new(&smallest()).ok()?;
    let ours = spare.map().ok()?;
    let (cells, bytes) = (ours.layout.cells() as u32, ours.layout.bytes() as u32);
    let theirs = Region::adopt(&spare.file, cells, bytes, true).ok()?;
    let (socket, other) = UnixDatagram::pair().ok()?;
    socket.set_nonblocking(true).ok()?;
    let head = Arc::clone(&ours.head);
    let eager = conn::limits(&smallest(), ours.layout, true).eager;
    let threshold = conn::threshold(&smallest(), ours.layout, &head, ours.side);
    let conn = Conn {
        peer,
        rx: ours.rx,
        cells_seen: None,
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
        entry: 0,
        incarnation: 1,
        probe: 0,
        direct: DirectAccess::new(Arc::clone(&head), ours.side, pull, eager),
        cma: CmaQueue::new(
            head,
            ours.side,
            (smallest().assist_size, smallest().pull_chunk),
            threshold,
        ),
    };
    Some((conn, theirs, other))
}

/// Parameters with the smallest lanes.
fn smallest() -> Params {
    Params {
        lane_cells: MIN_LAYOUT.cells(),
        lane_bytes: MIN_LAYOUT.bytes(),
        ..Params::of_environment().clone()
    }
}

/// Words before the lanes.
const HEAD_WORDS: usize = 1024;

impl Link for UntrustedPeer {
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn post(&mut self, to: PeerId, frame: Frame<'_>, _: TxToken) -> Result<Posted, PostError> {
        if self.over || to != self.conn.peer {
            return Err(PostError::Down(Errno::CONNRESET));
        }
        self.conn.post(&frame)?;
        self.conn.adopt_threshold(&mut self.limits);
        Ok(Posted::Done)
    }

    /// Its process cannot be reached: what is tried fails.
    fn carry_out(&mut self, access: &RmaOp<'_>) -> bool {
        !self.over && access.peer == self.conn.peer && self.conn.carry_out(access)
    }

    fn pull(
        &mut self,
        from: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        if self.over || from != self.conn.peer {
            return Err(PostError::Down(Errno::CONNRESET));
        }
        self.conn.cma.begin(remote, into, token);
        self.conn.request_sender_copies();
        Ok(Posted::Pending)
    }

    fn flush(&mut self) {
        self.conn.flush();
    }

    fn poll(&mut self, _: Instant, sink: &mut impl Sink) -> usize {
        if self.over {
            return 0;
        }
        let conn = &mut self.conn;
        // Long messages go on first: so the untrusted peer can act between a request for a sender's copy and the first
        // chunk.
        let mut left = 1 << 20;
        conn.cma.copy_for_peer(NO_PROCESS, &mut left);
        let ended = |token, result| sink.pulled(token, result);
        let mut events = conn.cma.advance(NO_PROCESS, &mut left, ended);
        events += conn.poll(sink);
        conn.request_sender_copies();
        if conn.is_over() {
            // No process copies here, whatever the claims are.
            for token in conn.cma.abandon() {
                sink.pulled(token, Err(Errno::CONNRESET));
            }
            sink.peer_down(conn.peer, Errno::CONNRESET);
            self.over = true;
        }
        events
    }

    fn resume(&mut self, _: PeerId) {
        self.conn.resume();
    }
}
