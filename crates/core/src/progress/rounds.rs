//! The rounds of a domain: a thread that polls some endpoints now and then drives the others, too. So what a call has accepted
//! leaves, and peers have their answers, whichever queue the application reads (docs/adr/0028).
//!
//! An endpoint that the application drives by itself is left to it; the number of its turns tells. One on which a thread
//! sleeps is driven, and got ready for sleep again.
//!
//! Order of locks: the rounds, then an endpoint. A thread that polls and finds either taken goes on without.

use std::mem;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use oxifabric_abi::FI_WAIT_FD;

use crate::drive::{Drive, Rest, Visit, same};
use crate::lock::lock;
use crate::wait::Doorbell;

/// How many endpoints a thread drives for others when it is its turn.
const STOPS_AT_ONCE: usize = 4;

/// Polls without an event after which an endpoint is no longer driven with every poll. An endpoint with operations under
/// way is driven with as many polls when it is its turn: what it waits for may be on its way.
const LIVELY_VISITS: u32 = 64;

/// How many endpoints are lively at a time; others have their turn.
const LIVELY_MAX: usize = 16;

/// How many queues and counters may wait for the endpoints of others at a time: the system limits how many descriptors a
/// descriptor wakes, and would refuse connections to an endpoint with too many of them.
const WATCHERS_MAX: usize = 8;

/// The endpoints of a domain, as seen by threads that poll others of them.
#[derive(Default)]
pub(super) struct Rounds {
    /// How many there are: a hint that spares taking the lock.
    count: AtomicUsize,
    state: Mutex<State>,
    /// Watches the endpoints that no thread sleeps on but those that sleep on others. Made when one does.
    bell: OnceLock<Option<Doorbell>>,
    /// How many bells watch that one.
    watchers: AtomicUsize,
    /// Some endpoint would wake no sleeper: naps are short.
    deaf: AtomicBool,
}

/// What became of endpoints in which something moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hurry {
    /// Something moves there still.
    Moves,
    /// Nothing does now; it may again.
    Waits,
    /// They need no more attention than others.
    Over,
}

#[derive(Default)]
struct State {
    stops: Vec<Stop>,
    /// Where the next round begins.
    next: usize,
    /// Where something moved lately.
    lively: Vec<usize>,
    /// Something moved since [`State::hurry`] began.
    moved: bool,
}

struct Stop {
    endpoint: NonNull<dyn Drive>,
    /// How often it had been driven at the last visit.
    turn: u32,
    /// Visits for which it is still lively.
    left: u32,
    /// The descriptor that the bell watches.
    watched: Option<RawFd>,
    /// It was found driven by the application when a thread was about to sleep.
    spared: bool,
}

// SAFETY: `Drive` is `Sync`, and the pointer stands for a shared reference.
unsafe impl Send for Stop {}

impl Stop {
    fn get(&self) -> &dyn Drive {
        // SAFETY: an endpoint is removed before it goes (contract of `Rounds::add`).
        unsafe { self.endpoint.as_ref() }
    }

    /// Gets it ready for the sleep of a thread that sleeps on others; returns what became of it.
    fn rest(&mut self, bell: &Doorbell) -> Rest {
        let mut turn = self.turn;
        let rest = self.get().rest(&mut turn);
        self.turn = turn;
        // Whether the application drives it still shows only when it is looked at once more.
        let was_spared = mem::replace(&mut self.spared, rest == Rest::Driven);
        match rest {
            Rest::Driven if !was_spared => return Rest::Busy,
            Rest::Attended | Rest::Driven => self.watch(bell, false),
            Rest::Armed => self.watch(bell, true),
            Rest::Busy | Rest::Deaf => {}
        }
        rest
    }

    /// Lets the bell watch it, or stops that.
    fn watch(&mut self, bell: &Doorbell, wanted: bool) {
        match (self.watched, wanted) {
            (None, true) => {
                let fd = self.get().fd();
                self.watched = bell.watch(fd).is_ok().then_some(fd);
            }
            (Some(fd), false) => {
                bell.unwatch(fd);
                self.watched = None;
            }
            _ => {}
        }
    }
}

impl State {
    /// Drives the endpoint at this place, when it is its turn or because it is lively; returns whether it is lively afterwards.
    fn visit(&mut self, at: usize, is_its_turn: bool) -> bool {
        let Some(stop) = self.stops.get_mut(at) else {
            return false;
        };
        let mut turn = stop.turn;
        stop.left = match stop.get().visit(&mut turn) {
            Visit::Attended => 0,
            Visit::Moved => {
                self.moved = true;
                LIVELY_VISITS
            }
            Visit::Waiting if is_its_turn => LIVELY_VISITS,
            Visit::Waiting | Visit::Quiet => stop.left.saturating_sub(1),
        };
        stop.turn = turn;
        stop.left > 0
    }

