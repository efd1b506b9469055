//! The peers of an endpoint, numbered densely in the order in which the application names them or a frame of theirs arrives.
//!
//! A peer that the application named keeps its number. The number of another is given to a new peer once the first is gone and its
//! link has released it, so that peers which come and go do not make the table grow (docs/threats.md). Path class: set-up, except for
//! [`PeerTable::get`] and [`PeerTable::get_mut`].

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use oxifabric_types::{Address, PeerId};

use crate::peer_directory::PeerDirectory;

/// Maximum number of peers of an endpoint.
const MAX_PEERS: usize = 1 << 24;

/// Number of rows below which the link does not look for rows that can be used again.
const ROWS_MIN: usize = 64;

/// The peers of one endpoint, with what its link keeps of each. A peer is found by its key; `FIRST` is the first number.
#[derive(Debug)]
pub struct PeerTable<K, S, const FIRST: u32 = 0> {
    rows: Vec<Row<K, S>>,
    numbers: HashMap<K, PeerId>,
    directory: PeerDirectory,
    /// Numbers that may be used again, the oldest first.
    free: VecDeque<PeerId>,
    /// Number of rows in use by peers that the application has not named.
    unnamed: usize,
    /// Number of rows in use after the last [`PeerTable::vacate`].
    in_use: usize,
}

#[derive(Debug)]
struct Row<K, S> {
    state: S,
    key: K,
    holder: Holder,
}

/// The peer that has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// One that the application has named, or has in its address vector.
    Named,
    /// Another one.
    Unnamed,
    /// None: its peer is gone.
    Free,
}

impl<K, S, const FIRST: u32> Default for PeerTable<K, S, FIRST> {
    fn default() -> Self {
        Self::listed_in(PeerDirectory::default())
    }
}

impl<K, S, const FIRST: u32> PeerTable<K, S, FIRST> {
    /// Makes a table whose peers are listed in this directory.
    pub fn listed_in(directory: PeerDirectory) -> Self {
        Self {
            rows: Vec::new(),
            numbers: HashMap::new(),
            directory,
            free: VecDeque::new(),
            unnamed: 0,
            in_use: 0,
        }
    }
}

impl<K: Hash + Eq + Clone, S, const FIRST: u32> PeerTable<K, S, FIRST> {
    /// Returns the number of the peer with this key, if it has one.
    pub fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<PeerId>
    where
        K: Borrow<Q>,
    {
        self.numbers.get(key).copied()
    }

    /// Returns the number of the peer with this key, a new one if need be; `None` when there are too many. `begin` makes what is kept of
    /// a new peer; it gets what was kept of the former one with the number, whose late events may have to be told apart.
    pub fn number<Q: Hash + Eq + ToOwned<Owned = K> + ?Sized>(
        &mut self,
        key: &Q,
        begin: impl FnOnce(PeerId, Option<&S>) -> (Address, S),
    ) -> Option<PeerId>
    where
        K: Borrow<Q>,
    {
        if let Some(known) = self.find(key) {
            return Some(known);
        }
        let (number, address) = match self.free.pop_front() {
            Some(number) => {
                let row = self.rows.get_mut(index(number, FIRST)?)?;
                let (address, state) = begin(number, Some(&row.state));
                *row = Row::new(key.to_owned(), state);
                (number, address)
            }
            None if self.rows.len() >= MAX_PEERS - FIRST as usize => return None,
            None => {
                let number = PeerId(self.rows.len() as u32 + FIRST);
                let (address, state) = begin(number, None);
                self.rows.push(Row::new(key.to_owned(), state));
                (number, address)
            }
        };
        self.directory.list(number, address);
        self.unnamed += 1;
        self.numbers.insert(key.to_owned(), number);
        Some(number)
    }

    /// Notes that the application has named a peer, which keeps its number from now on.
    pub fn name(&mut self, peer: PeerId) {
        if let Some(row) = self.row_mut(peer)
            && row.holder == Holder::Unnamed
        {
            row.holder = Holder::Named;
            self.unnamed -= 1;
        }
    }

    /// Returns whether the application has named a peer.
    pub fn is_named(&self, peer: PeerId) -> bool {
        self.row(peer)
            .is_some_and(|row| row.holder == Holder::Named)
    }

    /// Returns how many peers there are that the application has not named.
    pub const fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// Releases the number of a peer, unless the application has named it: from now on another peer may get the number.
    pub fn release(&mut self, peer: PeerId) {
        let Some(row) = self.row_mut(peer) else {
            return;
        };
        if row.holder == Holder::Unnamed {
            row.holder = Holder::Free;
            let key = row.key.clone();
            self.numbers.remove::<K>(&key);
            self.unnamed -= 1;
            self.free.push_back(peer);
        }
    }

    /// Returns whether it is time to look for numbers to release: the rows have doubled since [`PeerTable::vacate`].
    pub fn is_crowded(&self) -> bool {
        let rows = self.rows.len();
        rows >= ROWS_MIN && rows >= 2 * self.in_use && self.free.is_empty()
    }

