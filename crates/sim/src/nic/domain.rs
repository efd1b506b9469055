//! The registrations of a domain, and the accesses of peers that its adapter carries out: fi_mr(3).
//!
//! Peers name memory by keys. An access with a key that there is not, beyond the ends of a region, or to a region that was not registered
//! for it is refused at the target, and nothing of it is carried out.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxifabric_engine::{Header, OneSided, Target, Update};
use oxifabric_mem::{Iov, MemoryKind, RegionId};
use oxifabric_provider::domain::{ProviderDomain, Registered, RegistrationRequest};
use oxifabric_provider::secret;
use oxifabric_types::{Errno, Flags, Info, MrMode};

use super::head::{Access, Request};
use crate::{params, sys};

/// What peers may do with a region.
const REMOTE: Flags = Flags::REMOTE_READ.union(Flags::REMOTE_WRITE);

/// The provider's part of a domain.
#[derive(Debug)]
pub struct SimDomain {
    /// Absent where no adapter of the plan carries out accesses.
    memory: Option<Arc<NicMemory>>,
}

impl SimDomain {
    /// Creates a domain whose adapters carry out accesses, without registrations; `virtual_addresses` says that peers name memory by its
    /// address (FI_MR_VIRT_ADDR), not by the offset in its region.
    pub fn with_memory(virtual_addresses: bool) -> Self {
        let memory = NicMemory {
            virtual_addresses,
            table: Mutex::default(),
        };
        Self {
            memory: Some(Arc::new(memory)),
        }
    }

    /// Returns the memory that adapters reach.
    pub(crate) const fn memory(&self) -> Option<&Arc<NicMemory>> {
        self.memory.as_ref()
    }
}

impl ProviderDomain for SimDomain {
    fn open(info: &Info) -> Result<Self, Errno> {
        let plan = params::plan().map_err(|_| Errno::INVAL)?;
        let one_sided = plan.nic.as_ref().map(crate::plan::NicPlan::one_sided);
        if one_sided.unwrap_or(OneSided::empty()).is_empty() {
            return Ok(Self { memory: None });
        }
        let by_address = MrMode::VIRT_ADDR | MrMode::BASIC;
        Ok(Self::with_memory(
            info.domain.mr_mode.intersects(by_address),
        ))
    }

    fn register(&self, request: &RegistrationRequest<'_>) -> Result<Registered, Errno> {
        match &self.memory {
            None => ().register(request),
            Some(_) if request.kind != MemoryKind::Host => Err(Errno::NOSYS),
            Some(memory) => memory.register(request),
        }
    }

    fn deregister(&self, region: RegionId) -> Result<(), Errno> {
        if let Some(memory) = &self.memory {
            memory.lock().remove(region);
        }
        Ok(())
    }
}

/// Memory that an adapter reaches.
#[derive(Debug)]
pub(crate) struct NicMemory {
    virtual_addresses: bool,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    regions: HashMap<u64, Region>,
    /// The keys of registrations that peers may use.
    keys: HashMap<RegionId, u64>,
    made: u32,
}

/// What a key stands for.
#[derive(Debug)]
struct Region {
    memory: Iov,
    /// What peers name its first byte by.
    start: u64,
    access: Flags,
}

impl NicMemory {
    fn register(&self, request: &RegistrationRequest<'_>) -> Result<Registered, Errno> {
        let memory = sys::lend(request).ok_or(Errno::INVAL)?;
        let mut table = self.lock();
        let region = table.number()?;
        let access = request.access & REMOTE;
        if access.is_empty() {
            let region = Some(region);
            return Ok(Registered { region, key: None });
        }
        let start = match self.virtual_addresses {
            true => memory.base().addr() as u64,
            false => 0,
        };
        let key = request.key.unwrap_or_else(|| table.fresh_key());
        if table.regions.contains_key(&key) {
            return Err(Errno::NOKEY);
        }
        table.keys.insert(region, key);
        let held = Region {
            memory,
            start,
            access,
        };
        table.regions.insert(key, held);
        Ok(Registered {
            region: Some(region),
            key: request.key.is_none().then_some(key),
        })
    }

