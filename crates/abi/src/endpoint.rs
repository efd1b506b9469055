//! Mirror of `rdma/fi_endpoint.h`: endpoints, their options, and untagged messages.

use crate::system::iovec;
use crate::*;
use core::ffi::{c_int, c_void};

// Levels of `fi_getopt` and `fi_setopt`.
pub const FI_OPT_ENDPOINT: c_int = 0;

// Options of level `FI_OPT_ENDPOINT`.
pub const FI_OPT_MIN_MULTI_RECV: c_int = 0;
pub const FI_OPT_CM_DATA_SIZE: c_int = 1;
pub const FI_OPT_BUFFERED_MIN: c_int = 2;
pub const FI_OPT_BUFFERED_LIMIT: c_int = 3;
pub const FI_OPT_SEND_BUF_SIZE: c_int = 4;
pub const FI_OPT_RECV_BUF_SIZE: c_int = 5;
pub const FI_OPT_TX_SIZE: c_int = 6;
pub const FI_OPT_RX_SIZE: c_int = 7;
pub const FI_OPT_FI_HMEM_P2P: c_int = 8;
pub const FI_OPT_XPU_TRIGGER: c_int = 9;
pub const FI_OPT_CUDA_API_PERMITTED: c_int = 10;
pub const FI_OPT_SHARED_MEMORY_PERMITTED: c_int = 11;
pub const FI_OPT_MAX_MSG_SIZE: c_int = 12;
pub const FI_OPT_MAX_TAGGED_SIZE: c_int = 13;
pub const FI_OPT_MAX_RMA_SIZE: c_int = 14;
pub const FI_OPT_MAX_ATOMIC_SIZE: c_int = 15;
pub const FI_OPT_INJECT_MSG_SIZE: c_int = 16;
pub const FI_OPT_INJECT_TAGGED_SIZE: c_int = 17;
pub const FI_OPT_INJECT_RMA_SIZE: c_int = 18;
pub const FI_OPT_INJECT_ATOMIC_SIZE: c_int = 19;
pub const FI_OPT_FIREWALL_ADDR: c_int = 20;

// Values of `FI_OPT_FI_HMEM_P2P`.
pub const FI_HMEM_P2P_ENABLED: c_int = 0;
pub const FI_HMEM_P2P_REQUIRED: c_int = 1;
pub const FI_HMEM_P2P_PREFERRED: c_int = 2;
pub const FI_HMEM_P2P_DISABLED: c_int = 3;

/// An active endpoint, a scalable one, or one of its contexts.
///
/// Tables of capabilities that the endpoint lacks may be null. Source: fi_endpoint(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut fi_ops_tagged,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut fi_ops_collective,
}

/// A passive endpoint, which listens. Source: fi_endpoint(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_pep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
}

/// A shared transmit context. Source: fi_endpoint(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_stx {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
}

/// An untagged message. Source: fi_msg(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_msg {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub context: *mut c_void,
    pub data: u64,
}

ops_table! {
    /// Operations of endpoints and contexts beside data transfer. Source: fi_endpoint(3).
    fi_ops_ep {
        cancel(fid: fid_t, context: *mut c_void) -> isize;
        getopt(
            fid: fid_t,
            level: c_int,
            optname: c_int,
            optval: *mut c_void,
            optlen: *mut usize,
        ) -> c_int;
        setopt(
            fid: fid_t,
            level: c_int,
            optname: c_int,
            optval: *const c_void,
            optlen: usize,
        ) -> c_int;
        tx_ctx(
            sep: *mut fid_ep,
            index: c_int,
            attr: *mut fi_tx_attr,
            tx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int;
        rx_ctx(
            sep: *mut fid_ep,
            index: c_int,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int;
        rx_size_left(ep: *mut fid_ep) -> isize;
        tx_size_left(ep: *mut fid_ep) -> isize;
        export_xpu(ep: *mut fid_ep, flags: u64, xpu_ep: *mut fid_xpu_ep) -> c_int;
    }
}

ops_table! {
    /// Untagged transfers. Source: fi_msg(3).
    fi_ops_msg {
        recv(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize;
        recvv(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            src_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize;
        recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize;
        send(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize;
        sendv(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            dest_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize;
        sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize;
        inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t) -> isize;
        senddata(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            data: u64,
            dest_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize;
        injectdata(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            data: u64,
            dest_addr: fi_addr_t,
        ) -> isize;
    }
}

zeroed!(fi_msg);
