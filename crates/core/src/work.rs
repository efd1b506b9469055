//! Deferred work, which waits until a counter reaches a threshold: fi_trigger(3). Path class: setup, except for [`DeferredWorkQueue::end`].
//!
//! A counter that crosses a threshold moves its work to the due queue; the thread that drives the domain next starts it,
//! and holds no lock of an endpoint while it does (docs/adr/0007). Order of locks: the state of this queue comes after all others,
//! and no work is started while it is locked.

pub(crate) mod control;
mod message;

use core::ffi::c_void;
use core::mem;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use oxifabric_types::Errno;

use crate::cntr::Cntr;
use crate::handle::Ref;
use crate::lock::lock;
use crate::patience::CLOSE_TIMEOUT;
use crate::progress::DomainProgress;
use message::Post;

/// Maximum number of entries of deferred work of a domain that have not begun. Programs describe collectives by some thousands; an entry
/// costs a few hundred bytes, so a program which queues work and never triggers it gets `AGAIN` before its memory is used up.
const MOST: usize = 1 << 18;

/// The deferred work of one domain.
#[derive(Default)]
pub(crate) struct DeferredWorkQueue {
    state: Mutex<State>,
    /// Whether a thread starts deferred work: one thread at a time does, so that work starts in order.
    running: AtomicBool,
    /// How many threads report the end of an operation, and refer to its counter meanwhile.
    reporting: AtomicUsize,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<Place, Work>,
    /// What is to be started, in this order.
    due: VecDeque<Work>,
    /// Operations of deferred work that have not ended, by the context that the endpoint has for them.
    in_flight: HashMap<usize, InFlight>,
    last: usize,
}

/// Where work waits: the work of a counter is sorted by threshold, and that of a threshold as it came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The counter, as an address.
    cntr: usize,
    threshold: u64,
    serial: usize,
}

/// An entry of deferred work: an operation, or a change of a counter, that waits for a counter.
pub(crate) struct Work {
    /// The counter stays open while work waits for it.
    _cntr: Ref<Cntr>,
    owner: Owner,
    action: Action,
}

// SAFETY: its pointers are the application's, which keeps them valid until the work ends and leaves them to whichever
// thread starts it.
unsafe impl Send for Work {}

/// The objects that the work belongs to, as addresses, by which it is found when it is cancelled or its endpoint closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A `fi_deferred_work`, and the endpoint that it uses, if any.
    Domain { work: usize, ep: usize },
    /// An operation with `FI_TRIGGER`.
    Endpoint { ep: usize, context: usize },
}

impl Owner {
    const fn ep(self) -> usize {
        match self {
            Self::Domain { ep, .. } | Self::Endpoint { ep, .. } => ep,
        }
    }
}

/// What the work does when it starts.
pub(crate) enum Action {
    /// Start an operation of an endpoint, or report that it was cancelled; it reports failures by itself, except `AGAIN`.
    Call(Box<dyn FnMut(Disposition) -> Result<(), Errno>>),
    Post(Box<Post>),
    Set(Ref<Cntr>, u64),
    Add(Ref<Cntr>, u64),
}

/// Whether an operation that waited starts or is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Start,
    Cancel,
}

/// An operation in flight of deferred work: where its result is reported.
pub(crate) struct InFlight {
    /// The completion counter.
    pub(crate) cntr: Option<Ref<Cntr>>,
    /// The context that the application gave.
    pub(crate) context: usize,
    /// The application asked for an entry in the endpoint's queue, too.
    pub(crate) reported: bool,
    ep: usize,
}

impl DeferredWorkQueue {
    /// Lets work wait until the sum of a counter is `threshold`, or starts it if it is so already. The caller holds no
    /// locks.
    ///
    /// # Errors
    /// `AGAIN` when too much work waits.
    pub(crate) fn queue(
        progress: &DomainProgress,
        cntr: &Cntr,
        threshold: u64,
        owner: Owner,
        action: Action,
    ) -> Result<(), Errno> {
        let queue = progress.deferred_work();
        let mut state = lock(&queue.state);
        if state.waiting.len() + state.due.len() >= MOST {
            return Err(Errno::AGAIN);
        }
        state.last += 1;
        let place = Place {
            cntr: address(cntr),
            threshold,
            serial: state.last,
        };
        let work = Work {
            _cntr: Ref::to(cntr),
            owner,
            action,
        };
        state.waiting.insert(place, work);
        cntr.await_sum(state.first_threshold(place.cntr));
        drop(state);
        if queue.cross(cntr) {
            progress.deferred_work_is_due();
            progress.run_deferred_work();
        }
        Ok(())
    }

    /// Moves the work that the counter's sum makes due to the due queue; returns whether there is any.
    pub(crate) fn cross(&self, cntr: &Cntr) -> bool {
        let mut state = lock(&self.state);
        let at = address(cntr);
        let before = state.due.len();
        while let Some(threshold) = state.first_threshold(at)
            && threshold <= cntr.sum()
        {
            state.take_first(at);
            cntr.await_sum(state.first_threshold(at));
        }
        state.due.len() != before
    }

    /// Starts what is due, in order. `none_left` is called under the lock, when none is left.
    pub(crate) fn run(&self, none_left: impl Fn()) {
        if self.running.swap(true, Ordering::Acquire) {
            // The thread that does so now, or that drives the domain next, finds what was added meanwhile.
            return;
        }
        loop {
            let mut state = lock(&self.state);
            let Some(mut work) = state.due.pop_front() else {
                none_left();
                break;
            };
            drop(state);
            if self.start(&mut work) == Err(Errno::AGAIN) {
                lock(&self.state).due.push_front(work);
                break;
            }
        }
        self.running.store(false, Ordering::Release);
    }

