//! Receiving: messages meet receives, whichever comes first.
//!
//! The hot path is [`Engine::message`] with a whole body and a posted receive: match, copy, complete. Any
//! other message becomes a [`Message`] that lives until its data is in place.

use alloc::boxed::Box;
use oxifabric_types::{Errno, Flags};

use crate::engine::Engine;
use crate::matching::{Arrival, Class, Pattern};
use crate::message::{MatchState, Message, RxData, cost};
use crate::peer::Reply;
use crate::rx_placement::RxPlacement;
use crate::shared::placement_for;
use crate::slab::Key;
use crate::{Body, Completions, HeaderFlags, Placement, RxOp, RxToken, WaitEvent};

impl Engine {
    /// Posts a receive, or lets it have the first waiting message that it takes.
    #[inline(always)]
    pub(crate) fn post_recv(&mut self, out: &mut impl Completions, op: RxOp) -> Result<(), Errno> {
        let pattern = Pattern::new(&op, self.config.directed_recv);
        let shared = op.flags.contains(Flags::MULTI_RECV);
        if !shared && let Some(key) = self.unexpected.find(&pattern) {
            self.assign(out, key, RxPlacement::new(op.spilled()));
            return Ok(());
        }
        let min_room = if shared {
            self.config.min_multi_recv
        } else {
            0
        };
        let key = self.posted.push(pattern, op, min_room)?;
        if shared {
            self.fill(out, key, &{ pattern });
        }
        self.retry_stalled = true;
        Ok(())
    }

    /// Fills a multi-receive buffer with what is waiting.
    #[inline(never)]
    fn fill(&mut self, out: &mut impl Completions, buffer: Key, pattern: &Pattern) {
        while let Some(key) = self.unexpected.find(pattern) {
            let len = self.unexpected.get(key).map_or(0, |m| m.arrival.len);
            let Some(placement) = self.posted.share(buffer, len, out) else {
                break;
            };
            self.assign(out, key, placement);
        }
    }

    /// Takes a message with its body, or with the first part of it.
    #[inline(always)]
    pub(crate) fn message(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        body: Body<'_>,
    ) -> Placement {
        match body {
            Body::Whole(bytes) if bytes.len() == arrival.len => self.whole(out, arrival, bytes),
            // Copies, so that nothing else keeps the arrival in memory.
            Body::Whole(bytes) => {
                self.first_part(out, &{ *arrival }, bytes.len(), Body::Whole(bytes))
            }
            Body::Stream(len) => self.first_part(out, &{ *arrival }, len, Body::Stream(len)),
            Body::Remote(_) => Placement::Refuse,
        }
    }

    /// Takes a message that is here as a whole.
    #[inline(always)]
    fn whole(&mut self, out: &mut impl Completions, arrival: &Arrival, bytes: &[u8]) -> Placement {
        if arrival.wants_ack() && !self.peers.can_reply(arrival.from) {
            return self.stall(arrival.from);
        }
        if !self.posted.deliver(arrival, bytes, out) {
            return self.keep_whole(out, &{ *arrival }, bytes);
        }
        if arrival.wants_ack() {
            self.acknowledge(out, &{ *arrival });
        }
        Placement::Done
    }

    /// Buffers a message that no receive matches, unless a shared context has one.
    #[inline(never)]
    fn keep_whole(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        bytes: &[u8],
    ) -> Placement {
        if let Some(placement) = placement_for(out, arrival) {
            placement.write(0, bytes);
            self.posted.land(placement, arrival, Ok(()), out);
            if arrival.wants_ack() {
                self.acknowledge(out, arrival);
            }
            return Placement::Done;
        }
        if !self.has_room(out, arrival.from, cost(arrival.len)) {
            return self.stall(arrival.from);
        }
        let rx_data = match bytes {
            [] => RxData::Nothing,
            bytes => RxData::Bytes(Box::from(bytes)),
        };
        match self.unexpected.insert(Message::complete(*arrival, rx_data)) {
            Some(key) => {
                self.note_arrival(key);
                self.note_wait(out, WaitEvent::Begun, key);
            }
            None => return self.stall(arrival.from),
        }
        Placement::Done
    }

