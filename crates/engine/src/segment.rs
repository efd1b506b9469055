//! Segments: the parts of a message that follow its first frame, or its receiver's `Cts`.

use oxifabric_types::PeerId;

use crate::engine::Engine;
use crate::message::RxData;
use crate::{Body, Completions, Header, Placement};

impl Engine {
    /// Takes a segment of a message that is known and whose data may come. `in_order` says that the frames of the peer arrive in
    /// order: it must be the next part then, and anything else breaks the protocol. Otherwise it may be any part; a peer that sends
    /// one twice spoils its own message.
    pub(crate) fn segment(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        body: Body<'_>,
        in_order: bool,
    ) -> Placement {
        let len = match &body {
            Body::Whole(bytes) => bytes.len(),
            Body::Stream(len) => *len,
            Body::Remote(_) => return Placement::Refuse,
        };
        let Some(key) = self.unexpected.named(from, header.id) else {
            return Placement::Refuse;
        };
        let expected = self.unexpected.get(key).is_some_and(|message| {
            let whole = message.arrival.len;
            let left = whole - message.begun;
            let may_come = !matches!(message.rx_data, RxData::Remote(_) | RxData::Deferred);
            let is_part = match in_order {
                true => header.tag == message.begun as u64,
                false => header.tag <= (whole - len.min(whole)) as u64,
            };
            may_come && is_part && (1..=left).contains(&len)
        });
        if expected {
            // No longer than the message, as was just seen.
            self.place_at(out, key, header.tag as usize, len, body)
        } else {
            Placement::Refuse
        }
    }
}
