//! Where the results of an endpoint's operations go: queues and counters, with the application's name of the source.
//!
//! Path class: hot. What needs the device (the address of an unknown source, the reason of a failure) waits while the
//! engine runs, with everything after it, and is settled right afterwards: so entries keep their order.

mod counters;
pub(crate) mod guard;

use core::{mem, ptr};
use std::ffi::CString;
use std::sync::Arc;

use oxifabric_abi::fid_cntr;
use oxifabric_engine::{
    Completion, Completions, Failure, GroupId, PIECE, RxOp, Target, WaitEvent, Waiting,
};
use oxifabric_mem::{Iov, IovSegment, MAX_SEGMENTS};
use oxifabric_provider::device::Device;
use oxifabric_types::{Address, Errno, FiAddr, Flags, PeerId};

use self::counters::{AccessCounters, ResultCounter, Side};
use self::guard::Guard;
use super::joins::Joins;
use super::profile::events::Watchers;
use super::srx::{Found, SharedSources, Srx};
use crate::atomic;
use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::NO_SOURCE;
use crate::domain::Domain;
use crate::eq::Eq;
use crate::handle::Ref;
use crate::info::address_to_c;
use crate::mr::persistent::write_back;
use crate::progress::DomainProgress;
use crate::work::InFlight;

/// What this endpoint began itself; other results are arrivals.
const OWN: Flags = Flags::SEND
    .union(Flags::READ)
    .union(Flags::WRITE)
    .union(Flags::COLLECTIVE);

/// Accesses to memory, which have counters of their own: reads, writes and atomics. Collectives count as the atomics that
/// they are made of, fi_collective(3).
const ACCESS: Flags = Flags::RMA.union(Flags::ATOMIC).union(Flags::COLLECTIVE);

/// Results that are not simply those of a message.
const ELSEWHERE: Flags = ACCESS.union(SEPARATE);

/// Results whose context is not the application's.
const SEPARATE: Flags = Flags::DEFERRED.union(PIECE);

/// The dispatcher of the results of one endpoint's operations.
#[derive(Default)]
pub(super) struct CompletionDispatch {
    tx: Side,
    rx: Side,
    accesses: AccessCounters,
    /// The domain's progress, which knows the deferred work that results are of.
    pub(super) progress: Option<Arc<DomainProgress>>,
    /// The domain whose registered memory peers may access, if the endpoint has FI_RMA or FI_ATOMIC.
    pub(super) domain: Option<Ref<Domain>>,
    /// Where messages look for receives, if the endpoint shares them.
    pub(super) shared: Option<Ref<Srx>>,
    /// Peers that those receives name as their source.
    pub(super) shared_sources: SharedSources,
    /// Names of sources, if the endpoint gives them (FI_SOURCE).
    sources: Option<Sources>,
    /// The address vector: peers that the application has named.
    pub(super) vector: Option<Ref<Av>>,
    /// Results that wait until the device is free.
    unsettled: Vec<Unsettled>,
    /// Whose memory only known peers may access, in place of `domain`.
    pub(super) guard: Option<Box<Guard>>,
    /// Peers that are gone and left messages behind.
    gone: Vec<PeerId>,
    /// Fault injection has refused a post.
    refused: bool,
    joins: Joins,
    /// How many operations failed, other than by fi_cancel(3).
    pub(super) failures: u64,
    /// Everything is counted, for `oxi top`.
    watched: bool,
    /// Calls of the application about messages that wait for a receive (fi_profile(3)).
    pub(super) watchers: Watchers,
}

/// A result that waits until the device is free.
enum Unsettled {
    Done(Completion),
    Failed(Failure),
    /// Whether the peer may access memory.
    Asked(PeerId),
    /// The peer is gone, and messages of it are here.
    Left(PeerId),
    /// Threads that sleep are to drive the endpoint: fault injection has a post wait for that.
    Refused,
}

/// Names of sources by peer, as far as they were asked for.
struct Sources {
    av: Ref<Av>,
    /// [`Av::changes`] when the names were looked up.
    seen: u64,
    names: Vec<FiAddr>,
    /// A message from an unknown peer is an error that gives its address (FI_SOURCE_ERR).
    report_unknown: bool,
}

/// A source that was not looked up yet; no index is as large.
const UNKNOWN: FiAddr = FiAddr(u64::MAX - 1);

