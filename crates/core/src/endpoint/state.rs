//! State of an endpoint under its lock: what carries out its operations, its device, and the map from the application's names of peers to their numbers.

use std::sync::Arc;

use oxifabric_abi::{FI_ADDR_UNSPEC, fi_addr_t};
use oxifabric_engine::faults::FaultPlan;
use oxifabric_engine::{AtomicOp, Completions, Config, Failure, RmaOp, RxOp, TxOp};
use oxifabric_mem::Iov;
use oxifabric_provider::connection::THE_PEER;
use oxifabric_provider::device::Device;
use oxifabric_provider::operations::Operations;
use oxifabric_types::{Errno, Flags, PeerId};

use super::call::{RecvCall, SendCall};
use super::connection::Reports;
use super::dispatch::CompletionDispatch;
use super::loop_clock::LoopClock;
use super::memory::Lend;
use super::srx::SharedSources;
use super::watch::Watch;
use crate::av::Av;
use crate::drive::{SleepState, Visit};
use crate::handle::Ref;
use crate::misuse::{self, Call};
use crate::multicast;
use crate::progress::DomainProgress;

/// How often a device is driven and armed anew for the threads that sleep on it, before they are woken.
const ATTEMPTS: u32 = 8;

/// One endpoint's device, and what carries out operations over it.
pub(super) struct EndpointState<D: Device> {
    pub(super) operations: D::Operations,
    pub(super) device: D,
    pub(super) out: CompletionDispatch,
    pub(super) av: Option<Ref<Av>>,
    pub(super) clock: LoopClock,
    /// fi_enable(3) was called: data may be transferred.
    pub(super) enabled: bool,
    /// The device was enabled for a thread that may sleep until it has events.
    pub(super) sleeps: bool,
    /// Number of calls of `progress`: by it a thread that drives the domain's other endpoints sees whether the application drives this one.
    turns: u32,
    /// The turn after which a call returned `AGAIN`.
    refused: u32,
    /// The turn after which the device was armed, and is still.
    armed: u32,
    /// The turn after which a thread went to sleep on a queue of the endpoint.
    slept: u32,
    /// Where events of the connection are reported, if the device has one.
    pub(super) reports: Reports,
    /// Which receives may name their source: `MSG`, `TAGGED` (FI_DIRECTED_RECV, FI_TAGGED_DIRECTED_RECV).
    directed: Flags,
    /// Those receives must name their source (FI_EXACT_DIRECTED_RECV).
    exact: bool,
    /// Peers by their index in the address vector, as far as the application has named them.
    targets: Vec<PeerId>,
    /// Peers of receive contexts of scalable endpoints beside the first, by context and index.
    contexts: Vec<Vec<PeerId>>,
    /// [`Av::removals`] when the peers were looked up.
    seen: u64,
    /// The device holds frames back to coalesce them, and the domain's `progress` counts it among those that do.
    holding: bool,
    pub(super) progress: Arc<DomainProgress>,
    /// Where `oxi top` reads how the endpoint fares.
    pub(super) watch: Option<Box<Watch>>,
}

impl<D: Device> EndpointState<D> {
    /// Joins a device with what carries out operations over it.
    pub(super) fn new(
        device: D,
        config: Config,
        directed: Flags,
        exact: bool,
        progress: Arc<DomainProgress>,
    ) -> Self {
        Self {
            operations: D::Operations::new(config),
            out: CompletionDispatch::new(
                SharedSources::new(directed),
                device.directory().clone(),
                D::explain,
            ),
            device,
            av: None,
            clock: LoopClock::default(),
            enabled: false,
            sleeps: false,
            turns: 0,
            refused: u32::MAX,
            armed: u32::MAX,
            slept: u32::MAX,
            reports: Reports::default(),
            directed,
            exact,
            targets: Vec::new(),
            contexts: Vec::new(),
            seen: 0,
            holding: false,
            progress,
            watch: None,
        }
    }

    /// Enables fault injection, if faults are planned.
    pub(super) fn with_faults(mut self, faults: Option<FaultPlan>) -> Self {
        if let Some(engine) = self.operations.engine_mut() {
            if let Some(plan) = &faults {
                engine.plan_faults(plan);
            }
            if D::CONNECTED {
                engine.include_in_faults(THE_PEER);
                engine.name(THE_PEER);
            }
        }
        self
    }

    /// Starts a send.
    ///
    /// # Errors
    /// `INVAL` for an address that is not in the address vector, `AGAIN`.
    #[inline(always)]
    pub(super) fn send(&mut self, send: &SendCall, body: impl Lend) -> Result<(), Errno> {
        let op = TxOp {
            peer: self.target(send.to, Call::Send(send.flags))?,
            tag: send.tag,
            data: send.data,
            body: body.lend(),
            flags: send.flags,
            context: send.context.addr(),
        };
        let sent = self.operations.send(&mut self.device, &mut self.out, op);
        self.note_posted();
        if sent == Err(Errno::AGAIN) {
            self.make_room();
        }
        sent
    }

