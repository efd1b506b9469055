//! The entries of a queue, in order: a ring that grows. Path class: hot; an entry is made where it will lie.

use super::ring::Entry;

/// How many entries there is room for at first, at most: a queue of a thousand that is hardly used is to cost little.
const FIRST: usize = 256;

/// Entries, first in, first out.
#[derive(Debug)]
pub(super) struct Entries {
    /// A power of two of them; those that are not among the `len` from `head` on mean nothing.
    slots: Box<[Entry]>,
    head: usize,
    len: usize,
}

impl Entries {
    /// Returns a list without entries, which grows up to `expected`.
    pub(super) fn new(expected: usize) -> Self {
        Self {
            slots: vec![Entry::EMPTY; expected.clamp(1, FIRST).next_power_of_two()].into(),
            head: 0,
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    const fn slot(&self, at: usize) -> usize {
        self.head.wrapping_add(at) & (self.slots.len() - 1)
    }

    /// Adds an entry behind the others.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: Entry) {
        if self.len == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.len);
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = entry;
            self.len += 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut slots = Vec::with_capacity(self.slots.len() * 2);
        let (second, first) = self.slots.split_at(self.head);
        slots.extend_from_slice(first);
        slots.extend_from_slice(second);
        slots.resize(self.slots.len() * 2, Entry::EMPTY);
        (self.slots, self.head) = (slots.into(), 0);
    }

    /// Returns the first entry.
    #[inline(always)]
    pub(super) fn front(&self) -> Option<&Entry> {
        if self.len == 0 {
            return None;
        }
        self.slots.get(self.head)
    }

    /// Forgets the first entry. When it was the last, the next ones will lie where the first ones did, in the cache.
    #[inline(always)]
    pub(super) fn drop_front(&mut self) {
        if self.len > 1 {
            self.head = self.slot(1);
            self.len -= 1;
        } else {
            (self.head, self.len) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(source: u64) -> Entry {
        let mut entry = Entry::EMPTY;
        entry.source = source;
        entry
    }

    #[test]
    fn entries_leave_in_order_while_the_ring_wraps_and_grows() {
        let mut entries = Entries::new(4);
        let (mut next_in, mut next_out) = (0, 0);
        for burst in [3, 4, 9, 1, 40] {
            for _ in 0..burst {
                entries.push(entry(next_in));
                next_in += 1;
            }
            while entries.len() > 2 {
                assert_eq!(entries.front().map(|entry| entry.source), Some(next_out));
                entries.drop_front();
                next_out += 1;
            }
        }
        assert_eq!((next_in, next_out), (57, 55));
        entries.drop_front();
        entries.drop_front();
        assert!(entries.front().is_none());
        entries.drop_front();
        assert_eq!(entries.len(), 0);
    }
}
