//! Memory regions. Source: fi_mr(3).

use crate::system::iovec;
use crate::*;
use core::ffi::{CStr, c_int, c_void};

// Flags of registration.
pub const FI_MR_DMABUF: u64 = 1 << 40;
pub const FI_MR_SINGLE_USE: u64 = 1 << 41;
pub const FI_HMEM_HOST_ALLOC: u64 = 1 << 45;
pub const FI_HMEM_DEVICE_ONLY: u64 = 1 << 46;

/// Owner of the memory of a region: the system or a kind of device.
pub type fi_hmem_iface = u32;
pub const FI_HMEM_SYSTEM: fi_hmem_iface = 0;
pub const FI_HMEM_CUDA: fi_hmem_iface = 1;
pub const FI_HMEM_ROCR: fi_hmem_iface = 2;
pub const FI_HMEM_ZE: fi_hmem_iface = 3;
pub const FI_HMEM_NEURON: fi_hmem_iface = 4;
pub const FI_HMEM_SYNAPSEAI: fi_hmem_iface = 5;

/// A memory region. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

/// Full description of a registration. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_attr {
    /// Memory to register; under `FI_MR_DMABUF` it points to [`fi_mr_dmabuf`] instead.
    pub mr_iov: *const iovec,
    pub iov_count: usize,
    pub access: u64,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut c_void,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
    pub iface: fi_hmem_iface,
    pub device: fi_mr_device,
    pub hmem_data: *mut c_void,
    pub page_size: usize,
    pub base_mr: *const fid_mr,
    pub sub_mr_cnt: usize,
}

/// Device of the memory, by `iface`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_mr_device {
    pub reserved: u64,
    pub cuda: c_int,
    pub ze: c_int,
    pub neuron: c_int,
    pub synapseai: c_int,
    pub rocr: c_int,
}

/// Memory named by a dma-buf file descriptor. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_mr_dmabuf {
    pub fd: c_int,
    pub offset: u64,
    pub len: usize,
    pub base_addr: *mut c_void,
}

/// Authorization of a region for one peer. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_mr_auth_key {
    pub av: *mut fid_av,
    pub src_addr: fi_addr_t,
}

/// Argument of `FI_REFRESH`. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_modify {
    pub flags: u64,
    pub attr: fi_mr_attr,
}

zeroed!(fi_mr_attr);

/// Name under which `fi_set_ops` takes [`fi_hmem_override_ops`].
pub const FI_SET_OPS_HMEM_OVERRIDE: &CStr = c"hmem_override_ops";

ops_table! {
    /// Copies between host and device memory that the caller supplies. Source: fi_mr(3).
    fi_hmem_override_ops {
        copy_from_hmem_iov(
            dest: *mut c_void,
            size: usize,
            iface: fi_hmem_iface,
            device: u64,
            hmem_iov: *const iovec,
            hmem_iov_count: usize,
            hmem_iov_offset: u64,
        ) -> isize;
        copy_to_hmem_iov(
            iface: fi_hmem_iface,
            device: u64,
            hmem_iov: *const iovec,
            hmem_iov_count: usize,
            hmem_iov_offset: u64,
            src: *const c_void,
            size: usize,
        ) -> isize;
    }
}

/// The device number of a Level Zero region. Source: fi_mr(3).
pub const fn fi_hmem_ze_device(driver_index: c_int, device_index: c_int) -> c_int {
    (driver_index << 16) | device_index
}