    /// Starts a read or write of memory of `peer`; the peer of `op` is filled in.
    ///
    /// # Errors
    /// As [`EndpointState::send`].
    #[inline]
    pub(super) fn access(&mut self, peer: fi_addr_t, mut op: RmaOp<'_>) -> Result<(), Errno> {
        op.peer = self.target(peer, Call::Access(op.flags))?;
        let begun = self.operations.access(&mut self.device, &mut self.out, op);
        self.note_posted();
        if begun == Err(Errno::AGAIN) {
            self.make_room();
        }
        begun
    }

    /// Starts an update of memory of `peer`; the peer of `op` is filled in.
    ///
    /// # Errors
    /// As [`EndpointState::send`].
    pub(super) fn atomic(&mut self, peer: fi_addr_t, mut op: AtomicOp) -> Result<(), Errno> {
        op.peer = self.target(peer, Call::Named("fi_atomic"))?;
        let begun = self.operations.atomic(&mut self.device, &mut self.out, op);
        self.note_posted();
        if begun == Err(Errno::AGAIN) {
            self.make_room();
        }
        begun
    }

    /// Posts a receive. Its source is ignored unless receives may name one.
    ///
    /// # Errors
    /// `INVAL` for an address that is not in the vector, `AGAIN`.
    #[inline(always)]
    pub(super) fn recv(&mut self, recv: &RecvCall, body: impl Lend) -> Result<(), Errno> {
        let op = RxOp {
            from: self.source_of(recv)?,
            tag: recv.tag,
            ignore: recv.ignore,
            body: body.lend(),
            flags: recv.flags,
            context: recv.context.addr(),
        };
        let received = self.operations.recv(&mut self.device, &mut self.out, op);
        if D::CONNECTED && self.reports.ended {
            self.operations
                .cancel_receives(&mut self.device, &mut self.out);
        }
        self.note_posted();
        received
    }

    /// Returns the peer whose messages a receive takes, or [`PeerId::ANY`].
    #[inline(always)]
    fn source_of(&mut self, recv: &RecvCall) -> Result<PeerId, Errno> {
        match recv.from {
            _ if !recv.flags.intersects(self.directed) => Ok(PeerId::ANY),
            FI_ADDR_UNSPEC if self.exact => Err(Errno::INVAL),
            FI_ADDR_UNSPEC => Ok(PeerId::ANY),
            named => self.target(named, Call::Receive(recv.flags)),
        }
    }

    /// Returns whether an unexpected message matches a receive with FI_PEEK or FI_CLAIM.
    pub(super) fn sees(&mut self, recv: &RecvCall) -> bool {
        let Ok(from) = self.source_of(recv) else {
            return false;
        };
        let op = RxOp {
            from,
            tag: recv.tag,
            ignore: recv.ignore,
            body: Iov::empty(),
            flags: recv.flags,
            context: recv.context.addr(),
        };
        let engine = self.operations.engine_mut();
        engine.is_some_and(|engine| engine.sees(&op))
    }

    /// Matches unexpected messages with the receives that were posted to the shared receive context.
    pub(super) fn feed(&mut self) {
        self.operations.feed(&mut self.device, &mut self.out);
        self.note_posted();
    }

    /// Resolves the source that a shared receive names.
    pub(super) fn learn_source(&mut self, name: fi_addr_t) {
        let peer = self.target(name, Call::Receive(Flags::empty())).ok();
        self.out.shared_sources.learn(name, peer);
    }

    /// Reports an operation that failed outside of the engine.
    pub(super) fn report_failure(&mut self, failure: Failure) {
        self.out.fail(failure);
        self.note_posted();
    }

    /// Cancels an operation.
    ///
    /// # Errors
    /// `NOENT` when none has this context.
    pub(super) fn cancel(&mut self, context: usize) -> Result<(), Errno> {
        let cancelled = self
            .operations
            .cancel(&mut self.device, &mut self.out, context);
        self.note_posted();
        cancelled
    }

    /// Drives the endpoint for a caller that retries at once and reads no queue in between: reading one would drive it.
    #[cold]
    fn make_room(&mut self) {
        if self.refused == self.turns {
            self.progress();
        }
        self.refused = self.turns;
    }

    /// Moves what can be moved without waiting; returns how many events there were.
    #[inline(never)]
    pub(super) fn progress(&mut self) -> usize {
        self.turns = self.turns.wrapping_add(1);
        if !self.enabled {
            return 0;
        }
        let now = match self.clock.now() {
            Some(now) => now,
            None => self.look_at_clock(),
        };
        let events = self
            .operations
            .progress(&mut self.device, &mut self.out, now);
        self.note_posted();
        if D::CONNECTED {
            return events + self.report();
        }
        events
    }

