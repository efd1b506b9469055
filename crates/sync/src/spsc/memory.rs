//! The memory under a lane: shared between processes, or a model.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use super::{LINE, Layout};

/// Cache lines before the cells. The second is padding: processors prefetch lines in pairs.
pub(super) const CONTROL_LINES: usize = 2;

/// Words of a cache line.
type Line<W> = [W; 8];

/// The control words and cells of a lane. How bodies are accessed is not part of the trait.
pub trait Memory {
    /// An atomic word.
    type Word: Word;

    /// Returns the lane's size.
    fn layout(&self) -> Layout;

    /// Returns the line that the consumer writes.
    fn control(&self) -> &Line<Self::Word>;

    /// Returns the cell at a position, modulo the number of cells.
    fn cell(&self, position: u64) -> &Line<Self::Word>;

    /// Hints that the producer will write the cell at a position soon.
    fn will_write(&self, position: u64) {
        let _ = position;
    }

    /// Hints that the cell will be read soon.
    fn will_read(&self, position: u64) {
        let _ = position;
    }

    /// Hints that so many lines of bodies from this offset on, up to four, will be written soon.
    fn will_write_body(&self, offset: usize, lines: usize) {
        let _ = (offset, lines);
    }

    /// Hints that so many lines of bodies from this offset on, up to four, will be read soon.
    fn will_read_body(&self, offset: usize, lines: usize) {
        let _ = (offset, lines);
    }
}

/// An atomic 64-bit word.
pub trait Word {
    /// Loads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Stores a value in the word.
    fn store(&self, value: u64, order: Ordering);
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
}

/// A lane's memory in a mapping that `K` keeps alive.
#[derive(Debug)]
pub struct RawMemory<K> {
    base: NonNull<Line<AtomicU64>>,
    layout: Layout,
    _owner: K,
}

// SAFETY: the words are atomic, and bodies are reached through `&mut self` of the one producer or consumer.
unsafe impl<K: Send> Send for RawMemory<K> {}

impl<K> RawMemory<K> {
    /// Takes the memory of a lane. Fresh memory is zero.
    ///
    /// # Safety
    /// `base` is aligned to 64 bytes, and `layout.size()` bytes from there on are readable and writable until
    /// `owner` is dropped. This process uses them as a lane only, with at most one producer and one consumer.
    pub unsafe fn new(base: NonNull<u8>, layout: Layout, owner: K) -> Self {
        Self {
            base: base.cast(),
            layout,
            _owner: owner,
        }
    }

    /// Returns a part of the byte ring, clipped to it.
    #[inline]
    fn part(&self, offset: usize, len: usize) -> (*mut u8, usize) {
        let size = self.layout.bytes();
        let offset = offset.min(size);
        // SAFETY: the byte ring lies behind the control lines and cells, and offset is within it.
        let at = unsafe {
            self.base
                .as_ptr()
                .add(CONTROL_LINES + self.layout.cells())
                .cast::<u8>()
                .add(offset)
        };
        (at, len.min(size - offset))
    }

    /// Lends a part of the byte ring for writing, clipped to the ring.
    #[inline]
    pub(super) fn body_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        let (at, len) = self.part(offset, len);
        // SAFETY: the part is inside the mapping. The producer lends only what the consumer has given back, so a peer
        // that keeps to the protocol does not touch it. One that breaks it may write meanwhile, which Rust's memory model does
        // not cover: any byte is valid, and what reads them copies each once and checks the copy.
        unsafe { core::slice::from_raw_parts_mut(at, len) }
    }

    /// Lends a part of the byte ring for reading, clipped to the ring.
    #[inline]
    pub(super) fn body(&self, offset: usize, len: usize) -> &[u8] {
        let (at, len) = self.part(offset, len);
        // SAFETY: as in `body_mut`, for the consumer and what the producer has published.
        unsafe { core::slice::from_raw_parts(at, len) }
    }
}

impl<K> Memory for RawMemory<K> {
    type Word = AtomicU64;

    fn layout(&self) -> Layout {
        self.layout
    }

    #[inline(always)]
    fn control(&self) -> &Line<AtomicU64> {
        // SAFETY: the first line of the mapping; atomic words may change under a shared reference.
        unsafe { self.base.as_ref() }
    }

    #[inline(always)]
    fn cell(&self, position: u64) -> &Line<AtomicU64> {
        let index = position as usize & (self.layout.cells() - 1);
        // SAFETY: index < cells, whose lines follow the control lines.
        unsafe { self.base.add(CONTROL_LINES + index).as_ref() }
    }

    #[inline(always)]
    fn will_read(&self, position: u64) {
        bring(self.cell(position));
    }

    /// Takes the line from the consumer's cache, so that the write need not wait for it.
    #[inline(always)]
    fn will_write(&self, position: u64) {
        take(self.cell(position));
    }

    #[inline(always)]
    fn will_read_body(&self, offset: usize, lines: usize) {
        each_line(self.part(offset, 1).0, lines, bring);
    }

    #[inline(always)]
    fn will_write_body(&self, offset: usize, lines: usize) {
        each_line(self.part(offset, 1).0, lines, take);
    }
}

/// Prefetches so many lines, up to four. Without a loop, since vain polls do this. Beyond the ring there is nothing to prefetch, which does no harm.
#[inline(always)]
fn each_line(first: *const u8, lines: usize, prefetch: impl Fn(*const u8)) {
    let line = |count: usize| first.wrapping_add(count * LINE);
    prefetch(first);
    if lines > 1 {
        prefetch(line(1));
    }
    if lines > 2 {
        prefetch(line(2));
        prefetch(line(3));
    }
}

/// Prefetches a line for reading.
#[inline(always)]
fn bring<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which changes nothing that a program can see.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Prefetches a line for writing.
#[inline(always)]
fn take<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which changes nothing that a program can see.
    unsafe {
        core::arch::asm!(
            "prefetchw [{line}]",
            line = in(reg) line,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
