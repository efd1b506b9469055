//! Copies of any length by the C library, or by the kernel's own functions.

use core::ffi::c_void;
use core::hint::black_box;

/// Copies any number of bytes; the ranges may overlap.
///
/// # Safety
/// `from` is valid for reads of `len` bytes, and `to` for writes, at least by instructions other than the compiler's.
pub(crate) unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    unsafe extern "C" {
        fn memcpy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void;
        fn memmove(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void;
    }
    type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
    // The memmove of a kernel takes three times as long as its memcpy; elsewhere they are one.
    let is_apart = cfg!(target_os = "none") && from.addr().abs_diff(to.addr()) >= len;
    // The compiler knows what functions of these names do, so it is not told the name.
    let copy: Copy = black_box(if is_apart { memcpy } else { memmove });
    // SAFETY: the caller's contract; what memcpy is given does not overlap.
    unsafe { copy(to.cast(), from.cast(), len) };
}
