//! The memory of operations, its owners, and its release.

use core::ffi::c_void;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use super::plain::{self, Plain};
use super::region::RegionObject;
use super::scope::ScopeOutcomes;
use super::{DomainObject, Errno};

/// Alignment of small buffers: a cache line, so that two of them never share one.
const LINE: usize = 64;
/// Alignment of buffers of at least this size: a page, so that a kernel can map or copy them whole.
const PAGE: usize = 4096;

/// Bytes that an operation owns while it is in flight.
///
/// A buffer owns its bytes alone, as a `Vec<u8>` does, and dereferences to them. They never move, not even when the `Buffer` does.
///
/// While an operation has it, no other code can reach the bytes.
///
/// There are three kinds: memory of the heap ([`Buffer::zeroed`], [`Buffer::from`]); memory that is registered for the devices of one
/// domain ([`Buffer::registered`](Buffer::registered)), which offers with `FI_MR_LOCAL` require; and memory that comes from
/// elsewhere ([`Buffer::from_raw`]). For memory that *peers* read and write, see [`Region`](crate::Region); for memory that other
/// code owns all the time, [`Payload::from_raw`](crate::Payload::from_raw).
///
/// It is as large as a pointer, so that operations and completions pass it in a register.
pub struct Buffer(Option<Box<Owned>>);

/// The bytes of a buffer.
struct Owned {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
    owner: Owner,
}

/// The allocator of a buffer's bytes, to which they return.
enum Owner {
    /// The heap, with the layout of [`layout`].
    Heap,
    /// A vector of this capacity.
    Vec,
    /// Other code, whose callback is called when the memory is no longer used.
    Foreign(Release),
    /// A registration with a secret key: no peer can reach the memory.
    Registered(RegionObject),
    /// Foreign memory, as above, whose bytes are hidden from the application.
    Hidden(Release),
}

/// The callback for the end of use of memory that comes from elsewhere.
pub(super) type Release = Box<dyn FnOnce() + Send>;

/// The memory of an operation, of any kind.
pub(crate) enum Memory {
    /// Memory that the operation owns alone.
    Buffer(Buffer),
    /// Memory that something else keeps in place.
    Part {
        start: NonNull<u8>,
        len: usize,
        backing: Backing,
    },
}

/// What keeps memory in place that the operation does not own.
pub(crate) enum Backing {
    /// A region, which other operations and peers use at the same time.
    Region(Arc<RegionObject>),
    /// A scope, which waits until this is dropped before the borrow ends.
    Scope(Arc<ScopeOutcomes>),
    /// The caller, which has promised to keep it and may use it meanwhile.
    Caller,
}

