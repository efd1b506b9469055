//! Collective messages that arrive: for an operation under way, for one still to begin, or for none.

use oxifabric_types::{Errno, PeerId};

use super::name::{Name, errno};
use super::run::placement;
use super::{Collectives, GroupId};
use crate::engine::Engine;
use crate::matching::{Arrival, Class};
use crate::message::MatchState;
use crate::rx_placement::RxPlacement;
use crate::slab::Key;
use crate::{Body, Completions, Header, Kind, Placement};

/// How many joins may be given up before they begin here; peers that go beyond are not believed.
const MAX_GIVEN_UP: usize = 1 << 16;

/// What becomes of a message.
enum Way {
    /// It is for a receive.
    Matched,
    /// Its receive will come.
    Early,
    /// No operation will take it.
    Late,
    /// It was nothing but a word.
    Said,
    /// It breaks the protocol.
    Wrong,
}

impl Engine {
    /// A collective message or its Rts arrives.
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
        let match_state = match self.way(out, &arrival) {
            Way::Said => return Placement::Done,
            Way::Wrong => return Placement::Refuse,
            Way::Early if is_rts => return self.rts_arrived(out, &arrival, body),
            Way::Early => return self.message(out, &arrival, body),
            Way::Late => MatchState::Dropped,
            Way::Matched if self.unexpected.is_full(from) || !self.peers.can_reply(from) => {
                return self.stall(from);
            }
            Way::Matched => match self.collectives.take(from, arrival.tag) {
                Some(posted) => MatchState::Matched(placement(posted.into, posted.run)),
                None => return Placement::Refuse,
            },
        };
        self.land(out, arrival, match_state, body, is_rts)
            .unwrap_or_else(|_| self.stall(from))
    }

    fn way(&mut self, out: &mut impl Completions, arrival: &Arrival) -> Way {
        let (from, name) = (arrival.from, Name::of(arrival.tag));
        let is_word = matches!(name, Name::Notice { .. } | Name::GivenUp { .. });
        if is_word && arrival.len > 0 {
            return Way::Wrong;
        }
        let state = &self.collectives;
        if state.posted.contains_key(&(from, arrival.tag)) {
            return Way::Matched;
        }
        match name {
            Name::Data { group, .. } if state.is_alive(GroupId(group), from) => Way::Early,
            Name::Join { count } if state.is_to_come(from, count) => Way::Early,
            Name::Data { .. } | Name::Join { .. } => Way::Late,
            Name::Notice { errno: 0, .. } => Way::Said,
            Name::Notice { group, errno: why } => {
                let id = GroupId(group);
                if self.collectives.is_alive(id, from) {
                    self.mark_broken(out, id, errno(why));
                }
                Way::Said
            }
            Name::GivenUp { count, errno: why } => {
                self.join_given_up(out, from, count, errno(why));
                Way::Said
            }
        }
    }

    /// A peer has given up a join, which may be under way here, or still to begin.
    fn join_given_up(&mut self, out: &mut impl Completions, from: PeerId, count: u32, why: Errno) {
        if let Some(id) = self.collectives.find_join(from, count) {
            return self.mark_broken(out, id, why);
        }
        let state = &mut self.collectives;
        if state.is_to_come(from, count) && state.given_up.len() < MAX_GIVEN_UP {
            state.given_up.insert((from, count), why);
        }
    }

    /// The message for a receive of a run is in its place, or will never be.
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
        let run = u32::try_from(placement.context).map_or(Key::NONE, Key::from_raw);
        self.collectives.over(run, result);
    }
}

impl Collectives {
    /// Returns whether a group of that name takes messages of that peer.
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
