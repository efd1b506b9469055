//! Standing by: what automatic progress does for domains whose applications poll by themselves. One thread of the process
//! looks after all such domains, the *keeper*; the others sleep until their application stops polling.
//!
//! Each of them could look after its own. But threads that wake up again and again, beside others that poll, are hard on a
//! scheduler: with 32 domains on two processors Linux let other programs wait for seconds (docs/adr/0008).

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::{NOTICE, Upkeep};
use crate::domain::lock;
use crate::members::Drive;

/// How long nobody looks at first whether the application still polls.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// How long at most, however long the application goes on: so late may a message be seen at an endpoint that the
/// application does not poll. A power of two times the shortest, so that pauses end together.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// How often endpoints are driven in a row meanwhile, as long as something moves: the keeper must not compete with who polls.
const ROUNDS: usize = 8;

/// Leaves the devices of a domain to the application for as long as it polls. Call it in the domain's own thread.
pub(super) fn stand_by(upkeep: &Arc<Upkeep>) {
    stand_by_at(Watch::of_process(), upkeep);
}

fn stand_by_at(watch: &Watch, upkeep: &Arc<Upkeep>) {
    watch.enter(upkeep);
    while watch.is_on_list(upkeep) {
        match Keeper::appoint(watch) {
            Some(keeper) => keeper.keep(upkeep),
            None => thread::park(),
        }
    }
}

/// The domains of a process that are looked after.
struct Watch {
    /// A forked child has none of the threads, and perhaps a lock that nobody will open.
    pid: u32,
    begin: Instant,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    posts: Vec<Post>,
    /// Who looks after all.
    keeper: Option<Thread>,
}

/// A domain whose application polls.
struct Post {
    upkeep: Arc<Upkeep>,
    /// Sleeps until the domain is off the list.
    thread: Thread,
    pause: Duration,
    /// When to look next, since the watch began.
    due: Duration,
}

impl Watch {
    /// Returns that of this process.
    fn of_process() -> &'static Self {
        static CURRENT: AtomicPtr<Watch> = AtomicPtr::new(ptr::null_mut());
        let pid = std::process::id();
        let known = CURRENT.load(Ordering::Acquire);
        // SAFETY: what is stored here is never freed: there is one in each process of a line of forks.
        if let Some(watch) = unsafe { known.as_ref() }
            && watch.pid == pid
        {
            return watch;
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
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: as above; only threads of this process store here, and never null.
                unsafe { &*other }
            }
        }
    }

    /// Puts a domain on the list, whose thread is the caller.
    fn enter(&self, upkeep: &Arc<Upkeep>) {
        upkeep.ask_anew();
        let mut list = lock(&self.list);
        list.posts.push(Post {
            upkeep: Arc::clone(upkeep),
            thread: thread::current(),
            pause: SHORTEST_PAUSE,
            due: end_of(SHORTEST_PAUSE, self.begin.elapsed()),
        });
        // It sleeps perhaps until somebody else's pause is over.
        if let Some(keeper) = &list.keeper {
            keeper.unpark();
        }
    }

    /// Tells whether a domain is looked after, which ends when it closes.
    fn is_on_list(&self, upkeep: &Arc<Upkeep>) -> bool {
        let mut list = lock(&self.list);
        if upkeep.auto.is_stopping() {
            list.posts.retain(|post| !Arc::ptr_eq(&post.upkeep, upkeep));
        }
        list.posts
            .iter()
            .any(|post| Arc::ptr_eq(&post.upkeep, upkeep))
    }

    /// Looks after the domains that are due, takes those off the list whose applications poll no more, and returns how long
    /// there is nothing to do.
    fn look(&self) -> Duration {
        let mut list = lock(&self.list);
        let now = self.begin.elapsed();
        list.posts.retain_mut(|post| {
            let stays = now < post.due || post.look(now);
            if !stays {
                post.thread.unpark();
            }
            stays
        });
        let next = list.posts.iter().map(|post| post.due).min();
        next.unwrap_or(now).saturating_sub(now)
    }
}

/// The office of the thread that looks after all.
struct Keeper<'a>(&'a Watch);

impl<'a> Keeper<'a> {
    /// Takes the office if it is vacant.
    fn appoint(watch: &'a Watch) -> Option<Self> {
        let mut list = lock(&watch.list);
        if list.keeper.is_some() {
            return None;
        }
        list.keeper = Some(thread::current());
        Some(Self(watch))
    }

    /// Looks after all domains while the caller's own is among them.
    fn keep(&self, own: &Arc<Upkeep>) {
        while self.0.is_on_list(own) {
            thread::park_timeout(self.0.look());
        }
    }
}

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        let mut list = lock(&self.0.list);
        list.keeper = None;
        // Any of them may be about to leave the list, and would tell nobody that the office is vacant.
        for post in &list.posts {
            post.thread.unpark();
        }
    }
}

impl Post {
    /// Drives the domain, since the application may poll some of its endpoints only; tells whether it still polls.
    fn look(&mut self, now: Duration) -> bool {
        let upkeep = &self.upkeep;
        let moved = (0..ROUNDS)
            .take_while(|_| upkeep.roster.progress() > 0)
            .count();
        upkeep.run_works();
        upkeep.pay_conds();
        // What an application holds back that computes now must not wait for long.
        self.pause = match moved > 0 || upkeep.take_held() {
            false => (self.pause * 2).min(LONGEST_PAUSE),
            true => SHORTEST_PAUSE,
        };
        self.due = end_of(self.pause, now);
        upkeep.ask_anew()
    }
}

/// Returns when a pause ends that begins now. Pauses of many domains end at the same times, so that they share a wake-up.
fn end_of(pause: Duration, now: Duration) -> Duration {
    let [pause, now] = [pause, now].map(|time| time.as_nanos() as u64);
    Duration::from_nanos((now.div_ceil(pause) + 1) * pause)
}

impl Upkeep {
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
    fn the_office_is_taken_although_the_next_in_line_closes() {
        let watch = Arc::new(Watch {
            pid: std::process::id(),
            begin: Instant::now(),
            list: Mutex::default(),
        });
        let keeper = Keeper::appoint(&watch);
        assert!(keeper.is_some(), "nobody had the office");
        let [closes, stays] = [1, 2].map(|nth| {
            let upkeep = Arc::new(Upkeep::new(true, true));
            let of_thread = (Arc::clone(&watch), Arc::clone(&upkeep));
            let thread = thread::spawn(move || stand_by_at(&of_thread.0, &of_thread.1));
            while lock(&watch.list).posts.len() < nth {
                thread::yield_now();
            }
            (upkeep, thread)
        });
        // Whoever closes it has not come to waking its thread yet.
        closes.0.auto.say_stop();
        drop(keeper);
        // Nobody polls, so whoever has the office takes it off the list.
        let ends = |thread: &thread::JoinHandle<()>| {
            (0..20_000_000).any(|_| {
                thread::yield_now();
                thread.is_finished()
            })
        };
        assert!(ends(&closes.1));
        assert!(ends(&stays.1), "nobody looks any more");
        for (_, thread) in [closes, stays] {
            thread.join().expect("no thread panics");
        }
    }
}
