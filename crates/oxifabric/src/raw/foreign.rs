//! Foreign memory (of C, mmap(2) and the like), which other code owns: raw constructors of what operations and regions take.

use core::ptr::NonNull;
use std::os::fd::{AsRawFd, OwnedFd};

use oxifabric_abi::fi_mr_dmabuf;

use super::memory::Backing;
use super::{Buffer, Memory, RegionObject};
use crate::{Access, Domain, Error, Payload, Region, Threading};

/// A part of a dma-buf: memory that devices and processes share by a descriptor of the kernel.
#[derive(Debug)]
pub struct DmaBuf {
    /// The descriptor, which is closed with the region.
    pub fd: OwnedFd,
    /// The offset of the part in the dma-buf, in bytes.
    pub offset: usize,
    /// The address at which the part is mapped in this process.
    pub start: NonNull<u8>,
    /// The length of the part in bytes.
    pub len: usize,
}

impl<T: Threading> Payload<T> {
    /// Makes the memory of one operation from a pointer, as in C: `endpoint.send(peer, unsafe { Payload::from_raw(start, len) })`.
    ///
    /// The buffer of the completion is empty. Nothing is allocated. Offers with `FI_MR_LOCAL` refuse such memory; there, use a part of
    /// [`Region::from_raw`].
    ///
    /// # Safety
    ///
    /// Until the completion of the operation has been read, or the endpoint has been closed, or the post was refused, the `len` bytes at
    /// `start` must be readable, by any thread, and no other code may write them. If the operation is a receive, a read, or an atomic
    /// operation that fetches, they must also be writable, and no other code may read them either.
    ///
    /// If the memory ends with a scope of the program that may be left early, [`Endpoint::scope`](crate::Endpoint::scope) is the
    /// safe way.
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self::of(Memory::part(start, len, Backing::Caller))
    }
}

impl<T: Threading> Region<T> {
    /// Registers memory that other code owns: of C, or of a mapping that other processes share.
    ///
    /// `release` is called when neither the fabric nor a peer uses the memory any more, on the thread that drops the region or the last
    /// of its parts. [`Region::into_buffer`] closes such a region, too, but the buffer is empty.
    ///
    /// # Safety
    ///
    /// Until `release` is called, the `len` bytes at `start` must be readable and writable, by any thread, and initialized. Other code of
    /// this process may use them meanwhile only by atomic accesses, or not at the same time as peers, operations, and the methods of the
    /// region do. It must be possible to call `release` on any thread.
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
        let memory = Buffer::hidden(start, len, Box::new(release));
        Self::register(domain, memory, access).map_err(Error::from)
    }

    /// Registers memory by its dma-buf, so that an adapter accesses device memory directly, without a copy in host memory.
    ///
    /// `release` is called as for [`Region::from_raw`], before the descriptor is closed. The built-in providers refuse
    /// dma-bufs; with them, and wherever it is refused, [`Region::from_raw`] registers the mapping.
    ///
    /// # Safety
    ///
    /// As for [`Region::from_raw`], and `start` must be where `len` bytes of the dma-buf from `offset` on are mapped.
    ///
    /// # Errors
    ///
    /// What `fi_mr_regattr` returned; `OPNOTSUPP` where the library or the provider has no dma-buf. `release` has been called then.
    pub unsafe fn from_dmabuf(
        domain: &Domain<T>,
        memory: DmaBuf,
        access: Access,
        release: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let DmaBuf {
            fd,
            offset,
            start,
            len,
        } = memory;
        let name = fi_mr_dmabuf {
            fd: fd.as_raw_fd(),
            offset: offset as u64,
            len,
            base_addr: start.as_ptr().wrapping_sub(offset).cast(),
        };
        let release = move || {
            release();
            drop(fd);
        };
        let memory = Buffer::hidden(start, len, Box::new(release));
        let domain = domain.object().clone();
        // SAFETY: the caller's contract.
        let object =
            unsafe { RegionObject::register_as(domain, memory, access.flags(), Some(&name)) };
        object
            .map(|object| Self::of(object, access))
            .map_err(|(errno, _)| Error::call("fi_mr_regattr")(errno))
    }
}