    /// Gets ready for sleep on a queue of the endpoint; false when there is something to do instead.
    pub(super) fn sleep(&mut self) -> bool {
        let quiet = self.arm();
        if quiet {
            self.slept = self.turns;
        }
        quiet
    }

    fn arm(&mut self) -> bool {
        self.look_before_sleep();
        // The answer to what progress has just sent may be here already; only a device without events is armed.
        let quiet = self.progress() == 0 && self.sleeps && self.device.arm();
        if quiet {
            self.armed = self.turns;
        }
        quiet
    }

    /// Makes progress for a thread that polls other endpoints, as [`Drive::visit`](crate::drive::Drive::visit).
    pub(super) fn visit(&mut self, turn: &mut u32) -> Visit {
        if self.turns != *turn {
            *turn = self.turns;
            return Visit::Attended;
        }
        if self.out.is_left_unread() {
            return Visit::Quiet;
        }
        let (armed, slept) = (self.armed == self.turns, self.slept == self.turns);
        let events = self.progress();
        if armed && !(0..ATTEMPTS).any(|_| self.arm()) {
            self.out.wake_sleepers();
        } else if slept {
            self.slept = self.turns;
        }
        *turn = self.turns;
        match events {
            1.. => Visit::Moved,
            0 if self.operations.is_sending() => Visit::Waiting,
            0 => Visit::Quiet,
        }
    }

    /// Gets ready for the sleep of a thread that sleeps on other endpoints, as [`Drive::prepare_to_sleep`](crate::drive::Drive::prepare_to_sleep).
    pub(super) fn prepare_to_sleep(&mut self, turn: &mut u32) -> SleepState {
        if self.turns != *turn {
            *turn = self.turns;
            return match self.slept == self.turns {
                true => SleepState::Attended,
                false => SleepState::Driven,
            };
        }
        if self.slept == self.turns || self.out.is_left_unread() {
            return SleepState::Attended;
        }
        let events = self.progress();
        let state = match events {
            1.. => SleepState::Busy,
            0 if !self.sleeps => SleepState::NoDescriptor,
            0 if self.arm() => SleepState::Armed,
            0 => SleepState::Busy,
        };
        *turn = self.turns;
        state
    }

    /// Lets the device and the domain take note of what a call has posted.
    #[inline]
    pub(super) fn note_posted(&mut self) {
        self.device.posted();
        if D::COALESCES && self.device.holds_back() != self.holding {
            self.holding = !self.holding;
            self.progress.hold(self.holding);
        }
    }

    /// Returns the peer that the application names by an `fi_addr_t` of its address vector.
    #[inline]
    pub(super) fn target(&mut self, name: fi_addr_t, call: Call) -> Result<PeerId, Errno> {
        if D::CONNECTED {
            return Ok(THE_PEER);
        }
        let av = self.av.as_ref().ok_or(Errno::NOAV)?;
        if av.removals() == self.seen
            && let Some(&peer) = self.targets.get(name as usize)
            && peer != PeerId::ANY
        {
            return Ok(peer);
        }
        let found = self.look_up(name);
        if let (Err(cause), Some(av)) = (&found, &self.av) {
            misuse::no_peer(
                av.domain().fabric().entry().name,
                call,
                av.named(),
                name,
                *cause,
            );
        }
        found
    }

    /// Asks the address vector for the address and the device for its peer, and remembers the answer.
    #[cold]
    fn look_up(&mut self, name: fi_addr_t) -> Result<PeerId, Errno> {
        if D::DATAGRAM
            && let Some(group) = multicast::group(name)
        {
            return Ok(group);
        }
        let av = self.av.as_ref().ok_or(Errno::NOAV)?;
        let removals = av.removals();
        if removals != self.seen {
            self.seen = removals;
            self.targets.clear();
            self.contexts.clear();
        }
        let (at, context) = av.split(name);
        let at = at as usize;
        if context != 0
            && let Some(&peer) = self.contexts.get(context).and_then(|peers| peers.get(at))
            && peer != PeerId::ANY
        {
            return Ok(peer);
        }
        let peer = self.device.peer(&av.destination(name)?)?;
        if av.is_behind_firewall(at as fi_addr_t) {
            self.device.set_firewalled(peer);
        }
        if let Some(engine) = self.operations.engine_mut() {
            engine.include_in_faults(peer);
            engine.name(peer);
        }
        if self.contexts.len() <= context {
            self.contexts.resize_with(context + 1, Vec::new);
        }
        let targets = match context {
            0 => &mut self.targets,
            context => &mut self.contexts[context],
        };
        // The vector has this index, so the table is no longer than the vector.
        if targets.len() <= at {
            targets.resize(at + 1, PeerId::ANY);
        }
        targets[at] = peer;
        Ok(peer)
    }
}

impl<D: Device> Drop for EndpointState<D> {
    fn drop(&mut self) {
        if self.holding {
            self.progress.hold(false);
        }
    }
}
