//! Calls on contexts of accelerators. Source: fi_xpu(3).

use crate::*;
use core::ffi::{c_int, c_void};

calls! {
    /// Opens a context of an accelerator. Source: fi_xpu(3).
    pub fi_xpu_ctx: ops.xpu_ctx(
        domain: *mut fid_domain,
        attr: *mut fi_xpu_attr,
        ctx: *mut *mut fid_xpu_ctx,
        context: *mut c_void,
    ) -> c_int, in fi_ops_domain;

    /// Queries what a context offers. Source: fi_xpu(3).
    pub fi_xpu_ctx_query: ops.query(ctx: *mut fid_xpu_ctx, attr: *mut fi_xpu_ctx_attr) -> c_int;
}
