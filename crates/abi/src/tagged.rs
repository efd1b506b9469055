//! Mirror of `rdma/fi_tagged.h`: tagged messages.

use crate::system::iovec;
use crate::*;
use core::ffi::{c_int, c_void};

/// Ignores the tag of a message in the format `FI_TAG_MPI`.
pub const FI_MPI_IGNORE_TAG: u64 = 0xffff_ffff;
/// Ignores the payload identifier of a message in the format `FI_TAG_MPI`.
pub const FI_MPI_IGNORE_PAYLOAD: u64 = 0xff << 32;

/// A tag in the format `FI_TAG_MPI`. Source: fi_tagged(3).
pub const fn fi_tag_mpi(tag: c_int, payload_id: u8) -> u64 {
    ((payload_id as u64) << 32) | tag as u32 as u64
}

/// A tagged message. Source: fi_tagged(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_msg_tagged {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

ops_table! {
    /// Tagged transfers. Source: fi_tagged(3).
    fi_ops_tagged {
        recv(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            tag: u64,
            ignore: u64,
            context: *mut c_void,
        ) -> isize;
        recvv(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            src_addr: fi_addr_t,
            tag: u64,
            ignore: u64,
            context: *mut c_void,
        ) -> isize;
        recvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize;
        send(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            tag: u64,
            context: *mut c_void,
        ) -> isize;
        sendv(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            dest_addr: fi_addr_t,
            tag: u64,
            context: *mut c_void,
        ) -> isize;
        sendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize;
        inject(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            dest_addr: fi_addr_t,
            tag: u64,
        ) -> isize;
        senddata(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            data: u64,
            dest_addr: fi_addr_t,
            tag: u64,
            context: *mut c_void,
        ) -> isize;
        injectdata(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            data: u64,
            dest_addr: fi_addr_t,
            tag: u64,
        ) -> isize;
    }
}

zeroed!(fi_msg_tagged);
