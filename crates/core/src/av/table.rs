//! The addresses of an address vector, by index and back.
//!
//! An address that is inserted again keeps its index and is counted, as upstream does: it must be removed as often. A new
//! one takes the lowest unused index (fi_av(3), FI_AV_TABLE).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use oxifabric_types::{Address, Errno, FiAddr};

/// How many entries are reserved at most, whatever the application expects.
const RESERVED: usize = 1 << 20;

/// The addresses of a vector.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Option<Slot>>,
    index: HashMap<Address, usize>,
    /// Indices that are unused, or were when they were noted.
    unused: BinaryHeap<Reverse<usize>>,
    /// What the application calls the addresses in completions, where that is not the index.
    users: HashMap<usize, u64>,
    /// Indices of addresses that cannot be connected to.
    firewalled: HashSet<usize>,
    /// What of the memory that processes share is in here.
    pub(super) version: u64,
}

#[derive(Debug)]
struct Slot {
    address: Address,
    /// How often it was inserted.
    inserted: usize,
}

impl Table {
    /// Returns an empty table that expects `expected` addresses.
    pub(super) fn new(expected: usize) -> Self {
        let expected = expected.min(RESERVED);
        Self {
            slots: Vec::with_capacity(expected),
            index: HashMap::with_capacity(expected),
            unused: BinaryHeap::new(),
            users: HashMap::new(),
            firewalled: HashSet::new(),
            version: 0,
        }
    }

