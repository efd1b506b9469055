//! Address vectors. Source: fi_av(3).

use crate::*;
use core::ffi::{c_char, c_int, c_void};

// Flags of address vectors and of their sets.
pub const FI_SYMMETRIC: u64 = 1 << 59;
pub const FI_SYNC_ERR: u64 = 1 << 58;
pub const FI_UNIVERSE: u64 = 1 << 57;
pub const FI_BARRIER_SET: u64 = 1 << 40;
pub const FI_BROADCAST_SET: u64 = 1 << 41;
pub const FI_ALLTOALL_SET: u64 = 1 << 42;
pub const FI_ALLREDUCE_SET: u64 = 1 << 43;
pub const FI_ALLGATHER_SET: u64 = 1 << 44;
pub const FI_REDUCE_SCATTER_SET: u64 = 1 << 45;
pub const FI_REDUCE_SET: u64 = 1 << 46;
pub const FI_SCATTER_SET: u64 = 1 << 47;
pub const FI_GATHER_SET: u64 = 1 << 48;

/// How to open an address vector. Source: fi_av(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_av_attr {
    pub type_: fi_av_type,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

/// An address vector. Source: fi_av(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

ops_table! {
    /// Operations of an address vector. Source: fi_av(3).
    fi_ops_av {
        insert(
            av: *mut fid_av,
            addr: *const c_void,
            count: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int;
        insertsvc(
            av: *mut fid_av,
            node: *const c_char,
            service: *const c_char,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int;
        insertsym(
            av: *mut fid_av,
            node: *const c_char,
            nodecnt: usize,
            service: *const c_char,
            svccnt: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int;
        remove(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int;
        lookup(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            addr: *mut c_void,
            addrlen: *mut usize,
        ) -> c_int;
        straddr(
            av: *mut fid_av,
            addr: *const c_void,
            buf: *mut c_char,
            len: *mut usize,
        ) -> *const c_char;
        av_set(
            av: *mut fid_av,
            attr: *mut fi_av_set_attr,
            av_set: *mut *mut fid_av_set,
            context: *mut c_void,
        ) -> c_int;
        insert_auth_key(
            av: *mut fid_av,
            auth_key: *const c_void,
            auth_key_size: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
        ) -> c_int;
        lookup_auth_key(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            auth_key: *mut c_void,
            auth_key_size: *mut usize,
        ) -> c_int;
        set_user_id(av: *mut fid_av, fi_addr: fi_addr_t, user_id: fi_addr_t, flags: u64) -> c_int;
        lookup2(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            buf: *mut c_void,
            len: *mut usize,
            flags: u64,
            ctx: *mut fid_xpu_ctx,
        ) -> c_int;
    }
}

/// How to open a set of addresses. Source: fi_av_set(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_av_set_attr {
    pub count: usize,
    pub start_addr: fi_addr_t,
    pub end_addr: fi_addr_t,
    pub stride: u64,
    pub comm_key_size: usize,
    pub comm_key: *mut u8,
    pub flags: u64,
}

zeroed!(fi_av_attr, fi_av_set_attr);

/// The address of one receive context of a scalable endpoint. Source: fi_av(3).
///
/// `rx_ctx_bits` is that of the address vector; it must be 1 to 63, and `rx_index` must fit in it.
pub const fn fi_rx_addr(fi_addr: fi_addr_t, rx_index: c_int, rx_ctx_bits: c_int) -> fi_addr_t {
    ((rx_index as u64) << (64 - rx_ctx_bits)) | fi_addr
}

/// The address of a peer within a group. Source: fi_av(3).
pub const fn fi_group_addr(fi_addr: fi_addr_t, group_id: u32) -> fi_addr_t {
    ((group_id as u64) << 32) | fi_addr
}
