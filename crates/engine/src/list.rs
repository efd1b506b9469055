//! Queues through the rows of a table: appended, walked in order, and left from the middle in constant time.
//!
//! A row may be on several lists, each for another purpose: `By` says which, and so which neighbours count.

use core::marker::PhantomData;

use crate::slab::{Entry, Key, Slab};

/// The purpose of a list that keeps the order in which rows came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order;

/// A row's neighbours on a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    prev: Key,
    next: Key,
}

impl Links {
    /// On no list.
    pub(crate) const NONE: Self = Self {
        prev: Key::NONE,
        next: Key::NONE,
    };

    /// Returns the row behind.
    #[inline]
    pub(crate) const fn next(&self) -> Key {
        self.next
    }
}

/// A row that can be on a list for that purpose.
pub(crate) trait Linked<By = Order> {
    /// Returns its neighbours.
    fn links(&self) -> &Links;
    /// Returns its neighbours, to be changed.
    fn links_mut(&mut self) -> &mut Links;
    /// Returns whether the row has nothing to release when it is dropped; `false` is always right.
    fn owns_nothing(&self) -> bool {
        false
    }
}

/// A list of rows of one table. The caller keeps each row on at most one list for one purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<By = Order> {
    head: Key,
    tail: Key,
    len: usize,
    by: PhantomData<By>,
}

impl<By> List<By> {
    /// Makes a list without rows.
    pub(crate) const fn new() -> Self {
        Self {
            head: Key::NONE,
            tail: Key::NONE,
            len: 0,
            by: PhantomData,
        }
    }

    /// Returns the first row.
    #[inline]
    pub(crate) const fn head(&self) -> Key {
        self.head
    }

    /// Returns how many rows are on it.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the neighbours of a row that is to be added at the end.
    #[inline]
    pub(crate) const fn end(&self) -> Links {
        Links {
            prev: self.tail,
            next: Key::NONE,
        }
    }

    /// Adds a row to the table and to the end of the list; it was made with [`List::end`] as its neighbours. `None`
    /// when the table has no room.
    #[inline(always)]
    pub(crate) fn insert<T: Linked<By>>(&mut self, slab: &mut Slab<T>, row: T) -> Option<Key> {
        let key = slab.insert(row)?;
        match slab.get_mut(self.tail) {
            Some(last) => last.links_mut().next = key,
            None => self.head = key,
        }
        self.tail = key;
        self.len += 1;
        Some(key)
    }

    /// Takes the first row off the list and drops it: `first` is the entry of [`List::head`].
    #[inline(always)]
    pub(crate) fn discard_first<T: Linked<By>>(&mut self, first: Entry<'_, T>) {
        let row = first.value();
        let next = row.map_or(Key::NONE, |row| row.links().next);
        let owns_nothing = row.is_some_and(T::owns_nothing);
        first.discard(owns_nothing);
        self.head = next;
        if next == Key::NONE {
            self.tail = Key::NONE;
        }
        self.len -= 1;
    }

    /// Takes a row off the list and drops it.
    #[inline(always)]
    pub(crate) fn discard<T: Linked<By>>(&mut self, slab: &mut Slab<T>, key: Key) {
        if let Some(entry) = slab.entry(key)
            && let Some(row) = entry.value()
        {
            let (links, owns_nothing) = (*row.links(), row.owns_nothing());
            entry.discard(owns_nothing);
            self.bypass(slab, key, links);
        }
    }

    /// Takes a row off the list and out of the table.
    #[inline]
    pub(crate) fn remove<T: Linked<By>>(&mut self, slab: &mut Slab<T>, key: Key) -> Option<T> {
        let row = slab.remove(key)?;
        let links = *row.links();
        self.bypass(slab, key, links);
        Some(row)
    }

    /// Appends a row of the table that is on no list.
    #[inline]
    pub(crate) fn push_back<T: Linked<By>>(&mut self, slab: &mut Slab<T>, key: Key) {
        let tail = self.tail;
        match slab.get_mut(tail) {
            Some(last) => last.links_mut().next = key,
            None => self.head = key,
        }
        if let Some(row) = slab.get_mut(key) {
            *row.links_mut() = Links {
                prev: tail,
                next: Key::NONE,
            };
        }
        self.tail = key;
        self.len += 1;
    }

