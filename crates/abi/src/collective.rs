//! Mirror of `rdma/fi_collective.h`: sets of addresses and collective operations.

use crate::*;
use core::ffi::{c_int, c_void};

/// A set of addresses, the members of a collective. Source: fi_av_set(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_av_set {
    pub fid: fid,
    pub ops: *mut fi_ops_av_set,
}

ops_table! {
    /// Operations of a set of addresses. Source: fi_av_set(3).
    fi_ops_av_set {
        set_union(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int;
        intersect(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int;
        diff(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int;
        insert(set: *mut fid_av_set, addr: fi_addr_t) -> c_int;
        remove(set: *mut fid_av_set, addr: fi_addr_t) -> c_int;
        addr(set: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int;
    }
}

/// What a collective can take. Source: fi_collective(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_collective_attr {
    pub op: fi_op,
    pub datatype: fi_datatype,
    pub datatype_attr: fi_atomic_attr,
    pub max_members: usize,
    pub mode: u64,
}

/// Argument of `fi_join` under `FI_COLLECTIVE`. Source: fi_collective(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_collective_addr {
    pub set: *const fid_av_set,
    pub coll_addr: fi_addr_t,
}

/// A collective operation. Source: fi_collective(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_msg_collective {
    pub msg_iov: *const fi_ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub coll_addr: fi_addr_t,
    pub root_addr: fi_addr_t,
    pub coll: fi_collective_op,
    pub datatype: fi_datatype,
    pub op: fi_op,
    pub context: *mut c_void,
}

ops_table! {
    /// Collective operations. Source: fi_collective(3).
    fi_ops_collective {
        barrier(ep: *mut fid_ep, coll_addr: fi_addr_t, context: *mut c_void) -> isize;
        broadcast(
            ep: *mut fid_ep,
            buf: *mut c_void,
            count: usize,
            desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize;
        alltoall(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize;
        allreduce(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            op: fi_op,
            flags: u64,
            context: *mut c_void,
        ) -> isize;
        allgather(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize;
        reduce_scatter(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            op: fi_op,
            flags: u64,
            context: *mut c_void,
        ) -> isize;
        reduce(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            op: fi_op,
            flags: u64,
            context: *mut c_void,
        ) -> isize;
        scatter(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize;
        gather(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize;
        msg(
            ep: *mut fid_ep,
            msg: *const fi_msg_collective,
            resultv: *mut fi_ioc,
            result_desc: *mut *mut c_void,
            result_count: usize,
            flags: u64,
        ) -> isize;
        barrier2(ep: *mut fid_ep, coll_addr: fi_addr_t, flags: u64, context: *mut c_void) -> isize;
    }
}

zeroed!(fi_collective_attr);
