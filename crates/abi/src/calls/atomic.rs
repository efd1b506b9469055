//! Calls of `rdma/fi_atomic.h`. Source: fi_atomic(3).

use crate::*;
use core::ffi::{c_int, c_void};

calls! {
    /// Updates elements at the peer. Source: fi_atomic(3).
    pub fi_atomic: atomic.write(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize;

    /// Updates elements at the peer, from several buffers. Source: fi_atomic(3).
    pub fi_atomicv: atomic.writev(
        ep: *mut fid_ep,
        iov: *const fi_ioc,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize;

    /// Updates elements at the peer, with flags. Source: fi_atomic(3).
    pub fi_atomicmsg: atomic.writemsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_atomic,
        flags: u64,
    ) -> isize;

    /// Updates few elements; the buffer is free on return and there is no completion. Source: fi_atomic(3).
    pub fi_inject_atomic: atomic.inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
    ) -> isize;

    /// Updates elements and returns what they were. Source: fi_atomic(3).
    pub fi_fetch_atomic: atomic.readwrite(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        desc: *mut c_void,
        result: *mut c_void,
        result_desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize;

    /// Updates elements and returns what they were, in several buffers. Source: fi_atomic(3).
    pub fi_fetch_atomicv: atomic.readwritev(
        ep: *mut fid_ep,
        iov: *const fi_ioc,
        desc: *mut *mut c_void,
        count: usize,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize;

    /// Updates elements and returns what they were, with flags. Source: fi_atomic(3).
    pub fi_fetch_atomicmsg: atomic.readwritemsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_atomic,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        flags: u64,
    ) -> isize;

    /// Updates elements that compare as asked, and returns what they were. Source: fi_atomic(3).
    pub fi_compare_atomic: atomic.compwrite(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        desc: *mut c_void,
        compare: *const c_void,
        compare_desc: *mut c_void,
        result: *mut c_void,
        result_desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize;

    /// Compares and updates, in several buffers. Source: fi_atomic(3).
    pub fi_compare_atomicv: atomic.compwritev(
        ep: *mut fid_ep,
        iov: *const fi_ioc,
        desc: *mut *mut c_void,
        count: usize,
        comparev: *const fi_ioc,
        compare_desc: *mut *mut c_void,
        compare_count: usize,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize;

    /// Compares and updates, with flags. Source: fi_atomic(3).
    pub fi_compare_atomicmsg: atomic.compwritemsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_atomic,
        comparev: *const fi_ioc,
        compare_desc: *mut *mut c_void,
        compare_count: usize,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        flags: u64,
    ) -> isize;

    /// Whether `fi_atomic` can do that, and with how many elements. Source: fi_atomic(3).
    pub fi_atomicvalid: atomic.writevalid(
        ep: *mut fid_ep,
        datatype: fi_datatype,
        op: fi_op,
        count: *mut usize,
    ) -> c_int;

    /// Whether `fi_fetch_atomic` can do that, and with how many elements. Source: fi_atomic(3).
    pub fi_fetch_atomicvalid: atomic.readwritevalid(
        ep: *mut fid_ep,
        datatype: fi_datatype,
        op: fi_op,
        count: *mut usize,
    ) -> c_int;

    /// Whether `fi_compare_atomic` can do that, and with how many elements. Source: fi_atomic(3).
    pub fi_compare_atomicvalid: atomic.compwritevalid(
        ep: *mut fid_ep,
        datatype: fi_datatype,
        op: fi_op,
        count: *mut usize,
    ) -> c_int;

    /// What the domain can do with that datatype and operation. Source: fi_atomic(3).
    pub fi_query_atomic: ops.query_atomic(
        domain: *mut fid_domain,
        datatype: fi_datatype,
        op: fi_op,
        attr: *mut fi_atomic_attr,
        flags: u64,
    ) -> c_int, in fi_ops_domain;
}