    /// Takes the first part of a message, or the header of one whose body is still in the stream.
    #[inline(never)]
    fn first_part(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        len: usize,
        body: Body<'_>,
    ) -> Placement {
        let more_follows = len < arrival.len;
        if len > arrival.len || (more_follows && self.unexpected.knows(arrival.from, arrival.id)) {
            return Placement::Refuse;
        }
        if let Some(key) = self.deferred(arrival.from) {
            return self.resume_deferred(out, key, arrival, len, body);
        }
        if self.unexpected.is_full(arrival.from) || !self.peers.can_reply(arrival.from) {
            return self.stall(arrival.from);
        }
        let placement = self.posted.take(arrival, out);
        match placement.or_else(|| placement_for(out, arrival)) {
            Some(placement) => {
                let message =
                    Message::new(*arrival, RxData::Nothing, MatchState::Matched(placement));
                self.take_part(out, message, len, body)
            }
            None => self.keep_part(out, arrival, len, body),
        }
    }

    /// Begins a message with its first `len` bytes.
    pub(crate) fn take_part(
        &mut self,
        out: &mut impl Completions,
        message: Message,
        len: usize,
        body: Body<'_>,
    ) -> Placement {
        let matched = matches!(message.match_state, MatchState::Matched(_));
        let waits = matches!(message.match_state, MatchState::Waiting);
        let more_follows = len < message.arrival.len;
        let Some(key) = self.unexpected.insert(message) else {
            return Placement::Refuse;
        };
        if more_follows {
            self.unexpected.name(key);
        }
        if matched {
            self.note_match(out, key);
        } else if waits {
            self.note_wait(out, WaitEvent::Begun, key);
        }
        self.place(out, key, len, body)
    }

    /// Places the next `len` bytes of a message.
    pub(crate) fn place(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        len: usize,
        body: Body<'_>,
    ) -> Placement {
        let at = self.unexpected.get(key).map_or(0, |message| message.begun);
        self.place_at(out, key, at, len, body)
    }

    /// Places the `len` bytes of a message that begin at `at`.
    pub(crate) fn place_at(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        at: usize,
        len: usize,
        body: Body<'_>,
    ) -> Placement {
        let Some(message) = self.unexpected.get_mut(key) else {
            return Placement::Refuse;
        };
        message.begun += len;
        let placement = match body {
            Body::Whole(bytes) => {
                message.write(at, bytes);
                Placement::Done
            }
            Body::Stream(0) | Body::Remote(_) => Placement::Done,
            Body::Stream(_) => match message.part(at, len) {
                Some(iov) => {
                    message.moving += 1;
                    Placement::Into(iov, RxToken(key.raw()))
                }
                None => Placement::Discard,
            },
        };
        if message.begun == message.arrival.len && len < message.begun {
            self.unexpected.unname(key);
        }
        self.check_arrived(out, key);
        placement
    }

    /// Ends a streamed body: it is in its place, or the peer went down within it.
    pub(crate) fn body_placed(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        result: Result<(), Errno>,
    ) {
        let Some(message) = self.unexpected.get_mut(key) else {
            return;
        };
        message.moving = message.moving.saturating_sub(1);
        match result {
            Ok(()) => self.check_arrived(out, key),
            Err(errno) => self.give_up(out, key, errno),
        }
    }

    /// Ends a message whose data is complete, if an operation waits for it.
    fn check_arrived(&mut self, out: &mut impl Completions, key: Key) {
        let Some(message) = self.unexpected.get(key).filter(|m| m.is_here()) else {
            return;
        };
        match message.match_state {
            MatchState::Waiting | MatchState::Claimed(_) => self.note_arrival(key),
            MatchState::Matched(_) | MatchState::Update(_) | MatchState::Dropped => {
                self.finish(out, key, Ok(()))
            }
        }
    }

