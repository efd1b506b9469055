//! The device as the link under an engine.

use oxifabric_engine::{
    Frame, Kind, Limits, Link, OneSided, PostError, Posted, RemoteIov, RemoteWrite, RxToken, Sink,
    TxToken,
};
use oxifabric_ibv::{Completion, Opcode, Poll, Poller, Received, Status};
use oxifabric_mem::Iov;
use oxifabric_provider::log;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::efa::{HEADER_MAX, RESPONSE_HEADER};

use super::{EfaRdm, reach};
use crate::params::Params;
use crate::post::{RECEIVE, wire_data};

/// Bytes of the packets of devices that there are.
const DEVICE_MTU: usize = 8928;

/// How many completions are taken in one poll: other endpoints have a turn then.
const TAKEN_MAX: usize = 128;

/// How many completions are kept for the next poll at most, when a thread goes to sleep.
const KEPT_MAX: usize = 16;

/// The share of the buffers that one message takes at most.
const MEDIUM_SHARE: usize = 4;

/// Returns what packets of this length can carry, with a device that reads what peers announce, and carries out these accesses. Messages that peers
/// read are not sent in several packets.
pub(super) fn limits(mtu: usize, sends: usize, pull: bool, one_sided: OneSided) -> Limits {
    let eager = mtu.saturating_sub(HEADER_MAX);
    let (medium, min_read) = (Params::read().max_medium, Params::read().min_read_message);
    let segmented = match one_sided.contains(OneSided::READ) {
        true => medium.min(min_read.saturating_sub(1)),
        false => medium,
    };
    // A message in several packets takes all their buffers at once, and is to leave some.
    let segmented = segmented.min(eager.saturating_mul(sends / MEDIUM_SHARE));
    Limits {
        eager,
        segmented: segmented.max(eager),
        segmented_rma: false,
        segment: eager,
        rndv_msg: true,
        rndv_tagged: true,
        rndv_rma: true,
        pull,
        ack_on_arrival: false,
        one_sided,
    }
}

impl Link for EfaRdm {
    const IN_ORDER: bool = false;
    const CUTS_MESSAGES: bool = true;
    /// The C library sends 8,776 bytes, and asks for as many: what a packet takes.
    const LONGEST_ATOMIC: usize = DEVICE_MTU - RESPONSE_HEADER;

    #[inline]
    fn limits(&self, peer: PeerId) -> &Limits {
        let ways = self.peers.get(peer).map_or(0, |row| row.ways);
        &self.limits[ways % reach::WAYS]
    }

    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        self.check(peer)?;
        if matches!(frame.header.kind, Kind::Write | Kind::WriteRts | Kind::Read) {
            self.ask_for_handshake(peer)?;
            if self.limits(peer).carries_out(&frame.header) {
                return self.begin_access(peer, &frame, token);
            }
        }
        let is_message = matches!(frame.header.kind, Kind::Msg | Kind::Tagged);
        if is_message && frame.len > self.part_max() {
            return match self.send_medium(peer, &frame, token) {
                Ok(posted) => Ok(posted),
                Err(Errno::AGAIN) => Err(self.block(peer)),
                Err(errno) => Err(PostError::Down(errno)),
            };
        }
        let may_fail = self.reach.fails_not_ready && is_message;
        // A message that is sent when a write has completed must not overtake it: the target's device has the write first.
        let is_write = match frame.header.kind {
            Kind::Write => !frame.transient,
            Kind::Segment => self.is_of_write(peer, frame.header.id),
            _ => false,
        };
        let awaits = frame.transmit_complete || may_fail || is_write;
        match self.send_frame(peer, &frame, awaits.then_some(token)) {
            Ok(true) if awaits => Ok(Posted::Pending),
            Ok(_) => Ok(Posted::Done),
            Err(Errno::AGAIN) => Err(self.block(peer)),
            Err(errno) => Err(PostError::Down(errno)),
        }
    }

    fn settles(&mut self, peer: PeerId) -> bool {
        self.is_settled(peer)
    }

    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        self.check(peer)?;
        self.begin_pull(peer, remote, into, token)
    }

    fn flush(&mut self) {}

    #[inline(always)]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.now = now;
        let is_idle = self.idle_period.lasts(now);
        debug_assert!(
            !is_idle || self.has_nothing_to_do(),
            "an idle period was not ended"
        );
        let mut events = 0;
        if !is_idle {
            self.forget_departed(sink);
            events += self.tell_deferred(sink);
            events += self.attend(sink);
            events += self.take_polled(sink);
        }
        let count = self.take_completions(sink, &mut events);
        if is_idle && count == 0 {
            return 0;
        }
        // What completions put off has ended the idle period.
        if self.idle_period.lasts(now) {
            self.is_quiet &= events == 0;
            self.post_receives();
            return events;
        }
        self.end_poll(events, sink)
    }

    fn resume(&mut self, peer: PeerId) {
        if self.peers.get(peer).is_some_and(|row| row.is_stalled) {
            self.hold(peer, |row| row.is_stalled = false);
            self.attention.push(peer);
            self.idle_period.end();
        }
    }

    fn disconnect(&mut self, peer: PeerId, why: &'static str) -> bool {
        let row = self.peers.get(peer);
        let has_met = row.is_some_and(|row| row.has_met && row.gone.is_none());
        if has_met {
            self.doom(peer, Errno::CONNRESET, why.to_owned());
            self.idle_period.end();
        }
        has_met
    }
}