impl Completions for CompletionDispatch {
    #[inline(always)]
    fn complete(&mut self, completion: Completion) {
        if !completion.wanted && !self.is_counted(completion.flags) {
            return;
        }
        // Copies for the cold paths, so that nothing keeps the completion in memory.
        if !self.unsettled.is_empty() {
            return self.settle_later(&{ completion });
        }
        match self.source(&completion) {
            UNKNOWN => self.settle_later(&{ completion }),
            source => self.route(&completion, source),
        }
    }

    #[cold]
    fn fail(&mut self, failure: Failure) {
        if failure.errno != Errno::CANCELED {
            self.failures += 1;
        }
        self.unsettled.push(Unsettled::Failed(failure));
    }

    #[cold]
    fn peer_left_messages(&mut self, peer: PeerId) {
        self.unsettled.push(Unsettled::Left(peer));
    }

    #[cold]
    fn post_refused(&mut self) {
        self.unsettled.push(Unsettled::Refused);
    }

    fn is_known(&self, address: &Address) -> bool {
        let known = |av: &Ref<Av>| av.source(address).is_some();
        self.vector.as_ref().is_some_and(known)
    }

    #[cold]
    fn forgotten(&mut self, peer: PeerId) {
        if let Some(sources) = &mut self.sources
            && let Some(name) = sources.names.get_mut(peer.index())
        {
            *name = UNKNOWN;
        }
        if let Some(guard) = &mut self.guard {
            guard.forget(peer);
        }
    }

    fn exclusively(&self, update: impl FnOnce()) {
        atomic::exclusively(update);
    }

    #[inline]
    fn watches_waiting(&self) -> bool {
        !self.watchers.is_empty()
    }

    #[cold]
    fn waiting(&mut self, event: WaitEvent, message: &Waiting, count: usize) {
        self.call_watchers(event, message, count);
    }

    #[cold]
    fn joined(&mut self, handle: usize, group: GroupId, result: Result<(), Errno>) {
        self.joins.end(handle, group, result);
    }

    fn shared_receive(&mut self, class: Flags, tag: u64, from: PeerId, len: usize) -> Option<RxOp> {
        loop {
            let sources = &self.shared_sources;
            let accepts = |name| sources.accept(class, from, name);
            match self.shared.as_ref()?.take(class, tag, len, accepts) {
                Found::Receive(op) => return Some(op),
                Found::Released(buffer) => self.complete(buffer),
                Found::Nothing => return None,
            }
        }
    }

    #[inline]
    fn accessed(&mut self, access: Completion, targets: &[Target]) {
        match &self.domain {
            Some(domain) if domain.rma_targets().is_watched() => {
                write_back(domain, &access, targets);
                count_regions(domain, &access, targets);
            }
            Some(_) => {}
            None => self.accessed_guarded(&access, targets),
        }
        self.complete(access);
    }

    fn guarded_region(
        &mut self,
        from: PeerId,
        targets: &[Target],
        access: Flags,
    ) -> Result<Iov, Errno> {
        self.region_for(from, targets, access)
    }

    #[inline]
    fn region(&self, targets: &[Target], access: Flags) -> Result<Iov, Errno> {
        let domain = self.domain.as_ref().ok_or(Errno::NOKEY)?;
        if let [target] = targets {
            let mut regions = domain.regions();
            if let Some(piece) = regions.one_piece(target, access) {
                regions.granted(targets);
                // SAFETY: as in `scattered_region`.
                return Ok(unsafe { Iov::contiguous(piece.base(), piece.len()) });
            }
        }
        scattered_region(domain, targets, access)
    }
}

/// Returns memory in several pieces, or why there is none.
fn scattered_region(domain: &Domain, targets: &[Target], access: Flags) -> Result<Iov, Errno> {
    let mut pieces = [IovSegment::new(ptr::null_mut(), 0); MAX_SEGMENTS];
    let mut count = 0;
    let mut regions = domain.regions();
    for target in targets {
        regions.each_piece(target, access, |piece| {
            // Regions of many pieces are more scattered than an operation can be.
            *pieces.get_mut(count).ok_or(Errno::OPNOTSUPP)? = piece;
            count += 1;
            Ok(())
        })?;
    }
    regions.granted(targets);
    // SAFETY: the application registered the memory for such accesses by peers, which it permits until the region
    // is closed (fi_mr(3)).
    unsafe { Iov::scattered(&pieces[..count]) }.ok_or(Errno::ACCES)
}
/// Counts an access by a peer on the counters of its regions, on each once.
#[cold]
fn count_regions(domain: &Domain, access: &Completion, targets: &[Target]) {
    let regions = domain.regions();
    let count = |key| {
        let counters = regions.counters(key, access.flags);
        counters.for_each(|cntr| cntr.add(1));
    };
    match targets {
        [] | [_] => count(access.context as u64),
        targets => {
            for (at, target) in targets.iter().enumerate() {
                if !targets[..at].iter().any(|before| before.key == target.key) {
                    count(target.key);
                }
            }
        }
    }
}

