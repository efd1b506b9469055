//! Messages through an alias: fi_msg(3), fi_tagged(3). A call without flags becomes the endpoint's call that takes some,
//! with the alias's own.

use core::ffi::c_void;

use libc::iovec;
use oxifabric_abi::{
    FI_MULTI_RECV, FI_REMOTE_CQ_DATA, fi_addr_t, fi_msg, fi_msg_tagged, fi_ops_msg, fi_ops_tagged,
    fid_ep,
};

use super::{Alias, Direction, pass_on};
use crate::absent::{no3, no4, no5, no6, no7, no8};

/// Returns the operations of untagged messages: both directions or one.
pub(super) fn msg(direction: Option<Direction>) -> &'static fi_ops_msg {
    match direction {
        None => &MSG,
        Some(Direction::Transmit) => &SENDS,
        Some(Direction::Receive) => &RECEIVES,
    }
}

/// Returns the operations of tagged messages: both directions or one.
pub(super) fn tagged(direction: Option<Direction>) -> &'static fi_ops_tagged {
    match direction {
        None => &TAGGED,
        Some(Direction::Transmit) => &TAGGED_SENDS,
        Some(Direction::Receive) => &TAGGED_RECEIVES,
    }
}

static MSG: fi_ops_msg = fi_ops_msg {
    recv: Some(recv),
    recvv: Some(recvv),
    recvmsg: Some(recvmsg),
    ..SENDS
};

static SENDS: fi_ops_msg = fi_ops_msg {
    recv: Some(no6),
    recvv: Some(no6),
    recvmsg: Some(no3),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
    ..fi_ops_msg::NONE
};

static RECEIVES: fi_ops_msg = fi_ops_msg {
    send: Some(no6),
    sendv: Some(no6),
    sendmsg: Some(no3),
    inject: Some(no4),
    senddata: Some(no7),
    injectdata: Some(no5),
    ..MSG
};

static TAGGED: fi_ops_tagged = fi_ops_tagged {
    recv: Some(trecv),
    recvv: Some(trecvv),
    recvmsg: Some(trecvmsg),
    ..TAGGED_SENDS
};

static TAGGED_SENDS: fi_ops_tagged = fi_ops_tagged {
    recv: Some(no8),
    recvv: Some(no8),
    recvmsg: Some(no3),
    send: Some(tsend),
    sendv: Some(tsendv),
    sendmsg: Some(tsendmsg),
    inject: Some(tinject),
    senddata: Some(tsenddata),
    injectdata: Some(tinjectdata),
    ..fi_ops_tagged::NONE
};

static TAGGED_RECEIVES: fi_ops_tagged = fi_ops_tagged {
    send: Some(no7),
    sendv: Some(no7),
    sendmsg: Some(no3),
    inject: Some(no5),
    senddata: Some(no8),
    injectdata: Some(no6),
    ..TAGGED
};

pass_on! {
    recvmsg: msg.recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize;
    sendmsg: msg.sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize;
    // What is injected writes no completion and is gone at once: no flag changes that.
    inject: msg.inject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: fi_addr_t) -> isize;
    injectdata: msg.injectdata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, to: fi_addr_t) -> isize;
    trecvmsg: tagged.recvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize;
    tsendmsg: tagged.sendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize;
    tinject: tagged.inject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: fi_addr_t, tag: u64) -> isize;
    tinjectdata: tagged.injectdata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, to: fi_addr_t, tag: u64) -> isize;
}

/// Describes one buffer of the application as a list.
pub(super) const fn one(buf: *const c_void, len: usize) -> iovec {
    iovec {
        iov_base: buf.cast_mut(),
        iov_len: len,
    }
}

unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    mut desc: *mut c_void,
    src_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: the arguments are those of `recvv`, and the lists outlive the call.
    unsafe { recvv(ep, &one(buf, len), &mut desc, 1, src_addr, context) }
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    src_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let msg = fi_msg {
        msg_iov: iov,
        desc,
        iov_count: count,
        addr: src_addr,
        context,
        data: 0,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { recvmsg(ep, &msg, Alias::of(ep).rx()) }
}

unsafe extern "C" fn send(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    mut desc: *mut c_void,
    dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: the arguments are those of `sendv`, and the lists outlive the call.
    unsafe { sendv(ep, &one(buf, len), &mut desc, 1, dest_addr, context) }
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let msg = fi_msg {
        msg_iov: iov,
        desc,
        iov_count: count,
        addr: dest_addr,
        context,
        data: 0,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { sendmsg(ep, &msg, Alias::of(ep).tx() & !FI_REMOTE_CQ_DATA) }
}

unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    mut desc: *mut c_void,
    data: u64,
    dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let msg = fi_msg {
        msg_iov: &one(buf, len),
        desc: &mut desc,
        iov_count: 1,
        addr: dest_addr,
        context,
        data,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { sendmsg(ep, &msg, Alias::of(ep).tx() | FI_REMOTE_CQ_DATA) }
}

unsafe extern "C" fn trecv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    mut desc: *mut c_void,
    src_addr: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let iov = one(buf, len);
    // SAFETY: the arguments are those of `trecvv`, and the lists outlive the call.
    unsafe { trecvv(ep, &iov, &mut desc, 1, src_addr, tag, ignore, context) }
}

unsafe extern "C" fn trecvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    src_addr: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let msg = fi_msg_tagged {
        msg_iov: iov,
        desc,
        iov_count: count,
        addr: src_addr,
        tag,
        ignore,
        context,
        data: 0,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { trecvmsg(ep, &msg, Alias::of(ep).rx() & !FI_MULTI_RECV) }
}

unsafe extern "C" fn tsend(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    mut desc: *mut c_void,
    dest_addr: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let iov = one(buf, len);
    // SAFETY: the arguments are those of `tsendv`, and the lists outlive the call.
    unsafe { tsendv(ep, &iov, &mut desc, 1, dest_addr, tag, context) }
}

unsafe extern "C" fn tsendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    dest_addr: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let msg = fi_msg_tagged {
        msg_iov: iov,
        desc,
        iov_count: count,
        addr: dest_addr,
        tag,
        ignore: 0,
        context,
        data: 0,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { tsendmsg(ep, &msg, Alias::of(ep).tx() & !FI_REMOTE_CQ_DATA) }
}

unsafe extern "C" fn tsenddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    mut desc: *mut c_void,
    data: u64,
    dest_addr: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let msg = fi_msg_tagged {
        msg_iov: &one(buf, len),
        desc: &mut desc,
        iov_count: 1,
        addr: dest_addr,
        tag,
        ignore: 0,
        context,
        data,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { tsendmsg(ep, &msg, Alias::of(ep).tx() | FI_REMOTE_CQ_DATA) }
}
