//! Frames of one generation that were sent, until the peer's engine has taken them.

use std::collections::BTreeMap;

use oxifabric_engine::{Header, Kind, TxToken};

use super::WINDOW;
use crate::plan::PacketOrder;

/// A generation that this end began.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) generation: u64,
    /// The peer has answered.
    pub(super) is_welcome: bool,
    next: u64,
    under_way: BTreeMap<u64, UnderWay>,
    /// The last message.
    last_message: Option<u64>,
}

/// A frame that the peer has not taken.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// What the frame is about, if segments may follow it.
    begins: Option<u32>,
    then: Then,
}

/// What to do when a frame was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing.
    Nothing,
    /// Report it to the engine.
    Report(TxToken),
    /// End the access of this number, whose data it brought.
    End(u64),
}

impl Sender {
    pub(super) const fn new(generation: u64) -> Self {
        Self {
            generation,
            is_welcome: false,
            next: 0,
            under_way: BTreeMap::new(),
            last_message: None,
        }
    }

    /// Returns whether one more frame may be under way.
    pub(super) fn has_room(&self) -> bool {
        let low = self.under_way.keys().next();
        self.is_welcome && low.is_none_or(|low| self.next - low < WINDOW)
    }

    /// Numbers a frame; returns also which one the peer has to take before it. That of a report of a write is `None`.
    pub(super) fn number(
        &mut self,
        header: Option<&Header>,
        then: Then,
        order: PacketOrder,
    ) -> (u64, Option<u64>) {
        let number = self.next;
        self.next += 1;
        let is_message = header.is_some_and(|header| is_message(header.kind));
        let after = match (order, header) {
            (PacketOrder::Ordered, _) => number.checked_sub(1),
            _ if is_message => self.last_message,
            (_, Some(header)) if header.kind == Kind::Segment => self.first_of(header.id),
            _ => None,
        };
        if is_message {
            self.last_message = Some(number);
        }
        let begins = header.filter(|header| header.kind != Kind::Segment);
        let begins = begins.map(|header| header.id);
        self.under_way.insert(number, UnderWay { begins, then });
        (number, after)
    }

    /// Returns the frame of this id that its segments follow, unless the peer has taken it.
    fn first_of(&self, id: u32) -> Option<u64> {
        let mut newest = self.under_way.iter().rev();
        newest
            .find(|(_, frame)| frame.begins == Some(id))
            .map(|(number, _)| *number)
    }

    /// Notes that the peer has taken a frame; `None` for one that is not under way.
    pub(super) fn taken(&mut self, number: u64) -> Option<Then> {
        self.under_way.remove(&number).map(|frame| frame.then)
    }

    /// Returns whether the peer has taken everything.
    pub(super) fn is_done(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns what was to be done with what is under way, in order.
    pub(super) fn drain(self) -> impl Iterator<Item = Then> {
        self.under_way.into_values().map(|frame| frame.then)
    }
}

/// Returns whether a frame is a message or the Rts of one: these keep their order on any wire.
const fn is_message(kind: Kind) -> bool {
    use Kind::{Collective, CollectiveRts, Msg, MsgRts, Tagged, TaggedRts};
    matches!(
        kind,
        Msg | Tagged | MsgRts | TaggedRts | Collective | CollectiveRts
    )
}

#[cfg(test)]
mod tests {
    use oxifabric_engine::HeaderFlags;

    use super::*;

    fn header(kind: Kind, id: u32) -> Header {
        Header {
            kind,
            flags: HeaderFlags::empty(),
            id,
            tag: 0,
            data: 0,
            len: 0,
        }
    }

    fn sender() -> Sender {
        Sender {
            is_welcome: true,
            ..Sender::new(1)
        }
    }

    #[test]
    fn without_order_messages_follow_messages_and_segments_their_first_frame() {
        let mut sender = sender();
        let mut number = |kind, id| {
            let header = header(kind, id);
            sender.number(Some(&header), Then::Nothing, PacketOrder::Unordered)
        };
        assert_eq!(number(Kind::Msg, 7), (0, None));
        assert_eq!(number(Kind::Ack, 3), (1, None));
        assert_eq!(number(Kind::TaggedRts, 8), (2, Some(0)));
        assert_eq!(number(Kind::Segment, 7), (3, Some(0)));
        assert_eq!(number(Kind::Segment, 5), (4, None));
        assert_eq!(sender.taken(0), Some(Then::Nothing));
        assert_eq!(sender.taken(0), None);
        let segment = header(Kind::Segment, 7);
        let numbered = sender.number(Some(&segment), Then::Nothing, PacketOrder::Unordered);
        assert_eq!(numbered, (5, None), "its first frame was taken");
        let report = sender.number(None, Then::End(4), PacketOrder::Ordered);
        assert_eq!(report, (6, Some(5)), "with order each follows the last");
    }

    #[test]
    fn the_window_reaches_from_the_first_frame_that_was_not_taken() {
        let mut sender = sender();
        let ack = header(Kind::Ack, 0);
        for _ in 0..WINDOW {
            assert!(sender.has_room());
            sender.number(Some(&ack), Then::Nothing, PacketOrder::Unordered);
        }
        assert!(!sender.has_room());
        assert!(sender.taken(1).is_some() && !sender.has_room());
        assert!(sender.taken(0).is_some() && sender.has_room());
        assert!(!Sender::new(1).has_room(), "it is not welcome yet");
    }
}
