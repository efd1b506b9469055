//! Loopback: messages that an endpoint sends to itself never reach the link.

use oxifabric_types::{Errno, Flags};

use crate::engine::Engine;
use crate::matching::{Arrival, Class};
use crate::message::{Message, RxData, cost};
use crate::shared::placement_for;
use crate::slab::Key;
use crate::transmit::{self, Stage, Transmit};
use crate::{Completions, HeaderFlags, TxOp, WaitEvent};

/// Longest message that is copied, within the budget, when no receive is posted for it; longer ones stay in the
/// sender's memory until they are matched, and the send completes then.
const COPIED_BYTES: usize = 16 * 1024;

impl Engine {
    /// Sends a message to this endpoint.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] when a body has to be copied and there is no memory for it; [`Errno::AGAIN`] when no
    /// more messages can be kept.
    pub(crate) fn send_to_self(
        &mut self,
        out: &mut impl Completions,
        op: TxOp,
        key: Key,
    ) -> Result<(), Errno> {
        let header = crate::Header {
            id: key.raw(),
            ..transmit::frames::header(&op)
        };
        let arrival = Arrival::new(self.me, Class::of(op.flags), &header).ok_or(Errno::MSGSIZE)?;
        let placement = self.posted.take(&arrival, out);
        if let Some(placement) = placement.or_else(|| placement_for(out, &arrival)) {
            placement.copy_from(&op.body, arrival.len);
            self.posted.land(placement, &arrival, Ok(()), out);
            report(op, key, out);
            return Ok(());
        }
        self.keep_own(out, op, key, arrival)
    }

    /// Keeps a message for a later receive: a copy of it, or where the sender has it.
    fn keep_own(
        &mut self,
        out: &mut impl Completions,
        op: TxOp,
        key: Key,
        mut arrival: Arrival,
    ) -> Result<(), Errno> {
        let inject = op.flags.contains(Flags::INJECT);
        let is_copied = (inject || arrival.len <= COPIED_BYTES)
            && self.fits_budget(arrival.from, cost(arrival.len));
        let body = if is_copied || inject {
            op.body.duplicate().ok_or(Errno::NOMEM)?
        } else {
            op.body.clone()
        };
        let rx_data = if is_copied {
            RxData::Buffer(body)
        } else {
            // The send completes when the body was read: what is beyond the budget is bounded by the number
            // of sends that may be outstanding.
            arrival.flags |= HeaderFlags::DELIVERY;
            RxData::Loopback(body)
        };
        let message = Message::complete(arrival, rx_data);
        let kept_at = self.unexpected.insert(message).ok_or(Errno::AGAIN)?;
        self.note_wait(out, WaitEvent::Begun, kept_at);
        if arrival.wants_ack() {
            let mut transmit = Transmit::new(op, key);
            transmit.stage = Stage::Sent;
            transmit.unacked = true;
            // The key is the vacant one, so there is room for it.
            let _ = self.sends.insert(transmit);
        } else {
            report(op, key, out);
        }
        Ok(())
    }

    /// Ends the send of a message to this endpoint itself, which was matched and read.
    pub(crate) fn end_loopback(&mut self, out: &mut impl Completions, id: u32) {
        let key = Key::from_raw(id);
        if let Some(send) = self.sends.get_mut(key) {
            send.unacked = false;
            self.check_sent(out, key);
        }
    }
}

fn report(op: TxOp, key: Key, out: &mut impl Completions) {
    Transmit::new(op, key).report(out);
}
