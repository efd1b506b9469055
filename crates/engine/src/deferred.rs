//! Long messages that come before their receive: their headers wait here, their bodies in the link.
//!
//! A length is only a peer's word. Memory is reserved for it within the budget, or up to a megabyte beyond it. A longer
//! message stays where it is and stops what follows it from that peer; its header can be matched, peeked at and claimed
//! like any other. When a receive takes it, the link delivers it again, and its body goes straight into the buffer.

use oxifabric_mem::Iov;
use oxifabric_types::PeerId;

use crate::engine::Engine;
use crate::matching::Arrival;
use crate::message::{MatchState, Message, RxData, cost};
use crate::slab::Key;
use crate::{Body, Completions, Placement, WaitEvent};

impl Engine {
    /// Keeps a message that no receive matches, and of which only the first part may be here.
    pub(crate) fn keep_part(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        len: usize,
        body: Body<'_>,
    ) -> Placement {
        let from = arrival.from;
        if !self.may_reserve(arrival.len) {
            return self.keep_header(out, arrival);
        }
        if !self.has_room(out, from, cost(arrival.len)) {
            return self.stall(from);
        }
        match Iov::zeroed(arrival.len) {
            Some(buffer) => {
                let message = Message::new(*arrival, RxData::Buffer(buffer), MatchState::Waiting);
                self.take_part(out, message, len, body)
            }
            None => self.stall(from),
        }
    }

    /// Keeps the header of a message whose body stays in the link.
    fn keep_header(&mut self, out: &mut impl Completions, arrival: &Arrival) -> Placement {
        let from = arrival.from;
        let message = Message::new(*arrival, RxData::Deferred, MatchState::Waiting);
        if let Some(key) = self.unexpected.insert(message) {
            self.peers.set_deferred(from, Some(key));
            self.note_wait(out, WaitEvent::Begun, key);
        }
        self.stall(from)
    }

    /// Returns the message of this peer whose body is still in the link.
    pub(crate) fn deferred(&self, from: PeerId) -> Option<Key> {
        let key = self.peers.deferred(from)?;
        self.unexpected.get(key).map(|_| key)
    }

    /// Takes a message whose header is known, which the link delivers again. A link that gives ids itself may call it another one than before.
    #[cold]
    pub(crate) fn resume_deferred(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        arrival: &Arrival,
        len: usize,
        body: Body<'_>,
    ) -> Placement {
        let same = |known: &Arrival| {
            let of = |a: &Arrival| (a.class, a.tag, a.len);
            of(known) == of(arrival)
        };
        let message = self.unexpected.get_mut(key);
        let Some(message) = message.filter(|message| same(&message.arrival)) else {
            return Placement::Refuse;
        };
        message.arrival.id = arrival.id;
        if !matches!(
            message.match_state,
            MatchState::Waiting | MatchState::Claimed(_)
        ) {
            self.unexpected.set_rx_data(key, RxData::Nothing);
        } else if self.may_reserve(arrival.len)
            && let Some(buffer) = Iov::zeroed(arrival.len)
        {
            self.unexpected.set_rx_data(key, RxData::Buffer(buffer));
        } else {
            return self.stall(arrival.from);
        }
        self.peers.set_deferred(arrival.from, None);
        if len < arrival.len {
            self.unexpected.name(key);
        }
        self.place(out, key, len, body)
    }
}
