//! Collective messages that arrive: for an operation under way, for one still to begin, or for none.

use oxifabric_types::{Errno, PeerId};

use super::active::placement;
use super::tag::{MessageTag, errno};
use super::{Collectives, GroupId};
use crate::engine::Engine;
use crate::matching::{Arrival, Class};
use crate::message::MatchState;
use crate::rx_placement::RxPlacement;
use crate::slab::Key;
use crate::{Body, Completions, Header, Kind, Placement};

/// What becomes of a collective message.
enum Disposition {
    /// It is for a receive.
    Matched,
    /// Its receive will come.
    Early,
    /// No operation will take it.
    Late,
    /// It was a notice, and is dealt with.
    Handled,
    /// It breaks the protocol.
    Invalid,
}

impl Engine {
    /// Takes a collective message or its Rts.
    #[inline(never)]
    pub(crate) fn collective_message(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        body: Body<'_>,
    ) -> Placement {
        let Some(arrival) = Arrival::new(from, Class::Collective, header) else {
            return Placement::Refuse;
        };
        if arrival.wants_ack() {
            return Placement::Refuse;
        }
        let is_rts = header.kind == Kind::CollectiveRts;
        let match_state = match self.classify(out, &arrival) {
            Disposition::Handled => return Placement::Done,
            Disposition::Invalid => return Placement::Refuse,
            Disposition::Early if is_rts => return self.rts_arrived(out, &arrival, body, 0),
            Disposition::Early => return self.message(out, &arrival, body),
            Disposition::Late => MatchState::Dropped,
            Disposition::Matched
                if self.unexpected.is_full(from) || !self.peers.can_reply(from) =>
            {
                return self.stall(from);
            }
            Disposition::Matched => match self.collectives.take(from, arrival.tag) {
                Some(posted) => MatchState::Matched(placement(posted.into, posted.active)),
                None => return Placement::Refuse,
            },
        };
        self.land(out, arrival, match_state, body, is_rts)
            .unwrap_or_else(|_| self.stall(from))
    }

    fn classify(&mut self, out: &mut impl Completions, arrival: &Arrival) -> Disposition {
        let (from, tag) = (arrival.from, MessageTag::decode(arrival.tag));
        let is_notice = matches!(tag, MessageTag::Notice { .. } | MessageTag::GivenUp { .. });
        if is_notice && arrival.len > 0 {
            return Disposition::Invalid;
        }
        let state = &self.collectives;
        if state.posted.contains_key(&(from, arrival.tag)) {
            return Disposition::Matched;
        }
        match tag {
            MessageTag::Data { group, .. } if state.is_alive(GroupId(group), from) => {
                Disposition::Early
            }
            MessageTag::Join { count } if state.is_to_come(from, count) => Disposition::Early,
            MessageTag::Data { .. } | MessageTag::Join { .. } => Disposition::Late,
            MessageTag::Notice { errno: 0, .. } => Disposition::Handled,
            MessageTag::Notice { group, errno: why } => {
                let id = GroupId(group);
                if self.collectives.is_alive(id, from) {
                    self.mark_broken(out, id, errno(why));
                }
                Disposition::Handled
            }
            MessageTag::GivenUp { count, errno: why } => {
                self.join_given_up(out, from, count, errno(why));
                Disposition::Handled
            }
        }
    }

    /// Handles a join that a peer has given up; it may be under way here, or still to begin.
    fn join_given_up(&mut self, out: &mut impl Completions, from: PeerId, count: u32, why: Errno) {
        if let Some(id) = self.collectives.find_join(from, count) {
            return self.mark_broken(out, id, why);
        }
        let state = &mut self.collectives;
        if state.is_to_come(from, count) {
            state.given_up.insert(from, count, why);
        }
    }

    /// Ends a receive of a collective: its message is placed, or will never be.
    pub(crate) fn collective_placed(
        &mut self,
        placement: &RxPlacement,
        arrival: &Arrival,
        result: Result<(), Errno>,
    ) {
        // Members that do not agree on the length do not mean the same operation.
        let result = match placement.room == arrival.len {
            true => result,
            false => result.and(Err(Errno::TRUNC)),
        };
        let active = u32::try_from(placement.context).map_or(Key::NONE, Key::from_raw);
        self.collectives.over(active, result);
    }
}

impl Collectives {
    /// Returns whether a group of that id takes messages of that peer.
    fn is_alive(&self, id: GroupId, from: PeerId) -> bool {
        let group = self.groups.get(&id);
        group.is_some_and(|group| group.broken.is_none() && group.ranks.contains_key(&from))
    }

    /// Returns whether a join with that count is under way, or still to begin.
    fn is_to_come(&self, from: PeerId, count: u32) -> bool {
        let begun = self.joins.get(&from).copied().unwrap_or(0);
        let under_way = self
            .find_join(from, count)
            .and_then(|id| self.groups.get(&id));
        count >= begun || under_way.is_some_and(|group| group.broken.is_none())
    }
}
