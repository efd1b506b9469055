//! Receives, as C programs post them on an endpoint or on a shared receive context: fi_msg(3), fi_tagged(3). Path class: hot.

use core::ffi::c_void;

use libc::iovec;
use oxifabric_abi::{fi_addr_t, fi_msg, fi_msg_tagged, fid_ep};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use super::call::RecvCall;
use super::defaults::DirectionFlags;
use super::memory::{Descriptors, Lend, buffers, place};
use crate::domain::Domain;
use crate::handle::failed;

/// The calls that post receives on objects of one type. They are in the tables of handles of that type, and in no others.
pub(super) trait ReceiveCalls {
    /// What receives are posted on.
    type Object: 'static;
    /// Whether descriptors are read.
    type Memory: Descriptors;

    /// Returns the object of a handle.
    ///
    /// # Safety
    /// The handle is one of such an object, which is open.
    unsafe fn object<'a>(handle: *mut fid_ep) -> &'a Self::Object;

    /// Returns the domain whose memory receives name.
    fn domain(object: &Self::Object) -> &Domain;

    /// Returns the flags of receives.
    fn defaults(object: &Self::Object) -> &DirectionFlags;

    /// Posts a receive; returns what the call returns. Compiled into the calls for one buffer.
    fn receive(object: &Self::Object, recv: RecvCall, body: Option<impl Lend>) -> isize;

    /// Posts a receive into several buffers; returns what the call returns.
    fn receive_scattered(object: &Self::Object, recv: RecvCall, body: Option<Iov>) -> isize;

    unsafe extern "C" fn recv(
        handle: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let object = unsafe { Self::object(handle) };
        let recv = untagged(src_addr, Self::defaults(object).plain(), context);
        // SAFETY: the application leaves the buffer to the operation (fi_msg(3)).
        let body = unsafe { place::<Self::Memory>(Self::domain(object), buf, len, desc) };
        Self::receive(object, recv, body)
    }

    unsafe extern "C" fn recvv(
        handle: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let object = unsafe { Self::object(handle) };
        let recv = untagged(src_addr, Self::defaults(object).plain(), context);
        // SAFETY: the application leaves the buffers to the operation (fi_msg(3)).
        let body = unsafe { buffers::<Self::Memory>(Self::domain(object), iov, desc, count) };
        Self::receive_scattered(object, recv, body)
    }

    unsafe extern "C" fn recvmsg(handle: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (object, msg) = unsafe { (Self::object(handle), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let recv = untagged(msg.addr, Self::defaults(object).given(flags), msg.context);
        let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
        // SAFETY: the application leaves the buffers to the operation (fi_msg(3)).
        let body = unsafe { buffers::<Self::Memory>(Self::domain(object), iov, desc, count) };
        Self::receive_scattered(object, recv, body)
    }

    unsafe extern "C" fn trecv(
        handle: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let object = unsafe { Self::object(handle) };
        let flags = tagged(Self::defaults(object).plain());
        let recv = RecvCall {
            from: src_addr,
            flags,
            tag,
            ignore,
            context,
        };
        // SAFETY: the application leaves the buffer to the operation (fi_tagged(3)).
        let body = unsafe { place::<Self::Memory>(Self::domain(object), buf, len, desc) };
        Self::receive(object, recv, body)
    }

    unsafe extern "C" fn trecvv(
        handle: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let object = unsafe { Self::object(handle) };
        let flags = tagged(Self::defaults(object).plain());
        let recv = RecvCall {
            from: src_addr,
            flags,
            tag,
            ignore,
            context,
        };
        // SAFETY: the application leaves the buffers to the operation (fi_tagged(3)).
        let body = unsafe { buffers::<Self::Memory>(Self::domain(object), iov, desc, count) };
        Self::receive_scattered(object, recv, body)
    }

    unsafe extern "C" fn trecvmsg(
        handle: *mut fid_ep,
        msg: *const fi_msg_tagged,
        flags: u64,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (object, msg) = unsafe { (Self::object(handle), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let recv = RecvCall {
            from: msg.addr,
            flags: Self::defaults(object).given(flags) | Flags::TAGGED,
            tag: msg.tag,
            ignore: msg.ignore,
            context: msg.context,
        };
        let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
        // SAFETY: the application leaves the buffers to the operation (fi_tagged(3)).
        let body = unsafe { buffers::<Self::Memory>(Self::domain(object), iov, desc, count) };
        Self::receive_scattered(object, recv, body)
    }
}

/// Makes an untagged receive.
#[inline(always)]
fn untagged(from: fi_addr_t, flags: Flags, context: *mut c_void) -> RecvCall {
    RecvCall {
        from,
        flags: flags | Flags::MSG,
        tag: 0,
        ignore: 0,
        context,
    }
}

/// Returns the flags of a tagged receive by a call without flags: multi-receive buffers are asked for by each call.
#[inline(always)]
fn tagged(plain: Flags) -> Flags {
    plain.difference(Flags::MULTI_RECV) | Flags::TAGGED
}
