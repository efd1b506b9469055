//! Mirror of `rdma/fi_rma.h`: remote memory access.

use crate::system::iovec;
use crate::*;
use core::ffi::c_void;

/// A run of bytes in the memory of the peer. Source: fi_rma(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

/// A run of elements in the memory of the peer. Source: fi_atomic(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_rma_ioc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}

/// A remote read or write. Source: fi_rma(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_msg_rma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

ops_table! {
    /// Remote memory access. Source: fi_rma(3).
    fi_ops_rma {
        read(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize;
        readv(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            src_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize;
        readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize;
        write(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize;
        writev(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize;
        writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize;
        inject(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
        ) -> isize;
        writedata(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            data: u64,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize;
        injectdata(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            data: u64,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
        ) -> isize;
    }
}

zeroed!(fi_rma_iov, fi_rma_ioc, fi_msg_rma);