    /// Returns the peers that the application has not named and that `is_gone` accepts.
    pub fn departed(&self, is_gone: impl Fn(&S) -> bool) -> Vec<PeerId> {
        let rows = (FIRST..).map(PeerId).zip(&self.rows);
        let departed = rows.filter(|(_, row)| row.holder == Holder::Unnamed && is_gone(&row.state));
        departed.map(|(peer, _)| peer).collect()
    }

    /// Releases the numbers of these peers, which are all that can be released now.
    pub fn vacate(&mut self, departed: &[PeerId]) {
        for &peer in departed {
            self.release(peer);
        }
        self.in_use = self.rows.len() - self.free.len();
    }
}

impl<K, S, const FIRST: u32> PeerTable<K, S, FIRST> {
    /// Returns the directory of the peers.
    pub const fn directory(&self) -> &PeerDirectory {
        &self.directory
    }

    /// Returns what a peer is found by.
    pub fn key(&self, peer: PeerId) -> Option<&K> {
        self.row(peer).map(|row| &row.key)
    }

    /// Returns what is kept of a peer.
    #[inline]
    pub fn get(&self, peer: PeerId) -> Option<&S> {
        self.row(peer).map(|row| &row.state)
    }

    /// Returns what is kept of a peer, to be changed.
    #[inline]
    pub fn get_mut(&mut self, peer: PeerId) -> Option<&mut S> {
        self.row_mut(peer).map(|row| &mut row.state)
    }

    /// Returns what is kept of all peers, also of those that are gone.
    pub fn iter(&self) -> impl Iterator<Item = &S> + '_ {
        self.rows.iter().map(|row| &row.state)
    }

    /// Takes out all peers: the endpoint closes.
    pub fn drain(&mut self) -> impl Iterator<Item = S> + '_ {
        self.rows.drain(..).map(|row| row.state)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn row(&self, peer: PeerId) -> Option<&Row<K, S>> {
        self.rows.get(index(peer, FIRST)?)
    }

    #[inline]
    fn row_mut(&mut self, peer: PeerId) -> Option<&mut Row<K, S>> {
        self.rows.get_mut(index(peer, FIRST)?)
    }
}

impl<K, S> Row<K, S> {
    const fn new(key: K, state: S) -> Self {
        Self {
            state,
            key,
            holder: Holder::Unnamed,
        }
    }
}

#[inline]
fn index(peer: PeerId, first: u32) -> Option<usize> {
    peer.index().checked_sub(first as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Table<const FIRST: u32> = PeerTable<String, u32, FIRST>;

    /// Numbers a peer; what is kept of it counts the peers that had the number.
    fn number<const FIRST: u32>(table: &mut Table<FIRST>, name: &str) -> PeerId {
        let begin = |_, former: Option<&u32>| {
            (
                Address::Name(name.into()),
                former.map_or(0, |count| count + 1),
            )
        };
        table.number(name, begin).expect("there is room")
    }

    #[test]
    fn peers_are_numbered_in_order_and_keep_their_number() {
        let mut table = Table::<1>::default();
        assert_eq!(number(&mut table, "a"), PeerId(1));
        assert_eq!(number(&mut table, "b"), PeerId(2));
        assert_eq!(number(&mut table, "a"), PeerId(1));
        assert_eq!((table.find("b"), table.find("c")), (Some(PeerId(2)), None));
        let directory = table.directory();
        let b = Address::Name("b".into());
        assert_eq!(directory.address(PeerId(2)), Some(b));
        assert_eq!(table.key(PeerId(1)).map(String::as_str), Some("a"));
        for peer in [PeerId(0), PeerId(3), PeerId::ANY] {
            assert_eq!((directory.has(peer), table.get(peer)), (false, None));
        }
    }

    #[test]
    fn the_number_of_a_peer_that_is_gone_is_used_again_unless_it_was_named() {
        let mut table = Table::<0>::default();
        let (a, b) = (number(&mut table, "a"), number(&mut table, "b"));
        table.name(b);
        assert_eq!((table.unnamed(), table.is_named(b)), (1, true));
        for peer in [a, a, b, PeerId(7)] {
            table.release(peer);
        }
        assert_eq!((table.find("a"), table.find("b")), (None, Some(b)));
        assert_eq!(number(&mut table, "c"), a);
        assert_eq!(table.get(a), Some(&1), "it follows another");
        assert_eq!(number(&mut table, "a"), PeerId(2));
    }

    #[test]
    fn the_oldest_free_number_is_used_first() {
        let mut table = Table::<0>::default();
        for name in ["a", "b", "c"] {
            number(&mut table, name);
        }
        table.release(PeerId(1));
        table.release(PeerId(0));
        assert_eq!(number(&mut table, "d"), PeerId(1));
        assert_eq!(number(&mut table, "e"), PeerId(0));
    }

    /// A peer that is there with another name each time makes the table twice as large as what is in use, not larger.
    #[test]
    fn peers_that_come_and_go_do_not_make_the_table_grow() {
        let mut table = Table::<0>::default();
        let named = number(&mut table, "named");
        table.name(named);
        for count in 0..10_000 {
            if table.is_crowded() {
                let departed = table.departed(|_| true);
                assert!(!departed.contains(&named));
                table.vacate(&departed);
            }
            number(&mut table, &count.to_string());
        }
        assert_eq!(table.rows(), ROWS_MIN);
    }
}
