//! The registered memory of a domain, by key. Path class: hot, for what peers ask of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use oxifabric_engine::{OpenRegion, Target};
use oxifabric_mem::{IovSegment, Registration};
use oxifabric_provider::secret;
use oxifabric_types::{DomainAttr, Errno, Flags, MrMode};

use crate::cntr::Cntr;
use crate::handle::Ref;

/// How often a key is drawn by chance before the table counts as full: one that is free among 256 is missed once in nine million times.
const FRESH_DRAWS: usize = 4096;

/// What was registered under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Pieces of memory, in order.
    pub(crate) pieces: Vec<IovSegment>,
    /// The operations that it may be used for (`SEND ... REMOTE_WRITE`): none, while it is disabled.
    pub(crate) access: Flags,
    /// The first access ends it (`FI_MR_SINGLE_USE`).
    pub(crate) single_use: bool,
    /// What peers write has to be durable before it is acknowledged (`FI_RMA_PMEM`).
    pub(crate) persistent: bool,
    /// What the provider made of it, where it numbers regions.
    pub(crate) registration: Option<Registration>,
}

// SAFETY: the pieces are addresses of memory that the application registered; this table only hands them on.
unsafe impl Send for Region {}

impl Region {
    /// Returns where its first byte is.
    fn base(&self) -> u64 {
        let first = self.pieces.first().map_or(0, |piece| piece.base().addr());
        first as u64
    }

    /// Gives `take` the memory that is `offset` bytes from the start and `len` bytes long, piece by piece.
    ///
    /// # Errors
    /// `ACCES` when the region ends before.
    fn each(
        &self,
        mut offset: u64,
        mut len: u64,
        mut take: impl FnMut(IovSegment) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        for piece in &self.pieces {
            let whole = piece.len() as u64;
            // Memory that begins at the end of a piece belongs to the next one, unless it has no bytes.
            if offset > whole || (offset == whole && len > 0) {
                offset -= whole;
                continue;
            }
            let rest = whole - offset;
            let part = rest.min(len);
            // It lies inside the piece, whose address and length the application registered.
            take(IovSegment::new(
                piece.base().wrapping_add(offset as usize),
                part as usize,
            ))?;
            len -= part;
            offset = 0;
            if len == 0 {
                return Ok(());
            }
        }
        Err(Errno::ACCES)
    }
}

/// The table of a domain.
pub(crate) struct Regions {
    map: HashMap<u64, Region, BuildHasherDefault<KeyHasher>>,
    /// Counters of accesses by peers, by key: only of regions that counters are bound to.
    counters: HashMap<u64, Vec<(Flags, Ref<Cntr>)>>,
    /// Peers name memory by its address (`FI_MR_VIRT_ADDR`, `FI_MR_BASIC`), not by the offset in its region.
    virtual_addresses: bool,
    /// The provider chooses keys (`FI_MR_PROV_KEY`, `FI_MR_BASIC`).
    chooses: bool,
    /// The largest key.
    largest: u64,
    /// Some region is for a single use.
    spends: bool,
}

