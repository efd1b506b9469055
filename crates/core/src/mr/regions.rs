//! The registered memory of a domain, by key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use oxifabric_types::{DomainAttr, Errno, MrMode};

/// What was registered under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Pieces of memory as (address, length), in order.
    pub(crate) pieces: Vec<(usize, usize)>,
    /// What it may be used for (`FI_SEND ... FI_REMOTE_WRITE`).
    pub(crate) access: u64,
    /// The remote address of its first byte, where regions are not addressed virtually.
    pub(crate) offset: u64,
}

/// The table of a domain.
#[derive(Debug)]
pub(crate) struct Regions {
    map: HashMap<u64, Region>,
    /// The provider chooses keys (`FI_MR_PROV_KEY`, `FI_MR_BASIC`).
    chooses: bool,
    /// The largest key.
    largest: u64,
}

impl Regions {
    /// A table for the registration mode of a domain.
    pub(crate) fn new(attr: &DomainAttr) -> Self {
        let largest = match attr.mr_key_size {
            size @ 1..8 => (1 << (8 * size)) - 1,
            _ => u64::MAX,
        };
        Self {
            map: HashMap::new(),
            chooses: attr.mr_mode.intersects(MrMode::PROV_KEY | MrMode::BASIC),
            largest,
        }
    }

    /// Registers a region and returns its key.
    ///
    /// # Errors
    /// `NOKEY` when the requested key is in use, `KEYREJECTED` when it is too long for the domain.
    pub(crate) fn insert(&mut self, region: Region, requested: u64) -> Result<u64, Errno> {
        let key = if self.chooses {
            self.fresh_key()
        } else {
            requested
        };
        if key > self.largest {
            return Err(Errno::KEYREJECTED);
        }
        match self.map.entry(key) {
            Entry::Occupied(_) => Err(Errno::NOKEY),
            Entry::Vacant(place) => {
                place.insert(region);
                Ok(key)
            }
        }
    }

    /// Forgets a region.
    pub(crate) fn remove(&mut self, key: u64) {
        self.map.remove(&key);
    }

    /// Chooses a key that nobody can guess: it is what protects the memory from other peers.
    fn fresh_key(&self) -> u64 {
        loop {
            let key = random() & self.largest;
            if key != u64::MAX && !self.map.contains_key(&key) {
                return key;
            }
        }
    }
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: writes at most eight bytes. For so few it neither fails nor falls short once the system has started.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Region {
        Region {
            pieces: vec![(0x1000, 16)],
            access: 0,
            offset: 0,
        }
    }

    fn regions(mr_mode: MrMode, mr_key_size: usize) -> Regions {
        Regions::new(&DomainAttr {
            mr_mode,
            mr_key_size,
            ..DomainAttr::default()
        })
    }

    #[test]
    fn requested_keys_are_taken_once() {
        let mut regions = regions(MrMode::empty(), 8);
        assert_eq!(regions.insert(region(), 7), Ok(7));
        assert_eq!(regions.insert(region(), 7), Err(Errno::NOKEY));
        regions.remove(7);
        assert_eq!(regions.insert(region(), 7), Ok(7));
    }

    #[test]
    fn chosen_keys_differ_and_fit() {
        let mut regions = regions(MrMode::PROV_KEY, 4);
        let (a, b) = (regions.insert(region(), 7), regions.insert(region(), 7));
        assert_ne!(a, b);
        assert!(a.is_ok_and(|key| key <= u64::from(u32::MAX)));
    }

    #[test]
    fn keys_that_are_too_long_are_rejected() {
        let mut regions = regions(MrMode::empty(), 4);
        assert_eq!(regions.insert(region(), 1 << 32), Err(Errno::KEYREJECTED));
    }
}
