//! Reads and writes of peers' memory: fi_rma(3).

use core::ffi::c_void;
use core::ptr::null_mut;

use oxifabric_abi::{fi_addr_t, fi_msg_rma, fi_ops_rma, fi_rma_iov, fid_ep, iovec};
use oxifabric_engine::Target;
use oxifabric_mem::MAX_SEGMENTS;
use oxifabric_types::{Errno, Flags};

use super::Ep;
use super::flags::placed;
use super::post::{Call, buffer};
use crate::handle::{failed, object};
use crate::mr::lend;
use crate::provider::Provider;

const READ: Flags = Flags::RMA.union(Flags::READ);
const WRITE: Flags = Flags::RMA.union(Flags::WRITE);

impl<P: Provider> Ep<P> {
    pub(super) const RMA: &'static fi_ops_rma = &fi_ops_rma {
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

    /// Returns the flags of a read; what is injected can only be written.
    fn read_flags(&self) -> Flags {
        self.defaults().tx.plain().difference(Flags::INJECT) | READ
    }

    fn write_flags(&self) -> Flags {
        placed(self.defaults().tx.plain()) | WRITE
    }

    unsafe extern "C" fn read(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        _desc: *mut c_void,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(src_addr, ep.read_flags(), context);
        let target = Target {
            addr,
            len: len as u64,
            key,
        };
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.access(&call, unsafe { buffer(buf, len) }, &[target])
    }

    unsafe extern "C" fn readv(
        ep: *mut fid_ep,
        iov: *const iovec,
        _desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(src_addr, ep.read_flags(), context);
        // SAFETY: the consumer leaves the buffers to the operation.
        let body = unsafe { lend(iov, count) };
        let len = body.as_ref().map_or(0, |body| body.len());
        let target = Target {
            addr,
            len: len as u64,
            key,
        };
        ep.access(&call, body, &[target])
    }

    unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
        // SAFETY: the table is only in handles of this type; the consumer passes a message, or null.
        let (ep, msg) = unsafe { (object::<Self>(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = ep.defaults().tx.given(flags).difference(Flags::INJECT) | READ;
        // SAFETY: the lists of the message are as long as they say, and its buffers are the operation's.
        unsafe { ep.access_message(msg, flags) }
    }

    unsafe extern "C" fn write(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        _desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(dest_addr, ep.write_flags(), context);
        let target = Target {
            addr,
            len: len as u64,
            key,
        };
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.access(&call, unsafe { buffer(buf, len) }, &[target])
    }

    unsafe extern "C" fn writev(
        ep: *mut fid_ep,
        iov: *const iovec,
        _desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(dest_addr, ep.write_flags(), context);
        // SAFETY: the consumer leaves the buffers to the operation.
        let body = unsafe { lend(iov, count) };
        let len = body.as_ref().map_or(0, |body| body.len());
        let target = Target {
            addr,
            len: len as u64,
            key,
        };
        ep.access(&call, body, &[target])
    }

    unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
        // SAFETY: the table is only in handles of this type; the consumer passes a message, or null.
        let (ep, msg) = unsafe { (object::<Self>(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = placed(ep.defaults().tx.given(flags)) | WRITE;
        // SAFETY: the lists of the message are as long as they say, and its buffers are the operation's.
        unsafe { ep.access_message(msg, flags) }
    }

    unsafe extern "C" fn inject_write(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = placed(ep.defaults().tx.inject()) | WRITE;
        let call = Call::new(dest_addr, flags, null_mut());
        let target = Target {
            addr,
            len: len as u64,
            key,
        };
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.access(&call, unsafe { buffer(buf, len) }, &[target])
    }

    unsafe extern "C" fn writedata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        _desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = placed(ep.defaults().tx.plain()) | WRITE | Flags::REMOTE_CQ_DATA;
        let mut call = Call::new(dest_addr, flags, context);
        call.data = data;
        let target = Target {
            addr,
            len: len as u64,
            key,
        };
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.access(&call, unsafe { buffer(buf, len) }, &[target])
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
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = placed(ep.defaults().tx.inject()) | WRITE | Flags::REMOTE_CQ_DATA;
        let mut call = Call::new(dest_addr, flags, null_mut());
        call.data = data;
        let target = Target {
            addr,
            len: len as u64,
            key,
        };
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.access(&call, unsafe { buffer(buf, len) }, &[target])
    }

    /// Starts an access that a message describes.
    ///
    /// # Safety
    /// The lists of the message are as long as they say, and its buffers are the operation's until it completes.
    unsafe fn access_message(&self, msg: &fi_msg_rma, flags: Flags) -> isize {
        let mut call = Call::new(msg.addr, flags, msg.context);
        call.data = msg.data;
        // SAFETY: the caller's contract.
        let body = unsafe { lend(msg.msg_iov, msg.iov_count) };
        let mut room = [Target::default(); MAX_SEGMENTS];
        // SAFETY: the caller's contract.
        match unsafe { listed(msg.rma_iov, msg.rma_iov_count, &mut room) } {
            Some(targets) => self.access(&call, body, targets),
            None => failed(Errno::INVAL),
        }
    }
}

/// Reads a list of pieces of a peer's memory; `None` when there is none or it is too long.
///
/// # Safety
/// The list has `count` entries, or is null.
unsafe fn listed(
    list: *const fi_rma_iov,
    count: usize,
    room: &mut [Target; MAX_SEGMENTS],
) -> Option<&[Target]> {
    if list.is_null() || count == 0 {
        return None;
    }
    let targets = room.get_mut(..count)?;
    for (at, target) in targets.iter_mut().enumerate() {
        // SAFETY: the caller's contract.
        let piece = unsafe { *list.add(at) };
        *target = Target {
            addr: piece.addr,
            len: piece.len as u64,
            key: piece.key,
        };
    }
    Some(targets)
}