impl EfaRdm {
    /// Does what a poll does when the queue was looked at; returns how much has happened, with the `events` of the poll until now.
    #[inline(always)]
    fn end_poll(&mut self, mut events: usize, sink: &mut impl Sink) -> usize {
        events += self.repeat(sink);
        self.go_on_with_accesses();
        self.is_quiet &= events == 0;
        self.look(sink);
        events += self.end_doomed(sink);
        self.post_receives();
        self.unblock(sink);
        match self.has_nothing_to_do() {
            true => self.idle_period.begin(self.look_at),
            false => self.idle_period.end(),
        }
        events
    }

    /// Returns the accesses that the device carries out with a peer.
    pub(super) fn ways(&self, peer: PeerId) -> OneSided {
        self.limits(peer).one_sided
    }

    /// Checks that something may be posted to a peer now.
    fn check(&mut self, peer: PeerId) -> Result<(), PostError> {
        let row = self.peers.get(peer).ok_or(PostError::Down(Errno::INVAL))?;
        if let Some(errno) = row.gone {
            return Err(PostError::Down(errno));
        }
        let is_doomed = row.is_doomed;
        self.is_quiet = false;
        match is_doomed || self.waiting.keeps_from(peer) || !self.may_post() {
            true => Err(self.block(peer)),
            false => Ok(()),
        }
    }

    /// Returns whether there is a buffer for what the engine posts.
    pub(super) fn may_post(&self) -> bool {
        self.accesses.leaves_room(self.tx.room())
    }

    /// Notes that the engine waits to post to a peer.
    pub(super) fn block(&mut self, peer: PeerId) -> PostError {
        if let Some(row) = self.peers.get_mut(peer)
            && !row.is_blocked
        {
            row.is_blocked = true;
            self.idle_period.end();
            // A thread may sleep already, and knows of nothing that waits for the end of the turn.
            if let Some(end) = self.waiting.push(peer) {
                self.wait.set_by(end);
            }
        }
        PostError::Again
    }

    /// Lets the engine post again, if there is room: to the peers that wait, in turn.
    #[inline(always)]
    fn unblock(&mut self, sink: &mut impl Sink) {
        if !self.waiting.is_empty() {
            self.unblock_some(sink);
        }
    }

    #[inline(never)]
    fn unblock_some(&mut self, sink: &mut impl Sink) {
        self.waiting.begin(self.now, self.tx.room());
        while self.may_post()
            && let Some(peer) = self.waiting.next(self.tx.room())
        {
            self.admit(peer, sink);
        }
    }

    /// Lets the engine post to a peer again; one that is to be given up stays blocked until that is done.
    fn admit(&mut self, peer: PeerId, sink: &mut impl Sink) {
        if let Some(row) = self.peers.get_mut(peer)
            && row.is_blocked
            && !row.is_doomed
        {
            row.is_blocked = false;
            sink.writable(peer);
        }
    }

