//! Segments: the parts of a message that follow its first frame, or its receiver's `Cts`.

use oxifabric_types::PeerId;

use crate::engine::Engine;
use crate::message::RxData;
use crate::{Body, Completions, Header, Placement};

impl Engine {
    /// Takes a segment. It must be the next part of a message that is known and whose data may come:
    /// frames of one peer arrive in order, so anything else breaks the protocol.
    pub(crate) fn segment(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        body: Body<'_>,
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
            let left = message.arrival.len - message.begun;
            let may_come = !matches!(message.rx_data, RxData::Remote(_) | RxData::Deferred);
            may_come && header.tag == message.begun as u64 && (1..=left).contains(&len)
        });
        if expected {
            self.place(out, key, len, body)
        } else {
            Placement::Refuse
        }
    }
}
