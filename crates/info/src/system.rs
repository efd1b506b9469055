//! The allocator of the pieces of a list: that of libc, which C programs use too; in a kernel that of kofi.ko, which returns
//! zeroed memory and is the same for all modules, so that one module can release a list of another.

#[cfg(not(target_os = "none"))]
pub(crate) use libc::{AF_INET, AF_INET6, PATH_MAX, calloc, free, malloc};

#[cfg(target_os = "none")]
pub(crate) use kernel::{AF_INET, AF_INET6, PATH_MAX, calloc, free, malloc};

#[cfg(target_os = "none")]
mod kernel {
    use core::ffi::c_void;

    pub(crate) const AF_INET: i32 = 2;
    pub(crate) const AF_INET6: i32 = 10;
    pub(crate) const PATH_MAX: i32 = 4096;

    unsafe extern "C" {
        fn kofi_alloc(size: usize) -> *mut c_void;
        fn kofi_free(memory: *mut c_void);
    }

    /// Allocates memory, or returns null.
    pub(crate) unsafe fn malloc(size: usize) -> *mut c_void {
        // SAFETY: it only returns memory, or null.
        unsafe { kofi_alloc(size) }
    }

    /// Allocates memory that is zero, or returns null.
    pub(crate) unsafe fn calloc(count: usize, size: usize) -> *mut c_void {
        match count.checked_mul(size) {
            // SAFETY: it only returns memory, or null.
            Some(size) => unsafe { kofi_alloc(size) },
            None => core::ptr::null_mut(),
        }
    }

    /// Frees memory; null is allowed.
    ///
    /// # Safety
    /// It came from here, and is not used any more.
    pub(crate) unsafe fn free(memory: *mut c_void) {
        if !memory.is_null() {
            // SAFETY: the caller's contract.
            unsafe { kofi_free(memory) }
        }
    }
}

/// Copies a string, or returns null.
///
/// # Safety
/// `text` is a string that ends.
pub(crate) unsafe fn strdup(text: *const core::ffi::c_char) -> *mut core::ffi::c_char {
    // SAFETY: the caller vouches for the string, whose length the copy has with the zero byte.
    unsafe {
        let len = core::ffi::CStr::from_ptr(text).count_bytes() + 1;
        let copy = malloc(len).cast::<core::ffi::c_char>();
        if !copy.is_null() {
            copy.copy_from_nonoverlapping(text, len);
        }
        copy
    }
}
