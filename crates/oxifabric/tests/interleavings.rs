//! The table of operations in flight under all interleavings and memory orders that the C11 model allows, within small bounds: a few
//! operations on two threads. Loom also reports if two threads are at the memory of one slot, or at the slots near home, at once.
//!
//! The table is compiled here anew, with words and memory that loom watches in place of those of `raw/exchange.rs`.

#[path = "../src/raw/home.rs"]
mod home;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "part of it is for users of the crate, and what needs a provider is not played here"
)]
#[path = "../src/raw/slots.rs"]
mod slots;

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;
use slots::{Load, Slots};

/// In place of `raw/exchange.rs`: the same, watched by loom, and small.
mod exchange {
    pub(super) use loom::cell::Cell;
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
    pub(super) use loom::sync::{Mutex, MutexGuard};

    pub(super) const FIRST: u32 = 2;
    pub(super) const NEAR: usize = 1;

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no holder panics")
    }

    pub(super) struct Guarded<T>(loom::cell::UnsafeCell<T>);

    impl<T> Guarded<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::cell::UnsafeCell::new(value))
        }

        pub(super) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
            self.0.with(look)
        }

        pub(super) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(change)
        }
    }

    loom::thread_local! {
        static NUMBER: std::cell::Cell<u64> = std::cell::Cell::new(0);
    }

    pub(super) fn number() -> u64 {
        NUMBER.with(std::cell::Cell::get)
    }

    pub(super) fn numbered() -> u64 {
        // Not watched: that numbers differ is all that matters.
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        if number() == 0 {
            let next = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            NUMBER.with(|number| number.set(next));
        }
        number()
    }
}

/// In place of the memory of an operation: counts how often it comes to an end.
#[derive(Debug)]
pub(crate) struct Memory(Ends);

/// How many there were. Not watched: it is looked at when the threads have ended.
type Ends = std::sync::Arc<std::sync::atomic::AtomicUsize>;

impl Memory {
    pub(crate) fn extent(&self) -> (NonNull<u8>, usize) {
        (NonNull::dangling(), 0)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// In place of the name of a peer.
#[derive(Debug)]
pub(crate) struct Peer;

impl Peer {
    fn new(_: u64, _: u32) -> Option<Self> {
        None
    }
}

#[allow(dead_code, reason = "nothing is fetched here")]
mod atomic {
    pub(crate) struct Fetched {
        pub(crate) datatype: u32,
        pub(crate) word: u128,
    }

    impl Fetched {
        pub(crate) const NOTHING: Self = Self {
            datatype: 0,
            word: 0,
        };
    }
}

mod error {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Operation;

    impl Operation {
        pub(crate) fn fetches(self) -> bool {
            false
        }
    }
}

/// The endpoint whose operations these are.
const OWNER: u32 = 7;

/// A table and the ends of memory that it has seen.
struct World {
    slots: Slots,
    ends: Ends,
}

impl World {
    fn new() -> Self {
        Self {
            slots: Slots::new(),
            ends: Ends::default(),
        }
    }

    /// Posts an operation; what a provider would return is a number, so that it may go to another thread.
    fn post(&self) -> usize {
        let load = Load {
            memory: Memory(self.ends.clone()),
            addr: u64::MAX,
            vector: 0,
            operation: error::Operation,
        };
        let filled = self
            .slots
            .take()
            .expect("the table grows")
            .fill(OWNER, load);
        filled.parts().0.expose_provenance()
    }

    /// Completes an operation; whether it was still there.
    fn complete(&self, context: usize) -> bool {
        self.complete_found(&self.slots.look(), context)
    }

    fn complete_found(&self, look: &slots::Look<'_>, context: usize) -> bool {
        let context = std::ptr::with_exposed_provenance_mut(context);
        // SAFETY: the context is of this table, and completed once.
        let claim = unsafe { self.slots.claim(look, context) };
        claim.map(|claim| drop(claim.finish())).is_some()
    }

    /// Frees what is in flight, as a closed endpoint does; false where only another thread may.
    fn abandon(&self) -> bool {
        // SAFETY: there is no provider.
        unsafe { self.slots.abandon(OWNER) }.is_some()
    }

    fn ends(&self) -> usize {
        self.ends.load(Ordering::Relaxed)
    }
}

/// Plays every order of the steps of two threads, with at most three forced switches between them.
fn play(game: impl Fn(&Arc<World>) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let world = Arc::new(World::new());
        game(&world);
    });
}

