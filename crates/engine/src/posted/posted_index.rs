//! Hash index of many posted receives: those for one tag by it and by their source, the others in one list.

use crate::index::{Index, Indexed, hash};
use crate::list::{Linked, Links, List};
use crate::matching::{Arrival, Class, Pattern};
use crate::posted::Receive;
use crate::slab::{Key, Slab};
use oxifabric_types::PeerId;

/// The purpose of chains and lists of indexed receives.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByPattern;

/// Entry of a receive in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexEntry {
    links: Links,
    /// Counts receives in the order of posting.
    turn: u64,
}

impl IndexEntry {
    /// The entry of a receive that is not in the index.
    pub(super) const NONE: Self = Self {
        links: Links::NONE,
        turn: 0,
    };
}

/// The receives of a queue, indexed.
#[derive(Debug)]
pub(super) struct PostedIndex {
    exact: Index<ByPattern>,
    /// Receives that ignore bits of the tag.
    wild: [List<ByPattern>; Class::WAITING],
    turn: u64,
}

impl PostedIndex {
    /// Indexes the receives of some lists, each in its order.
    pub(super) fn of(receives: &mut Slab<Receive>, lists: &[List]) -> Self {
        let mut posted_index = Self {
            exact: Index::new(),
            wild: [List::new(); Class::WAITING],
            turn: 0,
        };
        for list in lists {
            list.visit(receives, |receives, key| posted_index.push(receives, key));
        }
        posted_index
    }

    /// Adds a receive behind all others.
    pub(super) fn push(&mut self, receives: &mut Slab<Receive>, key: Key) {
        let Some(receive) = receives.get_mut(key) else {
            return;
        };
        self.turn += 1;
        receive.index_entry.turn = self.turn;
        match receive.pattern.is_exact() {
            true => self.exact.push(receives, key),
            false => self.wild[receive.pattern.class.index()].push_back(receives, key),
        }
    }

    /// Takes a receive out; returns whether none is left.
    pub(super) fn unlink(&mut self, receives: &mut Slab<Receive>, key: Key) -> bool {
        if let Some(pattern) = receives.get(key).map(|receive| receive.pattern) {
            match pattern.is_exact() {
                true => self.exact.unlink(receives, key),
                false => self.wild[pattern.class.index()].unlink(receives, key),
            }
        }
        self.exact.len() == 0 && self.wild.iter().all(|list| list.len() == 0)
    }

    /// Finds the receive for a message that was posted first.
    pub(super) fn first(&self, receives: &Slab<Receive>, arrival: &Arrival) -> Option<Key> {
        let class = arrival.class;
        let directed = Pattern::exact(class, arrival.from, arrival.tag);
        let any = Pattern::exact(class, PeerId::ANY, arrival.tag);
        [
            self.exact.chain(hash_of(&directed)),
            self.exact.chain(hash_of(&any)),
            &self.wild[class.index()],
        ]
        .into_iter()
        .filter_map(|chain| {
            chain.iter(receives).find(|(_, receive)| {
                receive.pattern.class == class && receive.pattern.accepts(arrival)
            })
        })
        .min_by_key(|(_, receive)| receive.index_entry.turn)
        .map(|(key, _)| key)
    }
}

/// Returns the key of a receive for one tag.
fn hash_of(pattern: &Pattern) -> u64 {
    let from = u64::from(pattern.source().0) << 8 | pattern.class as u64;
    hash(pattern.tag(), from)
}

impl Linked<ByPattern> for Receive {
    fn links(&self) -> &Links {
        &self.index_entry.links
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.index_entry.links
    }
}

impl Indexed<ByPattern> for Receive {
    fn hash(&self) -> u64 {
        hash_of(&self.pattern)
    }
}