impl Regions {
    /// Returns an empty table for the registration mode of a domain.
    pub(crate) fn new(attr: &DomainAttr) -> Self {
        let largest = match attr.mr_key_size {
            size @ 1..8 => (1 << (8 * size)) - 1,
            _ => u64::MAX,
        };
        Self {
            map: HashMap::default(),
            counters: HashMap::new(),
            virtual_addresses: attr.mr_mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC),
            chooses: attr.mr_mode.intersects(MrMode::PROV_KEY | MrMode::BASIC),
            largest,
            spends: false,
        }
    }

    /// Registers a region and returns its key.
    ///
    /// # Errors
    /// `NOKEY` when the requested key, or nearly every key, is in use, `KEYREJECTED` when it is too long for the domain.
    pub(crate) fn insert(&mut self, region: Region, requested: u64) -> Result<u64, Errno> {
        let key = if self.chooses {
            self.fresh_key()?
        } else {
            requested
        };
        self.insert_under(key, region)
    }

    /// Registers a region under a key that the application or provider has chosen, and returns the key.
    ///
    /// # Errors
    /// As [`Regions::insert`].
    pub(crate) fn insert_under(&mut self, key: u64, region: Region) -> Result<u64, Errno> {
        if key > self.largest {
            return Err(Errno::KEYREJECTED);
        }
        self.spends |= region.single_use;
        match self.map.entry(key) {
            Entry::Occupied(_) => Err(Errno::NOKEY),
            Entry::Vacant(place) => {
                place.insert(region);
                Ok(key)
            }
        }
    }

    /// Changes what a region may be used for.
    pub(crate) fn permit(&mut self, key: u64, access: Flags) {
        if let Some(region) = self.map.get_mut(&key) {
            region.access = access;
        }
    }

    /// Takes note that these accesses were granted: regions for a single use are over.
    #[inline]
    pub(crate) fn granted(&mut self, targets: &[Target]) {
        if !self.spends {
            return;
        }
        for target in targets {
            if self
                .map
                .get(&target.key)
                .is_some_and(|region| region.single_use)
            {
                self.permit(target.key, Flags::empty());
            }
        }
    }

    /// Returns whether the application chooses keys.
    pub(crate) const fn takes_requests(&self) -> bool {
        !self.chooses
    }

    /// Returns the address by which peers name the first byte of a region.
    pub(crate) fn base(&self, key: u64) -> u64 {
        match self.map.get(&key) {
            Some(region) if self.virtual_addresses => region.base(),
            _ => 0,
        }
    }

    /// Returns the memory that a peer names, if it is one piece of one region, with what the provider knows it by: [`Regions::each_piece`] for short.
    #[inline]
    pub(crate) fn one_piece(
        &self,
        target: &Target,
        access: Flags,
    ) -> Option<(IovSegment, Option<Registration>)> {
        let region = self.map.get(&target.key)?;
        let [piece] = region.pieces.as_slice() else {
            return None;
        };
        let start = match self.virtual_addresses {
            true => piece.base().addr() as u64,
            false => 0,
        };
        let offset = target.addr.checked_sub(start)?;
        let rest = (piece.len() as u64).checked_sub(offset)?;
        if !region.access.contains(access) || target.len > rest {
            return None;
        }
        let piece = IovSegment::new(
            piece.base().wrapping_add(offset as usize),
            target.len as usize,
        );
        Some((piece, region.registration))
    }

    /// Returns a region as a whole, if it is one piece that peers may access again and again.
    pub(crate) fn open(&self, key: u64) -> Option<OpenRegion> {
        let region = self.map.get(&key)?;
        let [piece] = region.pieces.as_slice() else {
            return None;
        };
        let access = region.access & (Flags::REMOTE_READ | Flags::REMOTE_WRITE);
        if region.single_use || region.persistent || access.is_empty() {
            return None;
        }
        Some(OpenRegion {
            addr: self.base(key),
            base: region.base(),
            len: piece.len() as u64,
            access,
        })
    }

    /// Forgets a region.
    pub(crate) fn remove(&mut self, key: u64) {
        self.map.remove(&key);
        self.counters.remove(&key);
    }

    /// Gives `take` the memory that a peer names, piece by piece.
    ///
    /// # Errors
    /// `NOKEY` when the key is unknown, `ACCES` when the memory is not registered for `access` or ends before, and
    /// what `take` says.
    #[inline]
    pub(crate) fn each_piece(
        &self,
        target: &Target,
        access: Flags,
        take: impl FnMut(IovSegment) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let region = self.map.get(&target.key).ok_or(Errno::NOKEY)?;
        if !region.access.contains(access) {
            return Err(Errno::ACCES);
        }
        let start = match self.virtual_addresses {
            true => region.base(),
            false => 0,
        };
        let offset = target.addr.checked_sub(start).ok_or(Errno::ACCES)?;
        region.each(offset, target.len, take)
    }

    /// Lets a counter count accesses to a region.
    pub(crate) fn count(&mut self, key: u64, access: Flags, counter: Ref<Cntr>) {
        self.counters
            .entry(key)
            .or_default()
            .push((access, counter));
    }

    /// Returns the counters of such accesses to a region.
    pub(crate) fn counters(&self, key: u64, access: Flags) -> impl Iterator<Item = &Cntr> {
        let bound = match self.counters.is_empty() {
            true => None,
            false => self.counters.get(&key),
        };
        let bound = bound.map_or(&[][..], Vec::as_slice);
        let counts = move |flags: Flags| flags.intersects(access);
        bound
            .iter()
            .filter(move |(flags, _)| counts(*flags))
            .map(|(_, counter)| &**counter)
    }

    /// Returns the pieces of a region of persistent memory; `None` for a region of other memory.
    pub(crate) fn persistent(&self, key: u64) -> Option<&[IovSegment]> {
        let region = self.map.get(&key).filter(|region| region.persistent)?;
        Some(&region.pieces)
    }

    /// Chooses a key that cannot be guessed: it is what protects the memory from other peers.
    ///
    /// # Errors
    /// `NOKEY` where keys are so short that nearly all are in use.
    fn fresh_key(&self) -> Result<u64, Errno> {
        let draws = (0..FRESH_DRAWS).map(|_| secret::draw() & self.largest);
        let mut free = draws.filter(|key| *key != u64::MAX && !self.map.contains_key(key));
        free.next().ok_or(Errno::NOKEY)
    }
}

