//! Memory of the library's own, for the same calls as the application's memory.
//!
//! Messages that no receive matches yet, and the bodies of injected sends that have to wait, need memory that lives until
//! it has been filled and read. It is reference-counted, and a copy in or out holds it exclusively while it runs, so that no
//! use of the safe calls can race.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::IovSegment;

/// One block of memory, or a part of one.
#[derive(Debug)]
pub(crate) struct Heap {
    piece: IovSegment,
    owner: Owner,
}

// SAFETY: the block is freed once, with the last reference; its bytes are only touched by copies that hold it, and by
// links, which have the promise of `Iov` that the memory is theirs meanwhile.
unsafe impl Send for Heap {}
// SAFETY: as above; everything else in it does not change.
unsafe impl Sync for Heap {}

#[derive(Debug)]
enum Owner {
    /// The piece is the whole block.
    Block { layout: Layout, busy: AtomicBool },
    /// The piece is a part of that block, or of a part of it.
    Part(Arc<Heap>),
}

impl Heap {
    /// Allocates a block of zeros; `None` when there is no memory or `len` is zero.
    pub(crate) fn zeroed(len: usize) -> Option<Self> {
        let layout = Layout::array::<u8>(len).ok().filter(|_| len > 0)?;
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        (!base.is_null()).then_some(Self {
            piece: IovSegment::new(base, len),
            owner: Owner::Block {
                layout,
                busy: AtomicBool::new(false),
            },
        })
    }

    /// Describes a part of `whole`, which must contain `piece`.
    pub(crate) fn part(whole: &Arc<Self>, piece: IovSegment) -> Self {
        Self {
            piece,
            owner: Owner::Part(Arc::clone(whole)),
        }
    }

    /// Returns the memory.
    pub(crate) const fn piece(&self) -> &IovSegment {
        &self.piece
    }

    /// Locks the block for one copy; `None` while another copy holds it.
    pub(crate) fn hold(&self) -> Option<Hold<'_>> {
        let mut heap = self;
        loop {
            match &heap.owner {
                Owner::Part(whole) => heap = whole,
                Owner::Block { busy, .. } => {
                    return (!busy.swap(true, Ordering::Acquire)).then_some(Hold(busy));
                }
            }
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if let Owner::Block { layout, .. } = self.owner {
            // SAFETY: the block was allocated with this layout, and no reference to it is left.
            unsafe { dealloc(self.piece.base(), layout) };
        }
    }
}

/// The exclusive use of a block.
pub(crate) struct Hold<'a>(&'a AtomicBool);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
