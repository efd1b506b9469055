//! Calls of `rdma/fi_tagged.h`. Source: fi_tagged(3).

use crate::system::iovec;
use crate::*;
use core::ffi::c_void;

calls! {
    /// Posts a receive for a tag. Source: fi_tagged(3).
    pub fi_trecv: tagged.recv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize;

    /// Posts a receive for a tag into several buffers. Source: fi_tagged(3).
    pub fi_trecvv: tagged.recvv(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize;

    /// Posts a receive for a tag with flags; also peeks, claims and discards. Source: fi_tagged(3).
    pub fi_trecvmsg: tagged.recvmsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_tagged,
        flags: u64,
    ) -> isize;

    /// Sends a tagged message. Source: fi_tagged(3).
    pub fi_tsend: tagged.send(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize;

    /// Sends a tagged message from several buffers. Source: fi_tagged(3).
    pub fi_tsendv: tagged.sendv(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize;

    /// Sends a tagged message with flags. Source: fi_tagged(3).
    pub fi_tsendmsg: tagged.sendmsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_tagged,
        flags: u64,
    ) -> isize;

    /// Sends a small tagged message; the buffer is free on return and there is no completion. Source: fi_tagged(3).
    pub fi_tinject: tagged.inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        tag: u64,
    ) -> isize;

    /// Sends a tagged message with data for the completion of the peer. Source: fi_tagged(3).
    pub fi_tsenddata: tagged.senddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize;

    /// Injects a tagged message with data for the completion of the peer. Source: fi_tagged(3).
    pub fi_tinjectdata: tagged.injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
        tag: u64,
    ) -> isize;
}
