//! Atomic operations, as C programs start them: fi_atomic(3).

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use libc::iovec;
use oxifabric_abi::{
    FI_TAGGED, fi_addr_t, fi_datatype, fi_ioc, fi_msg_atomic, fi_op, fi_ops_atomic, fi_rma_ioc,
    fid_ep,
};
use oxifabric_collectives::arithmetic::{Form, Operation};
use oxifabric_engine::{AtomicOp, Target, Update};
use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_provider::device::Provider;
use oxifabric_types::{Errno, Flags, PeerId};

use super::Endpoint;
use super::memory::{CallsOf, listed};
use crate::atomic;
use crate::handle::failed;

/// An atomic as a call describes it.
struct AtomicCall {
    peer: fi_addr_t,
    update: Option<Update>,
    flags: Flags,
    data: u64,
    context: *mut c_void,
}

/// The application's memory that an atomic is about. What is `None` cannot be memory.
struct Operands {
    operand: Option<Iov>,
    compare: Option<Iov>,
    result: Option<Iov>,
    targets: Option<Box<[Target]>>,
}

impl<P: Provider> Endpoint<P> {
    pub(super) const ATOMIC: fi_ops_atomic = fi_ops_atomic {
        write: Some(Self::atomic),
        writev: Some(Self::atomicv),
        writemsg: Some(Self::atomicmsg),
        inject: Some(Self::inject_atomic),
        readwrite: Some(Self::fetch_atomic),
        readwritev: Some(Self::fetch_atomicv),
        readwritemsg: Some(Self::fetch_atomicmsg),
        compwrite: Some(Self::compare_atomic),
        compwritev: Some(Self::compare_atomicv),
        compwritemsg: Some(Self::compare_atomicmsg),
        writevalid: Some(atomic::write_valid),
        readwritevalid: Some(atomic::readwrite_valid),
        compwritevalid: Some(atomic::compwrite_valid),
        ..fi_ops_atomic::NONE
    };

    unsafe extern "C" fn atomic(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        let iov = ioc(buf, count);
        // SAFETY: lists of one entry; the rest is the caller's.
        unsafe {
            Self::atomicv(
                ep,
                &iov,
                listed::<CallsOf<P>>(&desc),
                1,
                dest_addr,
                addr,
                key,
                datatype,
                op,
                context,
            )
        }
    }

    unsafe extern "C" fn atomicv(
        ep: *mut fid_ep,
        iov: *const fi_ioc,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let flags = ep.defaults.tx.write();
        let call = call(Form::Base, datatype, op, dest_addr, flags, context);
        // SAFETY: the application leaves the buffers to the operation (fi_atomic(3)).
        let operand = unsafe { ep.elements(&Lists::new(iov, desc, count), call.update) };
        ep.update(&call, Operands::base(operand, addr, key))
    }

