//! Remote memory access, as C programs start it: fi_rma(3).

use core::ffi::c_void;
use core::ptr::null_mut;

use libc::iovec;
use oxifabric_abi::{fi_addr_t, fi_msg_rma, fi_ops_rma, fi_rma_iov, fid_ep};
use oxifabric_engine::Target;
use oxifabric_mem::MAX_SEGMENTS;
use oxifabric_provider::device::Provider;
use oxifabric_types::{Errno, Flags};

use super::Endpoint;
use super::call::Access;
use crate::handle::failed;

const READ: Flags = Flags::RMA.union(Flags::READ);
const WRITE: Flags = Flags::RMA.union(Flags::WRITE);

impl<P: Provider> Endpoint<P> {
    pub(super) const RMA: fi_ops_rma = fi_ops_rma {
        read: Some(Self::read),
        readv: Some(Self::readv),
        readmsg: Some(Self::readmsg),
        write: Some(Self::write),
        writev: Some(Self::writev),
        writemsg: Some(Self::writemsg),
        inject: Some(Self::inject_write),
        writedata: Some(Self::writedata),
        injectdata: Some(Self::inject_writedata),
        ..fi_ops_rma::NONE
    };

    /// Returns the flags of a read without flags; what is injected can only be sent.
    fn read_flags(&self) -> Flags {
        self.defaults.tx.plain().difference(Flags::INJECT) | READ
    }

    unsafe extern "C" fn read(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let access = Access {
            peer: src_addr,
            flags: ep.read_flags(),
            data: 0,
            context,
        };
        // SAFETY: the application leaves the buffer to the operation (fi_rma(3)).
        ep.access_one(&access, unsafe { ep.buffer(buf, len, desc) }, addr, key)
    }

    unsafe extern "C" fn readv(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let access = Access {
            peer: src_addr,
            flags: ep.read_flags(),
            data: 0,
            context,
        };
        // SAFETY: the application leaves the buffers to the operation (fi_rma(3)).
        let body = unsafe { ep.buffers(iov, desc, count) };
        ep.access_one(&access, body, addr, key)
    }

    unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (ep, msg) = unsafe { (Self::of(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = ep.defaults.tx.given(flags).difference(Flags::INJECT);
        // SAFETY: the application leaves the buffers to the operation, and both lists are as long as they say.
        unsafe { ep.start_message(msg, flags.difference(Flags::REMOTE_CQ_DATA) | READ) }
    }

    unsafe extern "C" fn write(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let access = Access {
            peer: dest_addr,
            flags: ep.defaults.tx.write() | WRITE,
            data: 0,
            context,
        };
        // SAFETY: the application leaves the buffer to the operation (fi_rma(3)).
        ep.access_one(&access, unsafe { ep.buffer(buf, len, desc) }, addr, key)
    }

    unsafe extern "C" fn writev(
        ep: *mut fid_ep,
        iov: *const iovec,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let access = Access {
            peer: dest_addr,
            flags: ep.defaults.tx.write() | WRITE,
            data: 0,
            context,
        };
        // SAFETY: the application leaves the buffers to the operation (fi_rma(3)).
        let body = unsafe { ep.buffers(iov, desc, count) };
        ep.access_one(&access, body, addr, key)
    }

    unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (ep, msg) = unsafe { (Self::of(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = ep.defaults.tx.given_write(flags) | WRITE;
        // SAFETY: the application leaves the buffers to the operation, and both lists are as long as they say.
        unsafe { ep.start_message(msg, flags) }
    }

    unsafe extern "C" fn inject_write(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let access = Access {
            peer: dest_addr,
            flags: ep.defaults.tx.inject_write() | WRITE,
            data: 0,
            context: null_mut(),
        };
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.access_one(
            &access,
            unsafe { ep.buffer(buf, len, null_mut()) },
            addr,
            key,
        )
    }

    unsafe extern "C" fn writedata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let access = Access {
            peer: dest_addr,
            flags: ep.defaults.tx.write() | WRITE | Flags::REMOTE_CQ_DATA,
            data,
            context,
        };
        // SAFETY: the application leaves the buffer to the operation (fi_rma(3)).
        ep.access_one(&access, unsafe { ep.buffer(buf, len, desc) }, addr, key)
    }

    unsafe extern "C" fn inject_writedata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let access = Access {
            peer: dest_addr,
            flags: ep.defaults.tx.inject_write() | WRITE | Flags::REMOTE_CQ_DATA,
            data,
            context: null_mut(),
        };
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.access_one(
            &access,
            unsafe { ep.buffer(buf, len, null_mut()) },
            addr,
            key,
        )
    }

    /// Starts an access that a message describes.
    ///
    /// # Safety
    /// The lists of the message are as long as they say, and its buffers are the operation's until it completes.
    unsafe fn start_message(&self, msg: &fi_msg_rma, flags: Flags) -> isize {
        let access = Access {
            peer: msg.addr,
            flags,
            data: msg.data,
            context: msg.context,
        };
        // SAFETY: the caller's contract.
        let body = unsafe { self.buffers(msg.msg_iov, msg.desc, msg.iov_count) };
        let mut room = [Target::default(); MAX_SEGMENTS];
        // SAFETY: the caller's contract.
        let targets = unsafe { many(msg.rma_iov, msg.rma_iov_count, &mut room) };
        self.access_many(&access, body, targets)
    }
}

/// Names several pieces of the peer's memory; `None` when there are too many, or none.
///
/// # Safety
/// The list has as many entries as it says.
unsafe fn many(
    list: *const fi_rma_iov,
    count: usize,
    room: &mut [Target; MAX_SEGMENTS],
) -> Option<&[Target]> {
    if list.is_null() || count == 0 {
        return None;
    }
    let targets = room.get_mut(..count)?;
    for (at, target) in targets.iter_mut().enumerate() {
        // SAFETY: the caller promises `count` entries.
        let piece = unsafe { *list.add(at) };
        *target = Target {
            addr: piece.addr,
            len: piece.len as u64,
            key: piece.key,
        };
    }
    Some(targets)
}
