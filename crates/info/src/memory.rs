//! Allocation, duplication and release of `fi_info`: fi_allocinfo, fi_dupinfo, fi_freeinfo. Source: fi_getinfo(3).

use core::ffi::{c_char, c_void};
use core::mem;
use core::ptr;

use crate::system;

use oxifabric_abi::{FI_DUP, FI_ENOSYS, fi_info, fid, fid_nic};

/// Allocates one entry with all its attributes, everything zero; null when memory is out.
pub fn alloc() -> *mut fi_info {
    // SAFETY: each pointer is null or fresh memory of the right size; on failure `free` takes the pieces back.
    unsafe {
        let info = zeroed::<fi_info>();
        let Some(draft) = info.as_mut() else {
            return ptr::null_mut();
        };
        draft.tx_attr = zeroed();
        draft.rx_attr = zeroed();
        draft.ep_attr = zeroed();
        draft.domain_attr = zeroed();
        draft.fabric_attr = zeroed();
        let complete = !draft.tx_attr.is_null()
            && !draft.rx_attr.is_null()
            && !draft.ep_attr.is_null()
            && !draft.domain_attr.is_null()
            && !draft.fabric_attr.is_null();
        if !complete {
            free(info);
            return ptr::null_mut();
        }
        info
    }
}

/// Duplicates one entry, not its successors; a null `info` asks for an empty one. Null when memory is out.
///
/// # Safety
/// `info` is null or an entry in the newest layout whose pointers are null or valid.
pub unsafe fn dup(info: *const fi_info) -> *mut fi_info {
    if info.is_null() {
        return alloc();
    }
    // SAFETY: the caller vouches for the entry; what is copied so far is always fit to be freed.
    unsafe {
        let copy = zeroed::<fi_info>();
        if copy.is_null() {
            return ptr::null_mut();
        }
        if fill(&mut *copy, &*info).is_none() {
            free(copy);
            return ptr::null_mut();
        }
        copy
    }
}

/// Copies everything from `from` into the zeroed `to`; `None` when memory is out.
///
/// # Safety
/// As [`dup`]. After a failure `to` holds only what it owns.
unsafe fn fill(to: &mut fi_info, from: &fi_info) -> Option<()> {
    to.caps = from.caps;
    to.mode = from.mode;
    to.addr_format = from.addr_format;
    to.src_addrlen = from.src_addrlen;
    to.dest_addrlen = from.dest_addrlen;
    to.handle = from.handle;
    // SAFETY: the caller vouches for every pointer in `from`. Pointers that the copy would share are cleared before
    // the next allocation can fail.
    unsafe {
        to.src_addr = copy_bytes(from.src_addr, from.src_addrlen)?;
        to.dest_addr = copy_bytes(from.dest_addr, from.dest_addrlen)?;
        to.tx_attr = copy(from.tx_attr)?;
        to.rx_attr = copy(from.rx_attr)?;
        to.ep_attr = copy(from.ep_attr)?;
        if let Some(ep) = to.ep_attr.as_mut() {
            let key = mem::replace(&mut ep.auth_key, ptr::null_mut());
            ep.auth_key = copy_bytes(key.cast(), ep.auth_key_size)?.cast();
        }
        to.domain_attr = copy(from.domain_attr)?;
        if let Some(domain) = to.domain_attr.as_mut() {
            let name = mem::replace(&mut domain.name, ptr::null_mut());
            let key = mem::replace(&mut domain.auth_key, ptr::null_mut());
            domain.name = copy_text(name)?;
            domain.auth_key = copy_bytes(key.cast(), domain.auth_key_size)?.cast();
        }
        to.fabric_attr = copy(from.fabric_attr)?;
        if let Some(fabric) = to.fabric_attr.as_mut() {
            let name = mem::replace(&mut fabric.name, ptr::null_mut());
            let prov_name = mem::replace(&mut fabric.prov_name, ptr::null_mut());
            fabric.name = copy_text(name)?;
            fabric.prov_name = copy_text(prov_name)?;
        }
        to.nic = dup_nic(from.nic)?;
    }
    Some(())
}

