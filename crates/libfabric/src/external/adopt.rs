//! What an external provider returns from fi_getinfo(3), made into entries of this library.

use core::ptr;

use std::ffi::{CStr, CString};

use oxifabric_abi::{fi_info, fid_nic};
use oxifabric_core::info::{Abi, dup, free, widened};

use super::External;

/// Gives every entry the newest layout and the name of its provider; entries are otherwise left as they are.
///
/// A provider that was built for an older API has smaller structures: its entries are copied, and nothing behind what
/// it has is read. Null when memory is out.
///
/// # Safety
/// The list is one of the provider, in the layout of its API, and belongs to the caller.
pub(super) unsafe fn adopt(external: &External, list: *mut fi_info, version: u32) -> *mut fi_info {
    let list = match Abi::of_release(external.fi_version) {
        // SAFETY: the caller's contract.
        Some(abi) => unsafe { widen_list(list, &abi) },
        None => list,
    };
    let mut next = list;
    // SAFETY: the list ends with null; its attributes are null or valid.
    unsafe {
        while let Some(entry) = next.as_mut() {
            name(entry, external, version);
            next = entry.next;
        }
    }
    list
}

/// Gives an entry of an external provider the names and the version that the application sees.
///
/// # Safety
/// The entry is valid.
unsafe fn name(entry: &mut fi_info, external: &External, version: u32) {
    // SAFETY: the attributes are null or valid, and strings in them come from the allocator of libc.
    unsafe {
        let Some(attr) = entry.fabric_attr.as_mut() else {
            return;
        };
        let stack = if attr.prov_name.is_null() {
            Some(external.name.to_owned())
        } else if external.is_utility() {
            let core = CStr::from_ptr(attr.prov_name).to_string_lossy();
            Some(format!("{core};{}", external.name))
        } else {
            None
        };
        if let Some(stack) = stack.and_then(|stack| CString::new(stack).ok()) {
            libc::free(attr.prov_name.cast());
            attr.prov_name = libc::strdup(stack.as_ptr());
        }
        attr.prov_version = external.version;
        attr.api_version = version;
    }
}

/// Copies a list of an older layout and releases it.
///
/// # Safety
/// As for [`adopt`].
unsafe fn widen_list(mut old: *mut fi_info, abi: &Abi) -> *mut fi_info {
    let mut head = ptr::null_mut();
    let mut end: *mut *mut fi_info = &mut head;
    // SAFETY: `next` is the first field in every layout; the copy is the caller's.
    unsafe {
        while !old.is_null() {
            let next = (*old).next;
            let copy = widened(old.cast(), abi, |entry| dup(entry));
            release(old, abi);
            if !copy.is_null() {
                *end = copy;
                end = &raw mut (*copy).next;
            }
            old = next;
        }
    }
    head
}

/// Releases one entry of an older layout.
///
/// # Safety
/// As for [`adopt`].
unsafe fn release(old: *mut fi_info, abi: &Abi) {
    // SAFETY: only fields that the layout has are touched.
    unsafe {
        (*old).next = ptr::null_mut();
        if abi.has_nic() {
            free(old);
            return;
        }
        // What the entry owns moves into a whole one, which is released in its place.
        let whole: *mut fi_info = libc::calloc(1, size_of::<fi_info>()).cast();
        if whole.is_null() {
            return;
        }
        let length = size_of::<fi_info>() - size_of::<*mut fid_nic>();
        whole
            .cast::<u8>()
            .copy_from_nonoverlapping(old.cast(), length);
        free(whole);
        libc::free(old.cast());
    }
}

// The layouts without it end right before it.
const _: () = assert!(
    core::mem::offset_of!(fi_info, nic) == size_of::<fi_info>() - size_of::<*mut fid_nic>()
);