// SAFETY: the bytes are owned as by a `Box<[u8]>`; owners are `Send`.
unsafe impl Send for Owned {}
// SAFETY: as above; shared access only reads, and what is called in the end is never reached by it.
unsafe impl Sync for Owned {}
// SAFETY: the bytes are the buffer's, or are reached only by raw pointers that the fabric uses; what keeps them is `Send`.
unsafe impl Send for Memory {}
// SAFETY: as above; shared access only reads, and what keeps the bytes is `Sync`.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of length zero.
    pub(crate) const EMPTY: Self = Self::Buffer(Buffer::new());

    /// Makes memory of a part of a region, which must be within its bounds; of a borrow that lasts until its scope has recorded the end
    /// of the operation; or of bytes that a caller vouches for.
    pub(super) fn part(start: NonNull<u8>, len: usize, backing: Backing) -> Self {
        Self::Part {
            start,
            len,
            backing,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.extent().1
    }

    /// Shortens a buffer to a message that was received, and returns the length of that.
    #[inline]
    pub(crate) fn shorten(&mut self, received: usize) -> usize {
        let len = received.min(self.len());
        if let Self::Buffer(Buffer(Some(owned))) = self {
            owned.len = len;
        }
        len
    }

    /// Returns where the bytes are, and how many.
    #[inline]
    pub(super) fn extent(&self) -> (NonNull<u8>, usize) {
        match self {
            Self::Buffer(buffer) => buffer.extent(),
            Self::Part { start, len, .. } => (*start, *len),
        }
    }

    /// Returns why the memory has no descriptor in this domain.
    #[cold]
    pub(super) fn obstacle(&self, domain: &Arc<DomainObject>) -> Option<&'static str> {
        self.descriptor(domain).err()?;
        Some(match self.registration() {
            Some(_) => {
                "the memory is registered in another domain; register it in that of the endpoint"
            }
            None => {
                "the offer takes registered memory only (FI_MR_LOCAL); use `Buffer::registered` or a `Region`, or ask for offers without it by `Hints::mr_mode`"
            }
        })
    }

    /// Returns the memory's descriptor for posts in this domain; null if it needs none.
    ///
    /// `INVAL` if the domain's devices cannot use the memory.
    #[inline]
    pub(super) fn descriptor(&self, domain: &Arc<DomainObject>) -> Result<*mut c_void, Errno> {
        match self.registration() {
            Some(region) => region.descriptor(domain),
            None if domain.needs_registration() && self.len() != 0 => Err(Errno::INVAL),
            None => Ok(ptr::null_mut()),
        }
    }

    #[inline]
    fn registration(&self) -> Option<&RegionObject> {
        match self {
            Self::Buffer(Buffer(Some(owned))) => match &owned.owner {
                Owner::Registered(region) => Some(region),
                _ => None,
            },
            Self::Part {
                backing: Backing::Region(region),
                ..
            } => Some(region),
            _ => None,
        }
    }

    /// Returns the outcomes of the scope that lent the memory, if it is borrowed.
    #[inline]
    pub(crate) fn outcomes(&self) -> Option<&Arc<ScopeOutcomes>> {
        match self {
            Self::Part {
                backing: Backing::Scope(outcomes),
                ..
            } => Some(outcomes),
            _ => None,
        }
    }

    /// Returns the buffer of an operation that is done or was refused; empty if the operation did not own the memory.
    #[inline]
    pub(crate) fn into_buffer(self) -> Buffer {
        match self {
            Self::Buffer(buffer) => buffer,
            Self::Part { .. } => Buffer::new(),
        }
    }
}

/// Returns the layout of memory of the heap; its size is not zero.
fn layout(len: usize) -> Layout {
    let align = if len >= PAGE { PAGE } else { LINE };
    Layout::from_size_align(len, align).expect("a buffer fits in the address space")
}

impl Drop for Owned {
    fn drop(&mut self) {
        match core::mem::replace(&mut self.owner, Owner::Heap) {
            // SAFETY: the memory was allocated with the layout of this capacity.
            Owner::Heap => unsafe { dealloc(self.start.as_ptr(), layout(self.capacity)) },
            Owner::Vec => {
                let (start, capacity) = (self.start.as_ptr(), self.capacity);
                // SAFETY: the parts are those of a vector.
                drop(unsafe { Vec::from_raw_parts(start, 0, capacity) });
            }
            Owner::Foreign(release) | Owner::Hidden(release) => give_back(release),
            Owner::Registered(region) => drop(region),
        }
    }
}

/// Calls the release callback of foreign memory. If it panics, so does the thread that dropped the memory; a panic while that thread
/// panics already is swallowed, since it would end the process.
fn give_back(release: Release) {
    let is_panicking = thread::panicking();
    let panicked = panic::catch_unwind(AssertUnwindSafe(release));
    if let (Err(panicked), false) = (panicked, is_panicking) {
        panic::resume_unwind(panicked);
    }
}

