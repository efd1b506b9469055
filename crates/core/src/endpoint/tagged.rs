//! Tagged messages, as C programs send and receive them: fi_tagged(3).

use core::ffi::c_void;
use core::ptr::null_mut;

use libc::iovec;
use oxifabric_abi::{fi_addr_t, fi_msg_tagged, fi_ops_tagged, fid_ep};
use oxifabric_provider::device::Provider;
use oxifabric_types::{Errno, Flags};

use super::Endpoint;
use super::call::SendCall;
use super::receives::ReceiveCalls;
use crate::handle::failed;

impl<P: Provider> Endpoint<P> {
    pub(super) const TAGGED: fi_ops_tagged = fi_ops_tagged {
        recv: Some(<Self as ReceiveCalls>::trecv),
        recvv: Some(<Self as ReceiveCalls>::trecvv),
        recvmsg: Some(<Self as ReceiveCalls>::trecvmsg),
        send: Some(Self::tsend),
        sendv: Some(Self::tsendv),
        sendmsg: Some(Self::tsendmsg),
        inject: Some(Self::tinject),
        senddata: Some(Self::tsenddata),
        injectdata: Some(Self::tinjectdata),
        ..fi_ops_tagged::NONE
    };

    unsafe extern "C" fn tsend(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.plain() | Flags::TAGGED,
            tag,
            data: 0,
            context,
        };
        // SAFETY: the application leaves the buffer to the operation (fi_tagged(3)).
        ep.send(send, unsafe { ep.buffer(buf, len, desc) })
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
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.plain() | Flags::TAGGED,
            tag,
            data: 0,
            context,
        };
        // SAFETY: the application leaves the buffers to the operation (fi_tagged(3)).
        ep.send_gathered(send, unsafe { ep.buffers(iov, desc, count) })
    }

    unsafe extern "C" fn tsendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (ep, msg) = unsafe { (Self::of(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let send = SendCall {
            to: msg.addr,
            flags: ep.defaults.tx.given(flags) | Flags::TAGGED,
            tag: msg.tag,
            data: msg.data,
            context: msg.context,
        };
        // SAFETY: the application leaves the buffers to the operation (fi_tagged(3)).
        ep.send_gathered(send, unsafe {
            ep.buffers(msg.msg_iov, msg.desc, msg.iov_count)
        })
    }

    unsafe extern "C" fn tinject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        tag: u64,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.inject_message() | Flags::TAGGED,
            tag,
            data: 0,
            context: null_mut(),
        };
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.send(send, unsafe { ep.buffer(buf, len, null_mut()) })
    }

    unsafe extern "C" fn tsenddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.plain() | Flags::TAGGED | Flags::REMOTE_CQ_DATA,
            tag,
            data,
            context,
        };
        // SAFETY: the application leaves the buffer to the operation (fi_tagged(3)).
        ep.send(send, unsafe { ep.buffer(buf, len, desc) })
    }

    unsafe extern "C" fn tinjectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
        tag: u64,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let send = SendCall {
            to: dest_addr,
            flags: ep.defaults.tx.inject_message() | Flags::TAGGED | Flags::REMOTE_CQ_DATA,
            tag,
            data,
            context: null_mut(),
        };
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.send(send, unsafe { ep.buffer(buf, len, null_mut()) })
    }
}
