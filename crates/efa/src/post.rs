//! Posts to the queues of a device: sends, receives, reads and writes. Path class: hot.

use oxifabric_engine::{RmaOp, RxOp, TxOp};
use oxifabric_ibv::{Piece, Send, SendOp};
use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_provider::queues::{HardwareQueues, WorkEnd, WorkId};
use oxifabric_types::{Errno, Flags, Instant, PeerId};

use crate::queue_pair::QueuePair;

/// The most bytes that any device carries inline, in a request.
const INLINE: usize = 128;

/// The bit that marks the `wr_id` of a receive; a [`WorkId`] leaves it free, since no queue has so many places.
pub(crate) const RECEIVE: u64 = 1 << 31;

impl HardwareQueues for QueuePair {
    fn post_send(&mut self, send: &TxOp, id: WorkId) -> Result<(), Errno> {
        let len = self.message_len(&send.body)?;
        let data = send.flags.contains(Flags::REMOTE_CQ_DATA);
        let data = data.then(|| wire_data(send.data));
        if len <= self.inline.min(INLINE) {
            let mut bytes = [0; INLINE];
            let bytes = &mut bytes[..len];
            send.body.read(self.prefix, bytes);
            return self.post(send.peer, id, SendOp::Inline(bytes, data));
        }
        let pieces = match self.prefix {
            0 => Pieces::of(self, &send.body)?,
            prefix => Pieces::of(self, &send.body.slice(prefix, len))?,
        };
        self.post(send.peer, id, SendOp::Message(pieces.all(), data))
    }

    fn post_receive(&mut self, receive: &RxOp, id: WorkId) -> Result<(), Errno> {
        self.check_prefix(&receive.body)?;
        let pieces = Pieces::of(self, &receive.body)?;
        let posted = self.qp.post_recv(id.raw() | RECEIVE, pieces.all());
        posted.map_err(full)
    }

    fn post_access(&mut self, access: &RmaOp<'_>, id: WorkId) -> Result<(), Errno> {
        if access.flags.contains(Flags::INJECT) && !access.body.is_empty() {
            // Requests for reads and writes carry no inline data.
            return Err(Errno::OPNOTSUPP);
        }
        let pieces = Pieces::of(self, &access.body)?;
        let piece = match *pieces.all() {
            [piece] => Some(piece),
            [] => self.nothing.as_ref().and_then(|memory| memory.piece(0, 0)),
            _ => None,
        };
        let (Some(piece), [target]) = (piece, access.targets) else {
            return Err(Errno::INVAL);
        };
        let key = u32::try_from(target.key).map_err(|_| Errno::INVAL)?;
        let op = if access.flags.contains(Flags::READ) {
            SendOp::Read(piece, key, target.addr)
        } else {
            let data = access.flags.contains(Flags::REMOTE_CQ_DATA);
            let data = data.then(|| wire_data(access.data));
            SendOp::Write(piece, key, target.addr, data)
        };
        self.post(access.peer, id, op)
    }

    /// Moves the queue pair to the error state, which ends all receives: a device cannot cancel a single one.
    fn flush_receives(&mut self) {
        // A queue pair that cannot be moved to the error state is in it already.
        let _ = self.qp.fail();
    }

    fn poll_queues(&mut self, _now: Instant, ended: &mut impl FnMut(WorkEnd)) {
        self.poll(ended);
    }
}

impl QueuePair {
    /// Returns how many bytes of a body are the message.
    ///
    /// # Errors
    /// `INVAL` if the prefix is not whole in its first segment, `MSGSIZE` if the message is too long.
    fn message_len(&self, body: &Iov) -> Result<usize, Errno> {
        self.check_prefix(body)?;
        let len = body.len() - self.prefix;
        match len <= self.domain.hardware.mtu {
            true => Ok(len),
            false => Err(Errno::MSGSIZE),
        }
    }

    /// Checks that the prefix is whole in the first segment.
    fn check_prefix(&self, body: &Iov) -> Result<(), Errno> {
        let first = body.segments().first().map_or(0, |first| first.len());
        match first >= self.prefix {
            true => Ok(()),
            false => Err(Errno::INVAL),
        }
    }

    #[inline]
    fn post(&mut self, peer: PeerId, id: WorkId, op: SendOp<'_>) -> Result<(), Errno> {
        let peer = self.peers.get(peer).ok_or(Errno::INVAL)?;
        let request = Send {
            wr_id: id.raw(),
            op,
            ah: &peer.ah,
            qpn: peer.qpn,
            qkey: peer.qkey,
        };
        self.qp.post_send(&request).map_err(full)
    }
}

/// The pieces of registered memory that a request names: its scatter-gather list.
struct Pieces {
    pieces: [Piece; MAX_SEGMENTS],
    count: usize,
}

impl Pieces {
    /// Names the segments of a body that have bytes.
    ///
    /// # Errors
    /// `INVAL` for what is not registered in the domain.
    fn of(queue_pair: &QueuePair, body: &Iov) -> Result<Self, Errno> {
        let mut all = Self {
            pieces: [Piece::NONE; MAX_SEGMENTS],
            count: 0,
        };
        for (at, segment) in body.segments().iter().enumerate() {
            if segment.is_empty() {
                continue;
            }
            let region = body.registration(at).ok_or(Errno::INVAL)?.region;
            let domain = &queue_pair.domain;
            let piece = domain.piece(region, segment.base(), segment.len());
            *all.pieces.get_mut(all.count).ok_or(Errno::INVAL)? = piece.ok_or(Errno::INVAL)?;
            all.count += 1;
        }
        Ok(all)
    }

    fn all(&self) -> &[Piece] {
        &self.pieces[..self.count]
    }
}

/// Returns completion data as the C library puts it into a message: in the machine's order, where devices expect that of the network.
pub(crate) const fn wire_data(data: u64) -> u32 {
    u32::from_be(data as u32)
}

/// Returns the error of a post: `AGAIN` for a full queue, which takes more later.
fn full(errno: Errno) -> Errno {
    match errno {
        Errno::NOMEM => Errno::AGAIN,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_data_is_on_the_wire_in_the_order_of_the_machine() {
        let sent = wire_data(0x1_0203_0405);
        assert_eq!(sent.to_be_bytes(), 0x0203_0405_u32.to_ne_bytes());
        assert_eq!(wire_data(sent.into()), 0x0203_0405);
    }

    #[test]
    fn a_full_queue_is_no_lack_of_memory() {
        assert_eq!(full(Errno::NOMEM), Errno::AGAIN);
        assert_eq!(full(Errno::INVAL), Errno::INVAL);
    }
}
