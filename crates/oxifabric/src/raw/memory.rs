//! The memory of operations: who owns it, and what gives it back.

use core::ffi::c_void;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Arc;

use super::plain::{self, Plain};
use super::region::RegionObject;
use super::scope::Tally;
use super::{DomainObject, Errno};

/// Alignment of small buffers: a cache line, so that two of them never share one.
const LINE: usize = 64;
/// Alignment of buffers of at least this size: a page, so that a kernel can map or copy them whole.
const PAGE: usize = 4096;

/// Bytes that an operation owns while it is in flight.
///
/// A buffer owns its bytes alone, as a `Vec<u8>` does, and dereferences to them. They never move, not even when the `Buffer` does.
///
/// While an operation has it, nobody else does.
///
/// There are three kinds: memory of the heap ([`Buffer::zeroed`], [`Buffer::from`]); memory that is registered for the devices of one
/// domain ([`Buffer::registered`](Buffer::registered)), which offers with `FI_MR_LOCAL` ask for; and memory that comes from
/// elsewhere ([`Buffer::from_raw`]). For memory that *peers* read and write, see [`Region`](crate::Region); for memory that
/// belongs to somebody else all the time, [`Payload::from_raw`](crate::Payload::from_raw).
pub struct Buffer(Memory);

/// Memory of an operation, of whichever kind.
pub(crate) struct Memory {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
    keeper: Keeper,
}

/// What keeps memory in place, and what happens to it in the end.
enum Keeper {
    /// The heap, with the layout of [`layout`].
    Heap,
    /// A vector of this capacity.
    Vec,
    /// Somebody else, who is told when the memory is no longer used.
    Foreign(Foreign),
    /// A registration that nobody else knows: no peer can reach the memory.
    Registered(Box<RegionObject>),
    /// A region, which other operations and peers use at the same time.
    Region(Arc<RegionObject>),
    /// The borrower, who waits until this is dropped.
    Scope(Arc<Tally>),
    /// The caller, who has promised to keep it and may use it meanwhile; told of the end if he asked for that.
    Lent(Option<Foreign>),
}

/// What is called in the end; boxed once more, so that memory stays small.
pub(super) type Foreign = Box<Box<dyn FnOnce() + Send>>;

