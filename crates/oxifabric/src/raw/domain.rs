//! Fabrics and domains. Source: fi_fabric(3), fi_domain(3).

use core::ptr;
use std::sync::Arc;

use oxifabric_abi::{
    FI_CONTEXT, FI_CONTEXT2, FI_MR_ALLOCATED, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR,
    fi_domain, fid_domain, fid_fabric,
};
use oxifabric_types::Errno;

use super::handle::Handle;
use super::{InfoHandle, Library};

/// An open fabric.
pub(crate) struct FabricObject {
    handle: Handle<fid_fabric>,
    library: &'static Library,
}

impl FabricObject {
    pub(crate) fn open(info: &InfoHandle) -> Result<Self, Errno> {
        let library = info.library();
        let (open, attr) = (library.functions.fabric, info.fabric_attr());
        // SAFETY: the attributes are those of an offer of the same library.
        let handle = unsafe { Handle::open(|fabric| open(attr, fabric, ptr::null_mut())) }?;
        Ok(Self { handle, library })
    }
}

impl FabricObject {
    pub(crate) fn library(&self) -> &'static Library {
        self.library
    }

    pub(super) fn as_ptr(&self) -> *mut fid_fabric {
        self.handle.as_ptr()
    }
}

/// An open domain and the offer that it was opened with.
pub(crate) struct DomainObject {
    handle: Handle<fid_domain>,
    info: Arc<InfoHandle>,
    fabric: Arc<FabricObject>,
    /// Whether local operations need registered memory.
    needs_registration: bool,
}

impl DomainObject {
    /// Opens a domain. The offer must have no [`obstacle`] and be of the fabric's library; otherwise this is `INVAL`.
    pub(crate) fn open(fabric: Arc<FabricObject>, info: Arc<InfoHandle>) -> Result<Self, Errno> {
        if obstacle(&info).is_some() || !ptr::eq(fabric.library, info.library()) {
            return Err(Errno::INVAL);
        }
        let (parent, attr) = (fabric.handle.as_ptr(), info.as_ptr());
        // SAFETY: the fabric is open, and the offer is one of its library.
        let handle =
            unsafe { Handle::open(|domain| fi_domain(parent, attr, domain, ptr::null_mut())) }?;
        Ok(Self {
            handle,
            needs_registration: info.mr_mode() & FI_MR_LOCAL != 0,
            info,
            fabric,
        })
    }

    pub(crate) fn info(&self) -> &Arc<InfoHandle> {
        &self.info
    }

    pub(crate) fn fabric(&self) -> &Arc<FabricObject> {
        &self.fabric
    }

    /// Returns whether local operations need registered memory.
    #[inline]
    pub(crate) fn needs_registration(&self) -> bool {
        self.needs_registration
    }

    pub(super) fn as_ptr(&self) -> *mut fid_domain {
        self.handle.as_ptr()
    }
}

/// Modes of memory registration that this crate supports.
const MR_MODES: i32 = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

/// Returns why this crate cannot meet the offer's requirements, if it cannot.
pub(crate) fn obstacle(info: &InfoHandle) -> Option<&'static str> {
    let modes = info.mode() | info.side_modes();
    if modes & !(FI_CONTEXT | FI_CONTEXT2) != 0 {
        Some("it asks for a mode other than FI_CONTEXT and FI_CONTEXT2")
    } else if info.mr_mode() & !MR_MODES != 0 {
        Some(
            "it asks for a way of registering memory other than FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED and FI_MR_PROV_KEY",
        )
    } else {
        None
    }
}
