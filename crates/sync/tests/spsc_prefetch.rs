//! Which lines the ends of a lane ask for before they need them: a line asked for too early is taken from the other end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use oxifabric_sync::spsc::{Cell, Consumer, Layout, Memory, Producer};

const CELLS: usize = 16;
const LINE: usize = 64;

/// What an end asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The cell at a position, to read or to write it.
    Read(u64),
    Write(u64),
    /// So many lines of bodies from an offset on.
    ReadBody(usize, usize),
    WriteBody(usize, usize),
}

#[derive(Default)]
struct Lines {
    control: [AtomicU64; 8],
    cells: [[AtomicU64; 8]; CELLS],
    asked: RefCell<Vec<Asked>>,
}

#[derive(Clone, Default)]
struct Recorder(Rc<Lines>);

impl Recorder {
    fn ask(&self, what: Asked) {
        self.0.asked.borrow_mut().push(what);
    }

    /// Returns what was asked for since the last call.
    fn take(&self) -> Vec<Asked> {
        self.0.asked.take()
    }
}

impl Memory for Recorder {
    type Word = AtomicU64;

    fn layout(&self) -> Layout {
        Layout::new(CELLS, 16 * 1024).expect("powers of two")
    }

    fn control(&self) -> &[AtomicU64; 8] {
        &self.0.control
    }

    fn cell(&self, position: u64) -> &[AtomicU64; 8] {
        &self.0.cells[position as usize % CELLS]
    }

    fn will_write(&self, position: u64) {
        self.ask(Asked::Write(position));
    }

    fn will_read(&self, position: u64) {
        self.ask(Asked::Read(position));
    }

    fn will_write_body(&self, offset: usize, lines: usize) {
        self.ask(Asked::WriteBody(offset, lines));
    }

    fn will_read_body(&self, offset: usize, lines: usize) {
        self.ask(Asked::ReadBody(offset, lines));
    }
}

fn lane() -> (Producer<Recorder>, Consumer<Recorder>, Recorder) {
    let lines = Recorder::default();
    let (tx, rx) = (Producer::new(lines.clone()), Consumer::new(lines.clone()));
    (tx, rx, lines)
}

fn push(tx: &mut Producer<Recorder>, len: usize) {
    let room = tx.reserve(len).expect("an honest consumer");
    room.expect("there is room");
    let cell = Cell {
        meta: 0,
        words: [0; 7],
    };
    tx.push(&cell, len, false);
}

fn pop(rx: &mut Consumer<Recorder>, len: usize) {
    rx.peek().expect("a cell is there");
    rx.locate(len).expect("a length that was pushed");
    rx.advance(len);
}

#[test]
fn a_consumer_that_keeps_up_asks_for_no_cell_that_the_producer_is_about_to_write() {
    let (mut tx, mut rx, lines) = lane();
    for _ in 0..2 * CELLS {
        push(&mut tx, 0);
        pop(&mut rx, 0);
        assert!(rx.peek().is_none());
    }
    assert_eq!(lines.take(), []);
}

#[test]
fn a_consumer_that_is_behind_asks_for_later_cells_from_the_fifth_on() {
    let (mut tx, mut rx, lines) = lane();
    (0..8).for_each(|_| push(&mut tx, 0));
    (0..8).for_each(|_| pop(&mut rx, 0));
    let asked = (4..8).map(|position| Asked::Read(position + 2));
    assert_eq!(lines.take(), asked.collect::<Vec<_>>());
    // It has caught up, and takes its time again.
    assert!(rx.peek().is_none());
    push(&mut tx, 0);
    pop(&mut rx, 0);
    assert_eq!(lines.take(), []);
}

#[test]
fn a_producer_asks_for_all_lines_of_the_body_after_the_next_short_one() {
    for (len, lines_of_one) in [(1, 1), (64, 1), (65, 2), (192, 3), (256, 4)] {
        let (mut tx, _rx, lines) = lane();
        push(&mut tx, len);
        let after_next = 2 * lines_of_one * LINE;
        assert_eq!(lines.take(), [Asked::WriteBody(after_next, lines_of_one)]);
    }
}

#[test]
fn a_producer_asks_for_the_first_line_after_a_longer_body() {
    let (mut tx, _rx, lines) = lane();
    push(&mut tx, 4096);
    assert_eq!(lines.take(), [Asked::WriteBody(4096, 1)]);
}

#[test]
fn a_producer_that_expects_more_asks_for_a_cell_ahead() {
    let (tx, _rx, lines) = lane();
    tx.expect_more();
    assert_eq!(lines.take(), [Asked::Write(3)]);
}

#[test]
fn a_consumer_that_finds_nothing_asks_for_a_body_like_the_last_one_if_it_was_short() {
    for (len, lines_of_one) in [(0, None), (192, Some(3)), (257, None)] {
        let (mut tx, mut rx, lines) = lane();
        push(&mut tx, len);
        pop(&mut rx, len);
        lines.take();
        assert!(rx.peek().is_none());
        let asked = lines_of_one.map(|lines| Asked::ReadBody(lines * LINE, lines));
        assert_eq!(lines.take(), asked.into_iter().collect::<Vec<_>>());
    }
}
