//! Where the results of an endpoint's operations go: queues and counters, with the application's name of the source.
//!
//! Path class: hot. A result is routed in the call that reports it, so that entries keep their order: what is to be known of a peer
//! for that, its address and why it was lost, is in the directory of peers (docs/adr/0047), which cold paths alone ask.

mod accesses;
mod contexts;
mod counters;
mod failures;
pub(crate) mod guard;
mod sources;

use core::ptr;
use std::sync::Arc;

use oxifabric_abi::fid_cntr;
use oxifabric_engine::{
    Completion, Completions, Failure, GroupId, OpenRegion, PIECE, RxOp, Target, WaitEvent, Waiting,
};
use oxifabric_mem::Iov;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_types::{Address, Errno, FiAddr, Flags, PeerId};

use self::counters::{AccessCounters, ResultCounter, Side};
use self::guard::Guard;
use self::sources::{Sources, UNKNOWN};
use super::joins::Joins;
use super::profile::events::Watchers;
use super::srx::{Found, SharedSources, Srx};
use crate::atomic;
use crate::av::Av;
use crate::cntr::Cntr;
use crate::domain::Domain;
use crate::eq::Eq;
use crate::handle::Ref;
use crate::progress::DomainProgress;

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

/// The type of [`Device::explain`](oxifabric_provider::device::Device::explain).
type Explain = fn(u32, Option<&Address>) -> Option<String>;

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
    /// Whether peers may be granted access to memory without this endpoint's notice.
    pub(super) opens_regions: bool,
    /// Where messages look for receives, if the endpoint shares them.
    pub(super) shared: Option<Ref<Srx>>,
    /// Peers that those receives name as their source.
    pub(super) shared_sources: SharedSources,
    /// Names of sources, if the endpoint gives them (FI_SOURCE).
    sources: Option<Sources>,
    /// The addresses of peers, and why they were lost.
    directory: PeerDirectory,
    /// Tells what causes of the device's own mean.
    explain: Option<Explain>,
    /// The address vector: peers that the application has named. A connected endpoint has none.
    pub(super) vector: Option<Ref<Av>>,
    /// Whose memory only known peers may access, in place of `domain`.
    pub(super) guard: Option<Box<Guard>>,
    joins: Joins,
    /// The event queue that reports the fate of the endpoint's connection.
    pub(super) events: Option<Ref<Eq>>,
    /// How many operations failed, other than by fi_cancel(3).
    pub(super) failures: u64,
    /// Everything is counted, for `oxi top`.
    watched: bool,
    /// Calls of the application about messages that wait for a receive (fi_profile(3)).
    pub(super) watchers: Watchers,
}

impl Completions for CompletionDispatch {
    #[inline(always)]
    fn complete(&mut self, completion: Completion) {
        if !completion.wanted && !self.is_counted(completion.flags) {
            return;
        }
        match self.source(&completion) {
            // A copy for the cold path, so that nothing keeps the completion in memory.
            UNKNOWN => self.route_unnamed(&{ completion }),
            source => self.route(&completion, source),
        }
    }

    #[cold]
    fn fail(&mut self, failure: Failure) {
        if failure.errno != Errno::CANCELED {
            self.failures += 1;
        }
        self.route_failure(&failure);
    }

    fn may_drop_left(&self, peer: PeerId) -> bool {
        self.vector.is_some() && !self.is_known(peer)
    }

    #[cold]
    fn post_refused(&mut self) {
        if let Some(progress) = &self.progress {
            progress.wake_thread();
        }
        self.wake_sleepers();
    }

    fn is_known(&self, peer: PeerId) -> bool {
        let vector = self.vector.as_ref();
        vector.is_some_and(|av| sources::find(av, &self.directory, peer).is_some())
    }

    #[cold]
    fn forgotten(&mut self, peer: PeerId) {
        if let Some(sources) = &mut self.sources {
            sources.forget(peer);
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
    fn accessed(&mut self, mut access: Completion, targets: &[Target]) {
        self.count_access(&access, targets);
        // A peer's has no context (fi_cq(3)), but for that of a receive that hardware used up; the engine keeps the key there.
        access.context = 0;
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
        accesses::region(domain, targets, access)
    }

    fn open_region(&self, key: u64) -> Option<OpenRegion> {
        self.unwatched_region(key)
    }
}

impl CompletionDispatch {
    /// Returns the dispatcher of an endpoint that has no queues yet. Its peers are in `directory`; `explain` is that of its device.
    pub(super) fn new(
        shared_sources: SharedSources,
        directory: PeerDirectory,
        explain: Explain,
    ) -> Self {
        Self {
            shared_sources,
            directory,
            explain: Some(explain),
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
        self.sources = Some(Sources::new(av, report_unknown));
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

    /// Wakes the threads that sleep until the device has something, though it has nothing: they look by themselves.
    #[cold]
    pub(super) fn wake_sleepers(&self) {
        for cq in [&self.tx.cq, &self.rx.cq].into_iter().flatten() {
            cq.wake_sleepers();
        }
        self.counters().for_each(Cntr::wake_sleepers);
        if let Some(eq) = &self.events {
            eq.wake_sleepers();
        }
        if let Some(progress) = &self.progress {
            progress.wake_sleepers();
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

    /// Returns where an operation of any kind is counted.
    fn counter(&self, flags: Flags) -> Option<&ResultCounter> {
        match flags.intersects(ACCESS) {
            true => self.access_counter(flags),
            false => self.side(flags).counter.as_ref(),
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
}

/// Returns whether a result is an operation of its own: not, when it only says that a multi-receive buffer was released.
#[inline]
fn counts(flags: Flags) -> bool {
    flags.intersects(Flags::SEND.union(Flags::RECV))
}
