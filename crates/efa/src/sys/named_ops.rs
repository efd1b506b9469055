//! Operations of domains and fabrics that programs open by name: fi_efa(7) "PROVIDER SPECIFIC DOMAIN OPS", "fi_ext_efa.h".

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use oxifabric_ibv::Interconnects;
use oxifabric_provider::handles::Handles;
use oxifabric_types::Errno;

use crate::EfaDomain;

/// What tells of a region, what processors of accelerators that post by themselves need, and what features there are.
const DOMAIN: &CStr = c"efa domain ops";
const GDA: &CStr = c"efa gda ops";
const FEATURES: &CStr = c"efa feature ops";

/// `struct fi_efa_ops_domain`.
#[repr(C)]
struct DomainOps {
    query_mr: unsafe extern "C" fn(*mut c_void, *mut MrAttr) -> c_int,
}

/// `struct fi_efa_mr_attr`.
#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
struct MrAttr {
    ic_id_validity: u16,
    recv_ic_id: u16,
    rdma_read_ic_id: u16,
    rdma_recv_ic_id: u16,
}

/// `struct fi_efa_feature_ops`.
#[repr(C)]
struct FeatureOps {
    query: unsafe extern "C" fn(*const c_char) -> bool,
}

static DOMAIN_OPS: DomainOps = DomainOps { query_mr };
static FEATURE_OPS: FeatureOps = FeatureOps { query };

/// What finds the region of a handle.
static HANDLES: OnceLock<&'static Handles> = OnceLock::new();

/// Returns the operations of a domain of this name.
///
/// # Errors
/// `NOSYS` for another name. For those of accelerators, which are for endpoints without an engine, `OPNOTSUPP` on a domain with one, as the C library says, and
/// `NOSYS` on the others: no accelerator's memory is registered here.
pub(crate) fn of_domain(
    name: &CStr,
    has_engine: bool,
    handles: &'static Handles,
) -> Result<NonNull<c_void>, Errno> {
    if name == DOMAIN {
        HANDLES.get_or_init(|| handles);
        return Ok(NonNull::from(&DOMAIN_OPS).cast());
    }
    Err(match name == GDA && has_engine {
        true => Errno::OPNOTSUPP,
        false => Errno::NOSYS,
    })
}

/// Returns the operations of a fabric of this name.
pub(crate) fn of_fabric(name: &CStr) -> Option<NonNull<c_void>> {
    (name == FEATURES).then(|| NonNull::from(&FEATURE_OPS).cast())
}

/// Tells by which interconnects the device reaches a region. Returns 0 or a negative error number: -FI_ENOSYS with a libefa that does not know.
unsafe extern "C" fn query_mr(mr: *mut c_void, attr: *mut MrAttr) -> c_int {
    // SAFETY: the application passes an open region, or null.
    let known = unsafe { interconnects(mr) };
    match known {
        Ok(_) if attr.is_null() => -Errno::INVAL.raw(),
        Ok(known) => {
            // SAFETY: the application passes a place for the attributes.
            unsafe { attr.write(MrAttr::from(known)) };
            0
        }
        Err(errno) => -errno.raw(),
    }
}

/// Asks the device of the region with this handle.
///
/// # Errors
/// `INVAL` for what is no region of this provider; as [`EfaDomain::interconnects`].
///
/// # Safety
/// The handle is null or one of an open object.
unsafe fn interconnects(mr: *mut c_void) -> Result<Interconnects, Errno> {
    let handles = HANDLES.get().ok_or(Errno::INVAL)?;
    // SAFETY: the caller's contract.
    let (domain, region) = unsafe { (handles.region)(mr) }?;
    let domain: Arc<dyn Any + Send + Sync> = domain;
    let domain: Arc<EfaDomain> = domain.downcast().map_err(|_| Errno::INVAL)?;
    domain.interconnects(region)
}

impl From<Interconnects> for MrAttr {
    fn from(known: Interconnects) -> Self {
        let ids = [known.receives, known.reads, known.accesses_of_peers];
        let mut validity = 0;
        for (bit, id) in ids.iter().enumerate() {
            validity |= u16::from(id.is_some()) << bit;
        }
        let [recv_ic_id, rdma_read_ic_id, rdma_recv_ic_id] = ids.map(Option::unwrap_or_default);
        Self {
            ic_id_validity: validity,
            recv_ic_id,
            rdma_read_ic_id,
            rdma_recv_ic_id,
        }
    }
}

/// Returns whether there is a feature of this name. The one that is defined, "mixed_hmem_iov", is about memory of accelerators, which is not registered here.
unsafe extern "C" fn query(_feature: *const c_char) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_a_region_is_not_valid() {
        let known = Interconnects {
            receives: None,
            reads: Some(7),
            accesses_of_peers: Some(0),
        };
        let attributes = MrAttr {
            ic_id_validity: 0b110,
            recv_ic_id: 0,
            rdma_read_ic_id: 7,
            rdma_recv_ic_id: 0,
        };
        assert_eq!(MrAttr::from(known), attributes);
    }
}
