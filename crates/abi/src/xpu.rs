//! Mirror of `rdma/fi_xpu.h`: contexts of accelerators, and objects that are exported to code that runs on one.
//!
//! `rdma/fi_xpu_device.h`, what such code calls, has only C in it. Source: fi_xpu(3).

use crate::*;
use core::ffi::{c_int, c_void};

// Which threads of an accelerator make a call together.
pub const FI_XPU_WORK_ITEM: c_int = 0;
pub const FI_XPU_SUBGROUP: c_int = 1;
pub const FI_XPU_WORK_GROUP: c_int = 2;
pub const FI_XPU_DEVICE: c_int = 3;

// Flags of `fi_xpu_ops.alloc`: the memory can be handed on as a dma-buf.
pub const FI_XPU_ALLOC_DMABUF: u64 = 1 << 0;

// Flags of `fi_xpu_ops.import`: the memory is that of a PCIe device; it is to be mapped on the accelerator.
pub const FI_XPU_IMPORT_IOMEMORY: u64 = 1 << 0;
pub const FI_XPU_IMPORT_DEVICEMAP: u64 = 1 << 1;

// What a context can export, the bits of `fi_xpu_ctx_attr.caps`.
pub const FI_XPU_CAP_EP: u64 = 1 << 0;
pub const FI_XPU_CAP_CQ: u64 = 1 << 1;
pub const FI_XPU_CAP_CNTR: u64 = 1 << 2;

/// Which provider has exported an object, for the code on the accelerator.
pub type fi_xpu_provider = u32;
pub const FI_XPU_PROV_EFA: fi_xpu_provider = 1;

ops_table! {
    /// Memory of an accelerator, as the application provides it. Source: fi_xpu(3).
    fi_xpu_ops {
        alloc(
            device: u64,
            size: u64,
            alignment: u64,
            flags: u64,
            addr: *mut *mut c_void,
            fd: *mut c_int,
            offset: *mut u64,
        ) -> c_int;
        import(
            device: u64,
            host_addr: *mut c_void,
            size: u64,
            flags: u64,
            dev_addr: *mut *mut c_void,
        ) -> c_int;
        free(device: u64, addr: *mut c_void);
    }
}

/// How to open a context of an accelerator. Source: fi_xpu(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_xpu_attr {
    pub iface: fi_hmem_iface,
    pub device: u64,
    pub ops: *mut fi_xpu_ops,
}

/// What a context offers. Source: fi_xpu(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_xpu_ctx_attr {
    pub caps: u64,
    pub av_addr_size: usize,
    pub mr_desc_size: usize,
}

ops_table! {
    /// Operations of a context of an accelerator. Source: fi_xpu(3).
    fi_ops_xpu_ctx {
        query(ctx: *mut fid_xpu_ctx, attr: *mut fi_xpu_ctx_attr) -> c_int;
    }
}

/// A context of an accelerator. Source: fi_xpu(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_xpu_ctx {
    pub fid: fid,
    pub ops: *mut fi_ops_xpu_ctx,
}

/// What every exported object begins with; its provider fills it in. Source: fi_xpu(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_xpu {
    pub fclass: u32,
    pub prov_id: u32,
    pub prov_ctx: u64,
}

/// An exported endpoint. Source: fi_xpu(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_xpu_ep {
    pub fid: fid_xpu,
}

/// An exported completion queue. Source: fi_xpu(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_xpu_cq {
    pub fid: fid_xpu,
}

/// An exported counter. Source: fi_xpu(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_xpu_cntr {
    pub fid: fid_xpu,
}

zeroed!(
    fi_xpu_attr,
    fi_xpu_ctx_attr,
    fid_xpu,
    fid_xpu_ep,
    fid_xpu_cq,
    fid_xpu_cntr
);
