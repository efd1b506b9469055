//! What a link keeps of one peer: the channel to it, and frames of which a part is in the channel. Hot path.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use oxifabric_engine::link::{Frame, Posted, TxToken};
use oxifabric_mem::Iov;
use oxifabric_types::Instant;
use oxifabric_wire::reliable::record::{HEAD_MAX, Record, RecordTarget, TARGETS_MAX};

use crate::channel::Channel;
use crate::reader::Reader;
use crate::wire_kind;

/// Length of bodies from which on no more is copied than can leave soon: their posts would take long, and nothing is read meanwhile.
const LENT_LEN: usize = 32 << 10;

/// Longest body that is written together with its header.
const SHORT_LEN: usize = 64;

/// One peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) channel: Channel,
    pub(super) reader: Reader,
    /// A body of which a part has been taken by the channel.
    pub(super) large: Option<Large>,
    /// Frames that are over when the peer's end has acknowledged all packets before this number (transmit complete), in order.
    pub(super) unacknowledged: VecDeque<(u64, TxToken)>,
    /// Whether a frame was refused since [`oxifabric_engine::Sink::writable`].
    pub(super) wanted: bool,
    /// Whether the stalled frame is to be delivered again.
    pub(super) resumed: bool,
    pub(super) hot: bool,
    /// Whether the application knows the peer.
    pub(super) is_known: bool,
    /// When a packet came from it last.
    pub(super) heard_at: Instant,
    /// The turn in which something was posted to it last.
    pub(super) turn: u32,
    /// Whether operations waited for the peer when the engine was asked last.
    pub(super) pending: bool,
    /// When a timer looks at it.
    pub(super) timer_at: Instant,
}

/// A body that the channel had no room for at once.
#[derive(Debug)]
pub(super) struct Large {
    body: Rest,
    offset: usize,
    len: usize,
    token: TxToken,
    pub(super) end: FrameEnd,
}

/// Where the rest of a large body is.
#[derive(Debug)]
enum Rest {
    /// Memory of the operation.
    Lent(Iov),
    /// A copy.
    Owned(Vec<u8>),
}

/// When a frame is over for the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameEnd {
    /// It was over when it was posted.
    Posted,
    /// When the channel has all of it.
    Written,
    /// When the peer's end has acknowledged all of it.
    Acknowledged,
}

impl Peer {
    /// Creates a peer with a channel, of which no frame has come or gone in part.
    pub(super) const fn new(channel: Channel, is_known: bool, heard_at: Instant) -> Self {
        Self {
            channel,
            is_known,
            heard_at,
            reader: Reader::new(),
            large: None,
            unacknowledged: VecDeque::new(),
            wanted: false,
            resumed: false,
            hot: false,
            turn: 0,
            pending: false,
            timer_at: Instant::END,
        }
    }

