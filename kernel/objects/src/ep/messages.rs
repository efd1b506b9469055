//! Messages, untagged and tagged: fi_msg(3), fi_tagged(3).

use core::ffi::c_void;

use oxifabric_abi::{fi_addr_t, fi_msg, fi_msg_tagged, fi_ops_msg, fi_ops_tagged, fid_ep, iovec};
use oxifabric_types::{Errno, Flags};

use super::Ep;
use super::post::{Call, buffer};
use crate::handle::{failed, object};
use crate::mr::lend;
use crate::provider::Provider;

impl<P: Provider> Ep<P> {
    pub(super) const MSG: &'static fi_ops_msg = &fi_ops_msg {
        recv: Some(Self::msg_recv),
        recvv: Some(Self::msg_recvv),
        recvmsg: Some(Self::msg_recvmsg),
        send: Some(Self::msg_send),
        sendv: Some(Self::msg_sendv),
        sendmsg: Some(Self::msg_sendmsg),
        inject: Some(Self::msg_inject),
        senddata: Some(Self::msg_senddata),
        injectdata: Some(Self::msg_injectdata),
        ..fi_ops_msg::NONE
    };

    unsafe extern "C" fn msg_recv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        _desc: *mut c_void,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(src_addr, ep.defaults.rx.plain() | Flags::MSG, context);
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.receive(&call, unsafe { buffer(buf, len) })
    }

    unsafe extern "C" fn msg_recvv(
        ep: *mut fid_ep,
        iov: *const iovec,
        _desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(src_addr, ep.defaults.rx.plain() | Flags::MSG, context);
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.receive(&call, unsafe { lend(iov, count) })
    }

    unsafe extern "C" fn msg_recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: the table is only in handles of this type; the consumer passes a message, or null.
        let (ep, msg) = unsafe { (object::<Self>(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = ep.defaults.rx.given(flags) | Flags::MSG;
        let call = Call::new(msg.addr, flags, msg.context);
        // SAFETY: the list is as long as the message says, and the buffers are the operation's.
        ep.receive(&call, unsafe { lend(msg.msg_iov, msg.iov_count) })
    }

    unsafe extern "C" fn msg_send(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        _desc: *mut c_void,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(dest_addr, ep.defaults.tx.plain() | Flags::MSG, context);
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.send(&call, unsafe { buffer(buf, len) })
    }

    unsafe extern "C" fn msg_sendv(
        ep: *mut fid_ep,
        iov: *const iovec,
        _desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(dest_addr, ep.defaults.tx.plain() | Flags::MSG, context);
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.send(&call, unsafe { lend(iov, count) })
    }

    unsafe extern "C" fn msg_sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: the table is only in handles of this type; the consumer passes a message, or null.
        let (ep, msg) = unsafe { (object::<Self>(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = ep.defaults.tx.given(flags) | Flags::MSG;
        let mut call = Call::new(msg.addr, flags, msg.context);
        call.data = msg.data;
        // SAFETY: the list is as long as the message says, and the buffers are the operation's.
        ep.send(&call, unsafe { lend(msg.msg_iov, msg.iov_count) })
    }

    unsafe extern "C" fn msg_inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(
            dest_addr,
            ep.defaults.tx.inject() | Flags::MSG,
            core::ptr::null_mut(),
        );
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.send(&call, unsafe { buffer(buf, len) })
    }

    unsafe extern "C" fn msg_senddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        _desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = ep.defaults.tx.plain() | Flags::MSG | Flags::REMOTE_CQ_DATA;
        let mut call = Call::new(dest_addr, flags, context);
        call.data = data;
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.send(&call, unsafe { buffer(buf, len) })
    }

    unsafe extern "C" fn msg_injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = ep.defaults.tx.inject() | Flags::MSG | Flags::REMOTE_CQ_DATA;
        let mut call = Call::new(dest_addr, flags, core::ptr::null_mut());
        call.data = data;
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.send(&call, unsafe { buffer(buf, len) })
    }

    pub(super) const TAGGED: &'static fi_ops_tagged = &fi_ops_tagged {
        recv: Some(Self::trecv),
        recvv: Some(Self::trecvv),
        recvmsg: Some(Self::trecvmsg),
        send: Some(Self::tsend),
        sendv: Some(Self::tsendv),
        sendmsg: Some(Self::tsendmsg),
        inject: Some(Self::tinject),
        senddata: Some(Self::tsenddata),
        injectdata: Some(Self::tinjectdata),
        ..fi_ops_tagged::NONE
    };

    unsafe extern "C" fn trecv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        _desc: *mut c_void,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let mut call = Call::new(src_addr, ep.defaults.rx.plain() | Flags::TAGGED, context);
        (call.tag, call.ignore) = (tag, ignore);
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.receive(&call, unsafe { buffer(buf, len) })
    }

    unsafe extern "C" fn trecvv(
        ep: *mut fid_ep,
        iov: *const iovec,
        _desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let mut call = Call::new(src_addr, ep.defaults.rx.plain() | Flags::TAGGED, context);
        (call.tag, call.ignore) = (tag, ignore);
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.receive(&call, unsafe { lend(iov, count) })
    }

    unsafe extern "C" fn trecvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
        // SAFETY: the table is only in handles of this type; the consumer passes a message, or null.
        let (ep, msg) = unsafe { (object::<Self>(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = ep.defaults.rx.given(flags) | Flags::TAGGED;
        let mut call = Call::new(msg.addr, flags, msg.context);
        (call.tag, call.ignore) = (msg.tag, msg.ignore);
        // SAFETY: the list is as long as the message says, and the buffers are the operation's.
        ep.receive(&call, unsafe { lend(msg.msg_iov, msg.iov_count) })
    }

    unsafe extern "C" fn tsend(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        _desc: *mut c_void,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let mut call = Call::new(dest_addr, ep.defaults.tx.plain() | Flags::TAGGED, context);
        call.tag = tag;
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.send(&call, unsafe { buffer(buf, len) })
    }

    unsafe extern "C" fn tsendv(
        ep: *mut fid_ep,
        iov: *const iovec,
        _desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let mut call = Call::new(dest_addr, ep.defaults.tx.plain() | Flags::TAGGED, context);
        call.tag = tag;
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.send(&call, unsafe { lend(iov, count) })
    }

    unsafe extern "C" fn tsendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
        // SAFETY: the table is only in handles of this type; the consumer passes a message, or null.
        let (ep, msg) = unsafe { (object::<Self>(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = ep.defaults.tx.given(flags) | Flags::TAGGED;
        let mut call = Call::new(msg.addr, flags, msg.context);
        call.data = msg.data;
        (call.tag, call.ignore) = (msg.tag, msg.ignore);
        // SAFETY: the list is as long as the message says, and the buffers are the operation's.
        ep.send(&call, unsafe { lend(msg.msg_iov, msg.iov_count) })
    }

    unsafe extern "C" fn tinject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        tag: u64,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let mut call = Call::new(
            dest_addr,
            ep.defaults.tx.inject() | Flags::TAGGED,
            core::ptr::null_mut(),
        );
        call.tag = tag;
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.send(&call, unsafe { buffer(buf, len) })
    }

    unsafe extern "C" fn tsenddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        _desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = ep.defaults.tx.plain() | Flags::TAGGED | Flags::REMOTE_CQ_DATA;
        let mut call = Call::new(dest_addr, flags, context);
        (call.tag, call.data) = (tag, data);
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.send(&call, unsafe { buffer(buf, len) })
    }

    unsafe extern "C" fn tinjectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
        tag: u64,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = ep.defaults.tx.inject() | Flags::TAGGED | Flags::REMOTE_CQ_DATA;
        let mut call = Call::new(dest_addr, flags, core::ptr::null_mut());
        (call.tag, call.data) = (tag, data);
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.send(&call, unsafe { buffer(buf, len) })
    }
}