// SAFETY: memory is owned as by a `Box<[u8]>`, or is reached only by raw pointers that the fabric uses; keepers are `Send`.
unsafe impl Send for Memory {}
// SAFETY: as above; shared access only reads, and keepers are `Sync`.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of no length.
    pub(crate) const EMPTY: Self = Self {
        start: NonNull::dangling(),
        len: 0,
        capacity: 0,
        keeper: Keeper::Heap,
    };

    fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self::EMPTY;
        }
        let layout = layout(len);
        // SAFETY: the layout has a size other than zero.
        let start = unsafe { alloc_zeroed(layout) };
        Self {
            start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)),
            len,
            capacity: len,
            keeper: Keeper::Heap,
        }
    }

    /// A part of a region, which must be within its bounds.
    pub(super) fn of_region(region: Arc<RegionObject>, start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            capacity: len,
            keeper: Keeper::Region(region),
        }
    }

    /// Memory of which nobody gets to see the bytes; `release` is called when it is no longer used.
    pub(super) fn lent(start: NonNull<u8>, len: usize, release: Option<Foreign>) -> Self {
        Self {
            start,
            len,
            capacity: len,
            keeper: Keeper::Lent(release),
        }
    }

    /// Memory that somebody lends until `tally` has heard of its end.
    pub(super) fn borrowed(start: NonNull<u8>, len: usize, tally: Arc<Tally>) -> Self {
        Self {
            start,
            len,
            capacity: len,
            keeper: Keeper::Scope(tally),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the bytes are.
    #[inline]
    pub(super) fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// What a post says about the memory's registration: nothing, or the descriptor for this domain.
    ///
    /// `INVAL` if the domain's devices cannot use it.
    #[inline]
    pub(super) fn descriptor(&self, domain: &Arc<DomainObject>) -> Result<*mut c_void, Errno> {
        match &self.keeper {
            Keeper::Registered(region) => region.descriptor(domain),
            Keeper::Region(region) => region.descriptor(domain),
            _ if domain.needs_registration() && self.len != 0 => Err(Errno::INVAL),
            _ => Ok(ptr::null_mut()),
        }
    }

    /// Who lent the memory, if it is borrowed.
    #[inline]
    pub(crate) fn tally(&self) -> Option<&Arc<Tally>> {
        match &self.keeper {
            Keeper::Scope(tally) => Some(tally),
            _ => None,
        }
    }

    /// The buffer of a completed operation, shortened to what it holds; empty if the memory was not the operation's alone.
    #[inline]
    pub(crate) fn into_buffer(mut self, len: usize) -> Buffer {
        match self.keeper {
            Keeper::Region(_) | Keeper::Scope(_) | Keeper::Lent(_) => Buffer::new(),
            _ => {
                self.len = len.min(self.capacity);
                Buffer(self)
            }
        }
    }
}

/// The layout of memory of the heap; its size is not zero.
fn layout(len: usize) -> Layout {
    let align = if len >= PAGE { PAGE } else { LINE };
    Layout::from_size_align(len, align).expect("a buffer fits in the address space")
}

impl Drop for Memory {
    fn drop(&mut self) {
        match core::mem::replace(&mut self.keeper, Keeper::Heap) {
            Keeper::Heap if self.capacity == 0 => {}
            // SAFETY: the memory was allocated with the layout of this capacity.
            Keeper::Heap => unsafe { dealloc(self.start.as_ptr(), layout(self.capacity)) },
            Keeper::Vec => {
                let (start, capacity) = (self.start.as_ptr(), self.capacity);
                // SAFETY: the parts are those of a vector.
                drop(unsafe { Vec::from_raw_parts(start, 0, capacity) });
            }
            Keeper::Foreign(release) => release(),
            Keeper::Registered(region) => drop(region),
            Keeper::Region(region) => drop(region),
            Keeper::Scope(tally) => drop(tally),
            Keeper::Lent(None) => {}
            Keeper::Lent(Some(release)) => release(),
        }
    }
}

impl Buffer {
    /// Makes a buffer without bytes and without an allocation.
    pub const fn new() -> Self {
        Self(Memory::EMPTY)
    }

    /// Makes a buffer of `len` zero bytes.
    ///
    /// # Panics
    ///
    /// If `len` exceeds `isize::MAX`, as for a `Vec`.
    pub fn zeroed(len: usize) -> Self {
        Self(Memory::zeroed(len))
    }

    /// Makes a buffer of memory that is managed elsewhere: of C, of mmap(2), of a device that the processor can reach.
    ///
    /// `release` is called when nobody uses the memory any more, on whichever thread drops the buffer.
    ///
    /// # Safety
    ///
    /// The `len` bytes at `start` must be initialized, readable and writable, and used by nobody else, until `release` is called.
    pub unsafe fn from_raw(
        start: NonNull<u8>,
        len: usize,
        release: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self(Memory {
            start,
            len,
            capacity: len,
            keeper: Keeper::Foreign(Box::new(Box::new(release))),
        })
    }

    /// A buffer of memory of the heap, registered for local use.
    pub(crate) fn of_registration(region: RegionObject) -> Self {
        let (start, len) = region.extent();
        Self(Memory {
            start,
            len,
            capacity: len,
            keeper: Keeper::Registered(Box::new(region)),
        })
    }

    /// How long the buffer can become without moving its bytes.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Makes the buffer `len` bytes long.
    ///
    /// Within the capacity it only moves the end: bytes that appear are those that were there before. Beyond it the bytes move
    /// to a larger allocation of the heap, and the new ones are zero.
    pub fn resize(&mut self, len: usize) {
        if len > self.0.capacity {
            let mut larger = Self::zeroed(len);
            larger[..self.0.len].copy_from_slice(self);
            *self = larger;
        }
        self.0.len = len;
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

    /// The bytes as values of a plain type, as many as there are whole ones.
    ///
    /// # Panics
    ///
    /// If the bytes are not aligned for the type. Those of [`Buffer::zeroed`] and of registered buffers are aligned to 64.
    pub fn as_slice_of<T: Plain>(&self) -> &[T] {
        plain::view(self)
    }

    /// As [`Buffer::as_slice_of`], for writing.
    ///
    /// # Panics
    ///
    /// As [`Buffer::as_slice_of`].
    pub fn as_mut_slice_of<T: Plain>(&mut self) -> &mut [T] {
        plain::view_mut(self)
    }

    /// A buffer whose bytes nobody may see; for regions only.
    pub(super) fn unseen(memory: Memory) -> Self {
        Self(memory)
    }

    pub(super) fn extent(&self) -> (NonNull<u8>, usize) {
        (self.0.start, self.0.len)
    }
}

impl From<Buffer> for Memory {
    #[inline]
    fn from(buffer: Buffer) -> Self {
        buffer.0
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `capacity` bytes are initialized, `len` is at most that, and they belong to `self`.
        unsafe { core::slice::from_raw_parts(self.0.start.as_ptr(), self.0.len) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.len) }
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
        Self(Memory {
            start,
            len: bytes.len(),
            capacity: bytes.capacity(),
            keeper: Keeper::Vec,
        })
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.0.len, self.0.capacity)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} of {} bytes)", self.len, self.capacity)
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
        // SAFETY: nobody touches the bytes before the buffer is dropped.
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