    /// Returns whether nothing of the peer is under way, or waits, in either direction.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_queued = self.large.is_some() || !self.unacknowledged.is_empty();
        let waits = is_queued || self.wanted || self.resumed || self.pending;
        !waits && self.reader.is_between_frames() && self.channel.is_at_rest()
    }

    /// Goes on with another channel, in which nothing is under way.
    pub(super) fn go_on_with(&mut self, channel: Channel) {
        self.channel = channel.queueing(self.channel.queue());
    }

    /// Writes a frame into the channel, the body as far as there is room.
    #[inline]
    pub(super) fn post(&mut self, frame: &Frame<'_>, len: usize, token: TxToken) -> Posted {
        let done = self.write(frame, len);
        let end = match (frame.transmit_complete, done == len || frame.transient) {
            (true, _) => FrameEnd::Acknowledged,
            (false, true) => FrameEnd::Posted,
            (false, false) => FrameEnd::Written,
        };
        if done < len {
            self.large = Some(Large::rest_of(frame, done, len, token, end));
        } else if end == FrameEnd::Acknowledged {
            self.await_acknowledgement(token);
        }
        match end {
            FrameEnd::Posted => Posted::Done,
            FrameEnd::Written | FrameEnd::Acknowledged => Posted::Pending,
        }
    }

    /// Writes the header of a frame, for which there is room, and of its body what there is room for; returns how much of it. A short body goes with the
    /// header.
    #[inline]
    fn write(&mut self, frame: &Frame<'_>, len: usize) -> usize {
        let mut first = [0; HEAD_MAX + SHORT_LEN];
        let head = first
            .first_chunk_mut()
            .map_or(0, |head| emit(frame, len, head));
        let short = if len <= SHORT_LEN { len } else { 0 };
        frame
            .body
            .read(frame.offset, &mut first[head..head + short]);
        let written = self.channel.write(head + short, |at, into| {
            into.copy_from_slice(&first[at..at + into.len()]);
        });
        if short == len {
            return written.saturating_sub(head);
        }
        let now = match frame.transient || len < LENT_LEN {
            true => len,
            false => len.min(self.channel.room_ahead()),
        };
        self.channel.write(now, |at, into| {
            frame.body.read(frame.offset + at, into);
        })
    }

    /// Takes note that a frame is over when everything that was written so far has been acknowledged.
    #[cold]
    fn await_acknowledgement(&mut self, token: TxToken) {
        let written = self.channel.written();
        self.unacknowledged.push_back((written, token));
    }

    /// Takes the next frame that waited for its acknowledgement and has it.
    pub(super) fn next_acknowledged(&mut self) -> Option<TxToken> {
        let (end, token) = *self.unacknowledged.front()?;
        if self.channel.acknowledged_up_to() < end {
            return None;
        }
        self.unacknowledged.pop_front();
        Some(token)
    }

    /// Gives up the frames that are not over; returns their tokens.
    pub(super) fn abandon_frames(&mut self) -> impl Iterator<Item = TxToken> {
        let posted = core::mem::take(&mut self.unacknowledged);
        let large = self
            .large
            .take()
            .filter(|large| large.end != FrameEnd::Posted);
        let large = large.map(|large| large.token);
        posted.into_iter().map(|(_, token)| token).chain(large)
    }

    /// Goes on with a large body; returns its token if the frame is over now.
    pub(super) fn go_on(&mut self) -> Option<TxToken> {
        let large = self.large.as_mut()?;
        let offset = large.offset;
        let done = match &large.body {
            Rest::Lent(iov) => {
                let now = large.len.min(self.channel.room_ahead());
                self.channel.write(now, |at, into| {
                    iov.read(offset + at, into);
                })
            }
            Rest::Owned(copy) => self.channel.write(large.len, |at, into| {
                into.copy_from_slice(&copy[offset + at..offset + at + into.len()]);
            }),
        };
        large.offset += done;
        large.len -= done;
        if large.len > 0 {
            return None;
        }
        let Large { token, end, .. } = self.large.take()?;
        if end == FrameEnd::Acknowledged {
            self.await_acknowledgement(token);
        }
        (end == FrameEnd::Written).then_some(token)
    }
}

/// Writes the header of a frame whose body has `len` bytes; returns its length.
#[inline]
fn emit(frame: &Frame<'_>, len: usize, into: &mut [u8; HEAD_MAX]) -> usize {
    let header = &frame.header;
    let record = Record {
        kind: wire_kind::number(header.kind),
        flags: header.flags.bits(),
        targets: frame.targets.len().min(TARGETS_MAX) as u8,
        id: header.id,
        tag: header.tag,
        data: header.data,
        len: header.len,
        body: len as u64,
    };
    let targets = frame.targets.iter().map(|target| RecordTarget {
        addr: target.addr,
        len: target.len,
        key: target.key,
    });
    record.emit(targets, into)
}

impl Large {
    /// Describes what is left of a frame's body of `len` bytes when `done` of them are written; copies it if its memory is valid
    /// during the call only.
    fn rest_of(frame: &Frame<'_>, done: usize, len: usize, token: TxToken, end: FrameEnd) -> Self {
        let (offset, len) = (frame.offset + done, len - done);
        let (body, offset) = match frame.transient {
            true => {
                let mut copy = alloc::vec![0; len];
                frame.body.read(offset, &mut copy);
                (Rest::Owned(copy), 0)
            }
            false => (Rest::Lent(frame.body.clone()), offset),
        };
        Self {
            body,
            offset,
            len,
            token,
            end,
        }
    }
}
