//! A ping-pong of short messages allocates nothing.

mod sides;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use oxifabric::{Buffer, Operation};

use sides::Side;

/// How long anything may take before the test fails.
const WATCHDOG: Duration = Duration::from_secs(60);
/// Rounds until everything that is kept for later use is there, and rounds that are counted.
const WARM_UP: usize = 200;
const ROUNDS: usize = 2000;

/// Counts the allocations of the thread that asks for it.
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

/// Two endpoints of one thread, which throw one buffer to and fro.
struct Game {
    sides: [Side; 2],
}

impl Game {
    fn open(provider: &str) -> Self {
        let sides = sides::open(provider);
        Self { sides }
    }

    /// One message from a side to the other; both buffers come back.
    fn throw(&self, from: usize, out: Buffer, into: Buffer) -> (Buffer, Buffer) {
        let start = Instant::now();
        let ((sender, at_sender, to), (receiver, at_receiver, _)) =
            (&self.sides[from], &self.sides[1 - from]);
        receiver.receive_tagged(7, 0, into).unwrap();
        let (mut out, mut sent, mut received) = (Some(out), None, None);
        while sent.is_none() || received.is_none() {
            assert!(start.elapsed() < WATCHDOG, "no completion came");
            if let Some(buffer) = out.take() {
                out = match sender.send_tagged(*to, 7, buffer) {
                    Ok(_) => None,
                    Err(refused) => Some(refused.buffer),
                };
            }
            for queue in [at_sender, at_receiver] {
                if let Some(done) = queue.poll().unwrap() {
                    let (buffer, transfer) = done.ok().unwrap();
                    match transfer.operation {
                        Operation::Receive => received = Some(buffer),
                        _ => sent = Some(buffer),
                    }
                }
            }
        }
        (sent.unwrap(), received.unwrap())
    }
}

fn a_ping_pong_allocates_nothing(provider: &str) {
    let game = Game::open(provider);
    let (mut out, mut into) = (Buffer::from(b"8 bytes!"), Buffer::zeroed(8));
    for round in 0..WARM_UP {
        (out, into) = game.throw(round % 2, out, into);
    }
    let before = COUNT.get();
    for round in 0..ROUNDS {
        (out, into) = game.throw(round % 2, out, into);
    }
    let allocated = COUNT.get() - before;
    assert_eq!(&into[..], b"8 bytes!");
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
