//! Fabrics: what keeps their provider registered and its module loaded.

use alloc::boxed::Box;
use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use oxifabric_abi::{fi_fabric_attr, fi_ops, fid, fid_fabric};
use oxifabric_types::Errno;

use crate::provider::{InUse, named};

/// An open fabric, found by the table that its handle points to.
#[repr(C)]
struct Linkage {
    /// The provider's, but for `close`.
    ops: fi_ops,
    of_provider: *mut fi_ops,
    _provider: InUse,
}

/// Opens a fabric of the provider that `attr` names.
///
/// # Errors
/// `INVAL` without a name; `NODEV` when no provider has it any more; what the provider says.
///
/// # Safety
/// `attr` is null or comes from fi_getinfo.
pub unsafe fn open(
    attr: *mut fi_fabric_attr,
    context: *mut c_void,
) -> Result<*mut fid_fabric, Errno> {
    // SAFETY: the caller's contract.
    let name = unsafe {
        let attr = attr.as_ref().ok_or(Errno::INVAL)?;
        if attr.prov_name.is_null() {
            return Err(Errno::INVAL);
        }
        CStr::from_ptr(attr.prov_name)
    };
    let provider = named(name.to_str().map_err(|_| Errno::INVAL)?)?;
    let open = provider.calls.fabric.ok_or(Errno::NOSYS)?;
    let mut fabric: *mut fid_fabric = ptr::null_mut();
    // SAFETY: the caller's contract; the provider's module is kept.
    let status = unsafe { open(attr, &raw mut fabric, context) };
    if status != 0 {
        return Err(Errno::from_raw(-status));
    }
    // SAFETY: the provider opened it, and points to its operations.
    unsafe {
        let of_provider = (*fabric).fid.ops;
        let linkage = Box::new(Linkage {
            ops: fi_ops {
                close: Some(close),
                ..*of_provider
            },
            of_provider,
            _provider: provider,
        });
        (*fabric).fid.ops = Box::into_raw(linkage).cast();
    }
    Ok(fabric)
}

/// Closes a fabric, and gives its provider free.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in handles that `open` linked.
    unsafe {
        let linkage = (*fid).ops.cast::<Linkage>();
        let of_provider = (*linkage).of_provider;
        (*fid).ops = of_provider;
        let status = (*of_provider)
            .close
            .map_or(-Errno::NOSYS.raw(), |close| close(fid));
        match status {
            0 => drop(Box::from_raw(linkage)),
            _ => (*fid).ops = linkage.cast(),
        }
        status
    }
}