    /// Handles completions that were taken off the queue before a thread went to sleep; returns how much has happened.
    #[inline(always)]
    fn take_polled(&mut self, sink: &mut impl Sink) -> usize {
        match self.polled.is_empty() {
            true => 0,
            false => self.take_all_polled(sink),
        }
    }

    #[inline(never)]
    fn take_all_polled(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        for completion in std::mem::take(&mut self.polled) {
            events += usize::from(self.complete(&completion, sink));
        }
        events
    }

    /// Takes completions off the queue and handles them; counts what has happened, and returns how many there were.
    #[inline(always)]
    fn take_completions(&mut self, sink: &mut impl Sink, events: &mut usize) -> usize {
        let mut taken = 0;
        // The poller is taken out, since what it finds is read while everything else may change.
        let mut poller = self.poller.take();
        if let Some(mut poll) = poller.as_mut().and_then(Poller::begin) {
            loop {
                *events += usize::from(self.complete_current(&poll, sink));
                taken += 1;
                if taken == TAKEN_MAX || !poll.step() {
                    break;
                }
            }
        }
        self.poller = poller;
        taken
    }

    /// Takes completions off the queue and keeps them for the next poll: some of them at most.
    pub(super) fn fill(&mut self) {
        if let Some(mut poll) = self.poller.as_mut().and_then(Poller::begin) {
            loop {
                self.polled.push(poll.completion());
                if self.polled.len() >= KEPT_MAX || !poll.step() {
                    break;
                }
            }
        }
        self.idle_period.end();
    }

    /// Handles the completion that the poll is at; returns whether anything has happened.
    #[inline(always)]
    fn complete_current(&mut self, poll: &Poll<'_>, sink: &mut impl Sink) -> bool {
        let (wr_id, status) = poll.ended();
        // Of what this side has sent nothing else has to be read.
        if wr_id & RECEIVE == 0 && status == Status::SUCCESS && !poll.is_unsolicited() {
            self.sent_well(wr_id, sink);
            return true;
        }
        if wr_id & RECEIVE != 0
            && let Some(message) = poll.received()
        {
            self.end_receive(wr_id, Some(message), sink);
            return true;
        }
        self.complete_other(poll, sink)
    }

    #[inline(never)]
    fn complete_other(&mut self, poll: &Poll<'_>, sink: &mut impl Sink) -> bool {
        self.complete(&poll.completion(), sink)
    }

    /// Handles a completion; returns whether anything has happened: a send that its receiver was not ready for has not.
    fn complete(&mut self, completion: &Completion, sink: &mut impl Sink) -> bool {
        let is_good = completion.status == Status::SUCCESS;
        if is_good && completion.opcode == Opcode::RecvRdmaWithImm {
            self.written(completion, sink);
        }
        if completion.is_unsolicited {
            return true;
        }
        if completion.wr_id & RECEIVE == 0 {
            return self.sent(completion, sink);
        }
        self.end_receive(completion.wr_id, completion.received(), sink);
        true
    }

    /// Handles the end of a receive, into which a message came or none.
    #[inline(always)]
    fn end_receive(&mut self, wr_id: u64, message: Option<Received>, sink: &mut impl Sink) {
        let Some(at) = self.rx.as_mut().and_then(|rx| rx.ended(wr_id)) else {
            return;
        };
        if let Some(message) = message
            && !self.is_closing
        {
            self.received(message, at, sink);
        }
        if let Some(rx) = &mut self.rx {
            rx.release(at);
        }
    }

    /// Reports what a peer's device has written.
    fn written(&mut self, completion: &Completion, sink: &mut impl Sink) {
        let peer = self.peers.writer(completion);
        let Some(row) = peer.and_then(|peer| self.peers.get(peer)) else {
            log::debug!(
                "efa",
                EpData,
                "the completion data of a write was dropped, whose source is not known"
            );
            return;
        };
        if let (Some(peer), None, false) = (peer, row.gone, row.is_doomed) {
            let data = completion.imm_data.map_or(0, |data| wire_data(data.into()));
            let write = RemoteWrite {
                data: data.into(),
                len: completion.byte_len.into(),
                key: 0,
            };
            sink.written(peer, write);
        }
    }
}
