//! A connection in use: a socket, its two halves, and their state. Hot path.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::Frame;
use oxifabric_tcp_stream::stream::{SendingHalf, Stream};
use oxifabric_tcp_stream::tx::Tx;
use oxifabric_types::Instant;

use crate::cm::Negotiated;
use crate::coalescer::{PollUnderway, PostRun};
use crate::flusher::{self, FlusherGuard};
use crate::rx::LARGE_LEN;
use crate::shared_tx::SharedTx;
use crate::sys::{Delivery, Interest, Socket};

/// Bytes from this host that may wait for their reader: more than a sender can have under way (below), so that a
/// sender's own calls carry its bytes all the way. What waits for room at the receiver is carried by the receiver's
/// processor, while it reads, and the sender's idles. The kernel itself would let up to 32 MiB wait.
const LOCAL_RECEIVE_BUFFER: i32 = 2_000_000;

/// Bytes to this host that may be accepted and not have arrived. There is no distance to bridge, so more would only
/// push what is read next out of the processor's cache.
const LOCAL_SEND_BUFFER: i32 = 512 * 1024;

/// Bytes to this host that may wait for room at the receiver. With a quarter of this, windows of messages of 512 KiB lost a fifth of
/// their rate to calls that took a part of one.
const LOCAL_NOTSENT_LOWAT: i32 = 512 * 1024;

/// Maximum number of large bodies that leave between two polls. Meanwhile nothing is read, and what comes leaves the
/// caches.
const BURST_MAX: u32 = 16;

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) stream: Stream<FlushedHalf>,
    /// The events that the poller waits for.
    pub(crate) interest: Interest,
    /// Whether something was sent whose arrival the kernel has not confirmed.
    pub(crate) unconfirmed: bool,
    /// Since when the peer has not answered repeated transmissions.
    pub(crate) silent_since: Option<Instant>,
    /// What was posted last between two polls of the endpoint.
    pub(crate) posts: PostRun,
    /// Number of large bodies posted in that turn.
    burst: u32,
}

/// The sending half of a connection, where the flusher looks after what is held back.
#[derive(Debug)]
pub(crate) struct FlushedHalf {
    socket: Arc<Socket>,
    shared_tx: Arc<SharedTx>,
    polling: PollUnderway,
    _flusher: FlusherGuard,
}

impl Conn {
    /// Makes the connection of an endpoint whose polls `polling` shows.
    pub(crate) fn new(socket: Socket, negotiated: Negotiated, polling: PollUnderway) -> Self {
        Self {
            stream: Stream::new(FlushedHalf::new(socket, polling), negotiated),
            interest: Interest::default(),
            unconfirmed: false,
            silent_since: None,
            posts: PostRun::default(),
            burst: 0,
        }
    }

    #[inline]
    pub(crate) fn socket(&self) -> &Socket {
        self.stream.socket()
    }

    /// Counts a frame that is to be posted in this `turn`; returns whether it has to wait for the next poll instead,
    /// because enough large ones were posted.
    #[inline]
    pub(crate) const fn is_beyond_burst(&mut self, frame: &Frame<'_>, turn: u32) -> bool {
        if self.posts.turn != turn {
            self.burst = 0;
        }
        if frame.len < LARGE_LEN || !frame.header.kind.carries_body() {
            return false;
        }
        self.burst += 1;
        self.burst > BURST_MAX
    }

    /// Returns whether the peer's host has not answered for `limit`. TCP_USER_TIMEOUT would also end connections whose
    /// peer merely does not read.
    pub(crate) fn is_silent(&mut self, now: Instant, limit: Duration) -> bool {
        if !self.unconfirmed {
            return false;
        }
        match self.socket().delivery() {
            Delivery::Done => {
                self.unconfirmed = false;
                self.silent_since = None;
                false
            }
            Delivery::Underway => {
                self.silent_since = None;
                false
            }
            Delivery::Unanswered => {
                let since = *self.silent_since.get_or_insert(now);
                now.since(since) >= limit
            }
        }
    }

    /// Returns the events to wait for.
    pub(crate) fn wanted(&self) -> Interest {
        let stalled = self.stream.stalled();
        Interest {
            read: !stalled,
            write: self.stream.blocked() && !self.stream.is_closing(),
            end: stalled && !self.stream.ended(),
        }
    }

    /// Returns whether nothing is under way here: no part of a frame has come, and nothing waits to be read or sent.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.stream.is_at_rest() && matches!(self.socket().unread(), Ok(0))
    }
}

impl FlushedHalf {
    fn new(socket: Socket, polling: PollUnderway) -> Self {
        let segment = match socket.is_within_host() {
            true => prepare_local(&socket),
            false => None,
        };
        let socket = Arc::new(socket);
        Self {
            shared_tx: Arc::new(SharedTx::new(Arc::clone(&socket), segment)),
            socket,
            polling,
            _flusher: FlusherGuard::new(),
        }
    }

    /// Returns whether bytes wait that may wait for long. What a poll holds back leaves when the poll ends: a thread that looked after it
    /// would make system calls dearer, and would have the processor now and then, for nothing.
    #[inline]
    fn needs_flusher(&self, tx: &Tx) -> bool {
        tx.waits() && !tx.scheduled && !(tx.holds_back() && self.polling.get())
    }
}

impl SendingHalf for FlushedHalf {
    type Socket = Socket;

    #[inline(always)]
    fn socket(&self) -> &Socket {
        &self.socket
    }

    #[inline(always)]
    fn with_tx<R>(&mut self, call: impl FnOnce(&mut Tx, &Socket) -> R) -> R {
        let mut tx = self.shared_tx.tx.lock();
        let result = call(&mut tx.half, &self.socket);
        if self.needs_flusher(&tx.half) {
            tx.half.scheduled = true;
            drop(tx);
            flusher::schedule(&self.shared_tx);
        }
        result
    }
}

