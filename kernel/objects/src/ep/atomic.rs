//! Atomics: fi_atomic(3). The lists of pieces (`fi_atomicv` and the like) are not offered.

use alloc::boxed::Box;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use oxifabric_abi::{
    FI_COMPARE_ATOMIC, FI_FETCH_ATOMIC, fi_addr_t, fi_atomic_attr, fi_datatype, fi_op,
    fi_ops_atomic, fid_domain, fid_ep,
};
use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_engine::{AtomicOp, Target, Update};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use super::Ep;
use super::flags::placed;
use super::post::buffer;
use crate::handle::{object, status};
use crate::provider::Provider;

/// An atomic as a call asks for it.
struct Call {
    datatype: fi_datatype,
    op: fi_op,
    count: usize,
    addr: u64,
    key: u64,
    flags: Flags,
    context: *mut c_void,
    operand: *const c_void,
}

/// What the atomic does beside the change, and the buffers for that.
#[derive(Clone, Copy)]
enum Also {
    Nothing,
    Fetch(*mut c_void),
    CompareAndFetch(*const c_void, *mut c_void),
}

impl<P: Provider> Ep<P> {
    pub(super) const ATOMIC: &'static fi_ops_atomic = &fi_ops_atomic {
        write: Some(Self::atomic),
        inject: Some(Self::inject_atomic),
        readwrite: Some(Self::fetch_atomic),
        compwrite: Some(Self::compare_atomic),
        ..fi_ops_atomic::NONE
    };

    unsafe extern "C" fn atomic(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        _desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = placed(ep.defaults.tx.plain()) | Flags::WRITE;
        let call = Call {
            datatype,
            op,
            count,
            addr,
            key,
            flags,
            context,
            operand: buf,
        };
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.update(dest_addr, unsafe { operation(&call, Also::Nothing) })
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
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = placed(ep.defaults.tx.inject()) | Flags::WRITE;
        let call = Call {
            datatype,
            op,
            count,
            addr,
            key,
            flags,
            context: null_mut(),
            operand: buf,
        };
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.update(dest_addr, unsafe { operation(&call, Also::Nothing) })
    }

    unsafe extern "C" fn fetch_atomic(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        _desc: *mut c_void,
        result: *mut c_void,
        _result_desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = ep.defaults.tx.plain() | Flags::READ;
        let call = Call {
            datatype,
            op,
            count,
            addr,
            key,
            flags,
            context,
            operand: buf,
        };
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.update(dest_addr, unsafe { operation(&call, Also::Fetch(result)) })
    }

    unsafe extern "C" fn compare_atomic(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        _desc: *mut c_void,
        compare: *const c_void,
        _compare_desc: *mut c_void,
        result: *mut c_void,
        _result_desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let flags = ep.defaults.tx.plain() | Flags::READ;
        let call = Call {
            datatype,
            op,
            count,
            addr,
            key,
            flags,
            context,
            operand: buf,
        };
        // SAFETY: the consumer leaves the buffers to the operation.
        ep.update(dest_addr, unsafe {
            operation(&call, Also::CompareAndFetch(compare, result))
        })
    }
}

/// Describes an atomic; its peer is found later.
///
/// # Errors
/// `OPNOTSUPP` for one that there is not; `INVAL` for too many elements.
///
/// # Safety
/// The buffers are as long as the elements need, and the operation's until it completes.
unsafe fn operation(call: &Call, also: Also) -> Result<AtomicOp, Errno> {
    let (form, compare, result) = match also {
        Also::Nothing => (Form::Base, None, None),
        Also::Fetch(result) => (Form::Fetch, None, Some(result.cast_const())),
        Also::CompareAndFetch(compare, result) => {
            (Form::Compare, Some(compare), Some(result.cast_const()))
        }
    };
    let update = update(form, call.datatype, call.op).ok_or(Errno::OPNOTSUPP)?;
    if call.count == 0 || call.count > update.max_count() {
        return Err(Errno::INVAL);
    }
    let len = call.count * update.datatype.size();
    let operand = (update.operation != Operation::Read).then_some(call.operand);
    // SAFETY: the caller's contract.
    let of = |buf: Option<_>| buf.map_or(Ok(Iov::empty()), |buf| unsafe { buffer(buf, len) });
    let target = Target {
        addr: call.addr,
        len: len as u64,
        key: call.key,
    };
    Ok(AtomicOp {
        peer: PeerId::ANY,
        update,
        targets: Box::new([target]),
        operand: of(operand)?,
        compare: of(compare)?,
        result: of(result)?,
        data: 0,
        flags: call.flags | Flags::ATOMIC,
        context: call.context.addr(),
    })
}

fn update(form: Form, datatype: fi_datatype, op: fi_op) -> Option<Update> {
    let update = Update {
        form,
        datatype: Datatype::from_raw(u64::from(datatype))?,
        operation: Operation::from_raw(u64::from(op))?,
    };
    update.is_valid().then_some(update)
}

/// fi_query_atomic: tells how many elements an atomic may have, and how long they are.
pub(crate) unsafe extern "C" fn query(
    _domain: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let form = match flags {
        0 => Form::Base,
        FI_FETCH_ATOMIC => Form::Fetch,
        FI_COMPARE_ATOMIC => Form::Compare,
        _ => return -Errno::BADFLAGS.raw(),
    };
    let found = update(form, datatype, op).ok_or(Errno::OPNOTSUPP);
    status(found.map(|update| {
        let told = fi_atomic_attr {
            count: update.max_count(),
            size: update.datatype.size(),
        };
        if !attr.is_null() {
            // SAFETY: the consumer passes a place for the attributes, or null.
            unsafe { attr.write(told) };
        }
    }))
}