impl CompletionDispatch {
    /// Returns the dispatcher of an endpoint that has no queues yet.
    pub(super) fn new(shared_sources: SharedSources) -> Self {
        Self {
            shared_sources,
            ..Self::default()
        }
    }

    /// Returns whether the queue of what peers bring is left unread.
    pub(super) fn is_left_unread(&self) -> bool {
        (self.rx.cq.as_ref()).is_some_and(|cq| cq.is_left_unread())
    }

    /// Names the sources of messages by this vector.
    /// With `report_unknown`, a message from an unknown peer is an error that gives its address.
    pub(super) fn name_sources(&mut self, av: Ref<Av>, report_unknown: bool) {
        self.sources = Some(Sources {
            av,
            seen: 0,
            names: Vec::new(),
            report_unknown,
        });
    }

    /// Remembers a join that will end.
    pub(super) fn expect_join(&mut self, eq: Ref<Eq>, handle: usize, context: usize) {
        self.joins.begin(eq, handle, context);
    }

    /// Forgets a join whose result is not waited for any more.
    pub(super) fn forget_join(&mut self, handle: usize) {
        self.joins.forget(handle);
    }

    /// Returns whether a result may count somewhere.
    #[inline(always)]
    const fn is_counted(&self, flags: Flags) -> bool {
        if flags.intersects(ELSEWHERE) {
            return self.accesses.any || flags.intersects(SEPARATE);
        }
        self.side(flags).counter.is_some()
    }

    /// Returns whether something is counted on the counter with this handle.
    pub(super) fn counts_on(&self, counter: *const fid_cntr) -> bool {
        self.counters().any(|cntr| ptr::eq(cntr.handle(), counter))
    }

    fn counters(&self) -> impl Iterator<Item = &Cntr> {
        let counters = self.result_counters().into_iter().flatten();
        counters.filter_map(|counter| counter.cntr())
    }

    /// Wakes the threads that sleep on the queues and counters.
    pub(super) fn wake_sleepers(&self) {
        for cq in [&self.tx.cq, &self.rx.cq].into_iter().flatten() {
            cq.wake_sleepers();
        }
        self.counters().for_each(Cntr::wake_sleepers);
    }

    /// Returns whether [`CompletionDispatch::settle`] has something to do.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// Routes the results that waited for the device.
    #[cold]
    pub(super) fn settle(&mut self, device: &impl Device) {
        for entry in mem::take(&mut self.unsettled) {
            match entry {
                Unsettled::Done(completion) => {
                    let source = self.look_up(&completion, device);
                    match source {
                        // Unknown peers are looked up each time.
                        UNKNOWN => self.route_from_unknown(&completion, device),
                        source => self.route(&completion, source),
                    }
                }
                Unsettled::Failed(failure) => self.route_failure(&failure, device),
                Unsettled::Asked(peer) => self.judge(peer, device),
                Unsettled::Left(peer) => self.gone.push(peer),
                Unsettled::Refused => self.refused = true,
            }
        }
    }

    /// Returns once whether fault injection has refused a post.
    pub(super) fn take_refused(&mut self) -> bool {
        mem::take(&mut self.refused)
    }

    /// Returns the peers that are gone and left messages behind, each time once.
    pub(super) fn take_gone(&mut self) -> Vec<PeerId> {
        mem::take(&mut self.gone)
    }

    /// Keeps a result until the device is free.
    #[cold]
    fn settle_later(&mut self, completion: &Completion) {
        self.unsettled.push(Unsettled::Done(*completion));
    }

    /// Routes a message whose source is not in the vector: fi_cq(3) "FI_EADDRNOTAVAIL".
    fn route_from_unknown(&mut self, completion: &Completion, device: &impl Device) {
        if completion.flags.contains(PIECE) {
            let mut shown = *completion;
            let end = self.ended(&mut shown);
            self.route_from_unknown(&shown, device);
            return end.iter().for_each(|failure| self.route_end(failure));
        }
        if completion.flags.intersects(ELSEWHERE) {
            return self.route(completion, FiAddr(NO_SOURCE));
        }
        let side = self.side(completion.flags);
        if let Some(counter) = &side.counter
            && counts(completion.flags)
        {
            counter.count(completion.len);
        }
        if let (Some(cq), Some(address)) = (&side.cq, device.address(completion.from))
            && completion.wanted
        {
            cq.push_unknown(completion, address_to_c(address).0);
        }
    }

