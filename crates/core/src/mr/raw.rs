//! Raw keys: fi_mr(3) "fi_mr_raw_attr" and "fi_mr_map_raw". Set-up path.
//!
//! Keys have at most eight bytes here, so the raw form of a key is those bytes, lowest first, and mapping it needs no
//! memory.

use core::ffi::{c_int, c_void};

use oxifabric_abi::{FI_MAP_RAW_MR, FI_UNMAP_KEY, fi_mr_map_raw, fi_mr_raw_attr};
use oxifabric_types::Errno;

/// How long a raw key is.
const KEY_LEN: usize = size_of::<u64>();

/// Writes the raw key and the base address of a region.
///
/// # Errors
/// `TOOSMALL` with the length that is needed, `INVAL`, `BADFLAGS`.
///
/// # Safety
/// `attr` is null or the argument of fi_mr_raw_attr(3).
pub(super) unsafe fn describe(attr: *mut fi_mr_raw_attr, base: u64, key: u64) -> Result<(), Errno> {
    // SAFETY: the caller's contract.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::INVAL)?;
    if attr.flags != 0 {
        return Err(Errno::BADFLAGS);
    }
    // SAFETY: the application passes a place for the length, or null.
    let len = unsafe { attr.key_size.as_mut() }.ok_or(Errno::INVAL)?;
    let room = core::mem::replace(len, KEY_LEN);
    if room < KEY_LEN || attr.raw_key.is_null() {
        return Err(Errno::TOOSMALL);
    }
    // SAFETY: the application says that there is room for the key; the place of the address may be null.
    unsafe {
        let bytes = key.to_le_bytes();
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), attr.raw_key, KEY_LEN);
        if let Some(place) = attr.base_addr.as_mut() {
            *place = base;
        }
    }
    Ok(())
}

/// Answers what fi_control(3) asks of a domain about raw keys of peers.
///
/// # Errors
/// `NOSYS` for other commands, `INVAL`, `BADFLAGS`.
///
/// # Safety
/// `arg` is null or what the command takes.
pub(crate) unsafe fn control(command: c_int, arg: *mut c_void) -> Result<(), Errno> {
    match command {
        // SAFETY: the caller's contract.
        FI_MAP_RAW_MR => unsafe { map(arg.cast()) },
        FI_UNMAP_KEY if arg.is_null() => Err(Errno::INVAL),
        FI_UNMAP_KEY => Ok(()),
        _ => Err(Errno::NOSYS),
    }
}

/// Makes a key of a raw one.
///
/// # Safety
/// `map` is null or the argument of fi_mr_map_raw(3).
unsafe fn map(map: *mut fi_mr_map_raw) -> Result<(), Errno> {
    // SAFETY: the caller's contract.
    let map = unsafe { map.as_ref() }.ok_or(Errno::INVAL)?;
    if map.flags != 0 {
        return Err(Errno::BADFLAGS);
    }
    if map.raw_key.is_null() || map.key.is_null() || map.key_size != KEY_LEN {
        return Err(Errno::INVAL);
    }
    let mut bytes = [0; KEY_LEN];
    // SAFETY: the application says that the key has this length; the place for it was checked.
    unsafe {
        core::ptr::copy_nonoverlapping(map.raw_key, bytes.as_mut_ptr(), KEY_LEN);
        *map.key = u64::from_le_bytes(bytes);
    }
    Ok(())
}
