//! The provider domain: what the devices of a domain share in their provider, fi_domain(3), fi_mr(3).
//!
//! A device that reads and writes memory by itself has something that its endpoints share: a protection domain, the registrations in it,
//! completion queues. It is opened with the application's domain, and every device of that domain is opened with it.

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use std::any::Any;

use oxifabric_mem::{IovSegment, MemoryKind, RegionId};
use oxifabric_types::{Address, Errno, Flags, Info};

use crate::handles::Handles;

/// The provider's part of a domain. `()` is that of a provider which reaches the memory of its process as any other code does.
pub trait ProviderDomain: Any + Send + Sync {
    /// Opens the provider's part of a domain that is opened with this description.
    ///
    /// # Errors
    /// What the operating system or the device says.
    fn open(info: &Info) -> Result<Self, Errno>
    where
        Self: Sized;

    /// Registers memory, so that the devices of the domain can use it.
    ///
    /// # Errors
    /// `NOSYS` for a kind of memory that they cannot reach, `NOKEY` when the requested key is in use, `NOMEM`, and what the device says.
    fn register(&self, request: &RegistrationRequest<'_>) -> Result<Registered, Errno> {
        match request.kind {
            MemoryKind::Host => Ok(Registered::default()),
            _ => Err(Errno::NOSYS),
        }
    }

    /// Prepares the domain for an address that is inserted into an address vector, for example by an address handle; called for each
    /// insertion.
    ///
    /// # Errors
    /// What the device says; the address is not inserted then.
    fn admit(&self, address: &Address) -> Result<(), Errno> {
        let _ = address;
        Ok(())
    }

    /// Notes that an address was removed from an address vector; called for each insertion that was prepared.
    fn dismiss(&self, address: &Address) {
        let _ = address;
    }

    /// Returns the provider-specific operations of this name, for fi_open_ops(3) on the domain: a structure of function pointers that lives as
    /// long as the process. `handles` finds what the handles stand for that these functions get.
    ///
    /// # Errors
    /// `NOSYS` where there are none of this name, `OPNOTSUPP` where the domain's endpoints are not those that they are for.
    fn ops(&self, name: &CStr, handles: &'static Handles) -> Result<NonNull<c_void>, Errno> {
        let _ = (name, handles);
        Err(Errno::NOSYS)
    }

    /// Ends a registration: afterwards neither a device of the domain nor a peer reaches the memory.
    ///
    /// # Errors
    /// `BUSY` while an operation uses the registration, which then stays.
    fn deregister(&self, region: RegionId) -> Result<(), Errno> {
        let _ = region;
        Ok(())
    }
}

impl ProviderDomain for () {
    fn open(_info: &Info) -> Result<Self, Errno> {
        Ok(())
    }
}

/// Memory that is to be registered.
#[derive(Clone, Copy, Debug)]
pub struct RegistrationRequest<'a> {
    /// Its pieces, in order; they may be used until the registration ends.
    pub pieces: &'a [IovSegment],
    /// What it may be used for (`SEND` ... `REMOTE_WRITE`).
    pub access: Flags,
    /// What kind of memory it is.
    pub kind: MemoryKind,
    /// The device that has the memory, of those of that kind, as in `fi_mr_attr.device`.
    pub device: i32,
    /// The key that the application chose; `None` where it leaves that to the provider (FI_MR_PROV_KEY).
    pub key: Option<u64>,
}

/// The result of a registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The number of the registration, which operations on this memory name; `None` where devices need none.
    pub region: Option<RegionId>,
    /// The key that peers name the memory by, if the device made one.
    pub key: Option<u64>,
}
