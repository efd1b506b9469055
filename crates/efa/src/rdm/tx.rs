//! The packets that the device has to send: buffers of registered memory, until the device says that the peer's device has them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::TxToken;
use oxifabric_ibv::{Access, Ah, Mr, Pd, Qp, Send, SendOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

/// The most bytes that any device carries inline, in a request.
const INLINE: usize = 128;
/// How long a packet waits before it is sent again to a receiver that was not ready, where the device does not try by itself.
const NOT_READY: Duration = Duration::from_micros(500);

/// The sends of an endpoint.
#[derive(Debug)]
pub(super) struct TxPool {
    memory: Mr,
    packet: usize,
    inline: usize,
    slots: Vec<Slot>,
    idle: Vec<u32>,
    /// Packets that are to be sent again, and when.
    again: VecDeque<(u32, Instant)>,
}

/// A buffer.
#[derive(Clone, Copy, Debug)]
struct Slot {
    len: usize,
    sent: Option<SentPacket>,
}

/// A packet that the device has.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    pub(super) peer: PeerId,
    /// What to tell the engine.
    pub(super) token: Option<TxToken>,
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
        let len = count.checked_mul(packet).ok_or(Errno::NOMEM)?;
        Ok(Self {
            memory: pd.allocate(len, Access::default())?,
            packet,
            inline: inline.min(INLINE),
            slots: vec![Slot { len: 0, sent: None }; count],
            idle: (0..count as u32).rev().collect(),
            again: VecDeque::new(),
        })
    }

    /// Returns whether there is a buffer for one more packet.
    pub(super) fn has_room(&self) -> bool {
        !self.idle.is_empty()
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
        qp: &Qp,
        to: Destination<'_>,
        header: &[u8],
        body: &Iov,
        sent: SentPacket,
    ) -> Result<(), Errno> {
        let len = header.len() + body.len();
        if len > self.packet {
            return Err(Errno::MSGSIZE);
        }
        let &at = self.idle.last().ok_or(Errno::AGAIN)?;
        let buffer = self.memory.memory().slice(at as usize * self.packet, len);
        buffer.write(0, header);
        buffer.copy_from(header.len(), body);
        self.slots[at as usize] = Slot {
            len,
            sent: Some(sent),
        };
        self.post(qp, to, at)?;
        self.idle.pop();
        Ok(())
    }

    fn post(&self, qp: &Qp, to: Destination<'_>, at: u32) -> Result<(), Errno> {
        let (start, len) = (at as usize * self.packet, self.slots[at as usize].len);
        let mut bytes = [0; INLINE];
        let piece;
        let op = if len <= self.inline {
            self.memory.memory().read(start, &mut bytes[..len]);
            SendOp::Inline(&bytes[..len], None)
        } else {
            piece = [self.memory.piece(start, len).ok_or(Errno::MSGSIZE)?];
            SendOp::Message(&piece, None)
        };
        let request = Send {
            wr_id: at.into(),
            op,
            ah: to.ah,
            qpn: to.qpn,
            qkey: to.qkey,
        };
        match qp.post_send(&[request]) {
            Err(Errno::NOMEM) => Err(Errno::AGAIN),
            result => result,
        }
    }

    /// Takes back a packet that the device has sent, or failed to; `None` for one that it does not have.
    pub(super) fn ended(&mut self, wr_id: u64) -> Option<SentPacket> {
        let at = u32::try_from(wr_id).ok()?;
        let sent = self.slots.get_mut(at as usize)?.sent.take()?;
        self.idle.push(at);
        Some(sent)
    }

    /// Has a packet sent again whose receiver was not ready.
    pub(super) fn not_ready(&mut self, wr_id: u64, now: Instant) {
        if let Ok(at) = u32::try_from(wr_id) {
            self.again.push_back((at, now.after(NOT_READY)));
        }
    }

    /// Returns the next packet that is due to be sent again, and its peer.
    pub(super) fn due(&mut self, now: Instant) -> Option<(u32, Option<PeerId>)> {
        let (at, _) = self.again.pop_front_if(|(_, due)| *due <= now)?;
        let slot = self.slots.get(at as usize)?;
        Some((at, slot.sent.map(|sent| sent.peer)))
    }

    /// Sends a packet again.
    pub(super) fn repeat(&mut self, qp: &Qp, to: Destination<'_>, at: u32, now: Instant) {
        if self.post(qp, to, at).is_err() {
            self.again.push_back((at, now.after(NOT_READY)));
        }
    }

    /// Returns whether packets are to be sent again.
    pub(super) fn has_repeats(&self) -> bool {
        !self.again.is_empty()
    }

    /// Lets go of what the engine is to be told of the packets to a peer; returns it.
    pub(super) fn forget(&mut self, peer: PeerId) -> Vec<TxToken> {
        let sent = self.slots.iter_mut().filter_map(|slot| slot.sent.as_mut());
        let to_peer = sent.filter(|sent| sent.peer == peer);
        to_peer.filter_map(|sent| sent.token.take()).collect()
    }
}