    unsafe extern "C" fn atomicmsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_atomic,
        flags: u64,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (ep, msg) = unsafe { (Self::of(ep), msg.as_ref()) };
        let nothing = Lists::NONE;
        // SAFETY: the lists of the message are as long as they say, and its buffers are the operation's.
        unsafe { ep.start_atomic(Form::Base, msg, &nothing, &nothing, flags) }
    }

    unsafe extern "C" fn inject_atomic(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let flags = ep.defaults.tx.inject_write();
        let call = call(Form::Base, datatype, op, dest_addr, flags, null_mut());
        // SAFETY: the buffer is valid during the call, which is as long as an injected one is used.
        let operand =
            unsafe { ep.elements(&Lists::new(&ioc(buf, count), null_mut(), 1), call.update) };
        ep.update(&call, Operands::base(operand, addr, key))
    }

    unsafe extern "C" fn fetch_atomic(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        desc: *mut c_void,
        result: *mut c_void,
        result_desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        let (iov, mut result) = (ioc(buf, count), ioc(result, count));
        // SAFETY: lists of one entry; the rest is the caller's.
        unsafe {
            Self::fetch_atomicv(
                ep,
                &iov,
                listed::<CallsOf<P>>(&desc),
                1,
                &mut result,
                listed::<CallsOf<P>>(&result_desc),
                1,
                dest_addr,
                addr,
                key,
                datatype,
                op,
                context,
            )
        }
    }

    unsafe extern "C" fn fetch_atomicv(
        ep: *mut fid_ep,
        iov: *const fi_ioc,
        desc: *mut *mut c_void,
        count: usize,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let flags = ep.defaults.tx.plain();
        let call = call(Form::Fetch, datatype, op, dest_addr, flags, context);
        // SAFETY: the application leaves the buffers to the operation (fi_atomic(3)).
        let (operand, result) = unsafe {
            (
                ep.operand(&Lists::new(iov, desc, count), call.update),
                ep.elements(&Lists::new(resultv, result_desc, result_count), call.update),
            )
        };
        ep.update(
            &call,
            Operands::fetch(operand, Some(Iov::empty()), result, addr, key),
        )
    }

    unsafe extern "C" fn fetch_atomicmsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_atomic,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        flags: u64,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (ep, msg) = unsafe { (Self::of(ep), msg.as_ref()) };
        let results = Lists::new(resultv, result_desc, result_count);
        // SAFETY: the lists are as long as they say, and all buffers are the operation's.
        unsafe { ep.start_atomic(Form::Fetch, msg, &Lists::NONE, &results, flags) }
    }

    unsafe extern "C" fn compare_atomic(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        desc: *mut c_void,
        compare: *const c_void,
        compare_desc: *mut c_void,
        result: *mut c_void,
        result_desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        let (iov, compare, mut result) = (ioc(buf, count), ioc(compare, count), ioc(result, count));
        // SAFETY: lists of one entry; the rest is the caller's.
        unsafe {
            Self::compare_atomicv(
                ep,
                &iov,
                listed::<CallsOf<P>>(&desc),
                1,
                &compare,
                listed::<CallsOf<P>>(&compare_desc),
                1,
                &mut result,
                listed::<CallsOf<P>>(&result_desc),
                1,
                dest_addr,
                addr,
                key,
                datatype,
                op,
                context,
            )
        }
    }

    unsafe extern "C" fn compare_atomicv(
        ep: *mut fid_ep,
        iov: *const fi_ioc,
        desc: *mut *mut c_void,
        count: usize,
        comparev: *const fi_ioc,
        compare_desc: *mut *mut c_void,
        compare_count: usize,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        let flags = ep.defaults.tx.plain();
        let call = call(Form::Compare, datatype, op, dest_addr, flags, context);
        // SAFETY: the application leaves the buffers to the operation (fi_atomic(3)).
        let (operand, compare, result) = unsafe {
            (
                ep.elements(&Lists::new(iov, desc, count), call.update),
                ep.elements(
                    &Lists::new(comparev, compare_desc, compare_count),
                    call.update,
                ),
                ep.elements(&Lists::new(resultv, result_desc, result_count), call.update),
            )
        };
        ep.update(&call, Operands::fetch(operand, compare, result, addr, key))
    }

    unsafe extern "C" fn compare_atomicmsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_atomic,
        comparev: *const fi_ioc,
        compare_desc: *mut *mut c_void,
        compare_count: usize,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        flags: u64,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type; the application passes a message, or null.
        let (ep, msg) = unsafe { (Self::of(ep), msg.as_ref()) };
        let compare = Lists::new(comparev, compare_desc, compare_count);
        let results = Lists::new(resultv, result_desc, result_count);
        // SAFETY: the lists are as long as they say, and all buffers are the operation's.
        unsafe { ep.start_atomic(Form::Compare, msg, &compare, &results, flags) }
    }

    /// Starts an atomic that a message describes.
    ///
    /// # Safety
    /// All lists are as long as they say, and all buffers are the operation's until it completes.
    unsafe fn start_atomic(
        &self,
        form: Form,
        msg: Option<&fi_msg_atomic>,
        compare: &Lists,
        results: &Lists,
        flags: u64,
    ) -> isize {
        let Some(msg) = msg else {
            return failed(Errno::INVAL);
        };
        if flags & FI_TAGGED != 0 {
            // Tagged receive buffers are no targets of atomics here (fi_query_atomic says so).
            return failed(Errno::OPNOTSUPP);
        }
        // What fetches ends with its response, whatever its level.
        let flags = self.defaults.tx.given_write(flags);
        let mut call = call(form, msg.datatype, msg.op, msg.addr, flags, msg.context);
        call.data = msg.data;
        // SAFETY: the caller's contract.
        let operands = unsafe {
            Operands {
                operand: self.operand(
                    &Lists::new(msg.msg_iov, msg.desc, msg.iov_count),
                    call.update,
                ),
                compare: self.elements(compare, call.update),
                result: self.elements(results, call.update),
                targets: many(msg.rma_iov, msg.rma_iov_count, call.update),
            }
        };
        self.update(&call, operands)
    }

    /// Starts an atomic; returns what the call returns.
    fn update(&self, call: &AtomicCall, operands: Operands) -> isize {
        let Some(update) = call.update.filter(Update::is_valid) else {
            return failed(Errno::OPNOTSUPP);
        };
        let Operands {
            operand: Some(operand),
            compare: Some(compare),
            result: Some(result),
            targets: Some(targets),
        } = operands
        else {
            return failed(Errno::INVAL);
        };
        let len: u64 = targets
            .iter()
            .map(|target| target.len)
            .fold(0, u64::saturating_add);
        if len > self.sizes.max_atomic.load(Ordering::Relaxed) as u64 {
            return failed(Errno::MSGSIZE);
        }
        let injected = operand.len() + compare.len();
        let longest = self.sizes.inject_atomic.load(Ordering::Relaxed);
        if call.flags.contains(Flags::INJECT) && injected > longest {
            return failed(Errno::MSGSIZE);
        }
        let brought = self.may_use(&operand, call.flags) && self.may_use(&compare, call.flags);
        if !brought || !self.may_use(&result, Flags::empty()) {
            return failed(Errno::INVAL);
        }
        let op = AtomicOp {
            peer: PeerId::ANY,
            update,
            targets,
            operand,
            compare,
            result,
            data: call.data,
            flags: call.flags,
            context: call.context.addr(),
        };
        if op.flags.contains(Flags::TRIGGER) {
            return self.defer_atomic(call.peer, &op, call.context);
        }
        match self.state.lock().atomic(call.peer, op) {
            Ok(()) => 0,
            Err(errno) => failed(errno),
        }
    }

    /// Describes the operand of an atomic: FI_ATOMIC_READ has none, whatever the call was given (fi_atomic(3)).
    ///
    /// # Safety
    /// As for [`Endpoint::elements`].
    unsafe fn operand(&self, given: &Lists, update: Option<Update>) -> Option<Iov> {
        match update {
            Some(update) if update.operation == Operation::Read => Some(Iov::empty()),
            // SAFETY: the caller's contract.
            _ => unsafe { self.elements(given, update) },
        }
    }

    /// Describes a list of elements; `None` when it is too long, or cannot be one.
    ///
    /// # Safety
    /// The list has `count` entries, whose memory is the operation's until it completes, and as many descriptors or none.
    unsafe fn elements(&self, given: &Lists, update: Option<Update>) -> Option<Iov> {
        let size = update?.datatype.size();
        if given.count > MAX_SEGMENTS || (given.list.is_null() && given.count != 0) {
            return None;
        }
        let mut pieces = [iovec {
            iov_base: null_mut(),
            iov_len: 0,
        }; MAX_SEGMENTS];
        for (at, piece) in pieces.iter_mut().enumerate().take(given.count) {
            // SAFETY: the caller promises `count` entries.
            let ioc = unsafe { *given.list.add(at) };
            *piece = iovec {
                iov_base: ioc.addr,
                iov_len: ioc.count.checked_mul(size)?,
            };
        }
        // SAFETY: the caller's contract; there are `count` pieces.
        unsafe { self.buffers(pieces.as_ptr(), given.desc, given.count) }
    }
}

