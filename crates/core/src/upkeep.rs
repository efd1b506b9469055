//! What a domain does besides the calls of the application: work that waits for counters, and automatic progress.
//!
//! A thread that has driven an endpoint looks at one word afterwards, without locks in hand: it is zero unless there is
//! something to do. That look is all that applications pay that use neither.

mod auto;
mod roster;
mod rounds;
mod shared_driver;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxifabric_types::Errno;

use crate::domain::lock;
use crate::members::Drive;
use crate::wait::{Cond, Doorbell, SLICE};
use crate::work::Works;
use auto::Auto;
use roster::Roster;
use rounds::{Hurry, Rounds};

/// Work is due.
const DUE: u32 = 1;
/// The thread of automatic progress wants to know whether the application polls.
const NOTICE: u32 = 2;
/// Something moves in endpoints that are driven from elsewhere.
const LIVELY: u32 = 4;
/// A thread that drives an endpoint asks for a round.
const ROUND: u32 = 8;

/// How long to sleep at a time while an endpoint has no way to wake a sleeper.
const NAP: Duration = Duration::from_millis(1);

/// The upkeep of one domain.
pub(crate) struct Upkeep {
    word: AtomicU32,
    /// Something has happened on an endpoint since [`Upkeep::take_stir`]: a hint.
    stirred: AtomicBool,
    /// How many endpoints hold frames back.
    holding: AtomicUsize,
    /// Some did since [`Upkeep::take_held`]: a hint.
    held: AtomicBool,
    roster: Roster,
    rounds: Rounds,
    works: Works,
    auto: Auto,
    /// Condition variables of queues and counters, which the thread of automatic progress signals if no other may.
    conds: Mutex<Vec<Arc<Cond>>>,
}

impl Upkeep {
    /// Of a new domain. `locked` says whether threads may use its objects at once, `automatic` whether a thread makes
    /// progress.
    pub(crate) fn new(locked: bool, automatic: bool) -> Self {
        Self {
            word: AtomicU32::new(0),
            stirred: AtomicBool::new(false),
            holding: AtomicUsize::new(0),
            held: AtomicBool::new(false),
            roster: Roster::none(locked),
            rounds: Rounds::default(),
            works: Works::default(),
            auto: Auto::new(automatic),
            conds: Mutex::default(),
        }
    }

    /// Does what is to be done. Call it after an endpoint was driven, without its lock.
    #[inline(always)]
    pub(crate) fn keep_up(&self) {
        if self.word.load(Ordering::Relaxed) != 0 {
            self.keep_up_now();
        }
    }

