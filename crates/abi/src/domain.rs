//! Mirror of `rdma/fi_domain.h`: domains, address vectors, memory regions, datatypes and operations of atomics.

mod av;
mod mr;
mod op;

pub use av::*;
pub use mr::*;
pub use op::*;

use crate::system::iovec;
use crate::*;
use core::ffi::{c_int, c_void};

/// An opened domain. Source: fi_domain(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}

ops_table! {
    /// Operations of a domain that open its objects. Source: fi_domain(3).
    fi_ops_domain {
        av_open(
            domain: *mut fid_domain,
            attr: *mut fi_av_attr,
            av: *mut *mut fid_av,
            context: *mut c_void,
        ) -> c_int;
        cq_open(
            domain: *mut fid_domain,
            attr: *mut fi_cq_attr,
            cq: *mut *mut fid_cq,
            context: *mut c_void,
        ) -> c_int;
        endpoint(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int;
        scalable_ep(
            domain: *mut fid_domain,
            info: *mut fi_info,
            sep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int;
        cntr_open(
            domain: *mut fid_domain,
            attr: *mut fi_cntr_attr,
            cntr: *mut *mut fid_cntr,
            context: *mut c_void,
        ) -> c_int;
        poll_open(
            domain: *mut fid_domain,
            attr: *mut fi_poll_attr,
            pollset: *mut *mut fid_poll,
        ) -> c_int;
        stx_ctx(
            domain: *mut fid_domain,
            attr: *mut fi_tx_attr,
            stx: *mut *mut fid_stx,
            context: *mut c_void,
        ) -> c_int;
        srx_ctx(
            domain: *mut fid_domain,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int;
        query_atomic(
            domain: *mut fid_domain,
            datatype: fi_datatype,
            op: fi_op,
            attr: *mut fi_atomic_attr,
            flags: u64,
        ) -> c_int;
        query_collective(
            domain: *mut fid_domain,
            coll: fi_collective_op,
            attr: *mut fi_collective_attr,
            flags: u64,
        ) -> c_int;
        endpoint2(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            flags: u64,
            context: *mut c_void,
        ) -> c_int;
        xpu_ctx(
            domain: *mut fid_domain,
            attr: *mut fi_xpu_attr,
            ctx: *mut *mut fid_xpu_ctx,
            context: *mut c_void,
        ) -> c_int;
    }
}

ops_table! {
    /// Operations of a domain that register memory. Source: fi_mr(3).
    fi_ops_mr {
        reg(
            fid: *mut fid,
            buf: *const c_void,
            len: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut c_void,
        ) -> c_int;
        regv(
            fid: *mut fid,
            iov: *const iovec,
            count: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut c_void,
        ) -> c_int;
        regattr(fid: *mut fid, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr) -> c_int;
    }
}

/// Flag of `fi_domain_bind`: completed registrations are reported to the event queue.
pub const FI_REG_MR: u64 = 1 << 59;
