//! The sending side of a lane.

use core::sync::atomic::Ordering;

use super::memory::{Memory, RawMemory, Word};
use super::{Cell, Corrupt, LINE, Layout, SHORT_BODY};

/// Number of cells by which the prefetch of a cell's line precedes its write.
const AHEAD: u64 = 3;

/// Puts cells and bodies into a lane.
#[derive(Debug)]
pub struct Producer<M> {
    memory: M,
    layout: Layout,
    /// Number of cells that were pushed, and number of them that the consumer was known to have taken.
    tail: u64,
    head: u64,
    /// Bytes of the byte ring that were written.
    byte_tail: u64,
    byte_head: u64,
    /// Where the body that was reserved last ends.
    reserved: u64,
    /// The first cell that is complete but for its first word, and that word: the consumer sees neither it nor
    /// those behind it yet.
    held: Option<(u64, u64)>,
}

impl<M: Memory> Producer<M> {
    /// Creates the producer of a fresh lane.
    pub fn new(memory: M) -> Self {
        Self {
            layout: memory.layout(),
            memory,
            tail: 0,
            head: 0,
            byte_tail: 0,
            byte_head: 0,
            reserved: 0,
            held: None,
        }
    }

    /// Returns the size of the lane.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns how many cells were pushed, modulo 2^64.
    pub const fn pushed(&self) -> u64 {
        self.tail
    }

    /// Returns where in the byte ring a body of `len` bytes goes, if it and its cell fit now. If they do not, nothing
    /// stays held back, because only the consumer can make room.
    ///
    /// # Errors
    /// [`Corrupt`] when the consumer claims to be where it cannot be.
    #[inline(always)]
    pub fn reserve(&mut self, len: usize) -> Result<Option<usize>, Corrupt> {
        if !self.fits(len) {
            self.refresh()?;
            if !self.fits(len) {
                self.publish();
                return Ok(None);
            }
        }
        let (start, end) = self.layout.place(self.byte_tail, len);
        self.reserved = end;
        Ok(Some(self.layout.offset(start)))
    }

    /// Returns whether a body of `len` bytes does not fit, and the consumer has published nothing new. Cheaper than
    /// [`Producer::reserve`] for a caller that waits.
    #[inline]
    pub fn is_stuck(&self, len: usize) -> bool {
        let control = self.memory.control();
        !self.fits(len)
            && control[0].load(Ordering::Relaxed) == self.head
            && control[1].load(Ordering::Relaxed) == self.byte_head
    }

    /// Pushes a cell whose body of `len` bytes has been written to where [`Producer::reserve`] said just before.
    ///
    /// With `hold` the consumer does not see the cell before a push without `hold`, or [`Producer::publish`].
    #[inline(always)]
    pub fn push(&mut self, cell: &Cell, len: usize, hold: bool) {
        debug_assert!(self.fits(len), "pushed without a reservation");
        let line = self.memory.cell(self.tail);
        let first = u64::from(self.layout.lap(self.tail)) | u64::from(cell.meta) << 32;
        for (word, value) in line[1..].iter().zip(cell.words) {
            word.store(value, Ordering::Relaxed);
        }
        if hold && self.held.is_none() {
            self.held = Some((self.tail, first));
        } else {
            line[0].store(first, Ordering::Release);
        }
        self.tail = self.tail.wrapping_add(1);
        if len != 0 {
            debug_assert_eq!(self.reserved, self.layout.place(self.byte_tail, len).1);
            self.byte_tail = self.reserved;
            self.expect_bodies(len);
        }
        if !hold && self.held.is_some() {
            self.publish();
        }
    }

    /// Gets lines of bodies that come next into this processor's cache: those of the body after the next one, if they are as short as the last one, so
    /// that there is time for them to come.
    #[inline(always)]
    fn expect_bodies(&self, len: usize) {
        let next = self.layout.offset(self.byte_tail);
        match len {
            0..=SHORT_BODY => {
                let lines = len.div_ceil(LINE);
                self.memory.will_write_body(next + lines * LINE, lines);
            }
            _ => self.memory.will_write_body(next, 1),
        }
    }

    /// Gets lines of cells that come next into this processor's cache. Where cells follow each other closely, the next
    /// writes need not wait for them then; a lone cell becomes slower by it.
    #[inline(always)]
    pub fn expect_more(&self) {
        self.memory.will_write(self.tail.wrapping_add(AHEAD));
    }

    /// Lets the consumer see what was held back; returns whether there was anything.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let Some((position, first)) = self.held.take() else {
            return false;
        };
        self.memory.cell(position)[0].store(first, Ordering::Release);
        true
    }

    /// Returns how many cells the consumer is known to have taken, modulo 2^64.
    ///
    /// # Errors
    /// As [`Producer::reserve`].
    pub fn taken(&mut self) -> Result<u64, Corrupt> {
        self.refresh()?;
        Ok(self.head)
    }

    /// Returns whether the consumer is known to have taken everything.
    ///
    /// # Errors
    /// As [`Producer::reserve`].
    pub fn is_drained(&mut self) -> Result<bool, Corrupt> {
        self.refresh()?;
        Ok(self.head == self.tail)
    }

    #[inline]
    fn fits(&self, len: usize) -> bool {
        if self.tail.wrapping_sub(self.head) >= self.layout.cells() as u64 {
            return false;
        }
        if len == 0 {
            return true;
        }
        let end = self.layout.place(self.byte_tail, len).1;
        len <= self.layout.max_body()
            && end.wrapping_sub(self.byte_head) <= self.layout.bytes() as u64
    }

    /// Reads how far the consumer is; a position never moves back nor past what was pushed.
    #[cold]
    fn refresh(&mut self) -> Result<(), Corrupt> {
        let control = self.memory.control();
        let head = control[0].load(Ordering::Acquire);
        let byte_head = control[1].load(Ordering::Acquire);
        let within =
            |new: u64, old: u64, tail: u64| new.wrapping_sub(old) <= tail.wrapping_sub(old);
        if !within(head, self.head, self.tail) || !within(byte_head, self.byte_head, self.byte_tail)
        {
            return Err(Corrupt);
        }
        self.head = head;
        self.byte_head = byte_head;
        Ok(())
    }
}

impl<K> Producer<RawMemory<K>> {
    /// Lends the memory of a body for writing, between [`Producer::reserve`] and [`Producer::push`].
    #[inline]
    pub fn body_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        self.memory.body_mut(start, len)
    }
}
