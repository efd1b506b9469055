//! Sending: operations become frames, in order, as fast as the link takes them.
//!
//! The hot path is [`Engine::send_now`]: a message that fits one frame, with nothing before it, is handed to
//! the link and completed without touching a table. Any other send becomes a [`Transmit`].

use oxifabric_types::{Errno, Flags, PeerId};

use crate::engine::Engine;
use crate::faults::FaultInjector;
use crate::peer::{Next, Reply, TxBlock};
use crate::rma::is_only_by_frames;
use crate::rndv::{answer, bare};
use crate::slab::Key;
use crate::transmit::{self, Stage, Transmit};
use crate::{
    Completions, Frame, HeaderFlags, Kind, Limits, Link, Placement, PostError, Posted, TxOp,
    TxToken,
};

/// Result of posting one frame, or of beginning a pull.
pub(crate) enum Step {
    /// It was taken, and the send has more of them.
    More,
    /// The send has no more frames.
    Last,
    /// The link takes nothing now.
    Blocked,
}

/// Result of [`Engine::send_now`].
pub(crate) enum Sent {
    /// The message is sent and completed.
    Over,
    /// The link has it; something is to follow until it is complete.
    Posted(Posted),
    /// The link takes nothing now.
    Blocked,
    /// The peer is gone.
    Failed(Errno),
}

impl Engine {
    /// Sends a message that fits one frame; returns what is to be done if that did not end it.
    #[inline(always)]
    pub(crate) fn send_now(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: &TxOp,
        key: Key,
    ) -> Sent {
        let mut header = transmit::frames::header(op);
        let unacked = transmit::wants_ack(op.flags);
        if unacked {
            header.id = key.raw();
        }
        let frame = Frame {
            header,
            body: &op.body,
            offset: 0,
            len: op.body.len(),
            targets: &[],
            transient: op.flags.contains(Flags::INJECT),
            transmit_complete: op.flags.contains(Flags::TRANSMIT_COMPLETE),
            more: op.flags.contains(Flags::MORE),
        };
        match link.post(op.peer, frame, TxToken(key.raw())) {
            Ok(Posted::Done) if !unacked => {
                let (buf, len) = (op.body.base() as usize, op.body.len() as u64);
                out.complete(transmit::completion(op.flags, op.context, buf, len));
                Sent::Over
            }
            Ok(posted) => Sent::Posted(posted),
            Err(PostError::Again) => Sent::Blocked,
            Err(PostError::Down(errno)) => Sent::Failed(errno),
        }
    }

    /// Goes on with a send that [`Engine::send_now`] did not end.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    #[inline(never)]
    pub(crate) fn after_send(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: TxOp,
        key: Key,
        sent: Sent,
    ) -> Result<(), Errno> {
        match sent {
            Sent::Over => {}
            Sent::Posted(posted) => self.remember(Transmit::new(op, key), posted),
            Sent::Blocked => {
                self.peers.block(op.peer);
                self.submit(link, out, op, key)?;
            }
            Sent::Failed(errno) => {
                let mut transmit = Transmit::new(op, key);
                transmit.failure = Some(errno);
                transmit.report(out);
            }
        }
        self.resume_stalled(link);
        Ok(())
    }

    /// Keeps a send that is with the link, or with the peer, for its completion.
    #[inline(always)]
    pub(crate) fn remember(&mut self, mut transmit: Transmit, posted: Posted) {
        transmit.stage = Stage::Sent;
        transmit.pending = u32::from(posted == Posted::Pending);
        transmit.borrowed = false;
        self.retry_stalled |= transmit.unacked;
        // The key is the vacant one, so there is room for it.
        let _ = self.sends.insert(transmit);
    }

    /// Takes a send in, posts as much of it as the link takes, and keeps the rest.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] when an inject body has to be copied and there is no memory for it.
    pub(crate) fn submit(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: TxOp,
        key: Key,
    ) -> Result<(), Errno> {
        match self.announce_message(link, out, op, key) {
            Ok(()) => Ok(()),
            Err(op) => self.start(link, out, Transmit::new(op, key), key),
        }
    }