    /// Waits until no thread is starting work or reporting its end. The operation of work may end, and be seen to end, before these have let go of
    /// the counters that it names. Call it without locks in hand.
    pub(crate) fn await_others(&self) {
        let is_idle =
            || !self.running.load(Ordering::Acquire) && self.reporting.load(Ordering::Acquire) == 0;
        // In a forked child those threads may be missing.
        let begin = Instant::now();
        while !is_idle() && begin.elapsed() < CLOSE_TIMEOUT {
            std::thread::yield_now();
        }
    }

    fn start(&self, work: &mut Work) -> Result<(), Errno> {
        match &mut work.action {
            Action::Call(call) => call(Disposition::Start),
            Action::Set(cntr, value) => {
                cntr.set(*value);
                Ok(())
            }
            Action::Add(cntr, value) => {
                cntr.add(*value);
                Ok(())
            }
            Action::Post(post) => self.post(post),
        }
    }

    /// Starts the operation of deferred work.
    fn post(&self, post: &Post) -> Result<(), Errno> {
        let key = {
            let mut state = lock(&self.state);
            state.last += 1;
            let key = state.last;
            state.in_flight.insert(key, post.in_flight());
            key
        };
        // The operation may end during the call.
        match post.call(key) {
            Ok(()) => Ok(()),
            Err(errno) => {
                let in_flight = lock(&self.state).in_flight.remove(&key);
                if errno == Errno::AGAIN {
                    return Err(errno);
                }
                if let Some(cntr) = in_flight.and_then(|in_flight| in_flight.cntr) {
                    cntr.count_error();
                }
                Ok(())
            }
        }
    }

    /// Returns whether no work waits and no operation of one is under way.
    pub(crate) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.waiting.is_empty() && state.due.is_empty() && state.in_flight.is_empty()
    }

    /// Has the end of the operation with this context reported, unless its endpoint is closed.
    pub(crate) fn end(&self, context: usize, report: impl FnOnce(&InFlight)) {
        self.reporting.fetch_add(1, Ordering::Relaxed);
        let ended = lock(&self.state).in_flight.remove(&context);
        if let Some(in_flight) = ended {
            report(&in_flight);
        }
        self.reporting.fetch_sub(1, Ordering::Release);
    }

    /// Notes an operation in flight that this counter counts; returns its context.
    #[cfg(test)]
    pub(crate) fn note_in_flight(&self, cntr: &Cntr) -> usize {
        let mut state = lock(&self.state);
        state.last += 1;
        let (key, cntr) = (state.last, Some(Ref::to(cntr)));
        let in_flight = InFlight {
            cntr,
            context: 0,
            reported: false,
            ep: 0,
        };
        state.in_flight.insert(key, in_flight);
        key
    }

    /// Takes out the work that was not started yet and that `which` picks, by owner and counter.
    pub(crate) fn take(&self, which: impl Fn(Owner, &Cntr) -> bool) -> Vec<Work> {
        let mut state = lock(&self.state);
        let mut gone = Vec::new();
        let waiting = mem::take(&mut state.waiting);
        for (place, work) in waiting {
            match which(work.owner, &work._cntr) {
                true => gone.push(work),
                false => drop(state.waiting.insert(place, work)),
            }
        }
        for work in mem::take(&mut state.due) {
            match which(work.owner, &work._cntr) {
                true => gone.push(work),
                false => state.due.push_back(work),
            }
        }
        for work in &gone {
            work._cntr
                .await_sum(state.first_threshold(address(&work._cntr)));
        }
        drop(state);
        gone
    }

    /// Drops all deferred work of an endpoint that closes, and what is known of its operations in flight.
    pub(crate) fn forget(&self, ep: *const c_void) {
        let ep = ep.addr();
        // Another thread may be about to start work of the endpoint.
        while self.running.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        drop(self.take(|owner, _| owner.ep() == ep));
        self.running.store(false, Ordering::Release);
        let mut state = lock(&self.state);
        let all = mem::take(&mut state.in_flight);
        let (gone, kept): (HashMap<_, _>, HashMap<_, _>) = all
            .into_iter()
            .partition(|(_, in_flight)| in_flight.ep == ep);
        state.in_flight = kept;
        drop(state);
        drop(gone);
    }
}

impl Work {
    /// Reports that the operation was cancelled.
    pub(crate) fn cancel(self) {
        let Self { _cntr, action, .. } = self;
        // An application that sees the report may close the counter.
        drop(_cntr);
        if let Action::Call(mut call) = action {
            // The call only reports the cancellation, which does not fail.
            let _ = call(Disposition::Cancel);
        }
    }
}

impl State {
    fn first(&self, cntr: usize) -> Option<Place> {
        let first = Place {
            cntr,
            threshold: 0,
            serial: 0,
        };
        let (place, _) = self.waiting.range(first..).next()?;
        (place.cntr == cntr).then_some(*place)
    }

    fn first_threshold(&self, cntr: usize) -> Option<u64> {
        self.first(cntr).map(|place| place.threshold)
    }

    fn take_first(&mut self, cntr: usize) {
        if let Some(work) = self
            .first(cntr)
            .and_then(|place| self.waiting.remove(&place))
        {
            self.due.push_back(work);
        }
    }
}

fn address(cntr: &Cntr) -> usize {
    core::ptr::from_ref(cntr).addr()
}