    /// Drives the next endpoints in line.
    fn walk(&mut self) {
        for _ in 0..STOPS_AT_ONCE.min(self.stops.len()) {
            let at = self.next % self.stops.len();
            self.next = at + 1;
            if self.visit(at, true) && !self.lively.contains(&at) && self.lively.len() < LIVELY_MAX
            {
                self.lively.push(at);
            }
        }
    }

    /// Drives those in which something moved.
    fn hurry(&mut self) {
        self.moved = false;
        let mut lively = mem::take(&mut self.lively);
        lively.retain(|&at| self.visit(at, false));
        self.lively = lively;
    }
}

impl Rounds {
    /// Adds an enabled endpoint, once however often it is added.
    ///
    /// # Safety
    /// The endpoint stays where it is until it is removed.
    pub(super) unsafe fn add(&self, endpoint: NonNull<dyn Drive>) {
        let mut state = lock(&self.state);
        if !state.stops.iter().any(|stop| same(stop.endpoint, endpoint)) {
            state.stops.push(Stop {
                endpoint,
                turn: 0,
                left: 0,
                watched: None,
                spared: false,
            });
        }
        self.count.store(state.stops.len(), Ordering::Relaxed);
    }

    /// Removes an endpoint. Afterwards no other thread drives it from here.
    pub(super) fn remove(&self, endpoint: NonNull<dyn Drive>) {
        let mut state = lock(&self.state);
        if let Some(at) = state
            .stops
            .iter()
            .position(|stop| same(stop.endpoint, endpoint))
        {
            let mut stop = state.stops.swap_remove(at);
            if let Some(Some(bell)) = self.bell.get() {
                stop.watch(bell, false);
            }
            // Another endpoint may have its place now.
            state.lively.clear();
        }
        self.count.store(state.stops.len(), Ordering::Relaxed);
    }

    /// Drives the next endpoints in line; returns whether something moves in one.
    pub(super) fn walk(&self) -> bool {
        let Some(mut state) = self.begin() else {
            return false;
        };
        state.walk();
        !state.lively.is_empty()
    }

    /// Drives the endpoints in which something moved lately.
    pub(super) fn hurry(&self) -> Hurry {
        if self.are_few() {
            return Hurry::Over;
        }
        // Otherwise another thread is on its way.
        let Some(mut state) = self.begin() else {
            return Hurry::Waits;
        };
        state.hurry();
        match state.lively.is_empty() {
            _ if state.moved => Hurry::Moves,
            true => Hurry::Over,
            false => Hurry::Waits,
        }
    }

    /// Gets the endpoints that no other thread sleeps on ready for the sleep of a thread that will wake up by `bell`; tells
    /// whether there is nothing to do instead. `is_watching` says whether the bell has been told to watch them.
    pub(super) fn rest(&self, bell: &Doorbell, is_watching: &AtomicBool) -> bool {
        if self.are_few() {
            return true;
        }
        let Some(own) = self.bell.get_or_init(|| Doorbell::open(FI_WAIT_FD).ok()) else {
            self.deaf.store(true, Ordering::Relaxed);
            return true;
        };
        if !is_watching.load(Ordering::Relaxed) && self.admit(bell, own) {
            is_watching.store(true, Ordering::Relaxed);
        }
        own.arm();
        let (mut quiet, mut deaf) = (true, false);
        for stop in &mut lock(&self.state).stops {
            match stop.rest(own) {
                Rest::Busy => quiet = false,
                Rest::Deaf => deaf = true,
                Rest::Attended | Rest::Driven | Rest::Armed => {}
            }
        }
        self.deaf.store(deaf, Ordering::Relaxed);
        if !quiet {
            // Another thread may sleep on it, and this one has cleared it.
            own.wake();
        }
        quiet
    }

    /// Lets a bell watch the one of the rounds; returns whether it does. Another thread may have told it to at the same time.
    fn admit(&self, bell: &Doorbell, own: &Doorbell) -> bool {
        let is_free = self.watchers.fetch_add(1, Ordering::Relaxed) < WATCHERS_MAX;
        let is_watching = is_free && own.fd().is_some_and(|fd| bell.watch(fd).is_ok());
        if !is_watching {
            self.watchers.fetch_sub(1, Ordering::Relaxed);
        }
        is_watching
    }

    /// Notes that a bell is gone that watched the one of the rounds.
    pub(super) fn remove_watcher(&self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes the threads that sleep on other endpoints' behalf.
    pub(super) fn wake(&self) {
        if let Some(Some(bell)) = self.bell.get() {
            bell.wake();
        }
    }

    /// Returns whether sleepers have to look by themselves now and then.
    pub(super) fn are_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }

    /// Returns whether no rounds are needed: the only endpoint of a domain is always driven by itself.
    pub(super) fn are_few(&self) -> bool {
        self.count.load(Ordering::Relaxed) < 2
    }

    /// Takes the rounds, unless another thread has them or there are none to make.
    fn begin(&self) -> Option<MutexGuard<'_, State>> {
        if self.are_few() {
            return None;
        }
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests;