impl Operands {
    /// Makes the operands of a base atomic on one piece of memory.
    fn base(operand: Option<Iov>, addr: u64, key: u64) -> Self {
        Self {
            targets: one(addr, operand.as_ref(), key),
            operand,
            compare: Some(Iov::empty()),
            result: Some(Iov::empty()),
        }
    }

    /// Makes the operands of an atomic that fetches, on one piece of memory.
    fn fetch(
        operand: Option<Iov>,
        compare: Option<Iov>,
        result: Option<Iov>,
        addr: u64,
        key: u64,
    ) -> Self {
        Self {
            targets: one(addr, result.as_ref(), key),
            operand,
            compare,
            result,
        }
    }
}

/// Elements that a call was given, with their descriptors.
struct Lists {
    list: *const fi_ioc,
    desc: *const *mut c_void,
    count: usize,
}

impl Lists {
    const NONE: Self = Self::new(core::ptr::null(), core::ptr::null(), 0);

    const fn new(list: *const fi_ioc, desc: *const *mut c_void, count: usize) -> Self {
        Self { list, desc, count }
    }
}

/// Describes a call. What fetches is a read (fi_cq(3) "flags").
fn call(
    form: Form,
    datatype: fi_datatype,
    op: fi_op,
    peer: fi_addr_t,
    flags: Flags,
    context: *mut c_void,
) -> AtomicCall {
    let direction = match form {
        Form::Base => Flags::WRITE,
        _ => Flags::READ,
    };
    AtomicCall {
        peer,
        update: atomic::update(form, datatype, op),
        flags: flags | Flags::ATOMIC | direction,
        data: 0,
        context,
    }
}

fn ioc(addr: *const c_void, count: usize) -> fi_ioc {
    fi_ioc {
        addr: addr.cast_mut(),
        count,
    }
}

/// Names one piece of the peer's memory, as long as `like`.
fn one(addr: u64, like: Option<&Iov>, key: u64) -> Option<Box<[Target]>> {
    let len = like?.len() as u64;
    Some(Box::new([Target { addr, len, key }]))
}

/// Names several pieces of the peer's memory; `None` when there are too many, or none.
///
/// # Safety
/// The list has as many entries as it says.
unsafe fn many(
    list: *const fi_rma_ioc,
    count: usize,
    update: Option<Update>,
) -> Option<Box<[Target]>> {
    let size = update?.datatype.size();
    if list.is_null() || count == 0 || count > MAX_SEGMENTS {
        return None;
    }
    // SAFETY: the caller promises `count` entries.
    let pieces = (0..count).map(|at| unsafe { *list.add(at) });
    let target = |piece: fi_rma_ioc| {
        Some(Target {
            addr: piece.addr,
            len: piece.count.checked_mul(size)? as u64,
            key: piece.key,
        })
    };
    pieces.map(target).collect()
}