impl Buffer {
    /// Makes a buffer without bytes and without an allocation.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Makes a buffer of `len` zero bytes.
    ///
    /// # Panics
    ///
    /// If `len` exceeds `isize::MAX`, as for a `Vec`.
    pub fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self::new();
        }
        let layout = layout(len);
        // SAFETY: the layout has a size other than zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self::owned(start, len, Owner::Heap)
    }

    /// Makes a buffer of memory that is managed elsewhere: of C, of mmap(2), of a device that the processor can reach.
    ///
    /// `release` is called when the memory is no longer used, on whichever thread drops the buffer: that may be the one that closes an
    /// endpoint or reads its queue. It may use queues and endpoints, other than by an [`AsyncQueue`](crate::AsyncQueue). If it panics, so does what that thread was doing; nothing is lost
    /// but completions that it had not returned yet.
    ///
    /// # Safety
    ///
    /// The `len` bytes at `start` must be initialized, readable and writable, and used by no other code, until `release` is called.
    pub unsafe fn from_raw(
        start: NonNull<u8>,
        len: usize,
        release: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self::owned(start, len, Owner::Foreign(Box::new(release)))
    }

    /// Makes a buffer of heap memory that is registered for local use.
    pub(crate) fn of_registration(region: RegionObject) -> Self {
        let (start, len) = region.extent();
        Self::owned(start, len, Owner::Registered(region))
    }

    /// Makes a buffer whose bytes stay hidden; for regions only.
    pub(super) fn hidden(start: NonNull<u8>, len: usize, release: Release) -> Self {
        Self::owned(start, len, Owner::Hidden(release))
    }

    fn owned(start: NonNull<u8>, len: usize, owner: Owner) -> Self {
        Self(Some(Box::new(Owned {
            start,
            len,
            capacity: len,
            owner,
        })))
    }

    /// Returns the buffer if the application may see its bytes; hidden memory is released, and the buffer is empty.
    pub(super) fn into_visible(self) -> Self {
        match &self.0 {
            Some(owned) if matches!(owned.owner, Owner::Hidden(_)) => Self::new(),
            _ => self,
        }
    }

    /// Returns how long the buffer can become without moving its bytes.
    pub fn capacity(&self) -> usize {
        self.0.as_ref().map_or(0, |owned| owned.capacity)
    }

    /// Makes the buffer `len` bytes long.
    ///
    /// Within the capacity it only moves the end: bytes that appear are those that were there before. Beyond it the bytes move
    /// to a larger allocation of the heap, and the new ones are zero.
    pub fn resize(&mut self, len: usize) {
        if len > self.capacity() {
            let mut larger = Self::zeroed(len);
            larger[..self.len()].copy_from_slice(self);
            *self = larger;
        }
        if let Some(owned) = &mut self.0 {
            owned.len = len;
        }
    }

    /// Makes a buffer of `count` values that are all zero.
    ///
    /// # Panics
    ///
    /// If they need more than `isize::MAX` bytes, as for a `Vec`.
    pub fn zeroed_of<T: Plain>(count: usize) -> Self {
        let len = count.checked_mul(size_of::<T>());
        Self::zeroed(len.expect("a buffer fits in the address space"))
    }

    /// Returns the bytes as values of a plain type, as many as there are whole ones.
    ///
    /// # Panics
    ///
    /// If the bytes are not aligned for the type. Those of [`Buffer::zeroed`] and of registered buffers are aligned to 64.
    pub fn as_slice_of<T: Plain>(&self) -> &[T] {
        plain::view(self)
    }

    /// Returns the bytes as mutable values of a plain type, as [`Buffer::as_slice_of`] does.
    ///
    /// # Panics
    ///
    /// As [`Buffer::as_slice_of`].
    pub fn as_mut_slice_of<T: Plain>(&mut self) -> &mut [T] {
        plain::view_mut(self)
    }

    #[inline]
    pub(super) fn extent(&self) -> (NonNull<u8>, usize) {
        match &self.0 {
            Some(owned) => (owned.start, owned.len),
            None => (NonNull::dangling(), 0),
        }
    }
}

