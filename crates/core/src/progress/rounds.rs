//! The rounds of a domain: a thread that polls some endpoints now and then drives the others, too. So an operation that a call has
//! accepted leaves, and peers get their answers, whichever queue the application reads (docs/adr/0028).
//!
//! The rounds leave out an endpoint that the application drives itself: the number of its turns has grown since the last visit. They
//! drive one on which a thread sleeps, and arm it again for that sleep.
//!
//! Order of locks: the rounds, then an endpoint. A thread that polls and finds either locked goes on without it.

use std::mem;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use oxifabric_abi::FI_WAIT_FD;

use crate::drive::{Drive, SleepState, Visit, same};
use crate::lock::lock;
use crate::wait::Doorbell;

/// How many endpoints other than its own a thread drives in one round.
const ENDPOINTS_AT_ONCE: usize = 4;

/// Empty polls after which an endpoint is no longer active: it is not driven with every poll any more. An endpoint with operations under
/// way is driven with as many polls when it is its turn: what it waits for may be on its way.
const ACTIVE_VISITS: u32 = 64;

/// How many endpoints are active at a time; all others are driven in the rounds alone.
const ACTIVE_MAX: usize = 16;

/// How many queues and counters may watch the doorbell of the rounds at a time: epoll(7) limits how many descriptors one descriptor
/// wakes, and the kernel would refuse to watch a new connection of an endpoint beyond that.
const WATCHERS_MAX: usize = 8;

/// The endpoints of a domain, as a thread that polls only some of them drives the others.
#[derive(Default)]
pub(super) struct Rounds {
    /// How many endpoints there are: a hint that spares taking the lock.
    count: AtomicUsize,
    state: Mutex<State>,
    /// Watches the endpoints on which no thread sleeps, for threads that sleep on other endpoints of the domain. Made when one does.
    bell: OnceLock<Option<Doorbell>>,
    /// How many doorbells of queues and counters watch that one.
    watchers: AtomicUsize,
    /// Some endpoint has no descriptor that wakes a thread ([`SleepState::NoDescriptor`]): threads sleep for short times only.
    needs_polls: AtomicBool,
}

/// What driving the active endpoints has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActiveDriven {
    /// Something moved in one of them.
    Moves,
    /// Nothing moved now, but some are still active; or another thread makes the round.
    Waits,
    /// None is active any more.
    Over,
}

#[derive(Default)]
struct State {
    endpoints: Vec<RoundEndpoint>,
    /// Where the next round begins.
    next: usize,
    /// The active endpoints, by index: something moved in them lately.
    active: Vec<usize>,
    /// Something moved since [`State::drive_active`] began.
    moved: bool,
}

struct RoundEndpoint {
    endpoint: NonNull<dyn Drive>,
    /// The endpoint's number of turns at the last visit.
    turn: u32,
    /// Number of visits for which the endpoint stays active.
    left: u32,
    /// The descriptor that the bell watches.
    watched: Option<RawFd>,
    /// The application drove the endpoint since the last visit, as a thread found that was about to sleep.
    spared: bool,
}

// SAFETY: `Drive` is `Sync`, and the pointer stands for a shared reference.
unsafe impl Send for RoundEndpoint {}

impl RoundEndpoint {
    fn get(&self) -> &dyn Drive {
        // SAFETY: an endpoint is removed before it goes (contract of `Rounds::add`).
        unsafe { self.endpoint.as_ref() }
    }

    /// Gets the endpoint ready for the sleep of a thread that sleeps on others; returns whether it is armed, or why not.
    fn prepare_to_sleep(&mut self, bell: &Doorbell) -> SleepState {
        let mut turn = self.turn;
        let state = self.get().prepare_to_sleep(&mut turn);
        self.turn = turn;
        // Whether the application drives it still shows only when it is looked at once more.
        let was_spared = mem::replace(&mut self.spared, state == SleepState::Driven);
        match state {
            SleepState::Driven if !was_spared => return SleepState::Busy,
            SleepState::Attended | SleepState::Driven => self.watch(bell, false),
            SleepState::Armed => self.watch(bell, true),
            SleepState::Busy | SleepState::NoDescriptor => {}
        }
        state
    }

    /// Lets the doorbell watch the endpoint's device, or stops that.
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
    /// Drives the endpoint at this place, when it is its turn or because it is active; returns whether it is active afterwards.
    fn visit(&mut self, at: usize, is_its_turn: bool) -> bool {
        let Some(visited) = self.endpoints.get_mut(at) else {
            return false;
        };
        let mut turn = visited.turn;
        visited.left = match visited.get().visit(&mut turn) {
            Visit::Attended => 0,
            Visit::Moved => {
                self.moved = true;
                ACTIVE_VISITS
            }
            Visit::Waiting if is_its_turn => ACTIVE_VISITS,
            Visit::Waiting | Visit::Quiet => visited.left.saturating_sub(1),
        };
        visited.turn = turn;
        visited.left > 0
    }