    /// Lets peers read memory of a message that is exposed to one of them; returns its key.
    pub(super) fn expose(&self, memory: &Iov) -> u64 {
        let mut table = self.lock();
        let key = table.fresh_key();
        let exposed = Region {
            memory: memory.clone(),
            start: 0,
            access: Flags::REMOTE_READ,
        };
        table.regions.insert(key, exposed);
        key
    }

    /// Withdraws memory that was exposed for a message.
    pub(super) fn withdraw(&self, key: u64) {
        self.lock().regions.remove(&key);
    }

    /// Carries out an access; returns what was read, or was there before.
    ///
    /// # Errors
    /// `NOKEY` for a key that there is not, `ACCES` for memory outside its region or not registered for that, `INVAL` for what no adapter sends.
    pub(crate) fn carry_out(&self, request: &Request, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let table = self.lock();
        if let Access::Atomic(header) = &request.access {
            return table.update(header, &request.targets, body);
        }
        let [target] = &*request.targets else {
            return Err(Errno::INVAL);
        };
        match request.access {
            Access::Read => {
                let memory = table.find(target, Flags::REMOTE_READ)?;
                let mut read = vec![0; memory.len()];
                memory.read(0, &mut read);
                Ok(read)
            }
            _ if target.len != body.len() as u64 => Err(Errno::INVAL),
            _ => {
                table.find(target, Flags::REMOTE_WRITE)?.write(0, body);
                Ok(Vec::new())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn number(&mut self) -> Result<RegionId, Errno> {
        self.made = self.made.checked_add(1).ok_or(Errno::NOMEM)?;
        NonZeroU32::new(self.made).map(RegionId).ok_or(Errno::NOMEM)
    }

    /// Chooses a key that cannot be guessed.
    fn fresh_key(&self) -> u64 {
        loop {
            let key = secret::draw();
            if key != u64::MAX && !self.regions.contains_key(&key) {
                return key;
            }
        }
    }

    fn remove(&mut self, region: RegionId) {
        if let Some(key) = self.keys.remove(&region) {
            self.regions.remove(&key);
        }
    }

    /// Finds the memory that a peer names.
    fn find(&self, target: &Target, access: Flags) -> Result<Iov, Errno> {
        let region = self.regions.get(&target.key).ok_or(Errno::NOKEY)?;
        let offset = target.addr.checked_sub(region.start);
        let rest = offset.and_then(|offset| (region.memory.len() as u64).checked_sub(offset));
        match (offset, rest) {
            (Some(offset), Some(rest)) if region.access.contains(access) && target.len <= rest => {
                Ok(region.memory.slice(offset as usize, target.len as usize))
            }
            _ => Err(Errno::ACCES),
        }
    }

    /// Carries out an atomic, on all of its memory or none.
    fn update(&self, header: &Header, targets: &[Target], body: &[u8]) -> Result<Vec<u8>, Errno> {
        let update = Update::from_header(header).ok_or(Errno::INVAL)?;
        let find = |target| self.find(target, update.access());
        let memory: Vec<Iov> = targets.iter().map(find).collect::<Result<_, _>>()?;
        let size = update.datatype.size();
        let len: usize = memory.iter().map(Iov::len).sum();
        if memory.iter().any(|piece| !piece.len().is_multiple_of(size)) {
            return Err(Errno::INVAL);
        }
        if len > oxifabric_engine::MAX_ATOMIC_BYTES || body.len() != update.body_len(len) {
            return Err(Errno::INVAL);
        }
        let (operands, comparands) = body.split_at(body.len().min(len));
        let before = Iov::zeroed(len).ok_or(Errno::NOMEM)?;
        let mut done = 0;
        for piece in &memory {
            let part = done..done + piece.len();
            let operand = operands.get(part.clone()).unwrap_or_default();
            let comparand = comparands.get(part).unwrap_or_default();
            let old = before.slice(done, piece.len());
            update.run(piece, &[operand, comparand].concat(), &old);
            done += piece.len();
        }
        let mut fetched = vec![0; if update.fetches() { len } else { 0 }];
        before.read(0, &mut fetched);
        Ok(fetched)
    }
}
