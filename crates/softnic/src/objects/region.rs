//! Registered memory, and the destinations of a domain.

use std::collections::HashMap;

use crate::io::Piece;
use crate::slab::Slab;

/// Access rights of `enum ibv_access_flags`.
pub(crate) mod access {
    pub(crate) const LOCAL_WRITE: u32 = 1;
    pub(crate) const REMOTE_WRITE: u32 = 1 << 1;
    pub(crate) const REMOTE_READ: u32 = 1 << 2;
    /// Those that a device may ignore.
    pub(crate) const OPTIONAL: u32 = 0x3ff << 20;
}

/// A registered region.
#[derive(Debug)]
pub(crate) struct Mr {
    pub(crate) context: u32,
    pub(crate) pd: u32,
    pub(crate) key: u32,
    /// The address by which requests name its first byte, and where that is.
    pub(crate) iova: u64,
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) access: u32,
}

impl Mr {
    /// Returns where the bytes are in this process, if the region covers them, belongs to the domain and has the rights.
    pub(crate) fn locate(&self, pd: u32, addr: u64, len: u32, access: u32) -> Option<u64> {
        let offset = addr.checked_sub(self.iova)?;
        let is_within = offset.checked_add(len.into())? <= self.len;
        let is_allowed = self.pd == pd && self.access & access == access;
        (is_within && is_allowed).then(|| self.start + offset)
    }
}

/// All regions, also by key.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) by_handle: Slab<Mr>,
    by_key: HashMap<u32, u32>,
}

impl Regions {
    /// Adds a region, and returns its handle.
    pub(crate) fn insert(&mut self, mr: Mr) -> u32 {
        let key = mr.key;
        let handle = self.by_handle.insert(mr);
        self.by_key.insert(key, handle);
        handle
    }

    /// Removes a region.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Mr> {
        let mr = self.by_handle.remove(handle)?;
        self.by_key.remove(&mr.key);
        Some(mr)
    }

    /// Whether a region has this key.
    pub(crate) fn has_key(&self, key: u32) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Returns where a piece of registered memory is in this process, if its key allows the access.
    pub(crate) fn locate(&self, pd: u32, piece: Piece, access: u32) -> Option<u64> {
        let mr = self.by_handle.get(*self.by_key.get(&piece.key)?)?;
        mr.locate(pd, piece.addr, piece.len, access)
    }
}

/// Which address handles there are: by domain and number, and by domain and destination.
#[derive(Debug, Default)]
pub(crate) struct Destinations {
    by_number: HashMap<(u32, u16), [u8; 16]>,
    by_gid: HashMap<(u32, [u8; 16]), (u16, u32)>,
    last: u16,
}

impl Destinations {
    /// Returns the number of a destination within a domain, and counts one more handle of it.
    pub(crate) fn add(&mut self, pd: u32, gid: [u8; 16]) -> Option<u16> {
        if let Some((number, users)) = self.by_gid.get_mut(&(pd, gid)) {
            *users += 1;
            return Some(*number);
        }
        let is_free = |number: &u16| {
            let mut numbers = self.by_number.keys();
            numbers.all(|(_, used)| used != number)
        };
        let number = (1..=MAX_AH).map(|step| (self.last + step) % MAX_AH);
        let number = number.into_iter().find(is_free)?;
        self.last = number;
        self.by_number.insert((pd, number), gid);
        self.by_gid.insert((pd, gid), (number, 1));
        Some(number)
    }

    /// Counts one handle less, and forgets the destination with the last one.
    pub(crate) fn remove(&mut self, pd: u32, gid: [u8; 16]) {
        let Some((number, users)) = self.by_gid.get_mut(&(pd, gid)) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            self.by_number.remove(&(pd, *number));
            self.by_gid.remove(&(pd, gid));
        }
    }

    /// Returns the destination with this number.
    pub(crate) fn gid(&self, pd: u32, number: u16) -> Option<[u8; 16]> {
        self.by_number.get(&(pd, number)).copied()
    }

    /// Returns the number of a destination.
    pub(crate) fn number(&self, pd: u32, gid: [u8; 16]) -> Option<u16> {
        self.by_gid.get(&(pd, gid)).map(|(number, _)| *number)
    }
}

/// How many destinations a process may have.
pub(crate) const MAX_AH: u16 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_left_by_no_access() {
        let mr = Mr {
            context: 0,
            pd: 3,
            key: 1,
            iova: 0x1000,
            start: 0x9000,
            len: 16,
            access: access::LOCAL_WRITE | access::REMOTE_READ,
        };
        assert_eq!(mr.locate(3, 0x1008, 8, access::REMOTE_READ), Some(0x9008));
        assert_eq!(mr.locate(3, 0x1010, 0, 0), Some(0x9010));
        for (pd, addr, len, rights) in [
            (3, 0x1008, 9, 0),
            (3, 0xfff, 1, 0),
            (2, 0x1000, 1, 0),
            (3, 0x1000, 1, access::REMOTE_WRITE),
            (3, u64::MAX, 2, 0),
        ] {
            assert_eq!(mr.locate(pd, addr, len, rights), None);
        }
    }
}