/// Prepares a socket whose peer is on this host; returns the length of its segments. No option is required: without it
/// the kernel chooses.
fn prepare_local(socket: &Socket) -> Option<NonZeroUsize> {
    let _ = socket.set_receive_buffer_size(LOCAL_RECEIVE_BUFFER);
    let _ = socket.set_send_buffer_size(LOCAL_SEND_BUFFER);
    let _ = socket.set_notsent_lowat(LOCAL_NOTSENT_LOWAT);
    let _ = socket.set_congestion_reno();
    socket.segment().ok().and_then(NonZeroUsize::new)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use oxifabric_engine::{Posted, TxToken};
    use oxifabric_mem::Iov;
    use oxifabric_tcp_stream::tx;
    use oxifabric_types::PeerId;
    use oxifabric_wire::tcp::frame::{FrameHeader, HEADER_MAX, Op};
    use oxifabric_wire::tcp::{ByteOrder, Dialect};

    use super::*;
    use crate::coalescer::Coalescer;
    use crate::link::tests::{Recorder, message, pattern};

    fn post(conn: &mut Conn, id: u32, body: &Iov) {
        let frame = Frame::whole(message(id, body.len()), body);
        let posted = conn.stream.post(&frame, TxToken(id), tx::Coalescing::Off);
        assert!(matches!(posted, Ok(Ok(Posted::Done))), "{posted:?}");
    }

    fn pair() -> (Conn, Conn) {
        let (a, b) = UnixStream::pair().expect("the system has room for it");
        let negotiated = Negotiated {
            dialect: Dialect {
                order: ByteOrder::NATIVE,
                named: true,
                atomics: true,
            },
            rndv: true,
            collectives: true,
            pid: 0,
        };
        let conn = |stream| {
            let polling = PollUnderway::default();
            Conn::new(Socket::from(OwnedFd::from(stream)), negotiated, polling)
        };
        (conn(a), conn(b))
    }

    /// Posts a message with more to come, outside of polls or within one that ends then; returns whether the flusher has to look after it, then
    /// or at the end. It is not asked to: it would look at once.
    fn needs_flusher_after(len: usize, polling: bool) -> bool {
        let mut coalescer = Coalescer::new(true);
        let (a, _b) = UnixStream::pair().expect("the system has room for it");
        let half = FlushedHalf::new(Socket::from(OwnedFd::from(a)), coalescer.poll_underway());
        if polling {
            coalescer.begin();
        }
        let (iov, _) = pattern(&[len], 1);
        let body = tx::Body {
            iov: &iov,
            offset: 0,
            len,
            token: TxToken(1),
            transient: true,
            transmit_complete: false,
        };
        let tx = &mut half.shared_tx.tx.lock().half;
        let taken = tx.post(&*half.socket, &[0; 24], body, tx::Coalescing::Short);
        assert_eq!(taken, Ok(tx::Taken::Done));
        let needs_flusher = half.needs_flusher(tx);
        if polling {
            coalescer.end();
            if tx.holds_back() {
                tx.flush(&*half.socket).expect("the other end is there");
            }
        }
        needs_flusher || half.needs_flusher(tx)
    }

    #[test]
    fn the_flusher_is_left_alone_by_what_a_poll_holds_back_and_sends() {
        assert!(needs_flusher_after(8, false), "no poll may follow");
        assert!(!needs_flusher_after(8, true));
        // The socket takes a part, and no poll need follow either.
        let more_than_fits = 8 << 20;
        assert!(needs_flusher_after(more_than_fits, true));
    }

    #[test]
    fn one_large_body_is_read_a_turn_and_all_after_sending_one() {
        let (body, _) = pattern(&[LARGE_LEN], 1);
        for (sends, turns) in [(false, 3), (true, 1)] {
            let (mut a, mut b) = pair();
            (0..3).for_each(|id| post(&mut b, id, &body));
            if sends {
                post(&mut a, 9, &body);
            }
            let mut sink = Recorder::default();
            for turn in 1..=turns {
                let progress = a.stream.read(PeerId(0), &mut sink);
                assert!(progress.end.is_ok());
                let expected = if sends { 3 } else { turn };
                assert_eq!(sink.arrived.len(), expected);
            }
        }
    }

    #[test]
    fn a_busy_connection_is_read_so_often_and_then_others_have_their_turn() {
        // As `READS_PER_TURN` times `READ_AHEAD` of the receiving half.
        const MOST: usize = 8 * 24 * 1024;
        let (mut a, b) = pair();
        let mut header = [0; HEADER_MAX];
        let dialect = b.stream.negotiated.dialect;
        let emitted = FrameHeader::new(Op::Msg).emit(&[], &mut header, dialect);
        let header = &header[..emitted.expect("there is room")];
        // Many empty messages are in the socket at once.
        let _ = b.socket().set_send_buffer_size(1 << 20);
        let sent = b.socket().send(&header.repeat(20_000));
        let sent = sent.expect("an empty socket takes bytes");
        assert!(sent > MOST, "the socket took {sent} bytes only");
        let mut sink = Recorder::default();
        let progress = a.stream.read(PeerId(0), &mut sink);
        assert!(matches!(progress.end, Ok(crate::rx::Turn::More)));
        let read = sink.arrived.len() * header.len();
        assert!((MOST / 2..=MOST).contains(&read), "{read} bytes");
        // The next turn goes on where this one ended.
        let progress = a.stream.read(PeerId(0), &mut sink);
        assert!(progress.end.is_ok());
        assert_eq!(sink.arrived.len(), sent / header.len());
    }
}
