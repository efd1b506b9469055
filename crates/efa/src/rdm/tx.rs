//! What the device has to send: packets in buffers of registered memory, until the device says that the peer's device has them, and reads and writes, short
//! ones out of such buffers.

use std::sync::Arc;

use oxifabric_engine::{RxToken, TxToken};
use oxifabric_ibv::{Ah, Pd, Piece, Qp, Send, SendOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

use super::repeats::{Pause, Repeats};
use crate::sys::SendBuffers;

/// The most bytes that any device carries inline, in a request.
const INLINE: usize = 128;

/// The sends of an endpoint.
#[derive(Debug)]
pub(super) struct TxPool {
    buffers: SendBuffers,
    inline: usize,
    slots: Vec<Slot>,
    idle: Vec<u32>,
    /// Packets that are put together, to be sent at once.
    staged: Vec<u32>,
    /// The requests that are to be made again.
    again: Repeats,
}

/// A buffer, and the request that it is for.
#[derive(Clone, Copy, Debug)]
struct Slot {
    request: Request,
    sent: Option<Sent>,
    /// The next pause before it is made again.
    pause: Pause,
}

impl Slot {
    fn new(request: Request, sent: Option<Sent>) -> Self {
        Self {
            request,
            sent,
            pause: Pause::FIRST,
        }
    }
}

/// What the device is asked to do.
#[derive(Clone, Copy, Debug)]
enum Request {
    /// To send a packet of so many bytes.
    Packet(usize),
    /// To send a packet of so many pieces: what is in the buffer, and memory of the application.
    Pieces([Piece; 2], usize),
    /// To read or write memory of the peer.
    Access(AccessRequest),
}

/// A read or write of memory of a peer, in one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessRequest {
    pub(super) is_read: bool,
    /// Memory of this end; `None` for the buffer.
    pub(super) local: Option<Piece>,
    pub(super) addr: u64,
    pub(super) key: u32,
    pub(super) len: usize,
    /// What the peer's device tells the peer, as it is on the wire.
    pub(super) data: Option<u32>,
}

/// A request that the device has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) peer: PeerId,
    pub(super) what: What,
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A packet, with whose end the engine is told of this.
    Packet(Option<TxToken>),
    /// A packet that is a whole message, and that fails if its receiver is not ready. A receipt would name this operation.
    Message(TxToken, Option<u32>),
    /// A packet of the message with this number, [`super::parts`].
    Part(u32),
    /// A piece of an access.
    Piece(AccessPiece),
    /// An access as a whole, out of or into memory of the application, with whose end the engine is told of this.
    Access(TxToken),
    /// A read of what a peer announced as a whole, into memory of the application, with whose end the engine is told of this.
    Pull(RxToken),
}

/// A piece of an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessPiece {
    /// The number of the access.
    pub(super) access: u32,
    /// Where it is in the memory of this end.
    pub(super) offset: usize,
    pub(super) len: usize,
    /// It goes through the buffer.
    pub(super) is_buffered: bool,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination<'a> {
    pub(super) ah: &'a Ah,
    pub(super) qpn: u32,
    pub(super) qkey: u32,
}

impl TxPool {
    /// Makes a number of buffers for packets of this length; those with at most `inline` bytes go with their request.
    pub(super) fn new(
        pd: &Arc<Pd>,
        count: usize,
        packet: usize,
        inline: usize,
    ) -> Result<Self, Errno> {
        Ok(Self {
            buffers: SendBuffers::new(pd, count, packet)?,
            inline: inline.min(INLINE),
            slots: vec![Slot::new(Request::Packet(0), None); count],
            idle: (0..count as u32).rev().collect(),
            staged: Vec::new(),
            again: Repeats::default(),
        })
    }

    /// Returns for how many more requests there are buffers.
    pub(super) fn room(&self) -> usize {
        self.idle.len()
    }

    /// Returns how many bytes a buffer has.
    pub(super) fn buffer_len(&self) -> usize {
        self.buffers.packet()
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.idle.len() == self.slots.len()
    }

    /// Sends a packet: a header, and behind it a body, which is copied.
    ///
    /// # Errors
    /// `AGAIN` when there is no room, and what the device says.
    pub(super) fn send(
        &mut self,
        qp: &mut Qp,
        to: Destination<'_>,
        header: &[u8],
        body: &Iov,
        sent: Sent,
    ) -> Result<(), Errno> {
        let len = header.len() + body.len();
        if len > self.buffers.packet() {
            return Err(Errno::MSGSIZE);
        }
        let &at = self.idle.last().ok_or(Errno::AGAIN)?;
        self.buffers.write(at, header, body);
        let request = Request::Packet(len);
        if body.is_empty() && len <= self.inline {
            Self::post_op(qp, to, at, SendOp::Inline(header, None))?;
            self.note_begun(at, request, sent);
            return Ok(());
        }
        self.begin(qp, to, at, request, sent)
    }

