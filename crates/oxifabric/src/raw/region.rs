//! Registered memory. Source: fi_mr(3).

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use oxifabric_abi::{
    FI_MR_DMABUF, FI_MR_VIRT_ADDR, FI_VERSION, fi_mr_attr, fi_mr_desc, fi_mr_dmabuf, fi_mr_key,
    fi_mr_reg, fi_mr_regattr, fid_mr,
};
use oxifabric_types::Errno;

use super::handle::Handle;
use super::memory::Backing;
use super::{Buffer, DomainObject, Memory};

/// The first version of the interface that registers memory by its dma-buf.
const FIRST_WITH_DMABUF: u32 = FI_VERSION(1, 20);
/// How many keys are tried, one after the other, if other regions have them.
const KEYS_TRIED: u32 = 16;

/// Memory that is registered with a domain.
pub(crate) struct RegionObject {
    /// Dropped by hand, because the memory is released only if it closed.
    handle: ManuallyDrop<Handle<fid_mr>>,
    memory: ManuallyDrop<Buffer>,
    domain: Arc<DomainObject>,
}

impl RegionObject {
    /// Registers memory for `access`; returns the memory if that fails.
    pub(crate) fn register(
        domain: Arc<DomainObject>,
        memory: Buffer,
        access: u64,
    ) -> Result<Self, (Errno, Buffer)> {
        // SAFETY: memory without a name is no dma-buf.
        unsafe { Self::register_as(domain, memory, access, None) }
    }

    /// Registers memory through its dma-buf, if it has one.
    ///
    /// # Safety
    ///
    /// The memory must be a mapping of the part of the dma-buf that `dmabuf` describes.
    pub(super) unsafe fn register_as(
        domain: Arc<DomainObject>,
        memory: Buffer,
        access: u64,
        dmabuf: Option<&fi_mr_dmabuf>,
    ) -> Result<Self, (Errno, Buffer)> {
        let mut tries = 0;
        let opened = loop {
            let key = new_key(domain.info().mr_key_size());
            // SAFETY: the memory is alive and stays in place until the region is closed.
            let opened = unsafe { open(&domain, &memory, access, key, dmabuf) };
            tries += 1;
            let taken = matches!(opened, Err(Errno::NOKEY | Errno::KEYREJECTED));
            if !taken || tries == KEYS_TRIED {
                break opened;
            }
        };
        match opened {
            Ok(handle) => Ok(Self {
                handle: ManuallyDrop::new(handle),
                memory: ManuallyDrop::new(memory),
                domain,
            }),
            Err(errno) => Err((errno, memory)),
        }
    }

    /// Returns the key by which peers name the region.
    pub(crate) fn key(&self) -> u64 {
        // SAFETY: the region is open.
        unsafe { fi_mr_key(self.handle.as_ptr()) }
    }

    /// Returns the address by which peers name its first byte.
    pub(crate) fn base(&self) -> u64 {
        let by_address = self.domain.info().mr_mode() & FI_MR_VIRT_ADDR != 0;
        if by_address {
            self.extent().0.as_ptr() as u64
        } else {
            0
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.extent().1
    }

    pub(super) fn extent(&self) -> (NonNull<u8>, usize) {
        self.memory.extent()
    }

    /// Returns the descriptor for posts on endpoints of this domain; `INVAL` for endpoints of another.
    pub(super) fn descriptor(&self, domain: &Arc<DomainObject>) -> Result<*mut c_void, Errno> {
        if !Arc::ptr_eq(&self.domain, domain) {
            return Err(Errno::INVAL);
        }
        // SAFETY: the region is open.
        Ok(unsafe { fi_mr_desc(self.handle.as_ptr()) })
    }

    /// Returns a part of the region as memory of an operation; `None` beyond its end.
    pub(crate) fn part(self: &Arc<Self>, offset: usize, len: usize) -> Option<Memory> {
        let start = self.at(offset, len)?;
        Some(Memory::part(start, len, Backing::Region(self.clone())))
    }

    /// Returns where a part begins; `None` if it reaches beyond the end.
    fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let (start, whole) = self.extent();
        let end = offset.checked_add(len)?;
        // SAFETY: the offset is within the memory or at its end.
        (end <= whole).then(|| unsafe { start.add(offset) })
    }