    /// Posts as much of a new operation as the link takes, and keeps the rest. An inject operation leaves at once or is not
    /// started, since its caller has no completion to wait for and may never poll again.
    ///
    /// # Errors
    /// As [`Engine::submit`]; [`Errno::AGAIN`] for an inject operation to a peer whose link takes nothing now.
    pub(crate) fn start(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        mut transmit: Transmit,
        key: Key,
    ) -> Result<(), Errno> {
        let (peer, injected) = (transmit.peer, transmit.borrowed);
        if let Some(why) = self.peers.take_failure(peer)
            && injected
        {
            transmit.failure = Some(why);
            transmit.report(out);
            return Ok(());
        }
        let is_next = self.peers.is_clear(peer) && !transmit.is_fenced();
        if is_next && self.post_first(link, &mut transmit, key) {
            self.retry_stalled = true;
            // The key is the vacant one, so there is room for it.
            let _ = self.sends.insert(transmit);
            self.check_sent(out, key);
            return Ok(());
        }
        if injected {
            if self.peers.turns_away(peer) {
                return Err(Errno::AGAIN);
            }
            transmit.own_body()?;
        }
        if self.sends.insert(transmit).is_none() {
            return Err(Errno::AGAIN);
        }
        self.peers.queue(peer, key);
        self.advance(link, out, peer);
        if injected && self.is_whole(key) && self.peers.turns_away(peer) {
            self.peers.withdraw(peer, key);
            self.sends.remove(key);
            return Err(Errno::AGAIN);
        }
        match self.sends.get_mut(key).map(Transmit::keep_body) {
            Some(Err(errno)) => {
                self.sends.remove(key);
                Err(errno)
            }
            _ => Ok(()),
        }
    }

    /// Posts the first frame of an operation, with nothing before it, if no segments follow. Returns whether the link has dealt with
    /// it; if not, `transmit` is as before.
    fn post_first(&mut self, link: &mut impl Link, transmit: &mut Transmit, key: Key) -> bool {
        let (peer, limits) = (transmit.peer, limits_of(link, transmit));
        let (frame, next) = match transmit.frame(&limits) {
            Some((frame, Stage::Sent)) => (frame, Stage::Sent),
            Some((frame, Stage::RtsSent)) if !frame.transient => (frame, Stage::RtsSent),
            _ => return false,
        };
        match link.post(peer, frame, TxToken(key.raw())) {
            Ok(posted) => {
                transmit.pending = u32::from(posted == Posted::Pending);
                transmit.stage = next;
                transmit.note_posted(&limits);
            }
            Err(PostError::Again) => {
                self.peers.block(peer);
                return false;
            }
            Err(PostError::Down(errno)) => {
                transmit.failure = Some(errno);
                transmit.stage = Stage::Sent;
                transmit.unacked = false;
            }
        }
        transmit.borrowed = false;
        true
    }

    /// Returns whether nothing of a send has been posted.
    fn is_whole(&self, key: Key) -> bool {
        let send = self.sends.get(key);
        send.is_some_and(|send| send.stage == Stage::Queued)
    }

    /// Sends what waits for a peer until the link is blocked: answers first; then the messages, in order, and
    /// data that the peer asked for take turns.
    pub(crate) fn advance(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        peer: PeerId,
    ) {
        self.decide_acks(link, peer);
        while let Some(row) = self.peers.get_mut(peer) {
            if row.tx_block.intersects(TxBlock::HOLDS_FRAMES)
                && !FaultInjector::admits(&mut self.fault_injector, row, link, out, peer)
            {
                return;
            }
            let Some(next) = row.next() else {
                row.note_drained();
                return;
            };
            let step = match next {
                Next::Reply(reply) => self.post_reply(link, out, peer, reply),
                Next::Message(key) if self.meets_fence(link, peer, key) => continue,
                Next::Message(key) | Next::Bulk(key) => self.post_frame(link, out, key),
            };
            let Some(row) = self.peers.get_mut(peer) else {
                return;
            };
            match step {
                Step::More => row.posted(next, false),
                Step::Last => row.posted(next, true),
                Step::Blocked => row.tx_block.insert(TxBlock::BLOCKED),
            }
        }
    }

