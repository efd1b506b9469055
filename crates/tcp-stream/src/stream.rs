//! The frames of a connection in use: its two halves, and the numbers of its operations. Hot path.

use alloc::vec;
use core::mem;

use oxifabric_engine::{Frame, PostError, Posted, Sink, TxToken};
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::tcp::frame::{
    FrameHeader, HEADER_MAX, OP_DATA_ACK, Op, RMA_PIECES_MAX, RmaPiece,
};

use crate::cm::Negotiated;
use crate::id_map::{EncodeError, IdMap};
use crate::rx::{Fault, LARGE_LEN, Progress, Rx};
use crate::socket::Socket;
use crate::tx::{Body, Coalescing, Taken, Tx};

/// The frames of a connection.
#[derive(Debug)]
pub struct Stream<H> {
    half: H,
    /// What was negotiated.
    pub negotiated: Negotiated,
    /// Whether a large body was sent since the last read.
    sent_large: bool,
    /// Whether the peer has closed its end, and the frame that is stalled is here as a whole.
    ended: bool,
    /// Whether this end is closed, and the peer's not yet.
    closing: bool,
    id_map: IdMap,
    /// State of the sending half when it was used last.
    blocked: bool,
    holds_back: bool,
    rx: Rx,
    seq: u8,
}

/// A socket with its sending half, which other threads may use as well.
pub trait SendingHalf {
    /// The socket.
    type Socket: Socket;

    /// Returns the socket.
    fn socket(&self) -> &Self::Socket;

    /// Has the sending half used, by no other thread meanwhile.
    fn with_tx<R>(&mut self, call: impl FnOnce(&mut Tx, &Self::Socket) -> R) -> R;
}

/// Why a connection is of no use any more.
#[derive(Debug)]
pub struct Broken(pub Errno);

impl<H: SendingHalf> Stream<H> {
    /// Makes the stream of a new connection, in what was negotiated for it.
    pub fn new(half: H, negotiated: Negotiated) -> Self {
        Self {
            half,
            negotiated,
            sent_large: false,
            ended: false,
            closing: false,
            id_map: IdMap::new(&negotiated),
            blocked: false,
            holds_back: false,
            rx: Rx::default(),
            seq: 0,
        }
    }

    /// Returns the socket.
    #[inline]
    pub fn socket(&self) -> &H::Socket {
        self.half.socket()
    }

