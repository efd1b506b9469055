//! Text for C programs.

use core::ffi::{CStr, c_char};

/// Copies text into the application's buffer, cut off if it must be, and returns the buffer; without a buffer,
/// returns the text itself.
///
/// # Safety
/// `buf` is null or has room for `len` characters; without a buffer, the application sees `text` as long as it lives.
pub(crate) unsafe fn hand_out(text: &CStr, buf: *mut c_char, len: usize) -> *const c_char {
    if buf.is_null() || len == 0 {
        return text.as_ptr();
    }
    // SAFETY: the caller's contract.
    unsafe { copy(text.to_bytes(), buf, len) };
    buf
}

/// Copies text and closes it with a zero byte.
///
/// # Safety
/// `buf` has room for `len` characters, at least one.
pub(crate) unsafe fn copy(bytes: &[u8], buf: *mut c_char, len: usize) {
    let fits = bytes.len().min(len - 1);
    // SAFETY: the caller says that there is room for `len` characters, of which `fits + 1` are written.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), fits);
        *buf.add(fits) = 0;
    }
}
