//! Untagged messages, as C programs send and receive them: fi_msg(3).

use core::ffi::c_void;
use core::ptr::null_mut;

use libc::iovec;
use oxifabric_abi::{fi_addr_t, fi_msg, fi_ops_msg, fid_ep};
use oxifabric_provider::device::Provider;
use oxifabric_types::{Errno, Flags};

use super::Endpoint;
use super::call::SendCall;
use super::receives::ReceiveCalls;
use crate::handle::failed;

impl<P: Provider> Endpoint<P> {
    pub(super) const MSG: fi_ops_msg = fi_ops_msg {
        recv: Some(<Self as ReceiveCalls>::recv),
        recvv: Some(<Self as ReceiveCalls>::recvv),
        recvmsg: Some(<Self as ReceiveCalls>::recvmsg),
        send: Some(Self::send_one),
        sendv: Some(Self::sendv),
        sendmsg: Some(Self::sendmsg),
        inject: Some(Self::inject),
        senddata: Some(Self::senddata),
        injectdata: Some(Self::injectdata),
        ..fi_ops_msg::NONE
    };

    unsafe extern "C" fn send_one(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.plain() | Flags::MSG,
            tag: 0,
            data: 0,
            context,
        };
        // SAFETY: the application leaves the buffer to the operation (fi_msg(3)).
        ep.send(send, unsafe { ep.buffer(buf, len, desc) })
    }

    unsafe extern "C" fn sendv(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.plain() | Flags::MSG,
            tag: 0,
            data: 0,
            context,
        };
        // SAFETY: the application leaves the buffers to the operation (fi_msg(3)).
        ep.send_gathered(send, unsafe { ep.buffers(iov, desc, count) })
    }

    unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (ep, msg) = unsafe { (Self::of(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let send = SendCall {
            to: msg.addr,
            flags: ep.defaults.tx.given(flags) | Flags::MSG,
            tag: 0,
            data: msg.data,
            context: msg.context,
        };
        // SAFETY: the application leaves the buffers to the operation (fi_msg(3)).
        ep.send_gathered(send, unsafe {
            ep.buffers(msg.msg_iov, msg.desc, msg.iov_count)
        })
    }

    unsafe extern "C" fn inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.inject_message() | Flags::MSG,
            tag: 0,
            data: 0,
            context: null_mut(),
        };
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.send(send, unsafe { ep.buffer(buf, len, null_mut()) })
    }

    unsafe extern "C" fn senddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.plain() | Flags::MSG | Flags::REMOTE_CQ_DATA,
            tag: 0,
            data,
            context,
        };
        // SAFETY: the application leaves the buffer to the operation (fi_msg(3)).
        ep.send(send, unsafe { ep.buffer(buf, len, desc) })
    }

    unsafe extern "C" fn injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.inject_message() | Flags::MSG | Flags::REMOTE_CQ_DATA,
            tag: 0,
            data,
            context: null_mut(),
        };
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.send(send, unsafe { ep.buffer(buf, len, null_mut()) })
    }
}
