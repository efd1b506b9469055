//! A connection in use: a socket, its two halves, and their state. Hot path.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::{Frame, PostError, Posted, Sink, TxToken};
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::tcp::frame::{
    FrameHeader, HEADER_MAX, OP_DATA_ACK, Op, RMA_PIECES_MAX, RmaPiece,
};

use crate::cm::Negotiated;
use crate::flusher::{self, FlusherGuard};
use crate::id_map::{EncodeError, IdMap};
use crate::rx::{Fault, LARGE_LEN, Progress, Rx};
use crate::shared_tx::SharedTx;
use crate::sys::{Delivery, Interest, Socket};
use crate::tx::{Body, Taken, Tx};

/// Bytes from this host that may wait for their reader: more than a sender can have under way (below), so that a
/// sender's own calls carry its bytes all the way. What waits for room at the receiver is carried by the receiver's
/// processor, while it reads, and the sender's idles. The kernel itself would let up to 32 MiB wait.
const LOCAL_ARRIVALS: i32 = 2_000_000;

/// Bytes to this host that may be accepted and not have arrived. There is no distance to bridge, so more would only
/// push what is read next out of the processor's cache.
const LOCAL_DEPARTURES: i32 = 512 * 1024;

/// Bytes to this host that may wait for room at the receiver. With a quarter of this, windows of messages of 512 KiB lost a fifth of
/// their rate to calls that took a part of one.
const LOCAL_UNSENT: i32 = 512 * 1024;

/// Maximum number of large bodies that leave between two polls. Meanwhile nothing is read, and what comes leaves the
/// caches.
const BURST_MAX: u32 = 16;

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) socket: Arc<Socket>,
    pub(crate) negotiated: Negotiated,
    /// The events that the poller waits for.
    pub(crate) interest: Interest,
    /// Whether something was sent whose arrival the kernel has not confirmed.
    pub(crate) unconfirmed: bool,
    /// Since when the peer has not answered repeated transmissions.
    pub(crate) silent_since: Option<Instant>,
    /// The turn of the endpoint in which something was posted last.
    pub(crate) turn: u32,
    /// Number of large bodies posted in that turn.
    burst: u32,
    /// Whether a large body was sent since the last read.
    sent_large: bool,
    /// Whether the peer has closed its end, and the frame that is stalled is here as a whole.
    ended: bool,
    /// Whether this end is closed, and the peer's not yet.
    closing: bool,
    id_map: IdMap,
    shared_tx: Arc<SharedTx>,
    /// State of the sending half when this thread had it last.
    blocked: bool,
    holds_back: bool,
    rx: Rx,
    seq: u8,
    _flusher: FlusherGuard,
}

/// Why a connection is of no use any more.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) io::Error);

impl Conn {
    pub(crate) fn new(socket: Socket, negotiated: Negotiated) -> Self {
        let segment = match socket.is_within_host() {
            true => prepare_local(&socket),
            false => None,
        };
        let socket = Arc::new(socket);
        Self {
            shared_tx: Arc::new(SharedTx::new(Arc::clone(&socket), segment)),
            socket,
            negotiated,
            interest: Interest::default(),
            unconfirmed: false,
            silent_since: None,
            turn: 0,
            burst: 0,
            sent_large: false,
            ended: false,
            closing: false,
            id_map: IdMap::new(&negotiated),
            blocked: false,
            holds_back: false,
            rx: Rx::new(),
            seq: 0,
            _flusher: FlusherGuard::new(),
        }
    }

    /// Counts a frame that is to be posted in this `turn`; returns whether it has to wait for the next poll instead,
    /// because enough large ones were posted.
    #[inline]
    pub(crate) const fn is_beyond_burst(&mut self, frame: &Frame<'_>, turn: u32) -> bool {
        if self.turn != turn {
            self.burst = 0;
        }
        if frame.len < LARGE_LEN || !frame.header.kind.carries_body() {
            return false;
        }
        self.burst += 1;
        self.burst > BURST_MAX
    }

