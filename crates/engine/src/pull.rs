//! Pulls that a link begins, and whose end it tells the peer, in the calls that handle the Rts and the end of the pull. Path class: hot.
//!
//! That is so only where nothing waits for the peer: no answer overtakes another one. Everything else goes by the queue of answers, as with a link that does
//! not do so ([`crate::rndv`]).

use oxifabric_types::{Errno, Flags, PeerId};

use crate::engine::Engine;
use crate::matching::{Arrival, Class};
use crate::message::{MatchState, Message, RxData};
use crate::peer::Reply;
use crate::rndv::covers;
use crate::rx_placement::RxPlacement;
use crate::slab::Key;
use crate::transmit::several;
use crate::{Body, Completions, HeaderFlags, Placement, RemoteIov, RxToken, Target};

impl Engine {
    /// Takes an Rts from a link that pulls from `remote`, the memory that it names, at once if the data has a place.
    #[inline(always)]
    pub(crate) fn begin_pull(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        targets: &[Target],
        remote: &RemoteIov,
    ) -> Placement {
        let from = arrival.from;
        let may_begin = arrival.len > 0
            && covers(remote, arrival.len)
            && !self.unexpected.knows(from, arrival.id)
            && !self.unexpected.is_full(from)
            && self.peers.takes_answer(from);
        let placement = match arrival.class {
            _ if !may_begin => None,
            Class::Write => out
                .region(targets, Flags::REMOTE_WRITE)
                .ok()
                .filter(|region| region.len() == arrival.len)
                .map(|region| RxPlacement::of_write(region, arrival, targets)),
            _ => self.posted.take(arrival, out),
        };
        if let Some(placement) = placement {
            return self.land_pull(arrival, placement, targets, remote);
        }
        self.begin_later(out, &{ *arrival }, targets, remote)
    }

    /// Keeps a message whose data has a place, and has the link pull it there.
    #[inline(always)]
    fn land_pull(
        &mut self,
        arrival: &Arrival,
        placement: RxPlacement,
        targets: &[Target],
        remote: &RemoteIov,
    ) -> Placement {
        let into = placement.part(0, arrival.len);
        // Where there is no room at all, nothing is pulled.
        let begins = !into.is_empty();
        let rx_data = RxData::Remote((!begins).then_some(*remote));
        let mut message = Message::new(*arrival, rx_data, MatchState::Matched(placement));
        // The sender learns of the match from the answer to its Rts.
        message.arrival.flags.remove(HeaderFlags::MATCH);
        message.moving = u32::from(begins);
        if arrival.class == Class::Write {
            message.targets = several(targets);
        }
        match self.unexpected.land(message) {
            Some(key) if begins => Placement::Into(into, RxToken(key.raw())),
            Some(key) => {
                self.peers.reply(arrival.from, Reply::Begin(key));
                Placement::Done
            }
            // It was seen that there is room.
            None => Placement::Done,
        }
    }

    /// Takes an Rts whose data has no place yet, that has to wait for its turn among the answers to its peer, or that is to be refused.
    #[inline(never)]
    fn begin_later(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        targets: &[Target],
        remote: &RemoteIov,
    ) -> Placement {
        let body = Body::Remote(*remote);
        match arrival.class {
            Class::Write => self.write_in_parts(out, arrival, true, targets, body),
            _ => self.rts_arrived(out, arrival, body, 0),
        }
    }

    /// Puts a pull off that the link cannot begin now: it waits among the answers.
    #[cold]
    pub(crate) fn put_off(&mut self, key: Key, remote: &RemoteIov) {
        let Some(message) = self.unexpected.get_mut(key) else {
            return;
        };
        if message.moving == 0 || !matches!(message.rx_data, RxData::Remote(None)) {
            return;
        }
        message.moving = 0;
        message.rx_data = RxData::Remote(Some(*remote));
        let from = message.arrival.from;
        self.peers.block(from);
        self.peers.reply(from, Reply::Begin(key));
    }

    /// Handles the end of a pull; returns the id of the message of whose end the link tells the peer now.
    #[inline(always)]
    pub(crate) fn end_pull_now(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        result: Result<(), Errno>,
    ) -> Option<u32> {
        let message = self.unexpected.get_mut(key)?;
        let is_pulled = message.moving > 0 && matches!(message.rx_data, RxData::Remote(_));
        let Arrival { from, id, .. } = message.arrival;
        if result.is_err() || !is_pulled || !self.peers.takes_answer(from) {
            self.body_pulled(out, key, result);
            return None;
        }
        // Fin takes the place of any acknowledgement.
        message.arrival.flags &= HeaderFlags::DATA;
        match message.arrival.class {
            Class::Msg | Class::Tagged | Class::Write => self.end_landed(out, from, key),
            _ => self.finish(out, key, result),
        }
        Some(id)
    }

    /// Ends a message that has a place, and all of whose data is there.
    #[inline(always)]
    fn end_landed(&mut self, out: &mut impl Completions, from: PeerId, key: Key) {
        self.retry_stalled = true;
        let Some(message) = self.unexpected.get(key) else {
            return;
        };
        let arrival = message.arrival;
        if arrival.class == Class::Write {
            if let MatchState::Matched(placement) = &message.match_state {
                out.accessed(placement.completion(&arrival), &message.targets);
            }
            return self.unexpected.drop_landed(from, key);
        }
        if let Some(placement) = self.unexpected.end_landed(from, key) {
            self.posted.land(placement, &arrival, Ok(()), out);
        }
    }
}
