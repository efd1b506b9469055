//! The entries of a completion queue, and the places that are reserved.

use alloc::collections::VecDeque;

use oxifabric_abi::fi_addr_t;
use oxifabric_types::Errno;

/// A completion, or an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) source: fi_addr_t,
    /// Of an error.
    pub(crate) errno: Option<Errno>,
    /// How many bytes of a message did not fit.
    pub(crate) overflow: usize,
}

/// Entries in order. There is room for twice as many as may be reserved: the rest is for what peers cause. What they had begun when the queue
/// became full may need more.
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    size: usize,
    reserved: usize,
    is_overrun: bool,
}

impl Ring {
    /// Makes a ring; `None` when there is not enough memory.
    pub(super) fn new(size: usize) -> Option<Self> {
        let mut entries = VecDeque::new();
        entries.try_reserve_exact(2 * size).ok()?;
        Some(Self {
            entries,
            size,
            reserved: 0,
            is_overrun: false,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.size
    }

    pub(super) fn reserve(&mut self) -> Result<(), Errno> {
        if self.entries.len() + self.reserved >= self.size {
            return Err(Errno::AGAIN);
        }
        self.reserved += 1;
        Ok(())
    }

    pub(super) fn release(&mut self, count: usize) {
        self.reserved = self.reserved.saturating_sub(count);
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.try_reserve(1 + self.reserved).is_err() {
            self.is_overrun = true;
            return;
        }
        self.entries.push_back(entry);
    }

    /// Returns the next completion, which stays until [`Ring::drop_first`].
    pub(super) fn first(&self) -> Result<&Entry, Errno> {
        match self.entries.front() {
            Some(entry) if entry.errno.is_some() => Err(Errno::AVAIL),
            Some(entry) => Ok(entry),
            None if self.is_overrun => Err(Errno::OVERRUN),
            None => Err(Errno::AGAIN),
        }
    }

    /// Drops the next entry.
    pub(super) fn drop_first(&mut self) {
        self.entries.pop_front();
    }

    /// Takes the next entry if it is an error.
    pub(super) fn next_error(&mut self) -> Option<Entry> {
        self.entries.front()?.errno?;
        self.entries.pop_front()
    }
}
