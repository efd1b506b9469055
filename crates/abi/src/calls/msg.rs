//! Untagged transfers. Source: fi_msg(3).

use crate::system::iovec;
use crate::*;
use core::ffi::c_void;

calls! {
    /// Posts a receive. Source: fi_msg(3).
    pub fi_recv: msg.recv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize;

    /// Posts a receive into several buffers. Source: fi_msg(3).
    pub fi_recvv: msg.recvv(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize;

    /// Posts a receive with flags. Source: fi_msg(3).
    pub fi_recvmsg: msg.recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize;

    /// Sends a message. Source: fi_msg(3).
    pub fi_send: msg.send(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize;

    /// Sends a message from several buffers. Source: fi_msg(3).
    pub fi_sendv: msg.sendv(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize;

    /// Sends a message with flags. Source: fi_msg(3).
    pub fi_sendmsg: msg.sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize;

    /// Sends a small message; the buffer is free on return and there is no completion. Source: fi_msg(3).
    pub fi_inject: msg.inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
    ) -> isize;

    /// Sends a message with data for the completion of the peer. Source: fi_msg(3).
    pub fi_senddata: msg.senddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize;

    /// Injects a message with data for the completion of the peer. Source: fi_msg(3).
    pub fi_injectdata: msg.injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
    ) -> isize;
}
