//! The side of user space, for tests: a work has a thread of its own.

use std::boxed::Box;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use crate::signal::{Ended, Timeout};
use crate::work::Job;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A flag and what waits for it to fall.
pub(crate) struct RawMutex {
    held: Mutex<bool>,
    free: Condvar,
}

impl RawMutex {
    pub(crate) fn new(_level: u32) -> Option<Self> {
        Some(Self {
            held: Mutex::new(false),
            free: Condvar::new(),
        })
    }

    pub(crate) fn lock(&self) {
        let held = self.free.wait_while(lock(&self.held), |held| *held);
        *held.unwrap_or_else(PoisonError::into_inner) = true;
    }

    pub(crate) fn unlock(&self) {
        *lock(&self.held) = false;
        self.free.notify_one();
    }
}

#[derive(Debug)]
pub(crate) struct RawSignal {
    number: Mutex<u64>,
    raised: Condvar,
}

impl RawSignal {
    pub(crate) fn new() -> Option<Self> {
        Some(Self {
            number: Mutex::new(0),
            raised: Condvar::new(),
        })
    }

    pub(crate) fn number(&self) -> u64 {
        *lock(&self.number)
    }

    pub(crate) fn raise(&self) {
        *lock(&self.number) += 1;
        self.raised.notify_all();
    }

    pub(crate) fn wait(&self, number: u64, timeout: Timeout) -> (Ended, Timeout) {
        let now = lock(&self.number);
        let Timeout::After(time) = timeout else {
            drop(self.raised.wait_while(now, |now| *now == number));
            return (Ended::Raised, Timeout::Never);
        };
        let begin = Instant::now();
        let waited = self
            .raised
            .wait_timeout_while(now, time, |now| *now == number);
        let (_now, result) = waited.unwrap_or_else(PoisonError::into_inner);
        let rest = Timeout::After(time.saturating_sub(begin.elapsed()));
        match result.timed_out() {
            true => (Ended::TimedOut, rest),
            false => (Ended::Raised, rest),
        }
    }
}

/// What a work's thread is told.
#[derive(Default)]
struct Orders {
    queued: bool,
    running: bool,
    ended: bool,
    /// Raised in place of queueing; and whether it was.
    attendant: Option<Attendant>,
    asked: bool,
    /// A thread does something after which it does the work.
    held: bool,
    /// Another work, which does this one when it runs, and is queued in place of this one unless it is busy.
    through: Option<Arc<Shared>>,
    busy: bool,
}

struct Attendant(*const RawSignal);

// SAFETY: a signal is raised from any thread.
unsafe impl Send for Attendant {}

struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

pub(crate) struct RawWork {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    id: ThreadId,
}

/// The job that a thread runs.
struct JobPointer(*const Job);

// SAFETY: a job may be run by any thread: its task is `Send` and `Sync`.
unsafe impl Send for JobPointer {}

impl RawWork {
    /// Makes the work that runs a job.
    ///
    /// # Safety
    /// The job stays where it is until this is dropped.
    pub(crate) unsafe fn new(job: *const Job) -> Option<Self> {
        let shared = Arc::new(Shared {
            orders: Mutex::default(),
            changed: Condvar::new(),
        });
        let (of_thread, job) = (Arc::clone(&shared), JobPointer(job));
        let body = Box::new(move || obey(&of_thread, &job));
        let thread = thread::spawn(body);
        Some(Self {
            shared,
            id: thread.thread().id(),
            thread: Some(thread),
        })
    }

    pub(crate) fn queue(&self) {
        self.ask(false);
    }

    pub(crate) fn queue_later(&self) {
        self.ask(true);
    }

    fn ask(&self, is_later: bool) {
        let mut orders = lock(&self.shared.orders);
        if let Some(Attendant(signal)) = orders.attendant {
            orders.asked = true;
            // SAFETY: it lives until the attendant leaves, which takes the lock.
            unsafe { (*signal).raise() };
            return;
        }
        if orders.held && !is_later {
            orders.asked = true;
            return;
        }
        if let Some(other) = orders.through.clone().filter(|_| !is_later) {
            let mut others = lock(&other.orders);
            if !others.busy {
                (orders.asked, others.queued) = (true, true);
                other.changed.notify_all();
                return;
            }
        }
        orders.queued = true;
        drop(orders);
        self.shared.changed.notify_all();
    }

    /// Passes the work through another one, or through none.
    ///
    /// # Safety
    /// As in a kernel.
    pub(crate) unsafe fn pass(&self, to: Option<&Self>) {
        lock(&self.shared.orders).through = to.map(|to| Arc::clone(&to.shared));
    }

    pub(crate) fn set_busy(&self, is_busy: bool) {
        lock(&self.shared.orders).busy = is_busy;
    }

    pub(crate) fn hold(&self) {
        lock(&self.shared.orders).held = true;
    }

    pub(crate) fn release(&self) -> bool {
        let mut orders = lock(&self.shared.orders);
        orders.held = false;
        orders.attendant.is_none() && std::mem::take(&mut orders.asked)
    }

    /// Has the calling thread attend the work; returns whether it has no other attendant.
    ///
    /// # Safety
    /// The signal lives until [`RawWork::leave`].
    pub(crate) unsafe fn attend(&self, signal: &RawSignal) -> bool {
        let mut orders = lock(&self.shared.orders);
        let is_free = orders.attendant.is_none();
        if is_free {
            orders.attendant = Some(Attendant(signal));
        }
        is_free
    }

    pub(crate) fn asked(&self) -> bool {
        std::mem::take(&mut lock(&self.shared.orders).asked)
    }

    pub(crate) fn leave(&self) {
        let mut orders = lock(&self.shared.orders);
        orders.attendant = None;
        // What holds the work does it.
        if !orders.held && std::mem::take(&mut orders.asked) {
            orders.queued = true;
            drop(orders);
            self.shared.changed.notify_all();
        }
    }

    pub(crate) fn is_current(&self) -> bool {
        thread::current().id() == self.id
    }

    pub(crate) fn cancel(&self) {
        let mut orders = lock(&self.shared.orders);
        orders.queued = false;
        let waited = self
            .shared
            .changed
            .wait_while(orders, |orders| orders.running);
        drop(waited);
    }
}

impl Drop for RawWork {
    fn drop(&mut self) {
        lock(&self.shared.orders).ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the job whenever it is queued.
fn obey(shared: &Shared, job: &JobPointer) {
    loop {
        let orders = lock(&shared.orders);
        let waited = shared
            .changed
            .wait_while(orders, |orders| !orders.queued && !orders.ended);
        let mut orders = waited.unwrap_or_else(PoisonError::into_inner);
        if orders.ended {
            return;
        }
        (orders.queued, orders.running) = (false, true);
        drop(orders);
        // SAFETY: the job lives until the work is dropped, which waits for this thread.
        unsafe { (*job.0).run() };
        lock(&shared.orders).running = false;
        shared.changed.notify_all();
    }
}

/// Returns the nanoseconds since the first call.
pub(crate) fn clock_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Sleeps for a millisecond.
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(1));
}
