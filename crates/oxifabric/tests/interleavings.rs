//! The table of operations in flight under all interleavings and memory orders that the C11 model allows, within small bounds: a few
//! operations on two threads. Loom also reports if two threads access the memory of one slot, or the local free list, at once.
//!
//! The table is compiled here anew, with words and memory that loom checks in place of those of `raw/exchange.rs`.

#[path = "../src/raw/owner_thread.rs"]
mod owner_thread;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "part of it is for users of the crate, and what needs a provider is not run here"
)]
#[path = "../src/raw/slots.rs"]
mod slots;

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;
use slots::{InFlightOp, Slots};

/// Replaces `raw/exchange.rs` by types that loom checks, with small bounds.
mod exchange {
    pub(super) use loom::cell::Cell;
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
    pub(super) use loom::sync::{Mutex, MutexGuard};

    pub(super) const FIRST: u32 = 2;
    pub(super) const LOCAL_SLOTS: usize = 1;

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
        // Not checked: that numbers differ is all that matters.
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        if number() == 0 {
            let next = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            NUMBER.with(|number| number.set(next));
        }
        number()
    }
}

/// Replaces the memory of an operation: counts how often it is dropped.
#[derive(Debug)]
pub(crate) struct Memory(Ends);

/// Number of dropped memories. Not checked by loom: it is read when the threads have ended.
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

/// Replaces the address of a peer.
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

/// The number of the endpoint that posts the operations.
const ENDPOINT: u32 = 7;

/// A table and the number of its dropped memories.
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

    /// Posts an operation; returns the context as a number, so that it may go to another thread.
    fn post(&self) -> usize {
        let in_flight = InFlightOp {
            memory: Memory(self.ends.clone()),
            addr: u64::MAX,
            vector: 0,
            operation: error::Operation,
        };
        let filled = self
            .slots
            .take()
            .expect("the table grows")
            .fill(ENDPOINT, in_flight);
        filled.parts().0.expose_provenance()
    }

    /// Completes an operation; returns whether it was still in flight.
    fn complete(&self, context: usize) -> bool {
        self.complete_found(&self.slots.begin_read(), context)
    }

    fn complete_found(&self, guard: &slots::ReadGuard<'_>, context: usize) -> bool {
        let context = std::ptr::with_exposed_provenance_mut(context);
        // SAFETY: the context is of this table, and completed once.
        let claim = unsafe { self.slots.claim(guard, context) };
        claim.map(|claim| drop(claim.finish())).is_some()
    }

    /// Frees what is in flight, as a closed endpoint does; returns false where only another thread may.
    fn abandon(&self) -> bool {
        // SAFETY: there is no provider.
        unsafe { self.slots.abandon(ENDPOINT) }.is_some()
    }

    fn ends(&self) -> usize {
        self.ends.load(Ordering::Relaxed)
    }
}

/// Runs every order of the steps of two threads, with at most three forced switches between them.
fn explore(steps: impl Fn(&Arc<World>) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let world = Arc::new(World::new());
        steps(&world);
    });
}

fn elsewhere<R: 'static>(
    world: &Arc<World>,
    act: impl FnOnce(&World) -> R + 'static,
) -> thread::JoinHandle<R> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

/// Makes this thread the owner.
fn become_owner(world: &World) {
    let context = world.post();
    assert!(world.complete(context));
}

#[test]
fn the_close_of_an_endpoint_elsewhere_waits_for_the_owner_thread() {
    explore(|world| {
        become_owner(world);
        let context = world.post();
        let closing = elsewhere(world, World::abandon);
        assert!(world.complete(context), "no other thread may take it");
        assert!(!closing.join().unwrap());
        assert!(world.abandon());
        assert_eq!(world.ends(), 2);
    });
}

#[test]
fn one_of_completion_elsewhere_and_close_by_the_owner_gets_the_memory() {
    explore(|world| {
        become_owner(world);
        let context = world.post();
        let completing = elsewhere(world, move |world| world.complete(context));
        assert!(world.abandon());
        completing.join().unwrap();
        assert_eq!(world.ends(), 2, "the memory ends once");
    });
}

#[test]
fn two_threads_that_complete_for_the_first_time_both_succeed() {
    explore(|world| {
        let contexts = [world.post(), world.post()];
        let other = elsewhere(world, move |world| world.complete(contexts[1]));
        assert!(world.complete(contexts[0]));
        assert!(other.join().unwrap());
        assert_eq!(world.ends(), 2);
    });
}

#[test]
fn a_slot_that_is_given_back_is_taken_by_one_thread() {
    explore(|world| {
        become_owner(world);
        let contexts = [world.post(), world.post()];
        let posting = elsewhere(world, |world| world.post());
        // One slot stays in the local list, the other goes to the shared list.
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
    explore(|world| {
        become_owner(world);
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
    explore(|world| {
        become_owner(world);
        // What a provider has put into the queue before the endpoint was closed.
        let queue = Arc::new(exchange::Mutex::new(Some(world.post())));
        let read = queue.clone();
        let reading = elsewhere(world, move |world| {
            let guard = world.slots.begin_read();
            let found = exchange::lock(&read).take();
            found.is_some_and(|context| world.complete_found(&guard, context))
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
