//! Calls of `rdma/fi_rma.h`. Source: fi_rma(3).

use crate::system::iovec;
use crate::*;
use core::ffi::c_void;

calls! {
    /// Reads from the memory of the peer. Source: fi_rma(3).
    pub fi_read: rma.read(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize;

    /// Reads from the memory of the peer into several buffers. Source: fi_rma(3).
    pub fi_readv: rma.readv(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize;

    /// Reads with flags. Source: fi_rma(3).
    pub fi_readmsg: rma.readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize;

    /// Writes to the memory of the peer. Source: fi_rma(3).
    pub fi_write: rma.write(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize;

    /// Writes to the memory of the peer from several buffers. Source: fi_rma(3).
    pub fi_writev: rma.writev(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize;

    /// Writes with flags. Source: fi_rma(3).
    pub fi_writemsg: rma.writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize;

    /// Writes little; the buffer is free on return and there is no completion. Source: fi_rma(3).
    pub fi_inject_write: rma.inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> isize;

    /// Writes with data for a completion of the peer. Source: fi_rma(3).
    pub fi_writedata: rma.writedata(
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

    /// Writes little, with data for a completion of the peer. Source: fi_rma(3).
    pub fi_inject_writedata: rma.injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> isize;
}
