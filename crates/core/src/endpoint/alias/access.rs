//! Remote memory access and atomics through an alias: fi_rma(3), fi_atomic(3). Only transmit contexts begin any.

use core::ffi::{c_int, c_void};

use libc::iovec;
use oxifabric_abi::{
    FI_REMOTE_CQ_DATA, fi_addr_t, fi_datatype, fi_ioc, fi_msg_atomic, fi_msg_rma, fi_op,
    fi_ops_atomic, fi_ops_rma, fi_rma_ioc, fi_rma_iov, fid_ep,
};

use oxifabric_mem::MAX_SEGMENTS;

use super::messages::one;
use super::{Alias, Direction, pass_on};
use crate::absent;

/// Returns the operations of remote memory access.
pub(super) fn rma(direction: Option<Direction>) -> &'static fi_ops_rma {
    match direction {
        Some(Direction::Receive) => &absent::RMA,
        _ => &RMA,
    }
}

/// Returns the atomic operations.
pub(super) fn atomic(direction: Option<Direction>) -> &'static fi_ops_atomic {
    match direction {
        Some(Direction::Receive) => &absent::ATOMIC,
        _ => &ATOMIC,
    }
}

static RMA: fi_ops_rma = fi_ops_rma {
    read: Some(read),
    readv: Some(readv),
    readmsg: Some(readmsg),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: Some(writedata),
    injectdata: Some(injectdata),
    ..fi_ops_rma::NONE
};

static ATOMIC: fi_ops_atomic = fi_ops_atomic {
    write: Some(update),
    writev: Some(updatev),
    writemsg: Some(updatemsg),
    inject: Some(inject_update),
    readwrite: Some(fetch),
    readwritev: Some(fetchv),
    readwritemsg: Some(fetchmsg),
    compwrite: Some(compare),
    compwritev: Some(comparev),
    compwritemsg: Some(comparemsg),
    writevalid: Some(update_valid),
    readwritevalid: Some(fetch_valid),
    compwritevalid: Some(compare_valid),
    ..fi_ops_atomic::NONE
};

pass_on! {
    readmsg: rma.readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize;
    writemsg: rma.writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize;
    inject: rma.inject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: fi_addr_t, addr: u64, key: u64) -> isize;
    injectdata: rma.injectdata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, to: fi_addr_t, addr: u64, key: u64) -> isize;
    updatemsg: atomic.writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize;
    inject_update: atomic.inject(ep: *mut fid_ep, buf: *const c_void, count: usize, to: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op) -> isize;
    fetchmsg: atomic.readwritemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> isize;
    comparemsg: atomic.compwritemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, comparev: *const fi_ioc, compare_desc: *mut *mut c_void, compare_count: usize, resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> isize;
    update_valid: atomic.writevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int;
    fetch_valid: atomic.readwritevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int;
    compare_valid: atomic.compwritevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int;
}

/// Adds up the lengths of a list; what cannot be a length, or has more pieces than there may be, is left to the endpoint to refuse.
///
/// # Safety
/// The list has `count` entries, or is null.
unsafe fn length(iov: *const iovec, count: usize) -> usize {
    if iov.is_null() {
        return 0;
    }
    // SAFETY: the caller's contract.
    let lengths = (0..count.min(MAX_SEGMENTS)).map(|at| unsafe { (*iov.add(at)).iov_len });
    lengths.fold(0, usize::saturating_add)
}

/// As [`length`], for the numbers of elements of an atomic operation.
///
/// # Safety
/// As there.
unsafe fn elements(iov: *const fi_ioc, count: usize) -> usize {
    if iov.is_null() {
        return 0;
    }
    // SAFETY: the caller's contract.
    let counts = (0..count.min(MAX_SEGMENTS)).map(|at| unsafe { (*iov.add(at)).count });
    counts.fold(0, usize::saturating_add)
}

unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    mut desc: *mut c_void,
    src_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let iov = one(buf, len);
    // SAFETY: the arguments are those of `readv`, and the lists outlive the call.
    unsafe { readv(ep, &iov, &mut desc, 1, src_addr, addr, key, context) }
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
    // SAFETY: the application passes a list of `count` buffers.
    let len = unsafe { length(iov, count) };
    let msg = fi_msg_rma {
        msg_iov: iov,
        desc,
        iov_count: count,
        addr: src_addr,
        rma_iov: &fi_rma_iov { addr, len, key },
        rma_iov_count: 1,
        context,
        data: 0,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { readmsg(ep, &msg, Alias::of(ep).tx()) }
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    mut desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let iov = one(buf, len);
    // SAFETY: the arguments are those of `writev`, and the lists outlive the call.
    unsafe { writev(ep, &iov, &mut desc, 1, dest_addr, addr, key, context) }
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
    // SAFETY: the application passes a list of `count` buffers.
    let len = unsafe { length(iov, count) };
    let msg = fi_msg_rma {
        msg_iov: iov,
        desc,
        iov_count: count,
        addr: dest_addr,
        rma_iov: &fi_rma_iov { addr, len, key },
        rma_iov_count: 1,
        context,
        data: 0,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { writemsg(ep, &msg, Alias::of(ep).tx() & !FI_REMOTE_CQ_DATA) }
}

unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    mut desc: *mut c_void,
    data: u64,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let msg = fi_msg_rma {
        msg_iov: &one(buf, len),
        desc: &mut desc,
        iov_count: 1,
        addr: dest_addr,
        rma_iov: &fi_rma_iov { addr, len, key },
        rma_iov_count: 1,
        context,
        data,
    };
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { writemsg(ep, &msg, Alias::of(ep).tx() | FI_REMOTE_CQ_DATA) }
}

