//! What an application asks to be registered: `struct fi_mr_attr` of its version, fi_mr(3).

use core::ffi::c_void;

use libc::iovec;
use oxifabric_abi::{
    FI_COLLECTIVE, FI_HMEM_CUDA, FI_HMEM_DEVICE_ONLY, FI_HMEM_HOST_ALLOC, FI_HMEM_NEURON,
    FI_HMEM_ROCR, FI_HMEM_SYNAPSEAI, FI_HMEM_SYSTEM, FI_HMEM_ZE, FI_MR_DMABUF, FI_MR_SINGLE_USE,
    FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA_EVENT, FI_RMA_PMEM, FI_SEND,
    FI_VERSION, FI_WRITE, fi_hmem_iface, fi_mr_attr, fid_mr,
};
use oxifabric_mem::{IovSegment, MAX_SEGMENTS, MemoryKind};
use oxifabric_types::{Errno, Flags};

/// What a region may be used for. Other bits of the access that an application asks for are ignored, as in the C library: LCI adds FI_RMA.
const ACCESS: u64 =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE;

/// A request to register memory.
pub(super) struct MrRequest {
    pub(super) pieces: Vec<IovSegment>,
    pub(super) access: Flags,
    pub(super) kind: MemoryKind,
    /// Which device of that kind has the memory.
    pub(super) device: i32,
    pub(super) key: u64,
    pub(super) context: *mut c_void,
    /// The region that it is a part of.
    pub(super) base: *const fid_mr,
    /// Counters will be bound to it.
    pub(super) counted: bool,
    /// The first access ends it.
    pub(super) single_use: bool,
    /// It is in persistent memory.
    pub(super) persistent: bool,
}

impl MrRequest {
    /// Reads attributes, as far as they are in the structure of an application of this version. Whether memory of devices can be reached
    /// is the provider's affair; how large pages are and how many parts a region will have are mere hints.
    ///
    /// # Errors
    /// `INVAL`, `BADFLAGS`, `NOSYS` for kinds of memory that have no name, `OPNOTSUPP` for authorization keys, which no domain has.
    ///
    /// # Safety
    /// `attr` is null or attributes whose list has `iov_count` pieces.
    pub(super) unsafe fn read(
        attr: *const fi_mr_attr,
        flags: u64,
        version: u32,
    ) -> Result<Self, Errno> {
        check_flags(flags)?;
        if attr.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's contract; fields of later versions are only read where the application has them.
        let (iov, count, access, offset, key, context, auth, (iface, device), base) = unsafe {
            (
                (*attr).mr_iov,
                (*attr).iov_count,
                (*attr).access,
                (*attr).offset,
                (*attr).requested_key,
                (*attr).context,
                version >= FI_VERSION(1, 5) && (*attr).auth_key_size != 0,
                match version >= FI_VERSION(1, 10) {
                    // Every kind numbers its devices by an `int`.
                    true => ((*attr).iface, (*attr).device.cuda),
                    false => (FI_HMEM_SYSTEM, 0),
                },
                match version >= FI_VERSION(2, 0) {
                    true => (*attr).base_mr,
                    false => core::ptr::null(),
                },
            )
        };
        let kind = kind_of(iface)?;
        if auth {
            return Err(Errno::OPNOTSUPP);
        }
        let too_many = count == 0 || count > MAX_SEGMENTS;
        if iov.is_null() || too_many || offset != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller promises `count` pieces.
        let pieces = (0..count).map(|at| unsafe { *iov.add(at) });
        Ok(Self {
            pieces: pieces.map(piece).collect::<Result<_, _>>()?,
            access: Flags::from_bits_retain(access & ACCESS),
            kind,
            device: if kind == MemoryKind::Host { 0 } else { device },
            key,
            context,
            base,
            counted: flags & FI_RMA_EVENT != 0,
            single_use: flags & FI_MR_SINGLE_USE != 0,
            persistent: flags & FI_RMA_PMEM != 0,
        })
    }
}

/// Returns the kind of memory that an interface stands for.
fn kind_of(iface: fi_hmem_iface) -> Result<MemoryKind, Errno> {
    Ok(match iface {
        FI_HMEM_SYSTEM => MemoryKind::Host,
        FI_HMEM_CUDA => MemoryKind::Cuda,
        FI_HMEM_ROCR => MemoryKind::Rocr,
        FI_HMEM_ZE => MemoryKind::LevelZero,
        FI_HMEM_NEURON => MemoryKind::Neuron,
        FI_HMEM_SYNAPSEAI => MemoryKind::SynapseAi,
        _ => return Err(Errno::NOSYS),
    })
}

/// Refuses flags that need what is not offered: memory of devices. Whether there is persistent memory is the domain's affair.
fn check_flags(flags: u64) -> Result<(), Errno> {
    if flags & (FI_MR_DMABUF | FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC) != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    match flags & !(FI_RMA_EVENT | FI_RMA_PMEM | FI_MR_SINGLE_USE) {
        0 => Ok(()),
        _ => Err(Errno::BADFLAGS),
    }
}

fn piece(piece: iovec) -> Result<IovSegment, Errno> {
    let end = piece.iov_base.addr().checked_add(piece.iov_len);
    match end {
        Some(_) => Ok(IovSegment::new(piece.iov_base.cast(), piece.iov_len)),
        None => Err(Errno::INVAL),
    }
}