    /// Drives the next endpoints in line.
    fn walk(&mut self) {
        for _ in 0..ENDPOINTS_AT_ONCE.min(self.endpoints.len()) {
            let at = self.next % self.endpoints.len();
            self.next = at + 1;
            if self.visit(at, true) && !self.active.contains(&at) && self.active.len() < ACTIVE_MAX
            {
                self.active.push(at);
            }
        }
    }

    /// Drives the active endpoints.
    fn drive_active(&mut self) {
        self.moved = false;
        let mut active = mem::take(&mut self.active);
        active.retain(|&at| self.visit(at, false));
        self.active = active;
    }
}

impl Rounds {
    /// Adds an enabled endpoint, once however often it is added.
    ///
    /// # Safety
    /// The endpoint stays where it is until it is removed.
    pub(super) unsafe fn add(&self, endpoint: NonNull<dyn Drive>) {
        let mut state = lock(&self.state);
        if !state
            .endpoints
            .iter()
            .any(|visited| same(visited.endpoint, endpoint))
        {
            state.endpoints.push(RoundEndpoint {
                endpoint,
                turn: 0,
                left: 0,
                watched: None,
                spared: false,
            });
        }
        self.count.store(state.endpoints.len(), Ordering::Relaxed);
    }

    /// Removes an endpoint. Afterwards no other thread drives it from here.
    pub(super) fn remove(&self, endpoint: NonNull<dyn Drive>) {
        let mut state = lock(&self.state);
        if let Some(at) = state
            .endpoints
            .iter()
            .position(|visited| same(visited.endpoint, endpoint))
        {
            let mut visited = state.endpoints.swap_remove(at);
            if let Some(Some(bell)) = self.bell.get() {
                visited.watch(bell, false);
            }
            // Another endpoint may have its place now.
            state.active.clear();
        }
        self.count.store(state.endpoints.len(), Ordering::Relaxed);
    }

    /// Drives the next endpoints in line; returns whether something moves in one.
    pub(super) fn walk(&self) -> bool {
        let Some(mut state) = self.begin() else {
            return false;
        };
        state.walk();
        !state.active.is_empty()
    }

    /// Drives the endpoints in which something moved lately.
    pub(super) fn drive_active(&self) -> ActiveDriven {
        if self.are_few() {
            return ActiveDriven::Over;
        }
        // Otherwise another thread makes the round.
        let Some(mut state) = self.begin() else {
            return ActiveDriven::Waits;
        };
        state.drive_active();
        match state.active.is_empty() {
            _ if state.moved => ActiveDriven::Moves,
            true => ActiveDriven::Over,
            false => ActiveDriven::Waits,
        }
    }

    /// Gets the endpoints that no other thread sleeps on ready for the sleep of a thread that will wake up by `bell`; tells
    /// whether there is nothing to do instead. `is_watching` says whether the bell has been told to watch them.
    pub(super) fn prepare_to_sleep(&self, bell: &Doorbell, is_watching: &AtomicBool) -> bool {
        if self.are_few() {
            return true;
        }
        let Some(own) = self.bell.get_or_init(|| Doorbell::open(FI_WAIT_FD).ok()) else {
            self.needs_polls.store(true, Ordering::Relaxed);
            return true;
        };
        if !is_watching.load(Ordering::Relaxed) && self.admit(bell, own) {
            is_watching.store(true, Ordering::Relaxed);
        }
        own.arm();
        let (mut quiet, mut needs_polls) = (true, false);
        for visited in &mut lock(&self.state).endpoints {
            match visited.prepare_to_sleep(own) {
                SleepState::Busy => quiet = false,
                SleepState::NoDescriptor => needs_polls = true,
                SleepState::Attended | SleepState::Driven | SleepState::Armed => {}
            }
        }
        self.needs_polls.store(needs_polls, Ordering::Relaxed);
        if !quiet {
            // Another thread may sleep on this doorbell, which was cleared above.
            own.wake();
        }
        quiet
    }

    /// Lets a doorbell watch that of the rounds; returns whether it does. Another thread may have done so at the same time.
    fn admit(&self, bell: &Doorbell, own: &Doorbell) -> bool {
        let is_free = self.watchers.fetch_add(1, Ordering::Relaxed) < WATCHERS_MAX;
        let is_watching = is_free && own.fd().is_some_and(|fd| bell.watch(fd).is_ok());
        if !is_watching {
            self.watchers.fetch_sub(1, Ordering::Relaxed);
        }
        is_watching
    }

    /// Notes that a doorbell that watched that of the rounds is gone.
    pub(super) fn remove_watcher(&self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes the threads that sleep until the doorbell of the rounds rings, too.
    pub(super) fn wake(&self) {
        if let Some(Some(bell)) = self.bell.get() {
            bell.wake();
        }
    }

    /// Returns whether threads that sleep have to poll now and then, because some endpoint cannot wake them.
    pub(super) fn need_polls(&self) -> bool {
        self.needs_polls.load(Ordering::Relaxed)
    }

    /// Returns whether no rounds are needed: the only endpoint of a domain is always driven by itself.
    pub(super) fn are_few(&self) -> bool {
        self.count.load(Ordering::Relaxed) < 2
    }

    /// Locks the rounds, unless another thread makes them or there are none to make.
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
