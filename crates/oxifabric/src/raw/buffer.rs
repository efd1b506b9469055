//! The memory of messages.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Alignment of small buffers: a cache line, so that two of them never share one.
const LINE: usize = 64;
/// Alignment of buffers of at least this size: a page, so that a kernel can map or copy them whole.
const PAGE: usize = 4096;

/// Bytes that an operation owns while it is in flight.
///
/// Its memory never moves, not even when the `Buffer` does. It dereferences to its bytes.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: a buffer owns its memory as a `Box<[u8]>` does.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Makes a buffer without bytes and without an allocation.
    pub const fn new() -> Self {
        Self {
            start: NonNull::dangling(),
            len: 0,
            capacity: 0,
        }
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
        Self {
            start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)),
            len,
            capacity: len,
        }
    }

    /// How long the buffer can become without moving its bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes the buffer `len` bytes long.
    ///
    /// Within the capacity it only moves the end: bytes that appear are those that were there before. Beyond it the bytes move
    /// to a larger allocation, and the new ones are zero.
    pub fn resize(&mut self, len: usize) {
        if len > self.capacity {
            let mut larger = Self::zeroed(len);
            larger[..self.len].copy_from_slice(self);
            *self = larger;
        }
        self.len = len;
    }

    /// Where the bytes are.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

/// The layout of a buffer; its size is not zero.
fn layout(len: usize) -> Layout {
    let align = if len >= PAGE { PAGE } else { LINE };
    Layout::from_size_align(len, align).expect("a buffer fits in the address space")
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.capacity != 0 {
            // SAFETY: the memory was allocated with the layout of this capacity.
            unsafe { dealloc(self.start.as_ptr(), layout(self.capacity)) };
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `capacity` bytes are initialized, `len` is at most that, and they belong to `self`.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
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

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
