//! What the endpoints of a domain share: the open device, registered memory, and the address handles of peers.
//!
//! An address that is inserted into an address vector gets an address handle at once: the device takes reads and writes only from peers
//! for which it has a handle, and names the source of a message by it. Endpoints at one port of a peer share one handle.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, c_void};
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};

use oxifabric_ibv::{Access, Ah, Context, EfaCaps, Gid, Interconnects, Mr, Pd, Piece};
use oxifabric_mem::{Iov, IovSegment, MemoryKind, RegionId};
use oxifabric_provider::domain::{ProviderDomain, Registered, RegistrationRequest};
use oxifabric_provider::handles::Handles;
use oxifabric_types::{Address, EfaAddress, Errno, Flags, Info};

use crate::hardware::{self, Hardware, PORT};
use crate::info::has_engine;
use crate::sys;

/// The provider's part of a domain.
#[derive(Debug)]
pub struct EfaDomain {
    pub(crate) hardware: &'static Hardware,
    /// Its endpoints have an engine.
    has_engine: bool,
    pub(crate) context: Arc<Context>,
    pub(crate) pd: Arc<Pd>,
    regions: RwLock<Regions>,
    address_handles: Mutex<AddressHandles>,
    /// Number of changes of `address_handles`.
    changes: AtomicU64,
}

/// Registrations, by number.
#[derive(Debug, Default)]
struct Regions {
    rows: Vec<Option<Mr>>,
    free: Vec<u32>,
}

/// While this is there no region of the domain ends that the memory it was made for names.
#[derive(Debug)]
pub(crate) struct Hold<'a>(
    #[expect(dead_code, reason = "it is there to be dropped")] Option<RwLockReadGuard<'a, Regions>>,
);

/// The address handles of the peers in the address vectors of the domain.
#[derive(Debug, Default)]
struct AddressHandles {
    by_gid: HashMap<Gid, Handle>,
    /// At so many ports those without a handle are dropped.
    sweep_at: usize,
    /// How often each address was inserted.
    inserted: HashMap<EfaAddress, usize>,
    /// The addresses that have this address handle and number of a queue pair, in the order of insertion. Devices use numbers of queue pairs
    /// again, so the last address is that of the queue pair that exists now.
    sources: HashMap<Source, Vec<EfaAddress>>,
}

/// Memory of a region of the application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    /// As this device's requests name it.
    pub(crate) piece: Piece,
    /// The key by which peers name it.
    pub(crate) rkey: u32,
}

/// How a device names the source of a message: by the number of an address handle, and that of a queue pair.
pub(crate) type Source = (u16, u16);

/// An address handle, which lasts as long as an address vector or an endpoint needs it.
#[derive(Debug)]
struct Handle {
    ah: Weak<Ah>,
    number: u16,
    /// The handle, while address vectors have addresses of the port, and how many.
    needed: Option<(Arc<Ah>, usize)>,
}

/// Below so many ports, handles that are gone may stay listed.
const PORTS_MIN: usize = 64;

impl ProviderDomain for EfaDomain {
    fn open(info: &Info) -> Result<Self, Errno> {
        let name = &*info.domain.name;
        let device = name.strip_suffix("-rdm").or(name.strip_suffix("-dgrm"));
        let (hardware, context) = hardware::open(device.ok_or(Errno::NODEV)?)?;
        Ok(Self {
            hardware,
            has_engine: has_engine(info),
            pd: Pd::new(&context)?,
            context,
            regions: RwLock::default(),
            address_handles: Mutex::default(),
            changes: AtomicU64::new(0),
        })
    }