/// Where in the peer's memory an atomic operation is, and which one.
struct Place {
    to: fi_addr_t,
    target: fi_rma_ioc,
    datatype: fi_datatype,
    op: fi_op,
}

/// Describes an atomic operation on a list of operands as a message.
const fn described(
    (iov, desc, count): (*const fi_ioc, *mut *mut c_void, usize),
    place: &Place,
    context: *mut c_void,
) -> fi_msg_atomic {
    fi_msg_atomic {
        msg_iov: iov,
        desc,
        iov_count: count,
        addr: place.to,
        rma_iov: &raw const place.target,
        rma_iov_count: 1,
        datatype: place.datatype,
        op: place.op,
        context,
        data: 0,
    }
}

/// Describes operands of an atomic operation as a list.
const fn operands(buf: *const c_void, count: usize) -> fi_ioc {
    fi_ioc {
        addr: buf.cast_mut(),
        count,
    }
}

unsafe extern "C" fn update(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    mut desc: *mut c_void,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let iov = operands(buf, count);
    let desc = &raw mut desc;
    // SAFETY: the arguments are those of `updatev`, and the lists outlive the call.
    unsafe { updatev(ep, &iov, desc, 1, to, addr, key, datatype, op, context) }
}

unsafe extern "C" fn updatev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    desc: *mut *mut c_void,
    count: usize,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: the application passes a list of `count` operands.
    let place = unsafe { place(to, addr, key, elements(iov, count), datatype, op) };
    let msg = described((iov, desc, count), &place, context);
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe { updatemsg(ep, &msg, Alias::of(ep).tx()) }
}

unsafe extern "C" fn fetch(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    mut desc: *mut c_void,
    result: *mut c_void,
    mut result_desc: *mut c_void,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (iov, mut results) = (operands(buf, count), operands(result, count));
    let place = place(to, addr, key, count, datatype, op);
    let msg = described((&iov, &mut desc, 1), &place, context);
    // SAFETY: the table is only in the handles of aliases; message and lists outlive the call.
    unsafe {
        fetchmsg(
            ep,
            &msg,
            &mut results,
            &mut result_desc,
            1,
            Alias::of(ep).tx(),
        )
    }
}

unsafe extern "C" fn fetchv(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    desc: *mut *mut c_void,
    count: usize,
    resultv: *mut fi_ioc,
    result_desc: *mut *mut c_void,
    result_count: usize,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // A plain read has no operands of its own; where the results go says how much is read.
    // SAFETY: the application passes lists of `count` operands and `result_count` results.
    let number = unsafe {
        match elements(iov, count) {
            0 => elements(resultv, result_count),
            number => number,
        }
    };
    let place = place(to, addr, key, number, datatype, op);
    let msg = described((iov, desc, count), &place, context);
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe {
        fetchmsg(
            ep,
            &msg,
            resultv,
            result_desc,
            result_count,
            Alias::of(ep).tx(),
        )
    }
}

unsafe extern "C" fn compare(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    mut desc: *mut c_void,
    compare: *const c_void,
    mut compare_desc: *mut c_void,
    result: *mut c_void,
    mut result_desc: *mut c_void,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (iov, compares) = (operands(buf, count), operands(compare, count));
    let mut results = operands(result, count);
    let place = place(to, addr, key, count, datatype, op);
    let msg = described((&iov, &mut desc, 1), &place, context);
    // SAFETY: the table is only in the handles of aliases; message and lists outlive the call.
    unsafe {
        let flags = Alias::of(ep).tx();
        let (compare_desc, result_desc) = (&raw mut compare_desc, &raw mut result_desc);
        comparemsg(
            ep,
            &msg,
            &compares,
            compare_desc,
            1,
            &mut results,
            result_desc,
            1,
            flags,
        )
    }
}

unsafe extern "C" fn comparev(
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
    to: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: the application passes a list of `count` operands.
    let place = unsafe { place(to, addr, key, elements(iov, count), datatype, op) };
    let msg = described((iov, desc, count), &place, context);
    // SAFETY: the table is only in the handles of aliases; the message outlives the call.
    unsafe {
        let flags = Alias::of(ep).tx();
        comparemsg(
            ep,
            &msg,
            comparev,
            compare_desc,
            compare_count,
            resultv,
            result_desc,
            result_count,
            flags,
        )
    }
}

const fn place(
    to: fi_addr_t,
    addr: u64,
    key: u64,
    count: usize,
    datatype: fi_datatype,
    op: fi_op,
) -> Place {
    Place {
        to,
        target: fi_rma_ioc { addr, count, key },
        datatype,
        op,
    }
}