/// Spreads keys over the table. The application chooses them or chance does, never a peer.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        let mixed = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(base: usize, len: usize) -> IovSegment {
        IovSegment::new(core::ptr::without_provenance_mut(base), len)
    }

    fn region() -> Region {
        Region {
            pieces: vec![piece(0x1000, 16), piece(0x2000, 8)],
            access: Flags::REMOTE_READ,
            single_use: false,
            persistent: false,
            registration: None,
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
    fn a_table_whose_keys_are_all_in_use_refuses_regions() {
        let mut regions = regions(MrMode::PROV_KEY, 1);
        let keys = core::iter::from_fn(|| regions.insert(region(), 0).ok());
        assert_eq!(keys.count(), 256);
        assert_eq!(regions.insert(region(), 0), Err(Errno::NOKEY));
    }

    #[test]
    fn keys_that_are_too_long_are_rejected() {
        let mut regions = regions(MrMode::empty(), 4);
        assert_eq!(regions.insert(region(), 1 << 32), Err(Errno::KEYREJECTED));
    }

    /// Looks up `len` bytes at `addr` for reading.
    fn find(regions: &Regions, addr: u64, len: u64) -> Result<Vec<(usize, usize)>, Errno> {
        let mut found = Vec::new();
        let target = Target { addr, len, key: 7 };
        regions.each_piece(&target, Flags::REMOTE_READ, |piece| {
            found.push((piece.base().addr(), piece.len()));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn memory_is_found_by_its_offset() {
        let mut regions = regions(MrMode::empty(), 8);
        assert_eq!(find(&regions, 0, 1), Err(Errno::NOKEY));
        regions.insert(region(), 7).expect("the key is free");
        assert_eq!(find(&regions, 0, 16), Ok(vec![(0x1000, 16)]));
        assert_eq!(find(&regions, 10, 8), Ok(vec![(0x100a, 6), (0x2000, 2)]));
        let all = vec![(0x1000, 16), (0x2000, 8)];
        assert_eq!(find(&regions, 0, 24), Ok(all));
        assert_eq!(find(&regions, 16, 8), Ok(vec![(0x2000, 8)]));
        assert_eq!(find(&regions, 24, 0).map(|found| found.len()), Ok(1));
        for (addr, len) in [(0, 25), (24, 1), (25, 0), (u64::MAX, 2), (2, u64::MAX)] {
            assert_eq!(find(&regions, addr, len), Err(Errno::ACCES), "{addr} {len}");
        }
        regions.remove(7);
        assert_eq!(find(&regions, 0, 1), Err(Errno::NOKEY));
    }

    #[test]
    fn memory_is_found_by_its_address() {
        for mode in [MrMode::VIRT_ADDR, MrMode::BASIC] {
            let mut regions = regions(mode, 8);
            regions.chooses = false;
            regions.insert(region(), 7).expect("the key is free");
            assert_eq!(find(&regions, 0x1002, 3), Ok(vec![(0x1002, 3)]));
            assert_eq!(find(&regions, 0xfff, 1), Err(Errno::ACCES));
            assert_eq!(find(&regions, 0, 1), Err(Errno::ACCES));
        }
    }

    #[test]
    fn memory_is_found_for_what_it_was_registered() {
        let mut regions = regions(MrMode::empty(), 8);
        regions.insert(region(), 7).expect("the key is free");
        let target = Target {
            addr: 0,
            len: 1,
            key: 7,
        };
        let found = regions.each_piece(&target, Flags::REMOTE_WRITE, |_| Ok(()));
        assert_eq!(found, Err(Errno::ACCES));
    }

    #[test]
    fn the_short_way_to_one_piece_is_as_strict_as_the_long_one() {
        for mode in [MrMode::empty(), MrMode::VIRT_ADDR] {
            let mut regions = regions(mode, 8);
            let mut one = region();
            one.pieces.truncate(1);
            regions.insert(one, 7).expect("the key is free");
            let start = regions.base(7);
            for (addr, len, key) in [
                (0, 16, 7),
                (15, 1, 7),
                (16, 0, 7),
                (16, 1, 7),
                (17, 0, 7),
                (0, 17, 7),
                (u64::MAX, 2, 7),
                (1, u64::MAX, 7),
                (0, 1, 8),
            ] {
                let addr = start.wrapping_add(addr);
                let target = Target { addr, len, key };
                for access in [Flags::REMOTE_READ, Flags::REMOTE_WRITE] {
                    let mut long = None;
                    let found = regions.each_piece(&target, access, |piece| {
                        long = Some((piece.base().addr(), piece.len()));
                        Ok(())
                    });
                    let short = regions.one_piece(&target, access).map(|(piece, _)| piece);
                    let short = short.map(|piece| (piece.base().addr(), piece.len()));
                    assert_eq!(short, found.ok().and(long), "{target:?}");
                }
            }
        }
    }

    #[test]
    fn a_region_for_a_single_use_is_over_with_it() {
        let mut regions = regions(MrMode::empty(), 8);
        let once = Region {
            single_use: true,
            ..region()
        };
        regions.insert(once, 7).expect("the key is free");
        let target = Target {
            addr: 0,
            len: 1,
            key: 7,
        };
        assert!(find(&regions, 0, 1).is_ok());
        regions.granted(&[target]);
        assert_eq!(find(&regions, 0, 1), Err(Errno::ACCES));
    }
}