    fn register(&self, request: &RegistrationRequest<'_>) -> Result<Registered, Errno> {
        if request.kind != MemoryKind::Host {
            return Err(Errno::NOSYS);
        }
        let &[piece] = request.pieces else {
            return Err(Errno::INVAL);
        };
        let access = access(request.access, self.hardware);
        let mr = self.pd.register(sys::lend(piece), access)?;
        let key = mr.rkey().into();
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Registered {
            region: Some(regions.insert(mr).ok_or(Errno::NOMEM)?),
            key: Some(key),
        })
    }

    fn deregister(&self, region: RegionId) -> Result<(), Errno> {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        let ended = regions.remove(region);
        drop(regions);
        // The drop, which deregisters the memory with the device, runs without the lock.
        ended.map(drop).ok_or(Errno::INVAL)
    }

    fn ops(&self, name: &CStr, handles: &'static Handles) -> Result<NonNull<c_void>, Errno> {
        sys::named_ops::of_domain(name, self.has_engine, handles)
    }

    fn admit(&self, address: &Address) -> Result<(), Errno> {
        let Address::Efa(at) = *address else {
            return Err(Errno::INVAL);
        };
        let mut handles = self.address_handles();
        let (ah, number) = handles.handle(&self.pd, &at.gid)?;
        handles.admit(at, &ah, number);
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn dismiss(&self, address: &Address) {
        if let Address::Efa(at) = address {
            self.address_handles().dismiss(at);
            self.changes.fetch_add(1, Ordering::Release);
        }
    }
}

impl EfaDomain {
    /// Returns by which interconnects the device reaches a region.
    ///
    /// # Errors
    /// `INVAL` if it is not registered; as [`Mr::interconnects`].
    pub(crate) fn interconnects(&self, region: RegionId) -> Result<Interconnects, Errno> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        regions.get(region).ok_or(Errno::INVAL)?.interconnects()
    }

    /// Describes bytes of a region as requests name them; `None` if the region is not registered, or they are not all in it.
    pub(crate) fn piece(&self, region: RegionId, base: *const u8, len: usize) -> Option<Piece> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let mr = regions.get(region)?;
        let offset = (base.addr() as u64).checked_sub(mr.address())?;
        mr.piece(usize::try_from(offset).ok()?, len)
    }

    /// Describes memory that an application passed with its descriptor, if it is one segment of a region that was registered with these rights. Requests
    /// may name it until the operation ends: the application closes the region later (fi_mr(3)), and where it does not, the device refuses the key.
    #[inline(always)]
    pub(crate) fn described(&self, memory: &Iov, rights: Access) -> Option<Described> {
        let (segment, region) = memory.one_registered()?;
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let mr = regions
            .get(region)
            .filter(|mr| mr.access().contains(rights))?;
        let offset = (segment.base().addr() as u64).checked_sub(mr.address())?;
        Some(Described {
            piece: mr.piece(usize::try_from(offset).ok()?, segment.len())?,
            rkey: mr.rkey(),
        })
    }

    /// Returns a hold on the regions that memory of an operation names, during which it may be copied: the application frees it no earlier than it has closed its
    /// regions. Holds are not taken while there is one: a thread that closes a region may wait between them.
    ///
    /// # Errors
    /// `INVAL` if a region that the application has named is closed.
    pub(crate) fn hold(&self, memory: &Iov) -> Result<Hold<'_>, Errno> {
        let mut named = memory
            .segments()
            .iter()
            .enumerate()
            .filter_map(|(at, piece)| {
                let known = memory.registration(at)?;
                (!piece.is_empty()).then_some((known.region, piece))
            });
        let Some(first) = named.next() else {
            return Ok(Hold(None));
        };
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        match regions.has(first) && named.all(|piece| regions.has(piece)) {
            true => Ok(Hold(Some(regions))),
            false => Err(Errno::INVAL),
        }
    }

    /// Returns the address handle of a port, which is made if need be.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn handle(&self, gid: &Gid) -> Result<Arc<Ah>, Errno> {
        let mut handles = self.address_handles();
        let (ah, _) = handles.handle(&self.pd, gid)?;
        Ok(ah)
    }

    /// Returns the address of a source, if it is in an address vector.
    pub(crate) fn source(&self, source: Source) -> Option<EfaAddress> {
        self.address_handles().sources.get(&source)?.last().copied()
    }

    /// Returns a number that changes whenever [`EfaDomain::source`] may return another address for a source.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn address_handles(&self) -> MutexGuard<'_, AddressHandles> {
        self.address_handles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressHandles {
    fn handle(&mut self, pd: &Arc<Pd>, gid: &Gid) -> Result<(Arc<Ah>, u16), Errno> {
        let known = self.by_gid.get(gid);
        if let Some((ah, number)) =
            known.and_then(|known| Some((known.ah.upgrade()?, known.number)))
        {
            return Ok((ah, number));
        }
        let ah = Arc::new(pd.destination(PORT, gid)?);
        let number = ah.efa_number()?;
        let handle = Handle {
            ah: Arc::downgrade(&ah),
            number,
            needed: None,
        };
        self.list(*gid, handle);
        Ok((ah, number))
    }

    /// Lists the handle of a port. Ports whose handle is gone are forgotten when there are many: peers that are in no vector come and go.
    fn list(&mut self, gid: Gid, handle: Handle) {
        if self.by_gid.len() >= self.sweep_at.max(PORTS_MIN) {
            self.by_gid.retain(|_, handle| handle.ah.strong_count() > 0);
            self.sweep_at = 2 * self.by_gid.len();
        }
        self.by_gid.insert(gid, handle);
    }

    /// Notes an address, which has this handle with this number.
    fn admit(&mut self, at: EfaAddress, ah: &Arc<Ah>, number: u16) {
        if let Some(handle) = self.by_gid.get_mut(&at.gid) {
            let (_, addresses) = handle.needed.get_or_insert_with(|| (Arc::clone(ah), 0));
            *addresses += 1;
        }
        let times = self.inserted.entry(at).or_default();
        *times += 1;
        if *times == 1 {
            self.sources.entry((number, at.qpn)).or_default().push(at);
        }
    }

    /// Takes back one [`AddressHandles::admit`] of an address; does nothing for an address that was not noted.
    fn dismiss(&mut self, at: &EfaAddress) {
        let Entry::Occupied(mut times) = self.inserted.entry(*at) else {
            return;
        };
        *times.get_mut() -= 1;
        let is_gone = *times.get() == 0;
        if is_gone {
            times.remove();
        }
        let Some(handle) = self.by_gid.get_mut(&at.gid) else {
            return;
        };
        let number = handle.number;
        if let Some((_, addresses)) = &mut handle.needed {
            *addresses -= 1;
            handle.needed.take_if(|(_, addresses)| *addresses == 0);
        }
        if is_gone && let Entry::Occupied(mut known) = self.sources.entry((number, at.qpn)) {
            known.get_mut().retain(|known| known != at);
            if known.get().is_empty() {
                known.remove();
            }
        }
    }
}