    /// Posts a frame, or holds it back until [`Stream::flush`]. `Ok(Err(_))` is for the engine.
    ///
    /// # Errors
    /// The connection has to end.
    #[inline]
    pub fn post(
        &mut self,
        frame: &Frame<'_>,
        token: TxToken,
        coalescing: Coalescing,
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
            Err(EncodeError::Unsayable) => return Err(Broken(UNSAYABLE)),
        };
        outgoing.header.seq = self.seq;
        let mut bytes = [0; HEADER_MAX];
        let mut list;
        let pieces = match frame.targets {
            [] => &[],
            targets => {
                list = [RmaPiece::default(); RMA_PIECES_MAX];
                for (piece, target) in list.iter_mut().zip(targets) {
                    (piece.addr, piece.len, piece.key) = (target.addr, target.len, target.key);
                }
                &list[..targets.len().min(RMA_PIECES_MAX)]
            }
        };
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
        let taken = self.with_tx(|tx, socket| tx.post(socket, header, body, coalescing));
        let posted = match taken {
            Ok(Taken::Later) => return Ok(Err(PostError::Again)),
            Ok(Taken::Done) => Posted::Done,
            Ok(Taken::Pending) => Posted::Pending,
            Err(errno) => return Err(Broken(errno)),
        };
        self.seq = self.seq.wrapping_add(1);
        self.sent_large |= len >= LARGE_LEN;
        self.id_map.sent(&outgoing);
        Ok(Ok(posted))
    }

    /// Returns whether frames were held back.
    pub const fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// Sends the frames that were held back.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn flush(&mut self) -> Result<(), Broken> {
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
    ///
    /// # Errors
    /// The connection has to end.
    pub fn write(&mut self, sink: &mut impl Sink) -> Result<usize, Broken> {
        let (moved, finished) = self
            .with_tx(|tx, socket| tx.advance(socket))
            .map_err(Broken)?;
        if let Some(token) = finished {
            sink.sent(token, Ok(()));
        }
        Ok(usize::from(moved))
    }

    /// Reads and delivers what is there.
    #[inline]
    pub fn read(&mut self, from: PeerId, sink: &mut impl Sink) -> Progress {
        let dialect = self.negotiated.dialect;
        let catch_up = mem::take(&mut self.sent_large);
        let progress = self.rx.turn(
            catch_up,
            self.half.socket(),
            dialect,
            &mut self.id_map,
            from,
            sink,
        );
        self.acknowledge(progress)
    }

    /// Delivers the stalled frame again.
    pub fn retry(&mut self, from: PeerId, sink: &mut impl Sink) -> Progress {
        let dialect = self.negotiated.dialect;
        let progress = self.rx.retry(dialect, &mut self.id_map, from, sink);
        self.acknowledge(progress)
    }

    /// Returns whether a frame waits for the sink to have room.
    #[inline]
    pub fn stalled(&self) -> bool {
        self.rx.stalled()
    }

    /// Returns whether messages are expected that are so long that the poller is asked before they are read.
    #[inline]
    pub const fn expects_long(&self) -> bool {
        self.rx.expects_long()
    }

    /// Returns whether the socket takes nothing more for now.
    #[inline]
    pub const fn blocked(&self) -> bool {
        self.blocked
    }

    /// Returns whether the peer has closed its end, and the frame that is stalled is here as a whole.
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Checks whether the peer has closed its end while a frame is stalled. What is here as a whole is still delivered,
    /// once there is room for it; what never can be ends the connection.
    ///
    /// # Errors
    /// The rest of the frame will never come.
    #[cold]
    pub fn look_for_end(&mut self) -> Result<(), Fault> {
        if self.ended || !self.rx.stalled() || !self.socket().is_closed_by_peer() {
            return Ok(());
        }
        if self.rx.lacks(self.socket().unread()) {
            return Err(Fault::Closed { within: true });
        }
        self.ended = true;
        Ok(())
    }

    /// Returns whether nothing is under way here: no part of a frame has come, and nothing waits to be sent.
    pub fn is_at_rest(&self) -> bool {
        !self.blocked && !self.holds_back && self.rx.is_between_frames()
    }

    /// Closes this end: nothing more is sent, and what the peer sends is read until it closes its own.
    pub fn begin_to_close(&mut self) {
        self.with_tx(|tx, _| tx.end());
        self.socket().shut_writing();
        self.closing = true;
    }

    /// Returns whether this end is closed, and the peer's not yet.
    pub const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Reports to the sink the frames that the lost connection leaves incomplete.
    pub fn abandon(&mut self, why: Errno, sink: &mut impl Sink) {
        if let Some(token) = self.with_tx(|tx, _| tx.abandon()) {
            sink.sent(token, Err(why));
        }
        if let Some(token) = self.rx.abandon() {
            sink.placed(token, Err(why));
        }
    }

    /// Closes in order: what was accepted gets its chance to leave, and what the peer still sends is read so
    /// that the kernel does not answer it with a reset, which would cost the peer what it has not read yet.
    pub fn close(mut self) {
        let _ = self.flush();
        self.socket().shut_writing();
        let mut scrap = vec![0; 4096];
        for _ in 0..64 {
            match self.socket().recv(&mut scrap) {
                Ok(count) if count > 0 => {}
                _ => break,
            }
        }
    }

    /// Uses the sending half, and remembers its state afterwards.
    #[inline(always)]
    fn with_tx<R>(&mut self, call: impl FnOnce(&mut Tx, &H::Socket) -> R) -> R {
        let (blocked, holds_back) = (&mut self.blocked, &mut self.holds_back);
        self.half.with_tx(|tx, socket| {
            let result = call(tx, socket);
            *blocked = tx.blocked();
            *holds_back = tx.holds_back();
            result
        })
    }

    /// Acknowledges the messages of a turn that were declined (protocol section 4.7).
    #[inline]
    fn acknowledge(&mut self, progress: Progress) -> Progress {
        match progress.acknowledge {
            0 => progress,
            count if self.closing => Progress {
                acknowledge: count,
                ..progress
            },
            count => self.force_acknowledgements(count, progress),
        }
    }

    #[cold]
    fn force_acknowledgements(&mut self, count: usize, progress: Progress) -> Progress {
        for _ in 0..count {
            let header = FrameHeader {
                op_data: OP_DATA_ACK,
                seq: self.seq,
                ..FrameHeader::new(Op::Msg)
            };
            let mut bytes = [0; HEADER_MAX];
            let Some(len) = header.emit(&[], &mut bytes, self.negotiated.dialect) else {
                continue;
            };
            self.seq = self.seq.wrapping_add(1);
            if let Err(errno) = self.with_tx(|tx, _| tx.force(&bytes[..len])) {
                let end = progress.end.and(Err(Fault::Socket(errno)));
                return Progress { end, ..progress };
            }
        }
        progress
    }
}

/// Ends a connection whose peer waits for an answer that the protocol cannot express.
const UNSAYABLE: Errno = Errno::IO;
