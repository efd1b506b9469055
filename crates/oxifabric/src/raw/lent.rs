//! Memory of C, of mmap(2) and the like, which stays with whoever has it: raw forms of what operations and regions take.

use core::ptr::NonNull;

use super::memory::Keeper;
use super::{Buffer, Memory};
use crate::{Access, Domain, Error, Payload, Region, Threading};

impl<T: Threading> Payload<T> {
    /// The memory of one operation, whichever it is, as C passes it: `endpoint.send(peer, unsafe { Payload::from_raw(start, len) })`.
    ///
    /// The completion gives nothing back; its buffer is empty. Nothing is allocated. Offers with `FI_MR_LOCAL` refuse it; there a
    /// part of [`Region::from_raw`] serves.
    ///
    /// # Safety
    ///
    /// Until the completion of the operation has been read, or the endpoint has been closed, or the post was refused, the `len`
    /// bytes at `start` must be readable, by any thread. Nobody may write them meanwhile. If the operation is a receive, a read, or an
    /// atomic operation that fetches, they must also be writable, and nobody else may read them either.
    ///
    /// If the memory ends with a scope of the program that may be left early, [`Endpoint::scope`](crate::Endpoint::scope) is the
    /// safe way.
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self::of(Memory::part(start, len, Keeper::Caller))
    }
}

impl<T: Threading> Region<T> {
    /// Registers memory that belongs to somebody else: of C, of a mapping that other processes share.
    ///
    /// `release` is called when neither the fabric nor a peer uses the memory any more, on whichever thread drops the region or the last
    /// of its parts. [`Region::into_buffer`] closes such a region, too, but the buffer is empty.
    ///
    /// # Safety
    ///
    /// Until `release` is called, the `len` bytes at `start` must be readable and writable, by any thread, and initialized. Whoever
    /// else uses them meanwhile, in this process, does so by atomic accesses, or not at the same time as peers, operations, and
    /// the methods of the region do. It must be possible to call `release` on any thread.
    ///
    /// # Errors
    ///
    /// What `fi_mr_reg` returned; `release` has been called then.
    pub unsafe fn from_raw(
        domain: &Domain<T>,
        start: NonNull<u8>,
        len: usize,
        access: Access,
        release: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let memory = Buffer::unseen(start, len, Box::new(release));
        Self::register(domain, memory, access).map_err(Error::from)
    }
}
