//! Calls of `rdma/fi_collective.h`. Source: fi_collective(3), fi_av_set(3).

use crate::*;
use core::ffi::{c_int, c_void};

calls! {
    /// Opens a set of addresses. Source: fi_av_set(3).
    pub fi_av_set: ops.av_set(
        av: *mut fid_av,
        attr: *mut fi_av_set_attr,
        set: *mut *mut fid_av_set,
        context: *mut c_void,
    ) -> c_int, in fi_ops_av;

    /// Adds the members of `src`. Source: fi_av_set(3).
    pub fi_av_set_union: ops.set_union(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int;

    /// Keeps what is also in `src`. Source: fi_av_set(3).
    pub fi_av_set_intersect: ops.intersect(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int;

    /// Removes the members of `src`. Source: fi_av_set(3).
    pub fi_av_set_diff: ops.diff(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int;

    /// Adds a member. Source: fi_av_set(3).
    pub fi_av_set_insert: ops.insert(set: *mut fid_av_set, addr: fi_addr_t) -> c_int;

    /// Removes a member. Source: fi_av_set(3).
    pub fi_av_set_remove: ops.remove(set: *mut fid_av_set, addr: fi_addr_t) -> c_int;

    /// Writes the collective address of a set. Source: fi_av_set(3).
    pub fi_av_set_addr: ops.addr(set: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int;

    /// Completes when every member has come here. Source: fi_collective(3).
    pub fi_barrier: collective.barrier(
        ep: *mut fid_ep,
        coll_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize;

    /// Copies the buffer of the root to all. Source: fi_collective(3).
    pub fi_broadcast: collective.broadcast(
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

    /// Exchanges one piece between each pair. Source: fi_collective(3).
    pub fi_alltoall: collective.alltoall(
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

    /// Reduces the buffers of all, to all. Source: fi_collective(3).
    pub fi_allreduce: collective.allreduce(
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

    /// Collects the buffers of all, at all. Source: fi_collective(3).
    pub fi_allgather: collective.allgather(
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

    /// Reduces the buffers of all and gives each a piece. Source: fi_collective(3).
    pub fi_reduce_scatter: collective.reduce_scatter(
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

    /// Reduces the buffers of all, at the root. Source: fi_collective(3).
    pub fi_reduce: collective.reduce(
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

    /// Gives each a piece of the buffer of the root. Source: fi_collective(3).
    pub fi_scatter: collective.scatter(
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

    /// Collects the buffers of all, at the root. Source: fi_collective(3).
    pub fi_gather: collective.gather(
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

    /// What the domain can do with that collective. Source: fi_collective(3).
    pub fi_query_collective: ops.query_collective(
        domain: *mut fid_domain,
        coll: fi_collective_op,
        attr: *mut fi_collective_attr,
        flags: u64,
    ) -> c_int, in fi_ops_domain;
}

calls! {
    /// A barrier with flags, on endpoints that know them.
    barrier_with_flags: collective.barrier2(
        ep: *mut fid_ep,
        coll_addr: fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> isize, in fi_ops_collective;
}

/// A barrier with flags. Source: fi_collective(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_barrier2(
    ep: *mut fid_ep,
    coll_addr: fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> isize {
    if flags == 0 {
        // SAFETY: the caller's contract is that of the plain call.
        return unsafe { fi_barrier(ep, coll_addr, context) };
    }
    // SAFETY: the caller's contract, passed on.
    unsafe { barrier_with_flags(ep, coll_addr, flags, context) }
}

/// Joins the collective group of a set; the end of it comes as an event. Source: fi_collective(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_join_collective(
    ep: *mut fid_ep,
    coll_addr: fi_addr_t,
    set: *const fid_av_set,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    let addr = fi_collective_addr { set, coll_addr };
    let flags = flags | FI_COLLECTIVE;
    // SAFETY: under this flag the address is of that structure, and it outlives the call.
    unsafe { fi_join(ep, (&raw const addr).cast(), flags, mc, context) }
}