    /// Takes a row off the list; it stays in the table.
    #[inline]
    pub(crate) fn unlink<T: Linked<By>>(&mut self, slab: &mut Slab<T>, key: Key) {
        let Some(row) = slab.get_mut(key) else {
            return;
        };
        let links = core::mem::replace(row.links_mut(), Links::NONE);
        self.bypass(slab, key, links);
    }

    /// Joins the neighbours of a row that leaves. What the first row says of the one before it means nothing: that one
    /// may have left by [`List::discard_first`].
    #[inline(always)]
    fn bypass<T: Linked<By>>(&mut self, slab: &mut Slab<T>, key: Key, links: Links) {
        let Links { mut prev, next } = links;
        if key == self.head {
            (self.head, prev) = (next, Key::NONE);
        } else if let Some(row) = slab.get_mut(prev) {
            row.links_mut().next = next;
        }
        match slab.get_mut(next) {
            Some(row) => row.links_mut().prev = prev,
            None => self.tail = prev,
        }
        self.len -= 1;
    }

    /// Calls `each` for each row from the head; it may put the row on another list.
    pub(crate) fn visit<T: Linked<By>>(
        &self,
        slab: &mut Slab<T>,
        mut each: impl FnMut(&mut Slab<T>, Key),
    ) {
        let mut key = self.head;
        while let Some(row) = slab.get(key) {
            let next = row.links().next;
            each(slab, key);
            key = next;
        }
    }

    /// Walks the list from its head.
    pub(crate) fn iter<'a, T: Linked<By>>(
        &self,
        slab: &'a Slab<T>,
    ) -> impl Iterator<Item = (Key, &'a T)> {
        let mut key = self.head;
        core::iter::from_fn(move || {
            let row = slab.get(key)?;
            let here = core::mem::replace(&mut key, row.links().next);
            Some((here, row))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    struct Row(Links, u8);

    impl Linked for Row {
        fn links(&self) -> &Links {
            &self.0
        }
        fn links_mut(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    #[test]
    fn rows_leave_from_anywhere() {
        let (mut slab, mut list): (_, List) = (Slab::with_capacity(0), List::new());
        let mut keys = Vec::new();
        for value in 0..4 {
            let row = Row(list.end(), value);
            keys.extend(list.insert(&mut slab, row));
        }
        let values = |list: &List, slab: &Slab<Row>| -> Vec<u8> {
            list.iter(slab).map(|(_, row)| row.1).collect()
        };
        for (key, left) in [
            (keys[1], &[0, 2, 3][..]),
            (keys[0], &[2, 3]),
            (keys[3], &[2]),
            (keys[2], &[]),
        ] {
            list.unlink(&mut slab, key);
            assert_eq!(values(&list, &slab), left);
            assert_eq!(list.len(), left.len());
        }
        list.push_back(&mut slab, keys[3]);
        list.push_back(&mut slab, keys[1]);
        assert!(list.remove(&mut slab, keys[3]).is_some());
        assert!(list.remove(&mut slab, keys[3]).is_none());
        list.discard(&mut slab, keys[3]);
        assert_eq!((values(&list, &slab), list.len()), (alloc::vec![1], 1));
    }

    #[test]
    fn the_first_row_has_none_before_it() {
        let (mut slab, mut list): (_, List) = (Slab::with_capacity(0), List::new());
        let append = |list: &mut List, slab: &mut Slab<Row>, value| {
            let row = Row(list.end(), value);
            list.insert(slab, row).expect("the table has room")
        };
        let keys: Vec<Key> = (0..4)
            .map(|value| append(&mut list, &mut slab, value))
            .collect();
        list.discard_first(slab.entry(list.head()).expect("the first row"));
        // The row that the second one was behind belongs to another list, and has the same key again after as many uses as
        // generations can tell apart.
        let mut reused = append(&mut list, &mut slab, 4);
        while reused != keys[0] {
            list.discard(&mut slab, reused);
            reused = append(&mut list, &mut slab, 4);
        }
        list.discard(&mut slab, keys[1]);
        let left: Vec<u8> = list.iter(&slab).map(|(_, row)| row.1).collect();
        assert_eq!((left, list.len()), (alloc::vec![2, 3, 4], 3));
        while let Some(first) = slab.entry(list.head()) {
            list.discard_first(first);
        }
        assert_eq!((list.len(), slab.len()), (0, 0));
        append(&mut list, &mut slab, 5);
        assert_eq!(list.iter(&slab).count(), 1);
    }
}