/// Releases a list and everything in it; null is allowed.
///
/// # Safety
/// Every piece came from the allocator of libc and belongs to the list alone.
pub unsafe fn free(mut info: *mut fi_info) {
    // SAFETY: the caller vouches for the list; libc's `free` takes null.
    unsafe {
        while let Some(entry) = info.as_ref() {
            let next = entry.next;
            system::free(entry.src_addr);
            system::free(entry.dest_addr);
            system::free(entry.tx_attr.cast());
            system::free(entry.rx_attr.cast());
            if let Some(ep) = entry.ep_attr.as_ref() {
                system::free(ep.auth_key.cast());
                system::free(entry.ep_attr.cast());
            }
            if let Some(domain) = entry.domain_attr.as_ref() {
                system::free(domain.auth_key.cast());
                system::free(domain.name.cast());
                system::free(entry.domain_attr.cast());
            }
            if let Some(fabric) = entry.fabric_attr.as_ref() {
                system::free(fabric.name.cast());
                system::free(fabric.prov_name.cast());
                system::free(entry.fabric_attr.cast());
            }
            close_nic(entry.nic);
            system::free(info.cast());
            info = next;
        }
    }
}

/// Allocates one zeroed `T`, or returns null.
///
/// # Safety
/// `T` is a C structure for which all zeroes is a value.
pub(super) unsafe fn zeroed<T>() -> *mut T {
    // SAFETY: `calloc` has no preconditions.
    unsafe { system::calloc(1, size_of::<T>()).cast() }
}

/// Copies a string into memory of libc.
pub(super) fn text(text: &str) -> Option<*mut c_char> {
    let length = text.len();
    // SAFETY: the memory is one byte longer than the text.
    unsafe {
        let copy: *mut u8 = system::malloc(length + 1).cast();
        if copy.is_null() {
            return None;
        }
        copy.copy_from_nonoverlapping(text.as_ptr(), length);
        copy.add(length).write(0);
        Some(copy.cast())
    }
}

/// Copies bytes into memory of libc; `Some(null)` for null, `None` when memory is out.
///
/// # Safety
/// `from` is null or has `length` readable bytes.
pub(super) unsafe fn copy_bytes(from: *const c_void, length: usize) -> Option<*mut c_void> {
    if from.is_null() {
        return Some(ptr::null_mut());
    }
    // SAFETY: both sides have `length` bytes.
    unsafe {
        let to: *mut u8 = system::malloc(length.max(1)).cast();
        if to.is_null() {
            return None;
        }
        to.copy_from_nonoverlapping(from.cast(), length);
        Some(to.cast())
    }
}

/// Copies one attribute structure without what it points to.
///
/// # Safety
/// `from` is null or valid.
unsafe fn copy<T>(from: *const T) -> Option<*mut T> {
    // SAFETY: the caller vouches for one whole `T`.
    let to = unsafe { copy_bytes(from.cast(), size_of::<T>()) }?;
    Some(to.cast())
}

/// Copies a string; `Some(null)` for null.
///
/// # Safety
/// `from` is null or a string that ends.
pub(super) unsafe fn copy_text(from: *const c_char) -> Option<*mut c_char> {
    if from.is_null() {
        return Some(ptr::null_mut());
    }
    // SAFETY: the caller vouches for the string.
    let to = unsafe { system::strdup(from) };
    (!to.is_null()).then_some(to)
}

/// Duplicates the description of an interface by its own operations, fi_nic(3): null if they cannot, `None`
/// when memory is out.
///
/// # Safety
/// `nic` is null or an open object.
unsafe fn dup_nic(nic: *mut fid_nic) -> Option<*mut fid_nic> {
    // SAFETY: an open object points to its operations.
    unsafe {
        let Some(ops) = nic.as_ref().and_then(|nic| nic.fid.ops.as_ref()) else {
            return Some(ptr::null_mut());
        };
        let Some(control) = ops.control else {
            return Some(ptr::null_mut());
        };
        let mut copy: *mut fid_nic = ptr::null_mut();
        match control(nic.cast::<fid>(), FI_DUP, (&raw mut copy).cast()) {
            0 => Some(copy),
            code if code == -FI_ENOSYS => Some(ptr::null_mut()),
            _ => None,
        }
    }
}

/// Closes the NIC of an entry, if there is one.
///
/// # Safety
/// `nic` is null or an open object that is not used any more.
unsafe fn close_nic(nic: *mut fid_nic) {
    // SAFETY: an open object points to its operations.
    unsafe {
        let ops = nic.as_ref().and_then(|nic| nic.fid.ops.as_ref());
        if let Some(close) = ops.and_then(|ops| ops.close) {
            close(nic.cast::<fid>());
        }
    }
}
