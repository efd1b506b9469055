//! The watcher thread, which polls descriptors for programs without a reactor of their own, and wakes the tasks whose posts wait for room in a
//! queue.

use core::task::{Context, Poll, Waker};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::{QueueDescriptor, Readiness};
use crate::lock::lock;
use crate::raw::{Doorbell, readable};

/// A descriptor that the thread polls on request.
pub(super) struct Watched(Arc<Entry>);

struct Entry {
    descriptor: QueueDescriptor,
    state: Mutex<Watch>,
}

#[derive(Default)]
enum Watch {
    #[default]
    Idle,
    Armed(Waker),
    Ready,
}

/// The watcher thread's lists: descriptors to poll, and tasks to wake after a delay.
struct Watcher {
    entries: Mutex<Vec<Arc<Entry>>>,
    /// Tasks to be woken, and when.
    sleepers: Mutex<Vec<(Instant, Waker)>>,
    bell: Doorbell,
}

/// The lists of the watcher thread, once it has started.
static WATCHER: OnceLock<Watcher> = OnceLock::new();

/// Delay before a task retries its post, in milliseconds.
const TICK_MS: u16 = 1;

/// Has the watcher thread wake a task after [`TICK_MS`].
pub(super) fn wake_soon(sleeper: Waker) -> io::Result<()> {
    let watcher = Watcher::running()?;
    let due = Instant::now() + Duration::from_millis(TICK_MS.into());
    let mut sleepers = lock(&watcher.sleepers);
    sleepers.push((due, sleeper));
    if sleepers.len() == 1 {
        // The watcher thread may be waiting without a timeout.
        watcher.bell.ring();
    }
    Ok(())
}

impl Watched {
    pub(super) fn new(descriptor: QueueDescriptor) -> Self {
        Self(Arc::new(Entry {
            descriptor,
            state: Mutex::default(),
        }))
    }
}

impl Readiness for Watched {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let watcher = Watcher::running()?;
        let mut state = lock(&self.0.state);
        match &mut *state {
            Watch::Ready => {
                *state = Watch::Idle;
                return Poll::Ready(Ok(()));
            }
            Watch::Armed(waker) => {
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
            Watch::Idle => *state = Watch::Armed(cx.waker().clone()),
        }
        drop(state);
        watcher.add(self.0.clone());
        Poll::Pending
    }
}

impl Watcher {
    /// Returns the lists of the watcher thread, which starts with the first call.
    fn running() -> io::Result<&'static Self> {
        static STARTED: Mutex<bool> = Mutex::new(false);
        let mut started = lock(&STARTED);
        if !*started {
            let bell = Doorbell::new()?;
            let watcher = WATCHER.get_or_init(|| Self {
                entries: Mutex::default(),
                sleepers: Mutex::default(),
                bell,
            });
            let builder = thread::Builder::new().name("oxifabric-watch".into());
            builder.spawn(|| watcher.run())?;
            *started = true;
        }
        WATCHER.get().ok_or_else(|| io::ErrorKind::Other.into())
    }

    fn add(&self, entry: Arc<Entry>) {
        let mut entries = lock(&self.entries);
        entries.push(entry);
        self.bell.ring();
    }

    /// Waits for readable descriptors and for ticks, without end, and wakes the tasks that wait for them.
    fn run(&self) {
        loop {
            let timeout_ms = self.wake_sleepers();
            let watched = lock(&self.entries).clone();
            let bell = self.bell.as_fd();
            let fds = watched.iter().map(|entry| entry.descriptor.as_fd());
            let ready = readable(std::iter::once(bell).chain(fds), timeout_ms);
            self.bell.quiet();
            let mut wakers = Vec::new();
            for (entry, _) in watched.iter().zip(&ready[1..]).filter(|(_, is)| **is) {
                self.remove(entry);
                wakers.extend(entry.fire());
            }
            // The entries are dropped before the tasks run: they keep queues open.
            drop(watched);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes the tasks whose time has come; returns the timeout in milliseconds of the thread's next wait, without a limit if negative.
    fn wake_sleepers(&self) -> i32 {
        let now = Instant::now();
        let (due, timeout_ms) = {
            let mut sleepers = lock(&self.sleepers);
            let due: Vec<_> = sleepers.extract_if(.., |(due, _)| *due <= now).collect();
            let timeout_ms = if sleepers.is_empty() {
                -1
            } else {
                TICK_MS.into()
            };
            (due, timeout_ms)
        };
        due.into_iter().for_each(|(_, sleeper)| sleeper.wake());
        timeout_ms
    }

    fn remove(&self, gone: &Arc<Entry>) {
        let mut entries = lock(&self.entries);
        entries.retain(|entry| !Arc::ptr_eq(entry, gone));
    }
}

impl Entry {
    fn fire(&self) -> Option<Waker> {
        let mut state = lock(&self.state);
        match core::mem::replace(&mut *state, Watch::Ready) {
            Watch::Armed(waker) => Some(waker),
            _ => None,
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The descriptor need not be polled any more; the queue may close. Without a thread it never was.
        if let Some(watcher) = WATCHER.get() {
            watcher.remove(&self.0);
            watcher.bell.ring();
        }
    }
}
