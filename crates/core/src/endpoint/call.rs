//! What calls of data transfer describe: operations and the memory that they lend to them. Path class: hot.

use core::ffi::c_void;
use core::ptr;

use libc::iovec;
use oxifabric_abi::fi_addr_t;
use oxifabric_mem::{Iov, IovSegment, MAX_SEGMENTS};
use oxifabric_types::Flags;

/// A send as a call describes it.
pub(super) struct SendCall {
    pub(super) to: fi_addr_t,
    /// `MSG` or `TAGGED`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) tag: u64,
    pub(super) data: u64,
    pub(super) context: *mut c_void,
}

/// A receive as a call describes it.
pub(super) struct RecvCall {
    pub(super) from: fi_addr_t,
    /// `MSG` or `TAGGED`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) tag: u64,
    pub(super) ignore: u64,
    pub(super) context: *mut c_void,
}

/// A read or write of memory of a peer as a call describes it.
pub(super) struct Access {
    pub(super) peer: fi_addr_t,
    /// `RMA` with `READ` or `WRITE`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) data: u64,
    pub(super) context: *mut c_void,
}

/// Memory that a call lends to its operation.
pub(super) trait Lend {
    /// Returns how many bytes there are.
    fn len(&self) -> usize;

    /// Describes it for the engine.
    fn lend(self) -> Iov;
}

/// One buffer that was checked. It is described only where the description will stay.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    base: *mut u8,
    len: usize,
}

impl Lend for Buffer {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn lend(self) -> Iov {
        // SAFETY: promised when it was made, as for `buffer`.
        unsafe { Iov::contiguous(self.base, self.len) }
    }
}

impl Lend for Iov {
    fn len(&self) -> usize {
        self.len()
    }

    fn lend(self) -> Iov {
        self
    }
}

/// Describes a buffer of the application; `None` when it cannot be one.
///
/// # Safety
/// The buffer has `len` bytes, which are the operation's until it completes.
#[inline]
pub(super) unsafe fn buffer(buf: *const c_void, len: usize) -> Option<Buffer> {
    if len > isize::MAX as usize || (buf.is_null() && len != 0) {
        return None;
    }
    Some(Buffer {
        // What is sent is only read.
        base: buf.cast_mut().cast(),
        len,
    })
}

/// Describes the buffer of a receive. A null one takes messages without data, whatever length it is said to have: there
/// are programs that only wait for those.
///
/// # Safety
/// As for [`buffer`].
#[inline]
pub(super) unsafe fn place(buf: *mut c_void, len: usize) -> Option<Buffer> {
    // SAFETY: the caller's contract.
    unsafe { buffer(buf, if buf.is_null() { 0 } else { len }) }
}

/// Describes a list of buffers; `None` when there are too many, or they cannot be ones.
///
/// # Safety
/// The list has `count` buffers, each as for [`buffer`].
#[inline]
pub(super) unsafe fn buffers(iov: *const iovec, count: usize) -> Option<Iov> {
    if count == 1 && !iov.is_null() {
        // SAFETY: the caller's contract.
        return unsafe { buffer((*iov).iov_base, (*iov).iov_len) }.map(Lend::lend);
    }
    // SAFETY: the caller's contract.
    unsafe { scattered(iov, count) }
}

/// Describes a list of buffers in the less common case of [`buffers`].
///
/// # Safety
/// As for [`buffers`].
unsafe fn scattered(iov: *const iovec, count: usize) -> Option<Iov> {
    if count > MAX_SEGMENTS || (iov.is_null() && count != 0) {
        return None;
    }
    let mut segments = [IovSegment::new(ptr::null_mut(), 0); MAX_SEGMENTS];
    for (at, segment) in segments.iter_mut().enumerate().take(count) {
        // SAFETY: the caller says that the list has `count` entries.
        let piece = unsafe { *iov.add(at) };
        if piece.iov_len > isize::MAX as usize || (piece.iov_base.is_null() && piece.iov_len != 0) {
            return None;
        }
        *segment = IovSegment::new(piece.iov_base.cast(), piece.iov_len);
    }
    // SAFETY: the caller's contract.
    unsafe { Iov::scattered(&segments[..count]) }
}
