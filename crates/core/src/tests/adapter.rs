//! The domain of an imagined adapter, which numbers registrations and makes their keys, and what registering at it promises: fi_mr(3).

use core::num::NonZeroU32;
use core::ptr::null_mut;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};

use libc::iovec;
use oxifabric_abi::*;
use oxifabric_mem::{Iov, IovSegment, MemoryKind, RegionId};
use oxifabric_provider::domain::{ProviderDomain, Registered, RegistrationRequest};
use oxifabric_types::{Errno, Flags, Info, MrMode};

use super::world::{World, c, close};
use crate::lock::lock;

/// Domains whose names begin like this have an adapter; the others have none.
pub(super) const ADAPTER: &str = "adapter";

/// The keys that the adapter makes begin here: no test asks for one of these.
const FIRST_KEY: u64 = 0x4000;

/// How many registrations a domain can hold.
const ROOM: usize = 4;

/// Every domain with an adapter, by its name: each test has one of its own.
static DOMAINS: LazyLock<Mutex<HashMap<String, Weak<AdapterState>>>> =
    LazyLock::new(Mutex::default);

/// The provider's part of a domain of the tests.
pub(crate) struct AdapterDomain(Option<Arc<AdapterState>>);

/// The registrations of a domain.
#[derive(Default)]
pub(crate) struct AdapterState(Mutex<Table>);

#[derive(Default)]
struct Table {
    held: HashMap<RegionId, Held>,
    made: u32,
    /// The registrations of what a device was given, piece by piece.
    given: Vec<Option<RegionId>>,
}

/// One registration.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) pieces: Vec<IovSegment>,
    pub(super) access: Flags,
    pub(super) kind: MemoryKind,
    pub(super) device: i32,
    pub(super) key: u64,
    /// How many operations use it.
    pub(super) uses: usize,
}

// SAFETY: the pieces are addresses; what is done with the memory is the affair of the thread that does it.
unsafe impl Send for Held {}

impl ProviderDomain for AdapterDomain {
    fn open(info: &Info) -> Result<Self, Errno> {
        if !info.domain.name.starts_with(ADAPTER) {
            return Ok(Self(None));
        }
        let state = Arc::<AdapterState>::default();
        lock(&DOMAINS).insert(info.domain.name.to_string(), Arc::downgrade(&state));
        Ok(Self(Some(state)))
    }

    fn register(&self, request: &RegistrationRequest<'_>) -> Result<Registered, Errno> {
        let Some(adapter) = &self.0 else {
            return ().register(request);
        };
        let mut table = lock(&adapter.0);
        if table.held.len() == ROOM {
            return Err(Errno::NOMEM);
        }
        table.made += 1;
        let made = table.made;
        let region = RegionId(NonZeroU32::new(made).ok_or(Errno::NOMEM)?);
        // Keys of ours are used where the application leaves the choice.
        let key = request.key.unwrap_or(FIRST_KEY + u64::from(made));
        let held = Held {
            pieces: request.pieces.to_vec(),
            access: request.access,
            kind: request.kind,
            device: request.device,
            key,
            uses: 0,
        };
        table.held.insert(region, held);
        Ok(Registered {
            region: Some(region),
            key: request.key.is_none().then_some(key),
        })
    }

    fn deregister(&self, region: RegionId) -> Result<(), Errno> {
        let adapter = self.0.as_ref().ok_or(Errno::INVAL)?;
        let mut table = lock(&adapter.0);
        match table.held.get(&region) {
            None => Err(Errno::INVAL),
            Some(held) if held.uses > 0 => Err(Errno::BUSY),
            Some(_) => {
                table.held.remove(&region);
                Ok(())
            }
        }
    }
}

impl AdapterDomain {
    /// Returns the adapter, if the domain has one.
    pub(super) const fn state(&self) -> Option<&Arc<AdapterState>> {
        self.0.as_ref()
    }

    /// Notes the registrations of memory that a device was given.
    pub(super) fn note(&self, memory: &Iov) {
        let Some(adapter) = &self.0 else { return };
        let pieces = 0..memory.segments().len();
        let known = pieces.map(|at| memory.registration(at).map(|known| known.region));
        lock(&adapter.0).given.extend(known);
    }
}

impl AdapterState {
    /// Takes the registrations of what devices were given since the last time.
    pub(super) fn given(&self) -> Vec<Option<u32>> {
        let given = std::mem::take(&mut lock(&self.0).given);
        let number = |region: RegionId| region.0.get();
        given.into_iter().map(|known| known.map(number)).collect()
    }

    /// Finds the adapter of the domain with this name.
    pub(super) fn named(name: &str) -> Arc<Self> {
        let found = lock(&DOMAINS).get(name).and_then(Weak::upgrade);
        found.expect("the domain is open")
    }

    /// Returns what is registered, in any order.
    pub(super) fn all(&self) -> Vec<Held> {
        lock(&self.0).held.values().cloned().collect()
    }

    /// Returns a registration.
    pub(super) fn find(&self, region: RegionId) -> Option<Held> {
        lock(&self.0).held.get(&region).cloned()
    }

    /// Returns the registration with this key.
    pub(super) fn by_key(&self, key: u64) -> Option<Held> {
        let table = lock(&self.0);
        table.held.values().find(|held| held.key == key).cloned()
    }

    /// Notes that an operation uses a registration, or has used it.
    pub(super) fn count_use(&self, region: RegionId, begins: bool) {
        if let Some(held) = lock(&self.0).held.get_mut(&region) {
            match begins {
                true => held.uses += 1,
                false => held.uses -= 1,
            }
        }
    }
}