    /// Posts an answer.
    fn post_reply(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        peer: PeerId,
        reply: Reply,
    ) -> Step {
        let header = match reply {
            Reply::Begin(key) => return self.begin(link, out, key),
            Reply::Arrived(_) => return Step::Last,
            Reply::Ack(id) => answer(Kind::Ack, id, 0),
            Reply::Fin(id, result) => {
                let errno = result.err().map_or(0, |errno| errno.raw() as u64);
                answer(Kind::Fin, id, errno)
            }
        };
        self.retry_stalled = true;
        match link.post(peer, bare(header), TxToken(Key::NONE.raw())) {
            Err(PostError::Again) => Step::Blocked,
            // A peer that is down needs no answer; its link reports it.
            Ok(_) | Err(PostError::Down(_)) => Step::Last,
        }
    }

    /// Posts the next frame of a send.
    fn post_frame<L: Link>(&mut self, link: &mut L, out: &mut impl Completions, key: Key) -> Step {
        let Some(transmit) = self.sends.get_mut(key) else {
            return Step::Last;
        };
        let limits = limits_of(link, transmit);
        let Some((mut frame, next)) = transmit.frame(&limits) else {
            return Step::Last;
        };
        if let Some(access) = transmit.as_single_access(next)
            && link.carry_out(&access)
        {
            self.end_carried_out(out, key);
            return Step::Last;
        }
        frame.transmit_complete |= !L::IN_ORDER && transmit.waits_for_part(next);
        match link.post(transmit.peer, frame, TxToken(key.raw())) {
            Ok(posted) => {
                if transmit.stage == Stage::Queued {
                    transmit.note_posted(&limits);
                }
                transmit.stage = next;
                transmit.pending += u32::from(posted == Posted::Pending);
                let is_paused = transmit.awaits_window();
                self.retry_stalled = true;
                self.check_sent(out, key);
                if is_paused {
                    return Step::Last;
                }
            }
            Err(PostError::Again) => return Step::Blocked,
            Err(PostError::Down(errno)) => {
                self.fail_send(out, key, errno);
                return Step::Last;
            }
        }
        match next {
            Stage::Sending(_) => Step::More,
            _ => Step::Last,
        }
    }

    /// Ends an access that waited for its peer and that the link has carried out by itself.
    fn end_carried_out(&mut self, out: &mut impl Completions, key: Key) {
        if let Some(transmit) = self.sends.get_mut(key) {
            transmit.stage = Stage::Sent;
            transmit.unacked = false;
        }
        self.retry_stalled = true;
        self.check_sent(out, key);
    }

    /// Handles the end of a frame whose memory the link no longer needs.
    pub(crate) fn frame_sent(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        result: Result<(), Errno>,
    ) {
        let Some(transmit) = self.sends.get_mut(key) else {
            return;
        };
        transmit.pending = transmit.pending.saturating_sub(1);
        match result {
            Ok(()) => self.check_sent(out, key),
            Err(errno) => self.fail_send(out, key, errno),
        }
    }

    /// Handles a Cts: the peer asks for the data that an Rts announced, or for more of it.
    pub(crate) fn asked(&mut self, from: PeerId, id: u32, window: u64) -> Placement {
        let key = Key::from_raw(id);
        match self.sends.get_mut(key).filter(|send| send.peer == from) {
            Some(send) if send.stage == Stage::RtsSent => {
                send.begin_data(window);
                self.peers.queue_bulk(from, key);
                Placement::Done
            }
            Some(send) => {
                let was_paused = send.awaits_window();
                if !send.widen(window) {
                    return Placement::Refuse;
                }
                if was_paused {
                    self.peers.queue_bulk(from, key);
                }
                Placement::Done
            }
            _ => Placement::Refuse,
        }
    }

    /// Handles an acknowledgement: the peer placed or matched a message. One with an unknown id is late or forged, and is
    /// ignored.
    pub(crate) fn acked(&mut self, out: &mut impl Completions, from: PeerId, id: u32) -> Placement {
        let key = Key::from_raw(id);
        match self.sends.get_mut(key).filter(|send| send.peer == from) {
            Some(send) if send.awaits_ack() => {
                send.unacked = false;
                self.check_sent(out, key);
                Placement::Done
            }
            Some(_) => Placement::Refuse,
            None => Placement::Done,
        }
    }

    /// Handles a Fin: the peer pulled the data that an Rts announced, failed to, or does not want it.
    pub(crate) fn finished(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        id: u32,
        result: Result<(), Errno>,
    ) -> Placement {
        let key = Key::from_raw(id);
        match self.sends.get_mut(key).filter(|send| send.peer == from) {
            Some(send) if send.stage == Stage::RtsSent || is_refused(send, result) => {
                send.failure = result.err();
                send.stage = Stage::Sent;
                send.unacked = false;
                self.check_sent(out, key);
                Placement::Done
            }
            Some(_) => Placement::Refuse,
            None => Placement::Done,
        }
    }

