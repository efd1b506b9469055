//! The delayed-flush thread, which sends what was accepted and not flushed.
//!
//! Of the messages that are posted between two polls all but the first ones wait, for the second poll at the latest; and a short message
//! that the socket had no room for leaves when a poll finds room. But an application that posts and then computes, or
//! ends without closing, polls late or never; what it posted must not wait for that. So one thread of the process looks
//! every half millisecond at the connections where bytes wait, and sends what was there at its last look. It starts
//! when the first bytes wait, other than those that a poll holds back and sends when it ends, and ends when none have
//! waited for a while: the mere existence of a second thread makes system calls dearer, and its looks take a processor
//! from the thread that polls.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use oxifabric_provider::{log, quiet_thread};

use crate::shared_tx::SharedTx;
use crate::sys;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_micros(500);

static STATE: Mutex<State> = Mutex::new(State {
    users: 0,
    scheduled: Vec::new(),
    thread: None,
    runs: false,
    generation: 0,
});

/// Signals that no connection needs the thread any more.
static NEWS: Condvar = Condvar::new();

/// The process that the thread runs in, once there was one: a forked child has none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

struct State {
    /// Number of connections, whether they hold frames back or not.
    users: usize,
    scheduled: Vec<Weak<SharedTx>>,
    /// The thread, until its end has been waited for.
    thread: Option<JoinHandle<()>>,
    /// Whether the thread looks at connections; otherwise it is about to end, or has ended.
    runs: bool,
    /// Number of times that a thread was asked to end: threads of earlier generations do.
    generation: u64,
}

/// A connection's claim on the thread, held while the connection exists.
#[derive(Debug)]
pub(crate) struct FlusherGuard {
    /// The process that made the guard: a forked child has no such thread, and may find the state locked for ever.
    pid: u32,
}

impl FlusherGuard {
    pub(crate) fn new() -> Self {
        state().users += 1;
        let pid = std::process::id();
        Self { pid }
    }
}

impl Drop for FlusherGuard {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let mut state = state();
        state.users -= 1;
        if state.users > 0 {
            return;
        }
        state.scheduled.clear();
        state.generation += 1;
        state.runs = false;
        let thread = state.thread.take();
        drop(state);
        NEWS.notify_all();
        await_end(thread);
    }
}

/// Has the thread look at a connection where bytes wait, until none have for a while. Call it without the lock of
/// `shared_tx`.
#[cold]
pub(crate) fn schedule(shared_tx: &Arc<SharedTx>) {
    let mut state = state();
    state.scheduled.push(Arc::downgrade(shared_tx));
    if state.runs {
        return;
    }
    // A thread that has ended by itself needs the lock no more.
    await_end(state.thread.take());
    if PROCESS.swap(std::process::id(), Ordering::Relaxed) == 0 {
        sys::at_exit(send_all);
    }
    let generation = state.generation;
    match quiet_thread::spawn("oxi-flusher", move || run(generation)) {
        Ok(thread) => {
            state.thread = Some(thread);
            state.runs = true;
        }
        Err(error) => log::warn!("tcp", EpData, "no thread for what is held back: {error}"),
    }
}

/// Waits until a thread has left the library, which may be unloaded next.
fn await_end(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        // A panic was reported where it happened, and there is nothing to save.
        let _ = thread.join();
    }
}

fn run(generation: u64) {
    let mut state = state();
    while state.generation == generation && !state.scheduled.is_empty() {
        state.scheduled.retain(|shared_tx| {
            let shared_tx = shared_tx.upgrade();
            shared_tx.is_some_and(|shared_tx| shared_tx.flush_overdue())
        });
        let pause =
            NEWS.wait_timeout_while(state, INTERVAL, |state| state.generation == generation);
        state = pause.unwrap_or_else(PoisonError::into_inner).0;
    }
    if state.generation == generation {
        state.runs = false;
    }
}

/// Sends everything when the process ends: the application may not have closed its endpoints.
extern "C" fn send_all() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    if let Ok(state) = STATE.try_lock() {
        for shared_tx in state.scheduled.iter().filter_map(Weak::upgrade) {
            shared_tx.flush_overdue();
            shared_tx.flush_overdue();
        }
    }
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
