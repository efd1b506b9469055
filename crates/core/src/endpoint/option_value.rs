//! Values of options, in buffers of the application: fi_endpoint(3) "fi_getopt / fi_setopt".

use core::ffi::c_void;

use oxifabric_provider::device::OwnValue;
use oxifabric_types::Errno;

/// Stores a number in the application's buffer: most are sizes; whether there is a firewall is an `int`, as in the C library.
///
/// # Safety
/// `optval` has room for `*optlen` bytes; either may be null.
pub(crate) unsafe fn write<N>(
    value: N,
    optval: *mut c_void,
    optlen: *mut usize,
) -> Result<(), Errno> {
    // SAFETY: the caller's contract.
    let room = unsafe { optlen.as_mut() }.ok_or(Errno::INVAL)?;
    let fits = *room >= size_of::<N>();
    *room = size_of::<N>();
    if !fits {
        return Err(Errno::TOOSMALL);
    }
    if optval.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's contract; there is room.
    unsafe { optval.cast::<N>().write_unaligned(value) };
    Ok(())
}

/// Reads a size from the application's buffer.
///
/// # Safety
/// `optval` is null or has `optlen` bytes.
pub(super) unsafe fn read(optval: *const c_void, optlen: usize) -> Result<usize, Errno> {
    if optval.is_null() || optlen != size_of::<usize>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's contract.
    Ok(unsafe { optval.cast::<usize>().read_unaligned() })
}

/// Reads a truth value from the application's buffer.
///
/// # Safety
/// `optval` is null or has `optlen` bytes.
pub(super) unsafe fn read_bool(optval: *const c_void, optlen: usize) -> Result<bool, Errno> {
    if optval.is_null() || optlen != size_of::<bool>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's contract.
    Ok(unsafe { optval.cast::<u8>().read() } != 0)
}

/// Stores the value of a provider's own option in the application's buffer.
///
/// # Safety
/// As [`write()`].
pub(super) unsafe fn write_own(
    value: OwnValue,
    optval: *mut c_void,
    optlen: *mut usize,
) -> Result<(), Errno> {
    match value {
        // SAFETY: the caller's contract.
        OwnValue::Bool(value) => unsafe { write(value, optval, optlen) },
        // SAFETY: the caller's contract.
        OwnValue::Size(value) => unsafe { write(value, optval, optlen) },
    }
}

/// Reads the value of a provider's own option from the application's buffer. Its length says of which type it is.
///
/// # Safety
/// As [`read()`].
pub(super) unsafe fn read_own(optval: *const c_void, optlen: usize) -> Result<OwnValue, Errno> {
    match optlen {
        // SAFETY: the caller's contract.
        1 => unsafe { read_bool(optval, optlen) }.map(OwnValue::Bool),
        // SAFETY: the caller's contract.
        _ => unsafe { read(optval, optlen) }.map(OwnValue::Size),
    }
}