    #[inline(always)]
    fn route(&self, completion: &Completion, source: FiAddr) {
        if completion.flags.intersects(ELSEWHERE) {
            return self.route_access(&{ *completion }, source);
        }
        let side = self.side(completion.flags);
        if let Some(counter) = &side.counter
            && counts(completion.flags)
        {
            counter.count(completion.len);
        }
        if let Some(cq) = &side.cq
            && completion.wanted
        {
            cq.push(completion, source.0);
        }
    }

    /// Routes what became of a read or write, of this endpoint's own or of a peer's. Not inlined, so that messages have
    /// the hot path for themselves.
    #[inline(never)]
    fn route_access(&self, completion: &Completion, source: FiAddr) {
        if completion.flags.intersects(SEPARATE) {
            return self.route_separate(completion, source);
        }
        if self.accesses.any
            && let Some(counter) = self.access_counter(completion.flags)
        {
            counter.count(completion.len);
        }
        if let Some(cq) = &self.side(completion.flags).cq
            && completion.wanted
        {
            cq.push(&shown(completion), source.0);
        }
    }

    /// Routes a result whose context is not the application's.
    #[cold]
    fn route_separate(&self, completion: &Completion, source: FiAddr) {
        match completion.flags.contains(PIECE) {
            true => self.route_piece(completion, source),
            false => self.route_deferred(completion, source),
        }
    }

    /// Routes a message in a piece of a shared multi-receive buffer.
    fn route_piece(&self, piece: &Completion, source: FiAddr) {
        let mut shown = *piece;
        let failure = self.ended(&mut shown);
        self.route(&shown, source);
        if let Some(failure) = failure {
            self.route_end(&failure);
        }
    }

    /// Gives a piece of a shared multi-receive buffer back, and the application's context to its result.
    fn ended(&self, piece: &mut Completion) -> Option<Failure> {
        piece.flags.remove(PIECE);
        self.shared.as_ref()?.ended(piece)
    }

    /// Reports a buffer that was cancelled, behind the last message in it.
    fn route_end(&self, failure: &Failure) {
        if let Some(counter) = &self.rx.counter {
            counter.count_error();
        }
        if let Some(cq) = &self.rx.cq {
            cq.push_failure(failure, NO_SOURCE, None);
        }
    }

    /// Routes the result of deferred work: to the counter that it names, and to the queue only if it asked for that
    /// (fi_trigger(3)).
    fn route_deferred(&self, completion: &Completion, source: FiAddr) {
        let Some((in_flight, completion)) = self.in_flight(completion) else {
            return;
        };
        if let Some(cntr) = &in_flight.cntr {
            cntr.count(completion.len);
        }
        if let Some(counter) = self.counter(completion.flags) {
            counter.note(completion.len);
        }
        if let Some(cq) = &self.side(completion.flags).cq
            && in_flight.reported
        {
            cq.push(&completion, source.0);
        }
    }

    /// Finds the deferred work whose operation ended, and gives the result the application's context.
    fn in_flight(&self, op: &Completion) -> Option<(InFlight, Completion)> {
        let in_flight = self.progress.as_ref()?.deferred_work().ended(op.context)?;
        let mut shown = *op;
        shown.context = in_flight.context;
        shown.flags.remove(Flags::DEFERRED);
        Some((in_flight, shown))
    }

    /// Returns where a read or write is counted. An atomic of a peer that fetches counts as a read, whether it changes something
    /// or not (fi_endpoint(3)); on regions it counts as a write if it does (fi_mr(3)).
    fn access_counter(&self, flags: Flags) -> Option<&ResultCounter> {
        let counters = &self.accesses;
        let own = if flags.contains(Flags::COLLECTIVE) {
            &counters.write
        } else if flags.contains(Flags::READ) {
            &counters.read
        } else if flags.contains(Flags::WRITE) {
            &counters.write
        } else if flags.contains(Flags::REMOTE_READ) {
            &counters.remote_read
        } else {
            &counters.remote_write
        };
        own.as_ref()
    }

    /// Returns where an operation of any kind is counted.
    fn counter(&self, flags: Flags) -> Option<&ResultCounter> {
        match flags.intersects(ACCESS) {
            true => self.access_counter(flags),
            false => self.side(flags).counter.as_ref(),
        }
    }

