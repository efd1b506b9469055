//! Memory that calls of the application name: fi_msg(3), with its descriptors, fi_mr(3). Path class: hot.
//!
//! Most devices have no use for descriptors: to them any memory of the process is as good as another. Their calls are compiled without a
//! look at them.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;

use libc::iovec;
use oxifabric_mem::{Iov, IovSegment, MAX_SEGMENTS, Registration};
use oxifabric_provider::device::{Device, Provider};

use crate::domain::Domain;
use crate::mr::Mr;

/// Whether calls read the descriptors of memory.
pub(super) trait Descriptors: Copy {
    /// They do: an operation knows the registrations of its memory.
    const READ: bool;
}

/// Calls that read them.
#[derive(Clone, Copy)]
pub(super) struct Read;

impl Descriptors for Read {
    const READ: bool = true;
}

/// Calls that do not look at them.
#[derive(Clone, Copy)]
pub(super) struct Ignored;

impl Descriptors for Ignored {
    const READ: bool = false;
}

/// The calls of the endpoints of a provider.
pub(super) struct CallsOf<P>(PhantomData<P>);

impl<P> Clone for CallsOf<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for CallsOf<P> {}

impl<P: Provider> Descriptors for CallsOf<P> {
    const READ: bool = P::Device::READS_DESCRIPTORS;
}

/// Memory that a call lends to its operation.
pub(super) trait Lend {
    /// Returns how many bytes there are.
    fn len(&self) -> usize;

    /// Returns whether all that has bytes is known to be registered.
    fn is_registered(&self) -> bool;

    /// Describes it for the engine.
    fn lend(self) -> Iov;
}

/// One buffer that was checked. It is described only where the description will stay.
#[derive(Clone, Copy)]
pub(super) struct Buffer<D> {
    base: *mut u8,
    len: usize,
    /// Always `None` unless the calls read descriptors.
    registration: Option<Registration>,
    calls: PhantomData<D>,
}

impl<D: Descriptors> Lend for Buffer<D> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn is_registered(&self) -> bool {
        self.len == 0 || self.registration.is_some()
    }

    #[inline(always)]
    fn lend(self) -> Iov {
        if D::READ
            && let Some(registration) = self.registration
        {
            // SAFETY: promised when it was made, as for `buffer`.
            return unsafe { Iov::registered(self.base, self.len, registration) };
        }
        // SAFETY: as above.
        unsafe { Iov::contiguous(self.base, self.len) }
    }
}

impl Lend for Iov {
    fn len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn is_registered(&self) -> bool {
        self.is_registered()
    }

    fn lend(self) -> Iov {
        self
    }
}

/// Describes a buffer of the application; `None` when it cannot be one, or `desc` names no region. One of another domain counts as none.
///
/// # Safety
/// The buffer has `len` bytes, which are the operation's until it completes. If descriptors are read, `desc` is null or that of an open
/// region.
#[inline(always)]
pub(super) unsafe fn buffer<D: Descriptors>(
    domain: &Domain,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
) -> Option<Buffer<D>> {
    if len > isize::MAX as usize || (buf.is_null() && len != 0) {
        return None;
    }
    let registration = match D::READ && !desc.is_null() {
        // SAFETY: the caller's contract.
        true => unsafe { Mr::registration(domain, desc) }?,
        false => None,
    };
    Some(Buffer {
        // What is sent is only read.
        base: buf.cast_mut().cast(),
        len,
        registration,
        calls: PhantomData,
    })
}

/// Describes the buffer of a receive. A null one takes messages without data, whatever length it is said to have: there
/// are programs that only wait for those.
///
/// # Safety
/// As for [`buffer`].
#[inline(always)]
pub(super) unsafe fn place<D: Descriptors>(
    domain: &Domain,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
) -> Option<Buffer<D>> {
    let len = if buf.is_null() { 0 } else { len };
    // SAFETY: the caller's contract.
    unsafe { buffer(domain, buf, len, desc) }
}

/// Describes a list of buffers; `None` when there are too many, or they cannot be ones.
///
/// # Safety
/// The list has `count` buffers, each as for [`buffer`], and there are as many descriptors, or `desc` is null.
#[inline]
pub(super) unsafe fn buffers<D: Descriptors>(
    domain: &Domain,
    iov: *const iovec,
    desc: *const *mut c_void,
    count: usize,
) -> Option<Iov> {
    if count == 1 && !iov.is_null() {
        // SAFETY: the caller's contract.
        return unsafe {
            let desc = descriptor::<D>(desc, 0);
            buffer::<D>(domain, (*iov).iov_base, (*iov).iov_len, desc).map(Lend::lend)
        };
    }
    // SAFETY: the caller's contract.
    unsafe { scattered::<D>(domain, iov, desc, count) }
}

/// Describes a list of buffers in the less common case of [`buffers`].
///
/// # Safety
/// As for [`buffers`].
unsafe fn scattered<D: Descriptors>(
    domain: &Domain,
    iov: *const iovec,
    desc: *const *mut c_void,
    count: usize,
) -> Option<Iov> {
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
    if D::READ && !desc.is_null() {
        // SAFETY: the caller's contract.
        return unsafe { registered(domain, &segments[..count], desc) };
    }
    // SAFETY: the caller's contract.
    unsafe { Iov::scattered(&segments[..count]) }
}

/// Describes segments with what their descriptors name.
///
/// # Safety
/// As for [`buffers`]; there are as many descriptors as segments.
unsafe fn registered(
    domain: &Domain,
    segments: &[IovSegment],
    desc: *const *mut c_void,
) -> Option<Iov> {
    let mut pieces = [(IovSegment::new(ptr::null_mut(), 0), None); MAX_SEGMENTS];
    for (at, (piece, segment)) in pieces.iter_mut().zip(segments).enumerate() {
        // SAFETY: the caller's contract.
        let desc = unsafe { *desc.add(at) };
        let registration = match desc.is_null() {
            true => None,
            // SAFETY: the caller's contract.
            false => unsafe { Mr::registration(domain, desc) }?,
        };
        *piece = (*segment, registration);
    }
    // SAFETY: the caller's contract.
    unsafe { Iov::scattered_registered(&pieces[..segments.len()]) }
}

/// Makes a list of one descriptor, where descriptors are read.
#[inline(always)]
pub(super) fn listed<D: Descriptors>(desc: &*mut c_void) -> *mut *mut c_void {
    match D::READ {
        true => ptr::from_ref(desc).cast_mut(),
        false => ptr::null_mut(),
    }
}

/// Returns a descriptor of a list, where descriptors are read and there are some.
///
/// # Safety
/// The list has more than `at` entries, or is null.
#[inline(always)]
unsafe fn descriptor<D: Descriptors>(list: *const *mut c_void, at: usize) -> *mut c_void {
    match D::READ && !list.is_null() {
        // SAFETY: the caller's contract.
        true => unsafe { *list.add(at) },
        false => ptr::null_mut(),
    }
}
