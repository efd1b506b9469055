//! Automatic progress of domains whose applications poll by themselves. One progress thread of the process drives all such
//! domains, the *shared driver*; the others sleep until their application stops polling.
//!
//! Each progress thread could drive its own domain. But threads that wake up again and again, beside others that poll, are
//! hard on a scheduler: with 32 domains on two processors Linux let other programs wait for seconds (docs/adr/0008).

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::{DomainProgress, NOTICE};
use crate::lock::lock;

/// First pause until the shared driver checks whether the application still polls.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause, however long the application goes on polling: a message at an endpoint that the application does not
/// poll may be seen that late. A power of two times the shortest, so that pauses end together.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// How often endpoints are driven in a row, as long as something moves: the shared driver must not compete with threads that
/// poll.
const ROUNDS: usize = 8;

/// Leaves the devices of a domain to the application for as long as it polls. Call it in the domain's own thread.
pub(super) fn wait_while_polled(progress: &Arc<DomainProgress>) {
    wait_in(Registry::of_process(), progress);
}

fn wait_in(registry: &Registry, progress: &Arc<DomainProgress>) {
    registry.add(progress);
    while registry.contains(progress) {
        match SharedDriver::acquire(registry) {
            Some(driver) => driver.run(progress),
            None => thread::park(),
        }
    }
}

/// The domains of a process that the shared driver drives.
struct Registry {
    /// A forked child has none of the threads, and perhaps a lock that no thread will release.
    pid: u32,
    begin: Instant,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    /// The thread that drives all domains.
    driver: Option<Thread>,
}

/// A domain whose application polls.
struct Entry {
    progress: Arc<DomainProgress>,
    /// The domain's progress thread, which sleeps until the domain is off the list.
    thread: Thread,
    pause: Duration,
    /// When to drive the domain next, since `begin`.
    due: Duration,
}

impl Registry {
    /// Returns the registry of this process.
    fn of_process() -> &'static Self {
        static CURRENT: AtomicPtr<Registry> = AtomicPtr::new(ptr::null_mut());
        let pid = std::process::id();
        let known = CURRENT.load(Ordering::Acquire);
        // SAFETY: what is stored here is never freed: there is one in each process of a line of forks.
        if let Some(registry) = unsafe { known.as_ref() }
            && registry.pid == pid
        {
            return registry;
        }
        let fresh = Box::into_raw(Box::new(Self {
            pid,
            begin: Instant::now(),
            list: Mutex::default(),
        }));
        match CURRENT.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => unsafe { &*fresh },
            Err(other) => {
                // SAFETY: no other thread has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: as above; only threads of this process store here, and never null.
                unsafe { &*other }
            }
        }
    }

    /// Adds a domain, whose progress thread is the caller.
    fn add(&self, progress: &Arc<DomainProgress>) {
        progress.ask_anew();
        let mut list = lock(&self.list);
        list.entries.push(Entry {
            progress: Arc::clone(progress),
            thread: thread::current(),
            pause: SHORTEST_PAUSE,
            due: end_of(SHORTEST_PAUSE, self.begin.elapsed()),
        });
        // The driver may sleep until the pause of another domain is over.
        if let Some(driver) = &list.driver {
            driver.unpark();
        }
    }

    /// Returns whether a domain is on the list; a domain that closes is removed.
    fn contains(&self, progress: &Arc<DomainProgress>) -> bool {
        let mut list = lock(&self.list);
        if progress.auto.is_stopping() {
            list.entries
                .retain(|entry| !Arc::ptr_eq(&entry.progress, progress));
        }
        list.entries
            .iter()
            .any(|entry| Arc::ptr_eq(&entry.progress, progress))
    }

    /// Drives the domains that are due, removes those whose applications poll no more, and returns how long there is nothing to
    /// do.
    fn drive_due(&self) -> Duration {
        let mut list = lock(&self.list);
        let now = self.begin.elapsed();
        list.entries.retain_mut(|entry| {
            let stays = now < entry.due || entry.drive(now);
            if !stays {
                entry.thread.unpark();
            }
            stays
        });
        let next = list.entries.iter().map(|entry| entry.due).min();
        next.unwrap_or(now).saturating_sub(now)
    }
}

/// The exclusive role of the one thread that drives all domains of a registry.
struct SharedDriver<'a>(&'a Registry);

impl<'a> SharedDriver<'a> {
    /// Takes the role unless another thread has it.
    fn acquire(registry: &'a Registry) -> Option<Self> {
        let mut list = lock(&registry.list);
        if list.driver.is_some() {
            return None;
        }
        list.driver = Some(thread::current());
        Some(Self(registry))
    }

    /// Drives all domains while the caller's own is among them.
    fn run(&self, own: &Arc<DomainProgress>) {
        while self.0.contains(own) {
            thread::park_timeout(self.0.drive_due());
        }
    }
}

impl Drop for SharedDriver<'_> {
    fn drop(&mut self) {
        let mut list = lock(&self.0.list);
        list.driver = None;
        // All waiters: a single one may be about to leave the list, and would not pass the role on.
        for entry in &list.entries {
            entry.thread.unpark();
        }
    }
}

impl Entry {
    /// Drives the domain, since the application may poll some of its endpoints only; returns whether it still polls.
    fn drive(&mut self, now: Duration) -> bool {
        let progress = &self.progress;
        let moved = (0..ROUNDS)
            .take_while(|_| progress.drive_unattended().0 > 0)
            .count();
        // What an application holds back that computes now must not wait for long.
        self.pause = match moved > 0 || progress.take_held() {
            false => (self.pause * 2).min(LONGEST_PAUSE),
            true => SHORTEST_PAUSE,
        };
        self.due = end_of(self.pause, now);
        progress.ask_anew()
    }
}

/// Returns when a pause ends that begins now. Pauses of many domains end at the same times, so that they share a wake-up.
fn end_of(pause: Duration, now: Duration) -> Duration {
    let [pause, now] = [pause, now].map(|time| time.as_nanos() as u64);
    Duration::from_nanos((now.div_ceil(pause) + 1) * pause)
}

impl DomainProgress {
    /// Asks whether the application polls, and returns the answer to the question before.
    fn ask_anew(&self) -> bool {
        let polled = self.auto.take_polled();
        self.word.fetch_or(NOTICE, Ordering::SeqCst);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_is_taken_although_the_domain_of_the_next_waiter_closes() {
        let registry = Arc::new(Registry {
            pid: std::process::id(),
            begin: Instant::now(),
            list: Mutex::default(),
        });
        let driver = SharedDriver::acquire(&registry);
        assert!(driver.is_some(), "no thread had the role");
        let [closes, stays] = [1, 2].map(|nth| {
            let progress = Arc::new(DomainProgress::new(true, true));
            let of_thread = (Arc::clone(&registry), Arc::clone(&progress));
            let thread = thread::spawn(move || wait_in(&of_thread.0, &of_thread.1));
            while lock(&registry.list).entries.len() < nth {
                thread::yield_now();
            }
            (progress, thread)
        });
        // The closing call has not yet woken the domain's thread.
        closes.0.auto.say_stop();
        drop(driver);
        // No application polls, so the thread with the role removes the domain from the list.
        let ends = |thread: &thread::JoinHandle<()>| {
            (0..20_000_000).any(|_| {
                thread::yield_now();
                thread.is_finished()
            })
        };
        assert!(ends(&closes.1));
        assert!(ends(&stays.1), "no thread has the role any more");
        for (_, thread) in [closes, stays] {
            thread.join().expect("no thread panics");
        }
    }
}
