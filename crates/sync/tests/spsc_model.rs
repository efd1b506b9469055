//! The lane under the interleavings and memory orders that the C11 model allows, within small bounds: few messages
//! and few forced switches of threads, because every one multiplies the cases.

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use oxifabric_sync::spsc::{Cell, Consumer, Layout, Memory, Producer, Word};

struct Checked(AtomicU64);

impl Word for Checked {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
}

/// Every body takes a quarter of the ring; loom reports if both sides touch one at once.
struct Shared {
    control: [Checked; 8],
    cells: [[Checked; 8]; 4],
    bodies: [UnsafeCell<u64>; 4],
}

fn line() -> [Checked; 8] {
    std::array::from_fn(|_| Checked(AtomicU64::new(0)))
}

#[derive(Clone)]
struct Model(Arc<Shared>);

impl Memory for Model {
    type Word = Checked;

    fn layout(&self) -> Layout {
        Layout::new(4, 1024).expect("powers of two")
    }

    fn control(&self) -> &[Checked; 8] {
        &self.0.control
    }

    fn cell(&self, position: u64) -> &[Checked; 8] {
        &self.0.cells[position as usize % 4]
    }
}

const BODY: usize = 256;

fn send(tx: &mut Producer<Model>, shared: &Shared, id: u64, hold: bool) {
    let start = loop {
        match tx.reserve(BODY).expect("an honest consumer") {
            Some(start) => break start,
            None => thread::yield_now(),
        }
    };
    shared.bodies[start / BODY].with_mut(|body| {
        // SAFETY: loom checks that no other thread has the body.
        unsafe { *body = id }
    });
    let cell = Cell {
        meta: 7,
        words: [id; 7],
    };
    tx.push(&cell, BODY, hold);
}

fn receive(rx: &mut Consumer<Model>, shared: &Shared) -> u64 {
    let cell = loop {
        match rx.peek() {
            Some(cell) => break cell,
            None => thread::yield_now(),
        }
    };
    assert_eq!((cell.meta, cell.words), (7, [cell.words[0]; 7]));
    let start = rx.locate(BODY).expect("a length that was pushed");
    let body = shared.bodies[start / BODY].with(|body| {
        // SAFETY: loom checks that no thread writes the body.
        unsafe { *body }
    });
    assert_eq!(body, cell.words[0]);
    rx.advance(BODY);
    body
}

fn check(count: u64, hold: bool, switches: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(move || {
        let shared = Arc::new(Shared {
            control: line(),
            cells: std::array::from_fn(|_| line()),
            bodies: std::array::from_fn(|_| UnsafeCell::new(u64::MAX)),
        });
        let mut tx = Producer::new(Model(shared.clone()));
        let mut rx = Consumer::new(Model(shared.clone()));
        let theirs = shared.clone();
        let sender = thread::spawn(move || {
            for id in 0..count {
                send(&mut tx, &theirs, id, hold && id + 1 < count);
            }
        });
        for id in 0..count {
            assert_eq!(receive(&mut rx, &shared), id);
        }
        sender.join().expect("the sender finishes");
    });
}

#[test]
fn cells_and_bodies_are_complete_when_seen() {
    check(2, false, 3);
}

#[test]
fn cells_held_back_are_complete_when_seen() {
    check(3, true, 3);
}

#[test]
fn cells_and_bodies_are_reused_only_after_they_were_given_back() {
    check(5, false, 2);
}
