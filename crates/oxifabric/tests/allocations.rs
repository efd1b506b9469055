//! A ping-pong of short messages allocates nothing.

#[allow(dead_code, reason = "other tests use the rest")]
mod pingpong;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pingpong::safe::Safe;
use pingpong::{pair, run_both};

/// Rounds until all memory that is kept for reuse has been allocated, and rounds that are counted.
const WARM_UP: usize = 200;
const ROUNDS: usize = 2000;

/// Counts the allocations of a thread.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends may allocate after its count is gone.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is handed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.realloc(start, layout, len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn a_ping_pong_allocates_nothing(provider: &str) {
    let mut sides = pair::<Safe>(provider);
    run_both(&mut sides, WARM_UP);
    let before = COUNT.get();
    run_both(&mut sides, ROUNDS);
    let allocated = COUNT.get() - before;
    assert_eq!(
        allocated, 0,
        "allocations in {ROUNDS} rounds over {provider}"
    );
}

#[test]
fn a_ping_pong_over_shm_allocates_nothing() {
    a_ping_pong_allocates_nothing("shm");
}

#[test]
fn a_ping_pong_over_tcp_allocates_nothing() {
    a_ping_pong_allocates_nothing("tcp");
}
