//! Copies to and from memory that the application may use at the same time.
//!
//! A peer writes a region while a thread of the application reads it, as fi_mr(3) allows; and the safe Rust interface lets its users read
//! and write a region meanwhile, byte by byte and atomically. To the compiler such accesses must not be plain ones: with them, the two
//! would be a data race, whose outcome Rust does not define. So what touches lent memory here is made of single instructions that the
//! compiler does not look into, and a C function that it cannot name: to it they are accesses from outside, each byte
//! moved by itself. What arrives is some old bytes and some new ones, as from a device. They order nothing; locks and completions do
//! that. See docs/adr/0037.
//!
//! Where the instructions are written out (x86-64 with its vector registers, which a kernel does not use) they cost what plain copies cost.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod short;

use core::ffi::c_void;
use core::hint::black_box;

/// Longest copy that is made without a call.
pub(crate) const SHORT: usize = 256;

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

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
pub(crate) use short::{copy_in, copy_out};
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
pub(crate) use {copy_long as copy_in, copy_long as copy_out};
