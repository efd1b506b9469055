//! Operations of fabrics, domains and endpoints that programs open by name: fi_fabric(3) "fi_open_ops". Setup path.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;

use oxifabric_types::Errno;

use crate::handle::status;

/// Stores the operations of a name that `find` knows: what it returns makes them, once the other arguments are known to be good.
///
/// # Safety
/// `name` is null or a C string, and `ops` null or a place for a pointer.
pub(crate) unsafe fn open<M: FnOnce() -> NonNull<c_void>>(
    name: *const c_char,
    flags: u64,
    ops: *mut *mut c_void,
    find: impl FnOnce(&CStr) -> Result<M, Errno>,
) -> c_int {
    if name.is_null() {
        return -Errno::NOSYS.raw();
    }
    // SAFETY: the caller's contract.
    let found = match find(unsafe { CStr::from_ptr(name) }) {
        Ok(_) if flags != 0 || ops.is_null() => Err(Errno::INVAL),
        found => found,
    };
    status(found.map(|make| {
        // SAFETY: it is not null, and the caller's contract.
        unsafe { *ops = make().as_ptr() };
    }))
}