    /// Puts a packet of a message in several ones together: a header, and behind it a body, which is copied, or what is `lent`. It is sent by
    /// [`TxPool::send_staged`].
    ///
    /// # Errors
    /// As [`TxPool::send`]. Nothing is staged then any more.
    pub(super) fn stage(
        &mut self,
        header: &[u8],
        body: &Iov,
        lent: Option<Piece>,
        sent: Sent,
    ) -> Result<(), Errno> {
        let Some(at) = self.idle.pop() else {
            return Err(self.unstage(Errno::AGAIN));
        };
        self.staged.push(at);
        let Some(own) = self.buffers.piece(at, header.len() + body.len()) else {
            return Err(self.unstage(Errno::MSGSIZE));
        };
        self.buffers.write(at, header, body);
        let request = match lent {
            Some(lent) => Request::Pieces([own, lent], 2),
            None => Request::Pieces([own, Piece::NONE], 1),
        };
        self.slots[at as usize] = Slot::new(request, Some(sent));
        Ok(())
    }

    /// Sends the packets that are put together: all or none.
    ///
    /// # Errors
    /// As [`TxPool::send`]. Nothing is staged then any more.
    pub(super) fn send_staged(&mut self, qp: &mut Qp, to: Destination<'_>) -> Result<(), Errno> {
        let packets = self.staged.iter().map(|&at| {
            let pieces: &[Piece] = match &self.slots[at as usize].request {
                Request::Pieces(pieces, count) => &pieces[..*count],
                Request::Packet(_) | Request::Access(_) => &[],
            };
            Send {
                wr_id: at.into(),
                op: SendOp::Message(pieces, None),
                ah: to.ah,
                qpn: to.qpn,
                qkey: to.qkey,
            }
        });
        match qp.post_sends(packets) {
            Ok(()) => {
                self.staged.clear();
                Ok(())
            }
            Err(Errno::NOMEM) => Err(self.unstage(Errno::AGAIN)),
            Err(errno) => Err(self.unstage(errno)),
        }
    }

    /// Gives up the packets that are put together, and returns the reason.
    fn unstage(&mut self, why: Errno) -> Errno {
        while let Some(at) = self.staged.pop() {
            self.slots[at as usize].sent = None;
            self.idle.push(at);
        }
        why
    }

    /// Reads or writes memory of the peer; what a write takes out of the buffer is copied into it from `body`.
    ///
    /// # Errors
    /// As [`TxPool::send`].
    pub(super) fn access(
        &mut self,
        qp: &mut Qp,
        to: Destination<'_>,
        request: AccessRequest,
        body: Option<&Iov>,
        sent: Sent,
    ) -> Result<(), Errno> {
        let &at = self.idle.last().ok_or(Errno::AGAIN)?;
        if request.local.is_none() {
            if request.len > self.buffers.packet() {
                return Err(Errno::MSGSIZE);
            }
            if let (false, Some(body)) = (request.is_read, body) {
                self.buffers.write(at, &[], body);
            }
        }
        self.begin(qp, to, at, Request::Access(request), sent)
    }

    /// Copies what was read into a buffer to where it belongs.
    pub(super) fn copy_out(&self, at: u32, into: &Iov) {
        self.buffers.copy_out(at, into);
    }

    #[inline(always)]
    fn begin(
        &mut self,
        qp: &mut Qp,
        to: Destination<'_>,
        at: u32,
        request: Request,
        sent: Sent,
    ) -> Result<(), Errno> {
        self.post(qp, to, at, &request)?;
        self.note_begun(at, request, sent);
        Ok(())
    }

    /// Notes that the device has a request, whose buffer is the next one of those that are idle.
    #[inline(always)]
    fn note_begun(&mut self, at: u32, request: Request, sent: Sent) {
        self.slots[at as usize] = Slot::new(request, Some(sent));
        self.idle.pop();
    }

    #[inline(always)]
    fn post(
        &self,
        qp: &mut Qp,
        to: Destination<'_>,
        at: u32,
        request: &Request,
    ) -> Result<(), Errno> {
        let piece;
        let op = match request {
            &Request::Packet(len) if len <= self.inline => {
                let mut bytes = [0; INLINE];
                self.buffers.read(at, &mut bytes[..len]);
                return Self::post_op(qp, to, at, SendOp::Inline(&bytes[..len], None));
            }
            &Request::Packet(len) => {
                piece = [self.buffers.piece(at, len).ok_or(Errno::MSGSIZE)?];
                SendOp::Message(&piece, None)
            }
            Request::Pieces(pieces, count) => SendOp::Message(&pieces[..*count], None),
            Request::Access(access) => {
                let buffer = || self.buffers.piece(at, access.len);
                let local = access.local.or_else(buffer).ok_or(Errno::MSGSIZE)?;
                match access.is_read {
                    true => SendOp::Read(local, access.key, access.addr),
                    false => SendOp::Write(local, access.key, access.addr, access.data),
                }
            }
        };
        Self::post_op(qp, to, at, op)
    }

