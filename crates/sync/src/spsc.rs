//! A lane: a single-producer single-consumer (SPSC) ring in shared memory, docs/protocol/shm.md "Lanes".
//!
//! Small messages are one cell, which is one cache line, and their arrival is seen by polling the first word of the
//! next cell: it holds the number of the lap in which the cell was written. Longer bodies lie in a ring of bytes
//! beside the cells; both sides compute from the lengths where the next body lies, so no offset is ever transmitted.
//! The consumer publishes how far it is only once in a quarter of the ring. No atomic read-modify-write is used.
//!
//! [`Producer`] and [`Consumer`] are plain state over a [`Memory`], so that a model checker can stand in for the real
//! one ([`RawMemory`]). Neither trusts the other: whatever the memory holds, they return errors at worst.

mod consumer;
mod memory;
mod producer;

pub use consumer::Consumer;
pub use memory::{Memory, RawMemory, Word};
pub use producer::Producer;

use core::fmt;

/// What a cell carries besides its lap: 32 bits beside it and seven words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Travels in the cell's first word.
    pub meta: u32,
    /// The rest of the cell.
    pub words: [u64; 7],
}

/// The other side broke the rules of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side of the lane wrote an impossible position")
    }
}

impl core::error::Error for Corrupt {}

/// Size of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    cells: u32,
    bytes: u32,
}

/// Bodies start at multiples of this many bytes, so that no two share a cache line.
const BODY_ALIGN: u64 = LINE as u64;

/// Length of a cache line.
const LINE: usize = 64;

/// Longest body that is prefetched as a whole before its cell is there, or before it is written.
const SHORT_BODY: usize = 256;

impl Layout {
    /// Describes a lane of `cells` cells and `bytes` bytes for bodies; `None` unless both are powers of two, at
    /// least 4 and 1024, and at most 2^24 and 2^30.
    pub const fn new(cells: usize, bytes: usize) -> Option<Self> {
        let cells_fit = cells.is_power_of_two() && cells >= 4 && cells <= 1 << 24;
        let bytes_fit = bytes.is_power_of_two() && bytes >= 1024 && bytes <= 1 << 30;
        if cells_fit && bytes_fit {
            Some(Self {
                cells: cells as u32,
                bytes: bytes as u32,
            })
        } else {
            None
        }
    }

    /// Returns how many cells there are.
    pub const fn cells(self) -> usize {
        self.cells as usize
    }

    /// Returns how many bytes there are for bodies.
    pub const fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// Returns the longest body: three eighths of the ring. Such a body always fits once the consumer has caught up, although less than a quarter of the
    /// ring may be free without being published, and although a body may not wrap round, which leaves out less than its length.
    pub const fn max_body(self) -> usize {
        self.bytes as usize / 8 * 3
    }

    /// Returns how many bytes of memory the lane needs: two lines of control words, cells, bodies.
    pub const fn size(self) -> usize {
        (memory::CONTROL_LINES + self.cells as usize) * 64 + self.bytes as usize
    }

    /// Returns the lap of a cell's position; laps start at one, because fresh memory is zero.
    const fn lap(self, position: u64) -> u32 {
        (position >> self.cells.trailing_zeros()) as u32 ^ FRESH
    }

    /// Returns where a body of `len` bytes starts that is placed at `position` or later, and where it ends.
    const fn place(self, position: u64, len: usize) -> (u64, u64) {
        let (size, len) = (self.bytes as u64, len as u64);
        let left = size - (position & (size - 1));
        let start = if len > left {
            position.wrapping_add(left)
        } else {
            position
        };
        let end = start.wrapping_add(len.next_multiple_of(BODY_ALIGN));
        (start, end)
    }

    const fn offset(self, position: u64) -> usize {
        (position & (self.bytes as u64 - 1)) as usize
    }
}

/// Added to laps by exclusive or: no lap within the first 2^31 looks like fresh memory.
const FRESH: u32 = 0x8000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_powers_of_two_within_bounds() {
        assert!(Layout::new(256, 1 << 17).is_some());
        assert!(Layout::new(255, 1 << 17).is_none());
        assert!(Layout::new(2, 1 << 17).is_none());
        assert!(Layout::new(256, 1000).is_none());
        assert!(Layout::new(256, 1 << 31).is_none());
    }

    #[test]
    fn bodies_never_wrap_round() {
        let layout = Layout::new(4, 1024).expect("powers of two");
        assert_eq!(layout.place(0, 100), (0, 128));
        assert_eq!(layout.place(960, 64), (960, 1024));
        assert_eq!(layout.place(960, 65), (1024, 1152));
        assert_eq!(layout.offset(1024), 0);
    }

    #[test]
    fn laps_differ_from_fresh_memory_and_from_the_last_lap() {
        let layout = Layout::new(4, 1024).expect("powers of two");
        assert_ne!(layout.lap(0), 0);
        assert_eq!(layout.lap(0), layout.lap(3));
        assert_ne!(layout.lap(3), layout.lap(4));
    }
}