impl Regions {
    /// Keeps a registration; `None` when there are too many.
    fn insert(&mut self, mr: Mr) -> Option<RegionId> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = u32::try_from(self.rows.len()).ok()?;
                self.rows.push(None);
                at
            }
        };
        *self.rows.get_mut(at as usize)? = Some(mr);
        NonZeroU32::new(at.checked_add(1)?).map(RegionId)
    }

    fn remove(&mut self, region: RegionId) -> Option<Mr> {
        let at = region.0.get() - 1;
        let mr = self.rows.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(mr)
    }

    /// Returns whether a region is registered and has this memory.
    fn has(&self, (region, memory): (RegionId, &IovSegment)) -> bool {
        let offset = |mr: &Mr| (memory.base().addr() as u64).checked_sub(mr.address());
        self.get(region).is_some_and(|mr| {
            let offset = offset(mr).and_then(|offset| usize::try_from(offset).ok());
            offset.is_some_and(|offset| mr.piece(offset, memory.len()).is_some())
        })
    }

    fn get(&self, region: RegionId) -> Option<&Mr> {
        self.rows.get(region.0.get() as usize - 1)?.as_ref()
    }
}

/// Returns the access rights of the device for memory that is registered for such operations, without those that it does not support.
fn access(wanted: Flags, hardware: &Hardware) -> Access {
    let mut access = Access::default();
    // What peers write arrives in packets, or is read by this device, where theirs does not write.
    if wanted.intersects(Flags::RECV | Flags::READ | Flags::REMOTE_WRITE) {
        access = access | Access::LOCAL_WRITE;
    }
    if wanted.contains(Flags::REMOTE_READ) && hardware.can(EfaCaps::RDMA_READ) {
        access = access | Access::REMOTE_READ;
    }
    if wanted.contains(Flags::REMOTE_WRITE) && hardware.can(EfaCaps::RDMA_WRITE) {
        access = access | Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    }
    access
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_peers_that_are_gone_are_forgotten() {
        let mut handles = AddressHandles::default();
        for port in 0..10_000_u128 {
            let handle = Handle {
                ah: Weak::new(),
                number: 1,
                needed: None,
            };
            handles.list(port.to_le_bytes(), handle);
            assert!(handles.by_gid.len() <= PORTS_MIN, "{port}");
        }
    }
}