    #[inline(always)]
    fn post_op(qp: &mut Qp, to: Destination<'_>, at: u32, op: SendOp<'_>) -> Result<(), Errno> {
        let request = Send {
            wr_id: at.into(),
            op,
            ah: to.ah,
            qpn: to.qpn,
            qkey: to.qkey,
        };
        match qp.post_send(&request) {
            Err(Errno::NOMEM) => Err(Errno::AGAIN),
            result => result,
        }
    }

    /// Takes back a request that the device has carried out, or failed to, and its buffer, which is used again by the next request; `None` for
    /// one that it does not have.
    #[inline(always)]
    pub(super) fn ended(&mut self, wr_id: u64) -> Option<(u32, Sent)> {
        let at = u32::try_from(wr_id).ok()?;
        let sent = self.slots.get_mut(at as usize)?.sent.take()?;
        self.idle.push(at);
        Some((at, sent))
    }

    /// Returns whether the device has an access as a whole with a peer.
    pub(super) fn has_access_with(&self, peer: PeerId) -> bool {
        let mut sent = self.slots.iter().filter_map(|slot| slot.sent);
        sent.any(|sent| sent.peer == peer && matches!(sent.what, What::Access(_) | What::Pull(_)))
    }

    /// Returns what a request is about, until it is taken back; `None` for one that there is not.
    pub(super) fn sent(&self, wr_id: u64) -> Option<Sent> {
        self.slot(wr_id)?.sent
    }

    fn slot(&self, wr_id: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(wr_id).ok()?)
    }

    /// Returns whether a request fails if its receiver is not ready.
    pub(super) fn may_fail(&self, wr_id: u64) -> bool {
        let what = self.sent(wr_id).map(|sent| sent.what);
        matches!(what, Some(What::Message(..)))
    }

    /// Returns whether a request names memory of the application.
    pub(super) fn is_lent(&self, wr_id: u64) -> bool {
        match self.slot(wr_id).map(|slot| slot.request) {
            Some(Request::Pieces(_, count)) => count > 1,
            Some(Request::Access(access)) => access.local.is_some(),
            Some(Request::Packet(_)) | None => false,
        }
    }

    /// Has a request made again whose receiver was not ready.
    pub(super) fn not_ready(&mut self, wr_id: u64, now: Instant) {
        if let Ok(at) = u32::try_from(wr_id)
            && let Some(slot) = self.slots.get_mut(at as usize)
        {
            self.again.put_off(at, &mut slot.pause, now);
        }
    }

    /// Makes all requests that wait for receivers due: the endpoint is being closed.
    pub(super) fn hasten(&mut self, now: Instant) {
        self.again.hasten(now);
    }

    /// Returns the next request that is due to be made again.
    pub(super) fn due(&mut self, now: Instant) -> Option<u32> {
        self.again.take_due(now)
    }

    /// Sends a packet again.
    pub(super) fn repeat(&mut self, qp: &mut Qp, to: Destination<'_>, at: u32, now: Instant) {
        let request = self.slots[at as usize].request;
        if self.post(qp, to, at, &request).is_err() {
            self.again.put_off(at, &mut { Pause::FIRST }, now);
        }
    }

    /// Returns when the next request is due to be made again, if one is.
    pub(super) fn repeats_at(&self) -> Option<Instant> {
        self.again.first_due()
    }

    /// Returns whether the device has a request to this peer, or will have it again.
    pub(super) fn any_to(&self, peer: PeerId) -> bool {
        let mut sent = self.slots.iter().filter_map(|slot| slot.sent);
        sent.any(|sent| sent.peer == peer)
    }

    /// Lets go of what the engine is to be told of the packets to a peer; returns it.
    pub(super) fn forget(&mut self, peer: PeerId) -> Vec<TxToken> {
        let sent = self.slots.iter_mut().filter_map(|slot| slot.sent.as_mut());
        let to_peer = sent.filter(|sent| sent.peer == peer);
        let tokens = to_peer.filter_map(|sent| match &mut sent.what {
            What::Packet(token) => token.take(),
            What::Message(token, _) => {
                let token = *token;
                sent.what = What::Packet(None);
                Some(token)
            }
            What::Part(_) | What::Piece(_) | What::Access(_) | What::Pull(_) => None,
        });
        tokens.collect()
    }
}