    /// Gives a waiting message to a receive.
    pub(crate) fn assign(&mut self, out: &mut impl Completions, key: Key, placement: RxPlacement) {
        self.unexpected.settle(key, MatchState::Matched(placement));
        self.note_wait(out, WaitEvent::Over, key);
        self.note_match(out, key);
        self.go_on(out, key);
    }

    /// Drops a waiting message.
    pub(crate) fn discard(&mut self, out: &mut impl Completions, key: Key) {
        self.unexpected.settle(key, MatchState::Dropped);
        self.note_wait(out, WaitEvent::Over, key);
        self.note_match(out, key);
        self.go_on(out, key);
    }

    /// Ends a message that was just settled, or fetches its data if it is not here.
    fn go_on(&mut self, out: &mut impl Completions, key: Key) {
        self.retry_stalled = true;
        let Some(message) = self.unexpected.get(key) else {
            return;
        };
        if matches!(message.rx_data, RxData::Remote(_)) {
            self.peers.reply(message.arrival.from, Reply::Begin(key));
        } else if message.is_here() {
            self.finish(out, key, Ok(()));
        }
    }

    /// Ends a message: its data is in place or not to be had.
    pub(crate) fn finish(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        result: Result<(), Errno>,
    ) {
        let Some(message) = self.unexpected.remove(key) else {
            return;
        };
        let arrival = message.arrival;
        self.retry_stalled = true;
        if arrival.class.is_answer() {
            self.peers.lift_fence(arrival.from);
        }
        if let MatchState::Update(pending) = &message.match_state
            && result.is_ok()
        {
            self.carry_out_arrived(out, &arrival, pending, &message.rx_data);
        }
        if let MatchState::Matched(placement) = message.match_state {
            if result.is_ok() {
                message.rx_data.copy_to(&placement);
            }
            match arrival.class {
                Class::Collective => self.collective_placed(&placement, &arrival, result),
                Class::Write if result.is_ok() => {
                    out.accessed(placement.completion(&arrival), &message.targets);
                }
                // That a peer's write was cut short is the peer's affair: no operation of this endpoint failed.
                Class::Write => {}
                _ => self.posted.land(placement, &arrival, result, out),
            }
        }
        if result.is_ok() && arrival.wants_ack() {
            self.acknowledge(out, &arrival);
        }
    }

    /// Ends a message whose data will never be complete.
    pub(crate) fn give_up(&mut self, out: &mut impl Completions, key: Key, why: Errno) {
        self.finish(out, key, Err(why));
        self.retry_stalled = true;
    }

    /// Acknowledges a match right away if that is all that the sender waits for, fi_cq(3)
    /// "FI_MATCH_COMPLETE".
    fn note_match(&mut self, out: &mut impl Completions, key: Key) {
        let Some(message) = self.unexpected.get_mut(key) else {
            return;
        };
        let flags = message.arrival.flags;
        if flags.contains(HeaderFlags::MATCH) && !flags.contains(HeaderFlags::DELIVERY) {
            let arrival = message.arrival;
            message.arrival.flags.remove(HeaderFlags::MATCH);
            self.acknowledge(out, &arrival);
        }
    }

    /// Remembers that a message has arrived although no receive matched it: some links acknowledge that.
    fn note_arrival(&mut self, key: Key) {
        if let Some(message) = self.unexpected.get(key)
            && message.arrival.wants_ack()
            && message.arrival.from != self.me
        {
            self.peers.reply(message.arrival.from, Reply::Arrived(key));
        }
    }

    /// Acknowledges to the sender that its message was placed, or matched.
    fn acknowledge(&mut self, out: &mut impl Completions, arrival: &Arrival) {
        if arrival.from == self.me {
            self.end_loopback(out, arrival.id);
        } else {
            self.peers.reply(arrival.from, Reply::Ack(arrival.id));
        }
    }
}