fn elsewhere<R: 'static>(
    world: &Arc<World>,
    act: impl FnOnce(&World) -> R + 'static,
) -> thread::JoinHandle<R> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

/// Makes this thread that at home.
fn settle(world: &World) {
    let context = world.post();
    assert!(world.complete(context));
}

#[test]
fn the_close_of_an_endpoint_elsewhere_waits_for_the_thread_at_home() {
    play(|world| {
        settle(world);
        let context = world.post();
        let closing = elsewhere(world, World::abandon);
        assert!(world.complete(context), "nobody else may take it");
        assert!(!closing.join().unwrap());
        assert!(world.abandon());
        assert_eq!(world.ends(), 2);
    });
}

#[test]
fn one_of_completion_elsewhere_and_close_at_home_gets_the_memory() {
    play(|world| {
        settle(world);
        let context = world.post();
        let completing = elsewhere(world, move |world| world.complete(context));
        assert!(world.abandon());
        completing.join().unwrap();
        assert_eq!(world.ends(), 2, "the memory ends once");
    });
}

#[test]
fn two_threads_that_complete_for_the_first_time_both_succeed() {
    play(|world| {
        let contexts = [world.post(), world.post()];
        let other = elsewhere(world, move |world| world.complete(contexts[1]));
        assert!(world.complete(contexts[0]));
        assert!(other.join().unwrap());
        assert_eq!(world.ends(), 2);
    });
}

#[test]
fn a_slot_that_is_given_back_is_taken_by_one_thread() {
    play(|world| {
        settle(world);
        let contexts = [world.post(), world.post()];
        let posting = elsewhere(world, |world| world.post());
        // One slot stays near home, the other is for everybody.
        for context in contexts {
            assert!(world.complete(context));
        }
        let mine = world.post();
        let theirs = posting.join().unwrap();
        assert_ne!(mine, theirs);
        assert!(world.complete(mine) && world.complete(theirs));
        assert_eq!(world.ends(), 5);
    });
}

#[test]
fn what_one_thread_posts_another_completes_whole() {
    play(|world| {
        settle(world);
        // A provider that orders nothing between the threads.
        let told = Arc::new(AtomicUsize::new(0));
        let heard = told.clone();
        let other = elsewhere(world, move |world| {
            let context = heard.load(Ordering::Relaxed);
            context != 0 && world.complete(context)
        });
        let context = world.post();
        told.store(context, Ordering::Relaxed);
        let is_done = other.join().unwrap();
        assert!(is_done || world.complete(context));
        assert_eq!(world.ends(), 2);
    });
}

#[test]
fn a_completion_in_the_hands_of_another_thread_is_never_that_of_a_later_operation() {
    play(|world| {
        settle(world);
        // What a provider has put into the queue before the endpoint was closed.
        let queue = Arc::new(exchange::Mutex::new(Some(world.post())));
        let read = queue.clone();
        let reading = elsewhere(world, move |world| {
            let look = world.slots.look();
            let found = exchange::lock(&read).take();
            found.is_some_and(|context| world.complete_found(&look, context))
        });
        assert!(world.abandon());
        // SAFETY: the queue was found empty.
        let reclaimed = exchange::lock(&queue).is_none() && unsafe { world.slots.reclaim() };
        let later = world.post();
        let completed_early = reading.join().unwrap();
        // The other thread may have got the first operation before it was abandoned, and never the later one.
        assert!(
            world.complete(later),
            "reclaimed: {reclaimed}, {completed_early}"
        );
        assert_eq!(world.ends(), 3);
    });
}
