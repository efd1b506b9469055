//! What a domain does besides the calls of the application: work that waits for counters, and automatic progress.
//!
//! A thread that has driven an endpoint looks at one word afterwards, without locks in hand: it is zero unless there is
//! something to do. That look is all that applications pay that use neither.

mod auto;
mod domain_endpoints;
mod rounds;
mod shared_driver;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxifabric_types::Errno;

use crate::drive::Drive;
use crate::lock::lock;
use crate::wait::{Cond, Doorbell, SLICE};
use crate::work::DeferredWorkQueue;
use auto::Auto;
use domain_endpoints::DomainEndpoints;
use rounds::{ActiveDriven, Rounds};

/// Work is due.
const DUE: u32 = 1;
/// The thread of automatic progress wants to know whether the application polls.
const NOTICE: u32 = 2;
/// Something moves in endpoints that are driven from elsewhere.
const ACTIVE: u32 = 4;
/// A thread that drives an endpoint asks for a round.
const ROUND: u32 = 8;

/// How long to sleep at a time while an endpoint has no way to wake a sleeper.
const NAP: Duration = Duration::from_millis(1);

/// Background progress of one domain: deferred work, rounds of endpoints, automatic progress.
pub(crate) struct DomainProgress {
    word: AtomicU32,
    /// Something has happened on an endpoint since [`DomainProgress::take_activity`]: a hint.
    activity: AtomicBool,
    /// How many endpoints hold frames back.
    holding: AtomicUsize,
    /// Frames were held back since [`DomainProgress::take_held`]: a hint.
    held: AtomicBool,
    endpoints: DomainEndpoints,
    rounds: Rounds,
    deferred_work: DeferredWorkQueue,
    auto: Auto,
    /// Condition variables of queues and counters, which the thread of automatic progress signals if no other may.
    conds: Mutex<Vec<Arc<Cond>>>,
}

impl DomainProgress {
    /// Makes the progress of a new domain. `locked` says whether threads may use its objects at once, `automatic` whether a thread makes
    /// progress.
    pub(crate) fn new(locked: bool, automatic: bool) -> Self {
        Self {
            word: AtomicU32::new(0),
            activity: AtomicBool::new(false),
            holding: AtomicUsize::new(0),
            held: AtomicBool::new(false),
            endpoints: DomainEndpoints::none(locked),
            rounds: Rounds::default(),
            deferred_work: DeferredWorkQueue::default(),
            auto: Auto::new(automatic),
            conds: Mutex::default(),
        }
    }

    /// Does what is to be done. Call it after an endpoint was driven, without its lock.
    #[inline(always)]
    pub(crate) fn run_pending(&self) {
        if self.word.load(Ordering::Relaxed) != 0 {
            self.run_pending_now();
        }
    }

