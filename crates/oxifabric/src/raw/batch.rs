//! Many completions of one read. Source: fi_cq(3).

use core::mem::MaybeUninit;

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, FI_EAGAIN, fi_addr_t, fi_cq_read, fi_cq_readfrom, fi_cq_tagged_entry,
};

use super::queue::{Arrival, Queue};

/// Maximum number of completions of one read.
const ENTRIES: usize = 16;

/// Memory for completions as the library writes them.
pub(crate) struct Batch {
    entries: [MaybeUninit<fi_cq_tagged_entry>; ENTRIES],
    sources: [fi_addr_t; ENTRIES],
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            entries: [MaybeUninit::uninit(); ENTRIES],
            // Not every library writes one for each completion.
            sources: [FI_ADDR_NOTAVAIL; ENTRIES],
        }
    }

    /// Returns how many completions it can hold.
    pub(crate) fn room(&self) -> usize {
        ENTRIES
    }
}

impl Queue {
    /// Reads at most `most` completions without waiting; what to do about a return value that is no count says
    /// [`Queue::read_other`].
    pub(crate) fn read_batch<'a>(
        &self,
        batch: &'a mut Batch,
        most: usize,
    ) -> Result<impl ExactSizeIterator<Item = Arrival<'a>> + use<'a>, isize> {
        let (cq, most) = (self.as_ptr(), most.min(ENTRIES));
        let entries = batch.entries.as_mut_ptr().cast();
        // SAFETY: the queue is open; there is room for as many entries and sources.
        let ret = unsafe {
            if self.reports_sources() {
                fi_cq_readfrom(cq, entries, most, batch.sources.as_mut_ptr())
            } else {
                fi_cq_read(cq, entries, most)
            }
        };
        const AGAIN: isize = -(FI_EAGAIN as isize);
        let count = match (ret, usize::try_from(ret)) {
            (AGAIN, _) => 0,
            (_, Ok(count)) => count.min(most),
            (_, Err(_)) => return Err(ret),
        };
        let written = batch.entries[..count].iter().zip(&batch.sources);
        Ok(written.map(|(entry, source)| {
            // SAFETY: the library has written the first `count` entries.
            Arrival::new(unsafe { entry.assume_init_ref() }, *source)
        }))
    }
}