    /// Takes note that something has happened on an endpoint.
    #[inline(always)]
    pub(crate) fn stir(&self) {
        if !self.stirred.load(Ordering::Relaxed) {
            self.stirred.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether something has happened since the last call.
    pub(crate) fn take_stir(&self) -> bool {
        self.stirred.load(Ordering::Relaxed) && self.stirred.swap(false, Ordering::Relaxed)
    }

    /// An endpoint began to hold frames back, or sent them.
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
    fn keep_up_now(&self) {
        if self.word.load(Ordering::Relaxed) & NOTICE != 0
            && self.word.fetch_and(!NOTICE, Ordering::AcqRel) & NOTICE != 0
        {
            self.auto.notice(&self.roster);
        }
        if self.word.load(Ordering::Relaxed) & ROUND != 0 {
            self.word.fetch_and(!ROUND, Ordering::AcqRel);
            self.go_round();
        }
        if self.word.load(Ordering::Relaxed) & LIVELY != 0 {
            self.hurry();
        }
        self.run_works();
    }

    fn hurry(&self) {
        match self.rounds.hurry() {
            Hurry::Moves => self.stir(),
            Hurry::Waits => {}
            Hurry::Over => {
                self.word.fetch_and(!LIVELY, Ordering::AcqRel);
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
            self.word.fetch_or(LIVELY, Ordering::AcqRel);
        }
    }

    /// Gets the endpoints that the caller does not drive ready for its sleep, which `bell` ends; false when one has something to
    /// do. Call it without locks in hand.
    pub(crate) fn others_rest(&self, bell: &Doorbell, is_watching: &AtomicBool) -> bool {
        self.is_automatic() || self.rounds.rest(bell, is_watching)
    }

    /// A queue or counter is gone whose bell watched other endpoints.
    pub(crate) fn dismiss(&self) {
        self.rounds.dismiss();
    }

    /// How long to sleep at a time.
    pub(crate) fn slice(&self) -> Duration {
        if self.rounds.are_deaf() { NAP } else { SLICE }
    }

    /// Wakes threads that sleep on behalf of endpoints which no queue of theirs drives. Locks may be held.
    pub(crate) fn rouse(&self) {
        self.rounds.wake();
    }

    /// Starts works that are due. Call it without locks in hand.
    pub(crate) fn run_works(&self) {
        if self.word.load(Ordering::Acquire) & DUE != 0 {
            self.works.run(|| {
                self.word.fetch_and(!DUE, Ordering::AcqRel);
            });
        }
    }

    /// Returns whether works wait for a thread that drives the domain.
    pub(crate) fn has_works(&self) -> bool {
        !self.is_automatic() && !self.works.is_idle()
    }

    /// Drives all endpoints if works wait: what they wait for may come from any. Call it without locks in hand.
    pub(crate) fn drive_works(&self) {
        if self.has_works() {
            self.roster.progress();
            self.run_works();
        }
    }

    /// Marks works as due; the thread that drives an endpoint next starts them. Locks may be held.
    pub(crate) fn works_are_due(&self) {
        self.word.fetch_or(DUE, Ordering::AcqRel);
        self.roster.ring();
    }

    /// Returns the works that wait.
    pub(crate) const fn works(&self) -> &Works {
        &self.works
    }

    /// Returns whether a thread makes progress.
    pub(crate) const fn is_automatic(&self) -> bool {
        self.auto.is_wanted()
    }

    /// Adds an enabled endpoint: from now on upkeep drives it, too.
    ///
    /// # Errors
    /// When its descriptor cannot be watched, or the thread cannot be started.
    ///
    /// # Safety
    /// The endpoint stays where it is until [`Upkeep::leave`].
    pub(crate) unsafe fn join(self: &Arc<Self>, endpoint: NonNull<dyn Drive>) -> Result<(), Errno> {
        // SAFETY: the caller's contract, passed on.
        unsafe { self.roster.add(endpoint) }?;
        // SAFETY: as above.
        unsafe { self.rounds.add(endpoint) };
        Auto::start(self)
    }

    /// Ends what [`Upkeep::join`] began. Afterwards the endpoint is not driven from here.
    pub(crate) fn leave(&self, endpoint: NonNull<dyn Drive>) {
        self.roster.remove(endpoint);
        self.rounds.remove(endpoint);
    }

    /// Returns all endpoints of the domain as one, for counters whose value may come from any.
    ///
    /// # Errors
    /// `MFILE`.
    pub(crate) fn all_endpoints(&self) -> Result<NonNull<dyn Drive>, Errno> {
        self.roster.bell()?;
        Ok(NonNull::from(&self.roster))
    }

    /// Lets the thread of automatic progress signal a condition variable that others may not.
    pub(crate) fn add_cond(&self, cond: &Arc<Cond>) {
        let mut conds = lock(&self.conds);
        // Those of closed objects are known here only.
        conds.retain(|cond| Arc::strong_count(cond) > 1);
        conds.push(Arc::clone(cond));
    }

    fn pay_conds(&self) {
        for cond in lock(&self.conds).iter() {
            cond.pay();
        }
    }

    /// Stops the thread; its domain closes.
    pub(crate) fn stop(&self) {
        self.auto.stop(&self.roster);
    }
}
