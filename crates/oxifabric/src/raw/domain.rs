//! Fabrics and domains. Source: fi_fabric(3), fi_domain(3).

use core::ptr;
use std::sync::Arc;

use oxifabric_abi::{
    FI_CONTEXT, FI_CONTEXT2, FI_EP_RDM, FI_MR_LOCAL, FI_THREAD_SAFE, fi_domain, fid_domain,
    fid_fabric,
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

/// An open domain and the offer that it was opened with.
pub(crate) struct DomainObject {
    handle: Handle<fid_domain>,
    info: Arc<InfoHandle>,
    _fabric: Arc<FabricObject>,
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
            info,
            _fabric: fabric,
        })
    }

    pub(crate) fn info(&self) -> &Arc<InfoHandle> {
        &self.info
    }

    pub(super) fn as_ptr(&self) -> *mut fid_domain {
        self.handle.as_ptr()
    }
}

/// Why this crate cannot keep what the offer asks of an application, if so.
pub(crate) fn obstacle(info: &InfoHandle) -> Option<&'static str> {
    let modes = info.mode() | info.side_modes();
    if info.threading() != FI_THREAD_SAFE {
        Some("its objects may not be shared between threads (it is not FI_THREAD_SAFE)")
    } else if modes & !(FI_CONTEXT | FI_CONTEXT2) != 0 {
        Some("it asks for a mode other than FI_CONTEXT and FI_CONTEXT2")
    } else if info.mr_mode() & FI_MR_LOCAL != 0 {
        Some("it asks for registered buffers (FI_MR_LOCAL)")
    } else if info.ep_type() != FI_EP_RDM {
        Some("its endpoints are not of the reliable datagram kind (FI_EP_RDM)")
    } else {
        None
    }
}
