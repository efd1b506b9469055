//! Reads and writes of peers' memory: fi_rma(3).

use core::ffi::c_void;
use core::ptr::null_mut;

use oxifabric_abi::{fi_addr_t, fi_msg_rma, fi_ops_rma, fi_rma_iov, fid_ep, iovec};
use oxifabric_engine::Target;
use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_types::{Errno, Flags};

use super::Ep;
use super::flags::placed;
use super::post::{Call, buffer};
use crate::handle::{failed, object};
use crate::mr::lend;
use crate::provider::Provider;

const READ: Flags = Flags::RMA.union(Flags::READ);
const WRITE: Flags = Flags::RMA.union(Flags::WRITE);

/// What the calls for reads and for writes differ by.
trait Access {
    /// How the calls for one buffer name it.
    type Start;

    fn start(buf: Self::Start) -> *const c_void;

    /// Returns the flags of the operation; `of_call` are those of the call, or of the endpoint.
    fn flags(of_call: Flags) -> Flags;
}

struct Read;
struct Write;

impl Access for Read {
    type Start = *mut c_void;

    fn start(buf: *mut c_void) -> *const c_void {
        buf
    }

    /// Leaves out what only a write can be: injected.
    fn flags(of_call: Flags) -> Flags {
        of_call.difference(Flags::INJECT) | READ
    }
}

impl Access for Write {
    type Start = *const c_void;

    fn start(buf: *const c_void) -> *const c_void {
        buf
    }

    fn flags(of_call: Flags) -> Flags {
        placed(of_call) | WRITE
    }
}

impl<P: Provider> Ep<P> {
    pub(super) const RMA: &'static fi_ops_rma = &fi_ops_rma {
        read: Some(Self::one::<Read>),
        readv: Some(Self::several::<Read>),
        readmsg: Some(Self::message::<Read>),
        write: Some(Self::one::<Write>),
        writev: Some(Self::several::<Write>),
        writemsg: Some(Self::message::<Write>),
        inject: Some(Self::inject_write),
        writedata: Some(Self::writedata),
        injectdata: Some(Self::inject_writedata),
        ..fi_ops_rma::NONE
    };

    unsafe extern "C" fn one<A: Access>(
        ep: *mut fid_ep,
        buf: A::Start,
        len: usize,
        _desc: *mut c_void,
        peer: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(peer, A::flags(ep.defaults.tx.plain()), context);
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.access_at(&call, unsafe { buffer(A::start(buf), len) }, addr, key)
    }

    unsafe extern "C" fn several<A: Access>(
        ep: *mut fid_ep,
        iov: *const iovec,
        _desc: *mut *mut c_void,
        count: usize,
        peer: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let call = Call::new(peer, A::flags(ep.defaults.tx.plain()), context);
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.access_at(&call, unsafe { lend(iov, count) }, addr, key)
    }

    unsafe extern "C" fn message<A: Access>(
        ep: *mut fid_ep,
        msg: *const fi_msg_rma,
        flags: u64,
    ) -> isize {
        // SAFETY: the table is only in handles of this type; the consumer passes a message, or null.
        let (ep, msg) = unsafe { (object::<Self>(ep), msg.as_ref()) };
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        let flags = A::flags(ep.defaults.tx.given(flags));
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
        let flags = Write::flags(ep.defaults.tx.inject());
        let call = Call::new(dest_addr, flags, null_mut());
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.access_at(&call, unsafe { buffer(buf, len) }, addr, key)
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
        let flags = Write::flags(ep.defaults.tx.plain()) | Flags::REMOTE_CQ_DATA;
        let mut call = Call::new(dest_addr, flags, context);
        call.data = data;
        // SAFETY: the consumer leaves the buffer to the operation.
        ep.access_at(&call, unsafe { buffer(buf, len) }, addr, key)
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
        let flags = Write::flags(ep.defaults.tx.inject()) | Flags::REMOTE_CQ_DATA;
        let mut call = Call::new(dest_addr, flags, null_mut());
        call.data = data;
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        ep.access_at(&call, unsafe { buffer(buf, len) }, addr, key)
    }

    /// Starts an access to one piece of the peer's memory, which is as long as the buffers.
    fn access_at(&self, call: &Call, body: Result<Iov, Errno>, addr: u64, key: u64) -> isize {
        let len = body.as_ref().map_or(0, |body| body.len() as u64);
        self.access(call, body, &[Target { addr, len, key }])
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
