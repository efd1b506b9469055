//! Memory of the kernel behind Rust's allocator.

use core::alloc::{GlobalAlloc, Layout};

unsafe extern "C" {
    fn krt_alloc(size: usize, align: usize, zero: bool) -> *mut u8;
    fn krt_free(memory: *mut u8);
    fn krt_live() -> usize;
}

/// Returns how many allocations of this module have not been freed, locks and the like included.
pub fn live_allocations() -> usize {
    // SAFETY: it only reads a counter.
    unsafe { krt_live() }
}

struct Kernel;

#[global_allocator]
static KERNEL: Kernel = Kernel;

impl Kernel {
    fn alloc(layout: Layout, zero: bool) -> *mut u8 {
        // SAFETY: it only returns memory, or null.
        unsafe { krt_alloc(layout.size(), layout.align(), zero) }
    }
}

// SAFETY: krt_alloc returns null, or memory of that size and alignment that no other code has and that stays valid until krt_free.
unsafe impl GlobalAlloc for Kernel {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::alloc(layout, false)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::alloc(layout, true)
    }

    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: the caller promises that it came from here and is not used any more.
        unsafe { krt_free(memory) }
    }
}