/// Opens a world over an adapter; `keys` leaves the choice of keys to it.
fn world(name: &'static str, keys: bool) -> (World, Arc<AdapterState>) {
    let world = World::with(FI_VERSION(2, 6), |info| {
        info.domain.name = name.into();
        if keys {
            info.domain.mr_mode = MrMode::PROV_KEY;
        }
    });
    (world, AdapterState::named(name))
}

fn register(
    world: &World,
    memory: &mut [u8],
    access: u64,
    iface: fi_hmem_iface,
) -> Result<*mut fid_mr, i32> {
    let piece = iovec {
        iov_base: memory.as_mut_ptr().cast(),
        iov_len: memory.len(),
    };
    let attr = fi_mr_attr {
        mr_iov: &piece,
        iov_count: 1,
        access,
        requested_key: 7,
        iface,
        device: fi_mr_device { cuda: 3 },
        ..fi_mr_attr::ZERO
    };
    let mut mr = null_mut();
    match c!(fi_mr_regattr(world.domain, &attr, 0, &mut mr)) {
        0 => Ok(mr),
        failed => Err(failed),
    }
}

#[test]
fn the_adapter_registers_memory_and_makes_its_key() {
    let (world, adapter) = world("adapter-keys", true);
    let mut memory = [0u8; 24];
    let access = FI_SEND | FI_REMOTE_WRITE;
    let mr = register(&world, &mut memory, access, FI_HMEM_SYSTEM).expect("there is room");
    let all = adapter.all();
    let [held] = all.as_slice() else {
        panic!("one registration: {all:?}");
    };
    assert_eq!(
        held.pieces,
        [IovSegment::new(memory.as_mut_ptr(), memory.len())]
    );
    assert_eq!(held.access, Flags::SEND | Flags::REMOTE_WRITE);
    assert_eq!((held.kind, held.device), (MemoryKind::Host, 0));
    assert_eq!(c!(fi_mr_key(mr)), held.key);
    assert!(held.key > FIRST_KEY);
    assert_eq!(close(mr), 0);
    assert!(adapter.all().is_empty());
}

#[test]
fn the_adapter_gets_the_key_that_the_application_chose() {
    let (world, adapter) = world("adapter-asked", false);
    let mut memory = [0u8; 24];
    let mr = register(&world, &mut memory, FI_REMOTE_READ, FI_HMEM_SYSTEM).expect("there is room");
    assert_eq!((c!(fi_mr_key(mr)), adapter.all()[0].key), (7, 7));
    let taken = register(&world, &mut memory, FI_REMOTE_READ, FI_HMEM_SYSTEM);
    assert_eq!(taken, Err(-FI_ENOKEY));
    assert_eq!(adapter.all().len(), 1, "what has no key is not kept");
    assert_eq!(close(mr), 0);
}

#[test]
fn memory_that_peers_may_not_access_is_registered_as_well() {
    let (world, adapter) = world("adapter-local", true);
    let mut memory = [0u8; 24];
    let mr = register(&world, &mut memory, FI_SEND | FI_RECV, FI_HMEM_SYSTEM).expect("room");
    assert_eq!(c!(fi_mr_key(mr)), FI_KEY_NOTAVAIL);
    assert_eq!(adapter.all()[0].access, Flags::SEND | Flags::RECV);
    assert_eq!(close(mr), 0);
    assert!(adapter.all().is_empty());
}

#[test]
fn an_adapter_refuses_as_it_likes() {
    let (world, adapter) = world("adapter-full", true);
    let mut memory = [0u8; 24];
    let mut next = || register(&world, &mut memory, FI_REMOTE_READ, FI_HMEM_SYSTEM);
    let regions: Vec<_> = (0..ROOM).map(|_| next().expect("there is room")).collect();
    assert_eq!(next(), Err(-FI_ENOMEM));
    assert_eq!(adapter.all().len(), ROOM);
    for mr in regions {
        assert_eq!(close(mr), 0);
    }
}

#[test]
fn a_region_stays_while_the_adapter_uses_it() {
    let (world, adapter) = world("adapter-busy", true);
    let mut memory = [0u8; 24];
    let mr = register(&world, &mut memory, FI_REMOTE_READ, FI_HMEM_SYSTEM).expect("there is room");
    let region = RegionId(NonZeroU32::MIN);
    adapter.count_use(region, true);
    assert_eq!(close(mr), -FI_EBUSY);
    assert!(adapter.find(region).is_some());
    adapter.count_use(region, false);
    assert_eq!(close(mr), 0);
}

#[test]
fn memory_of_devices_is_registered_where_the_adapter_reaches_it() {
    let mut memory = [0u8; 24];
    let (with, adapter) = world("adapter-cuda", true);
    let mr = register(&with, &mut memory, FI_REMOTE_READ, FI_HMEM_CUDA).expect("there is room");
    let held = &adapter.all()[0];
    assert_eq!((held.kind, held.device), (MemoryKind::Cuda, 3));
    assert_eq!(close(mr), 0);
    let without = World::new();
    for iface in FI_HMEM_CUDA..=FI_HMEM_SYNAPSEAI {
        let refused = register(&without, &mut memory, FI_REMOTE_READ, iface);
        assert_eq!(refused, Err(-FI_ENOSYS));
    }
    let unknown = register(&with, &mut memory, FI_REMOTE_READ, FI_HMEM_SYNAPSEAI + 1);
    assert_eq!(unknown, Err(-FI_ENOSYS));
}