    /// Inserts an address and returns its index.
    pub(super) fn insert(&mut self, address: Address) -> FiAddr {
        if let Some(&at) = self.index.get(&address) {
            if let Some(slot) = &mut self.slots[at] {
                slot.inserted += 1;
            }
            return FiAddr(at as u64);
        }
        let slot = Some(Slot {
            address: address.clone(),
            inserted: 1,
        });
        let at = match self.lowest_unused() {
            Some(at) => {
                self.slots[at] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.index.insert(address, at);
        FiAddr(at as u64)
    }

    /// Takes the lowest unused index among those that were used before.
    fn lowest_unused(&mut self) -> Option<usize> {
        while let Some(Reverse(at)) = self.unused.pop() {
            if self.slots[at].is_none() {
                return Some(at);
            }
        }
        None
    }

    /// Takes over what another process did at an index; returns whether the index meant another address before.
    pub(super) fn set(&mut self, at: usize, entry: Option<(Address, usize)>) -> bool {
        while self.slots.len() <= at {
            self.unused.push(Reverse(self.slots.len()));
            self.slots.push(None);
        }
        let same = match (&self.slots[at], &entry) {
            (Some(slot), Some((address, _))) => slot.address == *address,
            (None, None) => return false,
            _ => false,
        };
        let meant = if same { None } else { self.slots[at].take() };
        if let Some(slot) = &meant {
            self.index.remove(&slot.address);
            self.users.remove(&at);
            self.firewalled.remove(&at);
            self.unused.push(Reverse(at));
        }
        if let Some((address, inserted)) = entry {
            self.index.insert(address.clone(), at);
            self.slots[at] = Some(Slot { address, inserted });
        }
        meant.is_some()
    }

    /// Returns what other processes are to know of an index.
    pub(super) fn entry(&self, at: FiAddr) -> Option<(&Address, usize)> {
        let slot = self.slots.get(usize::try_from(at.0).ok()?)?.as_ref()?;
        Some((&slot.address, slot.inserted))
    }

    /// Returns the name that completions give to an address.
    ///
    /// # Errors
    /// `INVAL` when the index is unused.
    pub(super) fn set_user(&mut self, at: FiAddr, user: u64) -> Result<(), Errno> {
        self.address(at).ok_or(Errno::INVAL)?;
        self.users.insert(at.0 as usize, user);
        Ok(())
    }

    /// Returns what completions call an address, if the application said so.
    pub(super) fn user(&self, at: FiAddr) -> Option<u64> {
        self.users.get(&usize::try_from(at.0).ok()?).copied()
    }

    /// Notes that an address in use cannot be connected to; returns whether that is new.
    pub(super) fn set_firewalled(&mut self, at: FiAddr) -> bool {
        self.firewalled.insert(at.0 as usize)
    }

    /// Returns whether the address at an index cannot be connected to.
    pub(super) fn is_behind_firewall(&self, at: FiAddr) -> bool {
        !self.firewalled.is_empty() && self.firewalled.contains(&(at.0 as usize))
    }

    /// Removes an address; returns whether its index is unused now.
    ///
    /// # Errors
    /// `INVAL` when the index is unused.
    pub(super) fn remove(&mut self, at: FiAddr) -> Result<bool, Errno> {
        let at = usize::try_from(at.0).map_err(|_| Errno::INVAL)?;
        let place = self.slots.get_mut(at).ok_or(Errno::INVAL)?;
        let slot = place.as_mut().ok_or(Errno::INVAL)?;
        slot.inserted -= 1;
        if slot.inserted != 0 {
            return Ok(false);
        }
        self.index.remove(&slot.address);
        *place = None;
        self.users.remove(&at);
        self.firewalled.remove(&at);
        self.unused.push(Reverse(at));
        Ok(true)
    }

    /// Returns the address at an index.
    pub(super) fn address(&self, at: FiAddr) -> Option<&Address> {
        let slot = self.slots.get(usize::try_from(at.0).ok()?)?;
        slot.as_ref().map(|slot| &slot.address)
    }

    /// Lists the indices that are in use, in order.
    pub(super) fn indices(&self) -> impl Iterator<Item = u64> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, slot)| slot.as_ref().map(|_| at as u64))
    }

    /// Returns the index of an address.
    pub(super) fn find(&self, address: &Address) -> Option<FiAddr> {
        self.index.get(address).map(|&at| FiAddr(at as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Address {
        Address::Name(text.into())
    }

    #[test]
    fn indices_follow_the_order_and_the_lowest_is_used_again() {
        let mut table = Table::new(2);
        for (at, text) in ["a", "b", "c"].iter().enumerate() {
            assert_eq!(table.insert(name(text)), FiAddr(at as u64));
        }
        assert_eq!(table.remove(FiAddr(2)), Ok(true));
        assert_eq!(table.remove(FiAddr(0)), Ok(true));
        assert_eq!(table.insert(name("d")), FiAddr(0));
        assert_eq!(table.insert(name("e")), FiAddr(2));
        assert_eq!(table.find(&name("e")), Some(FiAddr(2)));
        assert_eq!(table.find(&name("c")), None);
    }

    #[test]
    fn duplicates_share_an_index_and_are_counted() {
        let mut table = Table::new(0);
        assert_eq!(table.insert(name("a")), FiAddr(0));
        assert_eq!(table.insert(name("a")), FiAddr(0));
        assert_eq!(table.remove(FiAddr(0)), Ok(false));
        assert_eq!(table.address(FiAddr(0)), Some(&name("a")));
        assert_eq!(table.remove(FiAddr(0)), Ok(true));
        assert_eq!(table.remove(FiAddr(0)), Err(Errno::INVAL));
    }

    #[test]
    fn what_another_process_did_is_taken_over() {
        let mut table = Table::new(0);
        assert!(!table.set(1, Some((name("b"), 2))));
        assert_eq!(table.find(&name("b")), Some(FiAddr(1)));
        assert_eq!(table.insert(name("a")), FiAddr(0));
        assert_eq!(table.entry(FiAddr(1)), Some((&name("b"), 2)));
        assert!(!table.set(1, Some((name("b"), 1))));
        assert_eq!(table.entry(FiAddr(1)), Some((&name("b"), 1)));
        assert!(table.set(1, Some((name("c"), 1))));
        assert_eq!(
            (table.find(&name("b")), table.find(&name("c"))),
            (None, Some(FiAddr(1)))
        );
        assert!(table.set(1, None));
        assert_eq!(table.insert(name("d")), FiAddr(1));
        assert_eq!(table.insert(name("e")), FiAddr(2));
    }

    #[test]
    fn names_of_the_application_go_with_the_address() {
        let mut table = Table::new(0);
        assert_eq!(table.set_user(FiAddr(0), 9), Err(Errno::INVAL));
        table.insert(name("a"));
        assert_eq!(
            (table.user(FiAddr(0)), table.set_user(FiAddr(0), 9)),
            (None, Ok(()))
        );
        assert_eq!(table.user(FiAddr(0)), Some(9));
        assert_eq!(table.remove(FiAddr(0)), Ok(true));
        table.insert(name("b"));
        assert_eq!(table.user(FiAddr(0)), None);
    }

    #[test]
    fn indices_out_of_range_are_invalid() {
        let mut table = Table::new(usize::MAX);
        assert_eq!(table.remove(FiAddr(0)), Err(Errno::INVAL));
        assert_eq!(table.remove(FiAddr::UNSPEC), Err(Errno::INVAL));
        assert_eq!(table.address(FiAddr::UNSPEC), None);
    }
}