    /// Copies out of the region; returns false, and does nothing, if the bytes reach beyond its end.
    pub(crate) fn copy_out(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.at(offset, to.len()) else {
            return false;
        };
        for (at, byte) in to.iter_mut().enumerate() {
            // SAFETY: `at` covered the part. Peers may write at the same time; each byte is read in one atomic access.
            *byte = unsafe { AtomicU8::from_ptr(from.as_ptr().add(at)) }.load(Ordering::Relaxed);
        }
        true
    }

    /// Copies into the region; returns false, and does nothing, if the bytes reach beyond its end.
    pub(crate) fn copy_in(&self, offset: usize, from: &[u8]) -> bool {
        let Some(to) = self.at(offset, from.len()) else {
            return false;
        };
        for (at, byte) in from.iter().enumerate() {
            // SAFETY: `at` covered the part. Peers may read at the same time; each byte is written in one atomic access.
            unsafe { AtomicU8::from_ptr(to.as_ptr().add(at)) }.store(*byte, Ordering::Relaxed);
        }
        true
    }

    /// Returns the word at an offset; `None` beyond the end or if it is not aligned.
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let word = self.at(offset, size_of::<u64>())?.cast::<u64>();
        // SAFETY: the word is within the region, aligned, and all of this process uses it atomically.
        word.is_aligned()
            .then(|| unsafe { AtomicU64::from_ptr(word.as_ptr()) })
    }

    /// Closes the region and returns its memory; if it does not close, the memory stays with it for ever.
    pub(crate) fn close(self) -> Result<Buffer, Errno> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: each field is taken once, and `self` is not dropped.
        let (handle, memory, domain) = unsafe {
            (
                ManuallyDrop::take(&mut this.handle),
                ManuallyDrop::take(&mut this.memory),
                ptr::read(&this.domain),
            )
        };
        match handle.close() {
            Ok(()) => Ok(memory.into_visible()),
            Err(errno) => {
                core::mem::forget((memory, domain));
                Err(errno)
            }
        }
    }
}

impl Drop for RegionObject {
    fn drop(&mut self) {
        // SAFETY: the fields are not used after this.
        let (handle, memory) = unsafe {
            (
                ManuallyDrop::take(&mut self.handle),
                ManuallyDrop::take(&mut self.memory),
            )
        };
        if handle.close().is_err() {
            // Peers may still reach the memory: leak it.
            core::mem::forget((memory, self.domain.clone()));
        }
    }
}

/// Opens a region over memory, or over the part of a dma-buf that is mapped there.
///
/// # Safety
///
/// The memory must stay where it is until the region is closed, and be that part of the dma-buf.
unsafe fn open(
    domain: &DomainObject,
    memory: &Buffer,
    access: u64,
    key: u64,
    dmabuf: Option<&fi_mr_dmabuf>,
) -> Result<Handle<fid_mr>, Errno> {
    let (start, len) = memory.extent();
    let start = start.as_ptr().cast::<c_void>().cast_const();
    let (parent, none) = (domain.as_ptr(), ptr::null_mut());
    let Some(dmabuf) = dmabuf else {
        // SAFETY: the domain is open, and the caller vouches for the memory.
        return unsafe {
            Handle::open(|region| fi_mr_reg(parent, start, len, access, 0, key, 0, region, none))
        };
    };
    // An older library would take the description for an array of iov.
    if domain.info().library().api_version() < FIRST_WITH_DMABUF {
        return Err(Errno::OPNOTSUPP);
    }
    let attr = fi_mr_attr {
        mr_iov: ptr::from_ref(dmabuf).cast(),
        iov_count: 1,
        access,
        requested_key: key,
        ..fi_mr_attr::ZERO
    };
    // SAFETY: as above; the attributes outlive the call.
    unsafe { Handle::open(|region| fi_mr_regattr(parent, &attr, FI_MR_DMABUF, region)) }
}

/// Returns a random key of `size` bytes; providers that choose keys themselves ignore it.
fn new_key(size: usize) -> u64 {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let secret = SECRET.get_or_init(RandomState::new);
    let key = secret.hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
    match size {
        1..8 => key & ((1 << (8 * size)) - 1),
        _ => key,
    }
}