    /// Takes note that something has happened on an endpoint.
    #[inline(always)]
    pub(crate) fn note_activity(&self) {
        if !self.activity.load(Ordering::Relaxed) {
            self.activity.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether something has happened since the last call.
    pub(crate) fn take_activity(&self) -> bool {
        self.activity.load(Ordering::Relaxed) && self.activity.swap(false, Ordering::Relaxed)
    }

    /// Notes that an endpoint began to hold frames back, or sent them.
    pub(crate) fn hold(&self, holds: bool) {
        if holds && !self.held.load(Ordering::Relaxed) {
            self.held.store(true, Ordering::Relaxed);
        }
        match holds {
            true => self.holding.fetch_add(1, Ordering::Relaxed),
            false => self.holding.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Returns whether frames were held back since the last call.
    fn take_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) && self.held.swap(false, Ordering::Relaxed)
    }

    /// Returns whether frames are held back somewhere: then endpoints are to be driven before completions are read.
    #[inline(always)]
    pub(crate) fn is_holding(&self) -> bool {
        self.holding.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn run_pending_now(&self) {
        if self.word.load(Ordering::Relaxed) & NOTICE != 0
            && self.word.fetch_and(!NOTICE, Ordering::AcqRel) & NOTICE != 0
        {
            self.auto.notice(&self.endpoints);
        }
        if self.word.load(Ordering::Relaxed) & ROUND != 0 {
            self.word.fetch_and(!ROUND, Ordering::AcqRel);
            self.go_round();
        }
        if self.word.load(Ordering::Relaxed) & ACTIVE != 0 {
            self.drive_active();
        }
        self.run_deferred_work();
    }

    fn drive_active(&self) {
        match self.rounds.drive_active() {
            ActiveDriven::Moves => self.note_activity(),
            ActiveDriven::Waits => {}
            ActiveDriven::Over => {
                self.word.fetch_and(!ACTIVE, Ordering::AcqRel);
            }
        }
    }

    /// Asks for a round at the end of the poll that drives an endpoint, if there are others. Locks may be held.
    pub(crate) fn ask_for_round(&self) {
        if !self.rounds.are_few() {
            self.word.fetch_or(ROUND, Ordering::AcqRel);
        }
    }

    /// Drives some of the endpoints that the application leaves alone. Call it now and then while others are polled, without
    /// locks in hand.
    #[cold]
    pub(crate) fn go_round(&self) {
        if self.rounds.walk() {
            self.word.fetch_or(ACTIVE, Ordering::AcqRel);
        }
    }

    /// Gets the endpoints that the caller does not drive ready for its sleep, which `bell` ends; false when one has something to
    /// do. Call it without locks in hand.
    pub(crate) fn others_may_sleep(&self, bell: &Doorbell, is_watching: &AtomicBool) -> bool {
        self.is_automatic() || self.rounds.prepare_to_sleep(bell, is_watching)
    }

    /// Notes that a queue or counter is gone whose bell watched other endpoints.
    pub(crate) fn remove_watcher(&self) {
        self.rounds.remove_watcher();
    }

    /// Returns how long to sleep at a time.
    pub(crate) fn slice(&self) -> Duration {
        if self.rounds.need_polls() { NAP } else { SLICE }
    }

    /// Wakes threads that sleep on behalf of endpoints which no queue of theirs drives. Locks may be held.
    pub(crate) fn wake_sleepers(&self) {
        self.rounds.wake();
    }

    /// Wakes the thread of automatic progress. Locks may be held.
    pub(crate) fn wake_thread(&self) {
        self.endpoints.ring();
    }

    /// Starts deferred work that is due. Call it without locks in hand.
    pub(crate) fn run_deferred_work(&self) {
        if self.word.load(Ordering::Acquire) & DUE != 0 {
            self.deferred_work.run(|| {
                self.word.fetch_and(!DUE, Ordering::AcqRel);
            });
        }
    }

    /// Returns whether deferred work waits for a thread that drives the domain.
    pub(crate) fn has_deferred_work(&self) -> bool {
        !self.is_automatic() && !self.deferred_work.is_idle()
    }

    /// Drives all endpoints if deferred work waits: what it waits for may come from any. Call it without locks in hand.
    pub(crate) fn drive_for_deferred_work(&self) {
        if self.has_deferred_work() {
            self.endpoints.progress();
            self.run_deferred_work();
        }
    }

    /// Drives the endpoints for the thread of automatic progress: all but those whose queue is left unread. Returns how many events
    /// there were, and whether one was left alone.
    pub(crate) fn drive_unattended(&self) -> (usize, bool) {
        let driven = self.endpoints.progress_unattended();
        self.run_deferred_work();
        self.signal_deferred();
        driven
    }

    /// Marks deferred work as due; the thread that drives an endpoint next starts it. Locks may be held.
    pub(crate) fn deferred_work_is_due(&self) {
        self.word.fetch_or(DUE, Ordering::AcqRel);
        self.endpoints.ring();
    }

    /// Returns the queue of deferred work.
    pub(crate) const fn deferred_work(&self) -> &DeferredWorkQueue {
        &self.deferred_work
    }

    /// Returns whether progress is automatic: a thread makes it.
    pub(crate) const fn is_automatic(&self) -> bool {
        self.auto.is_wanted()
    }

    /// Adds an enabled endpoint: from now on it is driven from here, too.
    ///
    /// # Errors
    /// When its descriptor cannot be watched, or the thread cannot be started.
    ///
    /// # Safety
    /// The endpoint stays where it is until [`DomainProgress::leave`].
    pub(crate) unsafe fn join(self: &Arc<Self>, endpoint: NonNull<dyn Drive>) -> Result<(), Errno> {
        // SAFETY: the caller's contract, passed on.
        unsafe { self.endpoints.add(endpoint) }?;
        // SAFETY: as above.
        unsafe { self.rounds.add(endpoint) };
        Auto::start(self)
    }

    /// Ends what [`DomainProgress::join`] began. Afterwards the endpoint is not driven from here.
    pub(crate) fn leave(&self, endpoint: NonNull<dyn Drive>) {
        self.endpoints.remove(endpoint);
        self.rounds.remove(endpoint);
    }

    /// Returns all endpoints of the domain as one, for counters whose value may come from any.
    ///
    /// # Errors
    /// `MFILE`.
    pub(crate) fn all_endpoints(&self) -> Result<NonNull<dyn Drive>, Errno> {
        self.endpoints.bell()?;
        Ok(NonNull::from(&self.endpoints))
    }

    /// Lets the thread of automatic progress signal a condition variable that others may not.
    pub(crate) fn add_cond(&self, cond: &Arc<Cond>) {
        let mut conds = lock(&self.conds);
        // Those of closed objects are known here only.
        conds.retain(|cond| Arc::strong_count(cond) > 1);
        conds.push(Arc::clone(cond));
    }

    /// Signals the condition variables whose signal was deferred.
    fn signal_deferred(&self) {
        for cond in lock(&self.conds).iter() {
            cond.signal_deferred();
        }
    }

    /// Stops the thread; its domain closes.
    pub(crate) fn stop(&self) {
        self.auto.stop(&self.endpoints);
    }
}
