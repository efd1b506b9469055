//! Calls on address vectors. Source: fi_av(3).

use crate::*;
use core::ffi::{c_char, c_int, c_void};

calls! {
    /// Inserts `count` addresses and writes their names to `fi_addr`; returns how many went in. Source: fi_av(3).
    pub fi_av_insert: ops.insert(
        av: *mut fid_av,
        addr: *const c_void,
        count: usize,
        fi_addr: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> c_int;

    /// Inserts the address of a node and a service. Source: fi_av(3).
    pub fi_av_insertsvc: ops.insertsvc(
        av: *mut fid_av,
        node: *const c_char,
        service: *const c_char,
        fi_addr: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> c_int;

    /// Inserts a range of nodes and services, counted up by their names. Source: fi_av(3).
    pub fi_av_insertsym: ops.insertsym(
        av: *mut fid_av,
        node: *const c_char,
        nodecnt: usize,
        service: *const c_char,
        svccnt: usize,
        fi_addr: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> c_int;

    /// Removes addresses. Source: fi_av(3).
    pub fi_av_remove: ops.remove(
        av: *mut fid_av,
        fi_addr: *mut fi_addr_t,
        count: usize,
        flags: u64,
    ) -> c_int;

    /// Copies the address behind a name; `addrlen` is its room before and its length after. Source: fi_av(3).
    pub fi_av_lookup: ops.lookup(
        av: *mut fid_av,
        fi_addr: fi_addr_t,
        addr: *mut c_void,
        addrlen: *mut usize,
    ) -> c_int;

    /// Spells an address in `buf`; `len` is its room before and its need after. Source: fi_av(3).
    pub fi_av_straddr: ops.straddr(
        av: *mut fid_av,
        addr: *const c_void,
        buf: *mut c_char,
        len: *mut usize,
    ) -> *const c_char;

    /// Inserts an authorization key. Source: fi_av(3).
    pub fi_av_insert_auth_key: ops.insert_auth_key(
        av: *mut fid_av,
        auth_key: *const c_void,
        auth_key_size: usize,
        fi_addr: *mut fi_addr_t,
        flags: u64,
    ) -> c_int, in fi_ops_av;

    /// Copies the authorization key behind a name. Source: fi_av(3).
    pub fi_av_lookup_auth_key: ops.lookup_auth_key(
        av: *mut fid_av,
        addr: fi_addr_t,
        auth_key: *mut c_void,
        auth_key_size: *mut usize,
    ) -> c_int, in fi_ops_av;

    /// Gives a peer the name that completions shall carry. Source: fi_av(3).
    pub fi_av_set_user_id: ops.set_user_id(
        av: *mut fid_av,
        fi_addr: fi_addr_t,
        user_id: fi_addr_t,
        flags: u64,
    ) -> c_int, in fi_ops_av;

    /// Copies the address behind a name in the form that code on an accelerator takes. Source: fi_av(3).
    pub fi_av_lookup2: ops.lookup2(
        av: *mut fid_av,
        fi_addr: fi_addr_t,
        buf: *mut c_void,
        len: *mut usize,
        flags: u64,
        ctx: *mut fid_xpu_ctx,
    ) -> c_int, in fi_ops_av;
}

/// Binds an event queue to an address vector, deprecated. Source: fi_av(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_av_bind(av: *mut fid_av, fid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_bind(av.cast(), fid, flags) }
}
