//! Tables whose rows keep their place, found by keys that go stale.
//!
//! Keys travel: they are the ids in headers and the tokens that links hand back. A key carries the generation
//! of its row, so that one that comes late, or was made up by a hostile peer, finds nothing rather than
//! another operation. Inserting and removing never allocate once the table has grown.

use alloc::vec::Vec;

/// Bits of a key that are the row; the others are its generation.
const INDEX_BITS: u32 = 22;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// Names a row of a [`Slab`] until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(u32);

impl Key {
    /// Finds nothing in any table.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Makes a key of what came back from a link or a peer; any value is allowed.
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// Returns the value to hand out.
    pub(crate) const fn raw(self) -> u32 {
        self.0
    }

    const fn new(index: u32, generation: u32) -> Self {
        Self(index | generation << INDEX_BITS)
    }

    const fn index(self) -> u32 {
        self.0 & INDEX_MASK
    }

    const fn generation(self) -> u32 {
        self.0 >> INDEX_BITS
    }
}

/// A table of rows.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    rows: Vec<Row<T>>,
    /// The row to use next; as many as there are rows when all are taken.
    free: u32,
    len: usize,
}

#[derive(Debug)]
struct Row<T> {
    generation: u32,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Taken(T),
    /// The next free row after this one.
    Free(u32),
}

impl<T> Slab<T> {
    /// Makes a table with room for `capacity` rows before it grows.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            rows: Vec::with_capacity(capacity.min(INDEX_MASK as usize)),
            free: 0,
            len: 0,
        }
    }

    /// Returns how many rows are taken.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the key that the next [`Slab::insert`] gives out; `None` when no more rows can be named.
    #[inline]
    pub(crate) fn vacant(&self) -> Option<Key> {
        match self.rows.get(self.free as usize) {
            Some(row) => Some(Key::new(self.free, row.generation)),
            None => (self.free < INDEX_MASK).then(|| Key::new(self.free, 0)),
        }
    }

    /// Returns whether no more rows can be named.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len >= INDEX_MASK as usize
    }

    /// Adds a row; `None` when no more rows can be named. The row is found before the value is touched, so that it
    /// can be made where it will lie.
    #[inline(always)]
    pub(crate) fn insert(&mut self, value: T) -> Option<Key> {
        if self.free as usize >= self.rows.len() {
            self.grow()?;
        }
        let row = self.rows.get_mut(self.free as usize)?;
        // What the table says is free, is free.
        let State::Free(next) = row.state else {
            return None;
        };
        let key = Key::new(self.free, row.generation);
        row.state = State::Taken(value);
        self.free = next;
        self.len += 1;
        Some(key)
    }

    /// Adds a free row to a table that has none; `None` when no more rows can be named.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<()> {
        if self.free >= INDEX_MASK {
            return None;
        }
        self.rows.push(Row {
            generation: 0,
            state: State::Free(self.free + 1),
        });
        Some(())
    }

    /// Finds a row.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.rows.get(key.index() as usize) {
            Some(Row {
                generation,
                state: State::Taken(value),
            }) if *generation == key.generation() => Some(value),
            _ => None,
        }
    }

    /// Finds a row, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.rows.get_mut(key.index() as usize) {
            Some(Row {
                generation,
                state: State::Taken(value),
            }) if *generation == key.generation() => Some(value),
            _ => None,
        }
    }

    /// Takes a row out; its key is stale from now on.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let row = self.rows.get_mut(key.index() as usize)?;
        if row.generation != key.generation() || matches!(row.state, State::Free(_)) {
            return None;
        }
        row.generation = (row.generation + 1) & (u32::MAX >> INDEX_BITS);
        let state = core::mem::replace(&mut row.state, State::Free(self.free));
        self.free = key.index();
        self.len -= 1;
        match state {
            State::Taken(value) => Some(value),
            State::Free(_) => None,
        }
    }

    /// Finds a row, to look at it and drop it where it lies.
    #[inline(always)]
    pub(crate) fn entry(&mut self, key: Key) -> Option<Entry<'_, T>> {
        let row = self.rows.get_mut(key.index() as usize)?;
        if row.generation != key.generation() || matches!(row.state, State::Free(_)) {
            return None;
        }
        Some(Entry {
            row,
            free: &mut self.free,
            len: &mut self.len,
            key,
        })
    }

    /// Visits the rows in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let rows = if self.len == 0 { &[] } else { &*self.rows };
        (0..).zip(rows).filter_map(|(index, row)| {
            let State::Taken(value) = &row.state else {
                return None;
            };
            Some((Key::new(index, row.generation), value))
        })
    }

    /// Takes all rows out.
    pub(crate) fn clear(&mut self) {
        let keys: Vec<Key> = self.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.remove(key);
        }
    }
}

/// A row that is taken.
#[derive(Debug)]
pub(crate) struct Entry<'a, T> {
    row: &'a mut Row<T>,
    free: &'a mut u32,
    len: &'a mut usize,
    key: Key,
}

impl<T> Entry<'_, T> {
    /// Returns what it holds.
    #[inline(always)]
    pub(crate) fn value(&self) -> Option<&T> {
        match &self.row.state {
            State::Taken(value) => Some(value),
            State::Free(_) => None,
        }
    }

    /// Drops it where it lies; its key is stale from now on. The caller says whether there is anything to release, so that
    /// a row without memory of its own costs no call.
    #[inline(always)]
    pub(crate) fn discard(self, owns_nothing: bool) {
        self.row.generation = (self.row.generation + 1) & (u32::MAX >> INDEX_BITS);
        let vacated = State::Free(*self.free);
        match owns_nothing {
            true => core::mem::forget(core::mem::replace(&mut self.row.state, vacated)),
            false => self.row.state = vacated,
        }
        *self.free = self.key.index();
        *self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::vec;

    #[test]
    fn keys_go_stale_with_their_row() {
        let mut slab = Slab::with_capacity(0);
        let first = slab.insert('a').expect("the table is empty");
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b').expect("the table is empty");
        assert_eq!(second.index(), first.index());
        assert!(slab.entry(first).is_none());
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
        assert_eq!(slab.get(Key::NONE), None);
        slab.entry(second).expect("it is there").discard(true);
        assert_eq!((slab.get(second), slab.len()), (None, 0));
    }

    #[test]
    fn a_discarded_row_releases_what_it_owns() {
        let mut slab = Slab::with_capacity(1);
        let owned = Arc::new(());
        let key = slab.insert(owned.clone()).expect("the table is empty");
        slab.entry(key).expect("it is there").discard(false);
        assert_eq!(Arc::strong_count(&owned), 1);
    }

    #[test]
    fn the_vacant_key_is_the_next_one() {
        let mut slab = Slab::with_capacity(2);
        for round in 0..5 {
            let vacant = slab.vacant();
            let key = slab.insert(round);
            assert_eq!(vacant, key);
            if round % 2 == 0 {
                slab.remove(key.expect("the table has room"));
            }
        }
        let left: vec::Vec<_> = slab.iter().map(|(_, value)| *value).collect();
        assert_eq!((left, slab.len()), (vec![1, 3], 2));
        slab.clear();
        assert_eq!(slab.len(), 0);
    }
}
