//! What the handles of a C program stand for: a provider's own functions get them (fi_open_ops(3)), and the core, which has made them, tells.

use core::ffi::c_void;
use std::sync::Arc;

use oxifabric_mem::RegionId;
use oxifabric_types::Errno;

use crate::domain::ProviderDomain;

/// Finds what handles stand for.
#[derive(Clone, Copy, Debug)]
pub struct Handles {
    /// Returns what the provider keeps for the domain of a `fid_mr`, and the number of the registration; `INVAL` for what is no such handle.
    ///
    /// # Safety
    /// The handle is null or one of an open object.
    pub region: unsafe fn(*mut c_void) -> Result<Registration, Errno>,
}

/// A registration, and the domain that has made it.
pub type Registration = (Arc<dyn ProviderDomain>, RegionId);