    /// Posts a frame; with `more`, a short one is held back until [`Conn::flush`]. `Ok(Err(_))` is for the engine, `Err(_)`
    /// ends the connection.
    #[inline]
    pub(crate) fn post(
        &mut self,
        frame: &Frame<'_>,
        token: TxToken,
        more: bool,
    ) -> Result<Result<Posted, PostError>, Broken> {
        if self.blocked {
            return Ok(Err(PostError::Again));
        }
        let len = match frame.header.kind.carries_body() {
            true => frame.len,
            false => 0,
        };
        let mut outgoing = match self
            .id_map
            .outgoing(&frame.header, len, frame.targets.len())
        {
            Ok(outgoing) => outgoing,
            Err(EncodeError::Full) => return Ok(Err(PostError::Again)),
            Err(EncodeError::Unspoken) => return Ok(Err(PostError::Down(Errno::OPNOTSUPP))),
            Err(EncodeError::Unsayable) => {
                return Err(Broken(io::Error::from(io::ErrorKind::PermissionDenied)));
            }
        };
        outgoing.header.seq = self.seq;
        let mut bytes = [0; HEADER_MAX];
        let mut pieces = [RmaPiece::default(); RMA_PIECES_MAX];
        for (piece, target) in pieces.iter_mut().zip(frame.targets) {
            (piece.addr, piece.len, piece.key) = (target.addr, target.len, target.key);
        }
        let pieces = &pieces[..frame.targets.len().min(RMA_PIECES_MAX)];
        let emitted = outgoing
            .header
            .emit(pieces, &mut bytes, self.negotiated.dialect);
        let Some(header_len) = emitted else {
            return Ok(Err(PostError::Down(Errno::MSGSIZE)));
        };
        let body = Body {
            iov: frame.body,
            offset: frame.offset,
            len,
            token,
            transient: frame.transient,
            transmit_complete: frame.transmit_complete,
        };
        let header = &bytes[..header_len];
        let taken = self.with_tx(|tx, socket| tx.post(socket, header, body, more));
        let posted = match taken {
            Ok(Taken::Later) => return Ok(Err(PostError::Again)),
            Ok(Taken::Done) => Posted::Done,
            Ok(Taken::Pending) => Posted::Pending,
            Err(error) => return Err(Broken(error)),
        };
        self.seq = self.seq.wrapping_add(1);
        self.unconfirmed = true;
        self.sent_large |= len >= LARGE_LEN;
        self.id_map.sent(&outgoing);
        Ok(Ok(posted))
    }

    /// Returns whether frames were held back.
    pub(crate) const fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// Sends the frames that were held back.
    pub(crate) fn flush(&mut self) -> Result<(), Broken> {
        if !self.holds_back {
            return Ok(());
        }
        let flushed = self.with_tx(|tx, socket| match tx.holds_back() {
            true => tx.flush(socket),
            false => Ok(()),
        });
        flushed.map_err(Broken)
    }

    /// Resumes sending where the socket was full; returns how many events there were.
    pub(crate) fn write(&mut self, sink: &mut impl Sink) -> Result<usize, Broken> {
        let (moved, finished) = self.with_tx(Tx::advance).map_err(Broken)?;
        if let Some(token) = finished {
            sink.sent(token, Ok(()));
        }
        Ok(usize::from(moved))
    }

    /// Reads and delivers what is there.
    #[inline]
    pub(crate) fn read(&mut self, from: PeerId, sink: &mut impl Sink) -> Progress {
        let dialect = self.negotiated.dialect;
        let catch_up = std::mem::take(&mut self.sent_large);
        let progress = self.rx.turn(
            catch_up,
            &self.socket,
            dialect,
            &mut self.id_map,
            from,
            sink,
        );
        self.acknowledge(progress.acknowledge);
        progress
    }

    /// Delivers the stalled frame again.
    pub(crate) fn retry(&mut self, from: PeerId, sink: &mut impl Sink) -> Progress {
        let dialect = self.negotiated.dialect;
        let progress = self.rx.retry(dialect, &mut self.id_map, from, sink);
        self.acknowledge(progress.acknowledge);
        progress
    }