    /// Fails a send as soon as the link has let go of it.
    pub(crate) fn fail_send(&mut self, out: &mut impl Completions, key: Key, why: Errno) {
        if let Some(send) = self.sends.get_mut(key) {
            send.failure.get_or_insert(why);
            send.stage = Stage::Sent;
            send.unacked = false;
            self.check_sent(out, key);
        }
    }

    /// Completes a send to which nothing more will happen.
    pub(crate) fn check_sent(&mut self, out: &mut impl Completions, key: Key) {
        let Some(transmit) = self.sends.get(key).filter(|transmit| transmit.is_over()) else {
            return;
        };
        let (peer, is_response) = (transmit.peer, transmit.is_response());
        self.peers.lift_fence(peer);
        match transmit.active_collective() {
            None => {
                transmit.report(out);
                // It is dropped where it lies.
                if let Some(entry) = self.sends.entry(key) {
                    entry.discard(false);
                }
            }
            Some(active) => {
                if let Some(transmit) = self.sends.remove(key) {
                    self.collective_sent(active, &transmit);
                }
            }
        }
        if is_response {
            self.responded(peer);
        }
    }

    /// Cancels a send of which nothing was handed to the link.
    pub(crate) fn cancel_send(
        &mut self,
        out: &mut impl Completions,
        context: usize,
    ) -> Result<(), Errno> {
        let queued = |send: &Transmit| {
            send.stage == Stage::Queued && send.context() == context && !send.is_internal()
        };
        let found = self.sends.iter().find(|(_, send)| queued(send));
        let (key, _) = found.ok_or(Errno::NOENT)?;
        self.fail_send(out, key, Errno::CANCELED);
        Ok(())
    }

    /// Returns whether a send waits for an answer of that peer.
    pub(crate) fn awaits_answer_of(&self, peer: PeerId) -> bool {
        let awaits = |send: &Transmit| send.peer == peer && send.awaits_answer();
        self.sends.iter().any(|(_, send)| awaits(send))
    }

    /// Settles which messages that merely arrived are acknowledged: all or none, as the link says. This
    /// happens before anything else can match them, so none is acknowledged twice.
    fn decide_acks(&mut self, link: &mut impl Link, peer: PeerId) {
        let Some(row) = self.peers.get_mut(peer).filter(|row| row.undecided) else {
            return;
        };
        row.undecided = false;
        let on_arrival = link.limits(peer).ack_on_arrival;
        let unexpected = &mut self.unexpected;
        row.waiting_mut().replies.retain_mut(|reply| {
            let Reply::Arrived(key) = *reply else {
                return true;
            };
            let Some(message) = unexpected.get_mut(key).filter(|_| on_arrival) else {
                return false;
            };
            message.arrival.flags &= HeaderFlags::DATA;
            *reply = Reply::Ack(message.arrival.id);
            true
        });
    }
}

/// Returns what the path to the peer of a send takes of it.
#[inline(always)]
fn limits_of<L: Link>(link: &L, transmit: &Transmit) -> Limits {
    let limits = *link.limits(transmit.peer);
    match L::CUTS_MESSAGES && matches!(transmit.header.kind, Kind::Msg | Kind::Tagged) {
        true => Limits {
            eager: limits.longest_whole::<L>(),
            ..limits
        },
        false if transmit.header.kind == Kind::Write => Limits {
            eager: longest_write(link, &limits, transmit),
            ..limits
        },
        false => limits,
    }
}

/// Returns the longest such write that goes in one frame.
#[inline(always)]
fn longest_write(link: &impl Link, limits: &Limits, transmit: &Transmit) -> usize {
    match is_only_by_frames(transmit.flags, &transmit.targets) {
        true => limits.eager,
        false => link.eager_write(limits),
    }
}

/// Returns whether `Fin` ends an operation without an Rts: the peer refuses the access to its memory.
fn is_refused(send: &Transmit, result: Result<(), Errno>) -> bool {
    result.is_err() && send.unacked && send.flags.intersects(Flags::RMA | Flags::ATOMIC)
}