    fn route_failure(&mut self, failure: &Failure, device: &impl Device) {
        if failure.op.flags.contains(PIECE) {
            let mut shown = *failure;
            let end = self.ended(&mut shown.op);
            self.route_failure(&shown, device);
            return end.iter().for_each(|failure| self.route_end(failure));
        }
        if failure.op.flags.contains(Flags::DEFERRED) {
            return self.route_deferred_failure(failure, device);
        }
        let source = self.name_or_none(&failure.op, device);
        let reason = match (failure.code, failure.op.from) {
            (0, PeerId::ANY) => None,
            (0, peer) => device.reason(peer),
            (code, peer) => device.explain(peer, code),
        };
        let reason = reason.and_then(|text| CString::new(text).ok());
        // Only what this endpoint began fails here: what a peer did not finish is the peer's affair.
        let side = self.side(failure.op.flags);
        if let Some(counter) = self.counter(failure.op.flags) {
            counter.count_error();
        }
        if let Some(cq) = &side.cq {
            cq.push_failure(failure, source.0, reason);
        }
    }

    fn route_deferred_failure(&mut self, failure: &Failure, device: &impl Device) {
        let source = self.name_or_none(&failure.op, device);
        let Some((in_flight, op)) = self.in_flight(&failure.op) else {
            return;
        };
        if let Some(cntr) = &in_flight.cntr {
            cntr.count_error();
        }
        if let Some(cq) = &self.side(op.flags).cq
            && in_flight.reported
        {
            cq.push_failure(&Failure { op, ..*failure }, source.0, None);
        }
    }

    #[inline]
    const fn side(&self, flags: Flags) -> &Side {
        if flags.intersects(OWN) {
            &self.tx
        } else {
            &self.rx
        }
    }

    /// Returns the name of a result's source if it is known, or there is none.
    #[inline(always)]
    fn source(&mut self, completion: &Completion) -> FiAddr {
        let Some(sources) = &mut self.sources else {
            return FiAddr(NO_SOURCE);
        };
        let peer = completion.from;
        if peer == PeerId::ANY || completion.flags.intersects(OWN) {
            return FiAddr(NO_SOURCE);
        }
        sources.refresh();
        let known = sources.names.get(peer.index());
        known.copied().unwrap_or(UNKNOWN)
    }

    /// Returns the name of a result's source as far as it was looked up before.
    pub(super) fn known_name(&mut self, completion: &Completion) -> FiAddr {
        match self.source(completion) {
            UNKNOWN => FiAddr(NO_SOURCE),
            source => source,
        }
    }

    /// Returns the name of a result's source; an unknown peer has none.
    pub(super) fn name_or_none(&mut self, completion: &Completion, device: &impl Device) -> FiAddr {
        match self.look_up(completion, device) {
            UNKNOWN => FiAddr(NO_SOURCE),
            source => source,
        }
    }

    /// Returns the name of a result's source, looking it up in the address vector if need be;
    /// `UNKNOWN` for an unknown peer whose address is to be reported.
    fn look_up(&mut self, completion: &Completion, device: &impl Device) -> FiAddr {
        match (self.source(completion), &mut self.sources) {
            (UNKNOWN, Some(sources)) => sources.look_up(completion.from, device),
            (known, _) => known,
        }
    }
}

impl Sources {
    /// Forgets names that insertions or removals may have changed.
    #[inline]
    fn refresh(&mut self) {
        let changes = self.av.changes();
        if changes != self.seen {
            self.seen = changes;
            self.names.clear();
        }
    }

    fn look_up(&mut self, peer: PeerId, device: &impl Device) -> FiAddr {
        let found = device
            .address(peer)
            .and_then(|address| self.av.source(address));
        if found.is_none() && self.report_unknown {
            return UNKNOWN;
        }
        let name = FiAddr(found.unwrap_or(NO_SOURCE));
        if self.names.len() <= peer.index() {
            self.names.resize(peer.index() + 1, UNKNOWN);
        }
        self.names[peer.index()] = name;
        name
    }
}

/// Returns whether a result is an operation of its own: not, when it only says that a multi-receive buffer was released.
#[inline]
fn counts(flags: Flags) -> bool {
    flags.intersects(Flags::SEND.union(Flags::RECV))
}

/// Returns what the application sees of a read or write: a peer's has no context (fi_cq(3)); the engine keeps the key there. A peer's
/// atomic that fetches is shown as the read that endpoints count, though it may also change something.
fn shown(access: &Completion) -> Completion {
    let mut shown = *access;
    if !access.flags.intersects(OWN) {
        shown.context = 0;
    }
    if access.flags.contains(Flags::REMOTE_READ) {
        shown.flags.remove(Flags::REMOTE_WRITE);
    }
    shown
}