impl From<Buffer> for Memory {
    #[inline]
    fn from(buffer: Buffer) -> Self {
        Self::Buffer(buffer)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let (start, len) = self.extent();
        // SAFETY: the first `capacity` bytes are initialized, `len` is at most that, and they belong to `self`.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let (start, len) = self.extent();
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }
}

impl<const N: usize> From<&[u8; N]> for Buffer {
    fn from(bytes: &[u8; N]) -> Self {
        Self::from(&bytes[..])
    }
}

impl<const N: usize> From<[u8; N]> for Buffer {
    fn from(bytes: [u8; N]) -> Self {
        Self::from(&bytes[..])
    }
}

impl From<&str> for Buffer {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

impl From<Vec<u8>> for Buffer {
    /// Takes the vector's memory over; its spare capacity becomes zero bytes.
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.capacity() == 0 {
            return Self::new();
        }
        let mut bytes = ManuallyDrop::new(bytes);
        bytes.spare_capacity_mut().fill(MaybeUninit::new(0));
        let start = NonNull::new(bytes.as_mut_ptr()).expect("a vector with a capacity has memory");
        Self(Some(Box::new(Owned {
            start,
            len: bytes.len(),
            capacity: bytes.capacity(),
            owner: Owner::Vec,
        })))
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, capacity) = (self.len(), self.capacity());
        write!(f, "Buffer({len} of {capacity} bytes)")
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn shrinking_and_growing_keeps_bytes_and_place() {
        let mut buffer = Buffer::from(b"abcdef");
        let place = buffer.as_mut_ptr();
        buffer.resize(2);
        assert_eq!(&buffer[..], b"ab");
        buffer.resize(6);
        assert_eq!(&buffer[..], b"abcdef");
        assert_eq!(buffer.as_mut_ptr(), place);
    }

    #[test]
    fn growth_beyond_the_capacity_adds_zeros() {
        let mut buffer = Buffer::from(b"ab");
        buffer.resize(PAGE + 1);
        assert_eq!(&buffer[..3], b"ab\0");
        assert_eq!(buffer.capacity(), PAGE + 1);
        assert_eq!(buffer.as_mut_ptr() as usize % PAGE, 0);
    }

    #[test]
    fn empty_buffers_need_no_memory() {
        let mut buffer = Buffer::new();
        assert!(buffer.is_empty());
        buffer.resize(1);
        assert_eq!(&buffer[..], b"\0");
    }

    #[test]
    fn a_vector_becomes_a_buffer_where_it_is() {
        let mut vector = Vec::with_capacity(8);
        vector.extend(b"abc");
        let place = vector.as_ptr();
        let mut buffer = Buffer::from(vector);
        assert_eq!(buffer.as_ptr(), place);
        buffer.resize(8);
        assert_eq!(&buffer[..], b"abc\0\0\0\0\0");
    }

    #[test]
    fn memory_from_elsewhere_is_released_once() {
        let released = Arc::new(AtomicBool::new(false));
        let mut bytes = *b"abc";
        let start = NonNull::from(&mut bytes).cast();
        let told = released.clone();
        // SAFETY: the bytes are not touched before the buffer is dropped.
        let buffer = unsafe {
            Buffer::from_raw(start, 3, move || {
                assert!(!told.swap(true, Ordering::Relaxed))
            })
        };
        assert_eq!(&buffer[..], b"abc");
        drop(buffer);
        assert!(released.load(Ordering::Relaxed));
    }

    #[test]
    fn values_are_seen_through_a_buffer() {
        let mut buffer = Buffer::zeroed_of::<u32>(3);
        buffer.as_mut_slice_of::<u32>()[2] = 7;
        assert_eq!(buffer.as_slice_of::<u32>(), [0, 0, 7]);
        buffer.resize(7);
        assert_eq!(buffer.as_slice_of::<u32>(), [0]);
    }
}