    /// Returns whether the peer's host has not answered for `limit`. TCP_USER_TIMEOUT would also end connections whose
    /// peer merely does not read.
    pub(crate) fn is_silent(&mut self, now: Instant, limit: Duration) -> bool {
        if !self.unconfirmed {
            return false;
        }
        match self.socket.delivery() {
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

    pub(crate) fn stalled(&self) -> bool {
        self.rx.stalled()
    }

    /// Returns whether large messages are expected.
    #[inline]
    pub(crate) const fn expects_large(&self) -> bool {
        self.rx.expects_large()
    }

    pub(crate) const fn blocked(&self) -> bool {
        self.blocked
    }

    /// Returns the events to wait for.
    pub(crate) fn wanted(&self) -> Interest {
        let stalled = self.rx.stalled();
        Interest {
            read: !stalled,
            write: self.blocked && !self.closing,
            end: stalled && !self.ended,
        }
    }

    /// Checks whether the peer has closed its end while a frame is stalled. What is here as a whole is still delivered,
    /// once there is room for it; what never can be ends the connection.
    #[cold]
    pub(crate) fn look_for_end(&mut self) -> Result<(), Fault> {
        if self.ended || !self.rx.stalled() || !self.socket.is_closed_by_peer() {
            return Ok(());
        }
        if self.rx.lacks(self.socket.unread().unwrap_or(0)) {
            return Err(Fault::Closed { within: true });
        }
        self.ended = true;
        Ok(())
    }

    /// Returns whether nothing is under way here: no part of a frame has come, and nothing waits to be read or sent.
    pub(crate) fn is_at_rest(&self) -> bool {
        let sends = self.blocked || self.holds_back;
        !sends && self.rx.is_between_frames() && matches!(self.socket.unread(), Ok(0))
    }

    /// Closes this end: nothing more is sent, and what the peer sends is read until it closes its own.
    pub(crate) fn begin_to_close(&mut self) {
        self.with_tx(|tx, _| tx.end());
        self.socket.shut_writing();
        self.closing = true;
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Reports to the sink the frames that the lost connection leaves incomplete.
    pub(crate) fn abandon(&mut self, why: Errno, sink: &mut impl Sink) {
        if let Some(token) = self.with_tx(|tx, _| tx.abandon()) {
            sink.sent(token, Err(why));
        }
        if let Some(token) = self.rx.abandon() {
            sink.placed(token, Err(why));
        }
    }

    /// Closes in order: what was accepted gets its chance to leave, and what the peer still sends is read so
    /// that the kernel does not answer it with a reset, which would cost the peer what it has not read yet.
    pub(crate) fn close(mut self) {
        let _ = self.flush();
        self.socket.shut_writing();
        let mut scrap = [0; 4096];
        for _ in 0..64 {
            match self.socket.recv(&mut scrap) {
                Ok(count) if count > 0 => {}
                _ => break,
            }
        }
    }

    /// Takes the sending half, and remembers its state afterwards.
    #[inline(always)]
    fn with_tx<R>(&mut self, call: impl FnOnce(&mut Tx, &Socket) -> R) -> R {
        let mut tx = self.shared_tx.tx.lock();
        let result = call(&mut tx, &self.socket);
        self.blocked = tx.blocked();
        self.holds_back = tx.holds_back();
        if tx.waits() && !tx.scheduled {
            tx.scheduled = true;
            drop(tx);
            flusher::schedule(&self.shared_tx);
        }
        result
    }

    /// Acknowledges messages that were declined (protocol section 4.7).
    fn acknowledge(&mut self, count: usize) {
        let count = if self.closing { 0 } else { count };
        for _ in 0..count {
            let header = FrameHeader {
                op_data: OP_DATA_ACK,
                seq: self.seq,
                ..FrameHeader::new(Op::Msg)
            };
            let mut bytes = [0; HEADER_MAX];
            if let Some(len) = header.emit(&[], &mut bytes, self.negotiated.dialect) {
                self.seq = self.seq.wrapping_add(1);
                self.with_tx(|tx, _| tx.force(&bytes[..len]));
            }
        }
    }
}

/// Prepares a socket whose peer is on this host; returns the length of its segments. No option is required: without it
/// the kernel chooses.
fn prepare_local(socket: &Socket) -> Option<NonZeroUsize> {
    let _ = socket.arrivals_within(LOCAL_ARRIVALS);
    let _ = socket.departures_within(LOCAL_DEPARTURES);
    let _ = socket.unsent_within(LOCAL_UNSENT);
    let _ = socket.unpaced();
    socket.segment().ok().and_then(NonZeroUsize::new)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use oxifabric_mem::Iov;
    use oxifabric_wire::tcp::{ByteOrder, Dialect};

    use super::*;
    use crate::link::tests::{Recorder, message, pattern};

    fn post(conn: &mut Conn, id: u32, body: &Iov) {
        let frame = Frame {
            header: message(id, body.len()),
            body,
            offset: 0,
            len: body.len(),
            targets: &[],
            transient: false,
            transmit_complete: false,
            more: false,
        };
        let posted = conn.post(&frame, TxToken(id), false);
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
        let conn = |stream| Conn::new(Socket::from(OwnedFd::from(stream)), negotiated);
        (conn(a), conn(b))
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
                let progress = a.read(PeerId(0), &mut sink);
                assert!(progress.end.is_ok());
                let expected = if sends { 3 } else { turn };
                assert_eq!(sink.arrived.len(), expected);
            }
        }
    }

    #[test]
    fn a_busy_connection_is_read_so_often_and_then_others_have_their_turn() {
        // As `READS_PER_TURN` times `STAGING_LEN` of the receiving half.
        const MOST: usize = 8 * 24 * 1024;
        let (mut a, b) = pair();
        let mut header = [0; HEADER_MAX];
        let dialect = b.negotiated.dialect;
        let emitted = FrameHeader::new(Op::Msg).emit(&[], &mut header, dialect);
        let header = &header[..emitted.expect("there is room")];
        // Many empty messages are in the socket at once.
        let _ = b.socket.departures_within(1 << 20);
        let sent = b.socket.send(&header.repeat(20_000));
        let sent = sent.expect("an empty socket takes bytes");
        assert!(sent > MOST, "the socket took {sent} bytes only");
        let mut sink = Recorder::default();
        let progress = a.read(PeerId(0), &mut sink);
        assert!(matches!(progress.end, Ok(crate::rx::Turn::More)));
        let read = sink.arrived.len() * header.len();
        assert!((MOST / 2..=MOST).contains(&read), "{read} bytes");
        // The next turn goes on where this one ended.
        let progress = a.read(PeerId(0), &mut sink);
        assert!(progress.end.is_ok());
        assert_eq!(sink.arrived.len(), sent / header.len());
    }
}
