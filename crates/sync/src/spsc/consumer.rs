//! The receiving side of a lane.

use core::sync::atomic::Ordering;

use super::memory::{Memory, RawMemory, Word};
use super::{Cell, Corrupt, LINE, Layout, SHORT_BODY};

/// Number of cells by which the prefetch of a cell's line precedes its read.
const AHEAD: u64 = 2;

/// Number of cells taken without an empty look between them from which on the next ones are prefetched. Before that the producer may be about to
/// write them, and would have to take the lines back.
const STREAK: u64 = 4;

/// Takes cells and bodies out of a lane.
#[derive(Debug)]
pub struct Consumer<M> {
    memory: M,
    layout: Layout,
    /// Number of cells that were taken, and number of them that were published to the producer.
    head: u64,
    published: u64,
    /// Bytes of the byte ring that were taken.
    byte_head: u64,
    byte_published: u64,
    /// Number of cells that were taken when the last look found none.
    caught_up: u64,
    /// Lines of the next body that are prefetched as long as its cell is not there.
    expected_lines: usize,
}

impl<M: Memory> Consumer<M> {
    /// Creates the consumer of a fresh lane.
    pub fn new(memory: M) -> Self {
        Self {
            layout: memory.layout(),
            memory,
            head: 0,
            published: 0,
            byte_head: 0,
            byte_published: 0,
            caught_up: 0,
            expected_lines: 0,
        }
    }

    /// Returns how many cells were taken, modulo 2^64.
    pub const fn taken(&self) -> u64 {
        self.head
    }

    /// Returns the lane's size.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns whether a cell is there.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        let first = self.memory.cell(self.head)[0].load(Ordering::Acquire);
        first as u32 == self.layout.lap(self.head)
    }

    /// Returns the next cell without taking it. Its words are read once.
    #[inline(always)]
    pub fn peek(&mut self) -> Option<Cell> {
        let line = self.memory.cell(self.head);
        let first = line[0].load(Ordering::Acquire);
        if first as u32 != self.layout.lap(self.head) {
            self.caught_up = self.head;
            self.expect_body();
            return None;
        }
        // While the caller delivers this cell, a later one is prefetched: in a stream the producer has written it already.
        if self.head.wrapping_sub(self.caught_up) >= STREAK {
            self.memory.will_read(self.head.wrapping_add(AHEAD));
        }
        Some(cell_of(first, line))
    }

    /// Prefetches the next body, if it is as short as the last one: its lines then come while the cell does, not after it. Of longer ones the producer
    /// would lose lines that it has not finished.
    #[inline(always)]
    fn expect_body(&self) {
        if self.expected_lines > 0 {
            let start = self.layout.offset(self.byte_head);
            self.memory.will_read_body(start, self.expected_lines);
        }
    }

    /// Returns the cell that is `ahead` places behind the next one, if it is there. A lane has no more than its cells.
    pub fn peek_ahead(&self, ahead: u64) -> Option<Cell> {
        let position = self.head.wrapping_add(ahead);
        let line = self.memory.cell(position);
        let first = line[0].load(Ordering::Acquire);
        if ahead >= self.layout.cells() as u64 || first as u32 != self.layout.lap(position) {
            return None;
        }
        Some(cell_of(first, line))
    }

    /// Returns where in the byte ring the body of the next cell starts, given its length.
    ///
    /// # Errors
    /// [`Corrupt`] when no body can be as long.
    #[inline]
    pub fn locate(&self, len: usize) -> Result<usize, Corrupt> {
        if len > self.layout.max_body() {
            return Err(Corrupt);
        }
        let (start, _) = self.layout.place(self.byte_head, len);
        Ok(self.layout.offset(start))
    }

    /// Takes the next cell and its body of `len` bytes; returns whether the producer was notified.
    #[inline]
    pub fn advance(&mut self, len: usize) -> bool {
        debug_assert!(self.is_ready(), "took a cell that is not there");
        self.head = self.head.wrapping_add(1);
        self.expected_lines = match len {
            0..=SHORT_BODY => len.div_ceil(LINE),
            _ => 0,
        };
        if len != 0 {
            self.byte_head = self.layout.place(self.byte_head, len).1;
            let next = self.layout.offset(self.byte_head);
            self.memory.will_read_body(next, 1);
        }
        self.is_due(len != 0) && self.publish()
    }

    /// Returns whether the producer is to be notified: a quarter of the cells, or of the bytes, is free again.
    #[inline(always)]
    fn is_due(&self, bytes_too: bool) -> bool {
        let cells = self.head.wrapping_sub(self.published) as usize;
        let bytes = self.byte_head.wrapping_sub(self.byte_published) as usize;
        cells >= self.layout.cells() / 4 || (bytes_too && bytes >= self.layout.bytes() / 4)
    }

    /// Publishes the position of this side to the producer; returns whether it has changed.
    pub fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        let control = self.memory.control();
        control[1].store(self.byte_head, Ordering::Release);
        control[0].store(self.head, Ordering::Release);
        self.published = self.head;
        self.byte_published = self.byte_head;
        true
    }
}

/// Reads a cell whose first word was read.
#[inline(always)]
fn cell_of<W: Word>(first: u64, line: &[W; 8]) -> Cell {
    let mut words = [0; 7];
    for (value, word) in words.iter_mut().zip(&line[1..]) {
        *value = word.load(Ordering::Relaxed);
    }
    Cell {
        meta: (first >> 32) as u32,
        words,
    }
}

impl<K> Consumer<RawMemory<K>> {
    /// Lends the memory of the next cell's body, between [`Consumer::locate`] and [`Consumer::advance`].
    #[inline]
    pub fn body(&self, start: usize, len: usize) -> &[u8] {
        self.memory.body(start, len)
    }
}
