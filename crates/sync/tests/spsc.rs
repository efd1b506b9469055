//! The lane against an oracle, and under two real threads.

use std::alloc::{Layout as Allocation, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use oxifabric_sync::spsc::{Cell, Consumer, Corrupt, Layout, Producer, RawMemory};
use proptest::prelude::*;

/// Zeroed memory, aligned as a mapping would be.
struct Block {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: the block is plain memory; the lane decides which end may touch it.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(size: usize) -> Arc<Self> {
        let allocation = Allocation::from_size_align(size, 64).expect("a small size");
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(allocation) }).expect("memory");
        Arc::new(Self { base, size })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let allocation = Allocation::from_size_align(self.size, 64).expect("as allocated");
        // SAFETY: allocated so in `new`.
        unsafe { dealloc(self.base.as_ptr(), allocation) };
    }
}

type Memory = RawMemory<Arc<Block>>;

fn lane(layout: Layout) -> (Producer<Memory>, Consumer<Memory>, Arc<Block>) {
    let block = Block::new(layout.size());
    // SAFETY: the block is large enough and kept alive; it gets one producer and one consumer.
    let memory = || unsafe { RawMemory::new(block.base, layout, Arc::clone(&block)) };
    (Producer::new(memory()), Consumer::new(memory()), block)
}

fn cell(id: u64, len: usize) -> Cell {
    Cell {
        meta: len as u32,
        words: [id, !id, 0, 0, 0, 0, id ^ 0x5555],
    }
}

fn push(tx: &mut Producer<Memory>, id: u64, len: usize, hold: bool) -> bool {
    let Some(start) = tx.reserve(len).expect("an honest consumer") else {
        return false;
    };
    tx.body_mut(start, len).fill(id as u8);
    tx.push(&cell(id, len), len, hold);
    true
}

fn pop(rx: &mut Consumer<Memory>) -> Option<(u64, usize)> {
    let cell = rx.peek()?;
    let (id, len) = (cell.words[0], cell.meta as usize);
    assert_eq!((cell.words[1], cell.words[6]), (!id, id ^ 0x5555));
    let start = rx.locate(len).expect("a length that was pushed");
    let body = rx.body(start, len);
    assert_eq!(body.len(), len);
    assert!(body.iter().all(|&byte| byte == id as u8));
    rx.advance(len);
    Some((id, len))
}

#[derive(Clone, Debug)]
enum Operation {
    Push { len: usize, hold: bool },
    Publish,
    Pop,
    Tell,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0usize..=1536, any::<bool>()).prop_map(|(len, hold)| Operation::Push { len, hold }),
        1 => Just(Operation::Publish),
        4 => Just(Operation::Pop),
        1 => Just(Operation::Tell),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_bounded_queue(operations in prop::collection::vec(operation(), 0..400)) {
        let layout = Layout::new(8, 4096).expect("powers of two");
        let (mut tx, mut rx, _block) = lane(layout);
        let (mut seen, mut held) = (VecDeque::new(), VecDeque::new());
        let mut next = 0;
        for operation in operations {
            match operation {
                Operation::Push { len, hold } => {
                    let pushed = push(&mut tx, next, len, hold);
                    if pushed {
                        held.push_back((next, len));
                        next += 1;
                    } else {
                        prop_assert!(!seen.is_empty() || !held.is_empty(), "an empty lane takes any body");
                    }
                    if !pushed || !hold {
                        seen.append(&mut held);
                    }
                }
                Operation::Publish => {
                    tx.publish();
                    seen.append(&mut held);
                }
                Operation::Pop => prop_assert_eq!(pop(&mut rx), seen.pop_front()),
                Operation::Tell => { rx.publish(); }
            }
            prop_assert!(seen.len() + held.len() <= layout.cells());
        }
    }
}

#[test]
fn two_threads_see_every_message_once_in_order() {
    const COUNT: u64 = 200_000;
    let (mut tx, mut rx, _block) = lane(Layout::new(16, 8192).expect("powers of two"));
    let sender = thread::spawn(move || {
        for id in 0..COUNT {
            let len = (id * 37 % 3073) as usize * usize::from(id % 3 == 0);
            while !push(&mut tx, id, len, id % 5 == 0) {
                thread::yield_now();
            }
        }
        tx.publish();
    });
    for expected in 0..COUNT {
        let (id, _) = loop {
            match pop(&mut rx) {
                Some(got) => break got,
                None => thread::yield_now(),
            }
        };
        assert_eq!(id, expected);
    }
    sender.join().expect("the sender finishes");
    assert!(rx.peek().is_none());
}

#[test]
fn a_body_that_no_lane_takes_is_corrupt() {
    let layout = Layout::new(8, 4096).expect("powers of two");
    let (mut tx, rx, _block) = lane(layout);
    assert_eq!(tx.reserve(layout.max_body() + 1), Ok(None));
    assert_eq!(rx.locate(layout.max_body() + 1), Err(Corrupt));
}

#[test]
fn a_consumer_that_lies_about_its_position_is_found_out() {
    let (mut tx, _rx, block) = lane(Layout::new(4, 1024).expect("powers of two"));
    for id in 0..4 {
        assert!(push(&mut tx, id, 0, false));
    }
    for lie in [5u64, u64::MAX] {
        // SAFETY: the first word of the control line, written as a hostile peer would.
        unsafe { block.base.cast::<u64>().write_volatile(lie) };
        assert_eq!(tx.reserve(0), Err(Corrupt));
    }
}
