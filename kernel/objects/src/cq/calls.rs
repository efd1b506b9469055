//! The calls of a completion queue.

use core::ffi::{c_char, c_int, c_void};

use oxifabric_abi::{
    FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_MSG, fi_addr_t, fi_cq_err_entry,
    fi_cq_tagged_entry, fi_ops, fi_ops_cq, fid, fid_cq,
};
use oxifabric_kernel_sync::Timeout;
use oxifabric_types::{Errno, strerror_c};

use super::{Callback, Cq, Entry};
use crate::handle::{close, count, failed, object};

/// The command of fi_control that sets the callback; its argument is a `struct kofi_cq_callback`.
const SET_CALLBACK: c_int = 1 << 30;

pub(super) static OPS: fi_ops = fi_ops {
    close: Some(close_cq),
    control: Some(control),
    ..fi_ops::NONE
};

pub(super) static TABLE: fi_ops_cq = fi_ops_cq {
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: Some(sread),
    sreadfrom: Some(sreadfrom),
    signal: Some(signal),
    strerror: Some(strerror),
    ..fi_ops_cq::NONE
};

unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, room: usize) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { readfrom(cq, buf, room, core::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    room: usize,
    src_addr: *mut fi_addr_t,
) -> isize {
    // SAFETY: the table is only in handles of queues.
    let cq = unsafe { object::<Cq>(cq) };
    // SAFETY: the caller's arguments.
    count(cq.read(room, &mut unsafe { writer(cq, buf, src_addr) }))
}

/// Returns what writes entries to where the consumer wants them.
///
/// # Safety
/// `buf`, and `src_addr` if it is not null, have room for as many as are read.
unsafe fn writer(
    cq: &Cq,
    buf: *mut c_void,
    src_addr: *mut fi_addr_t,
) -> impl FnMut(usize, &Entry) + use<> {
    let size = entry_size(cq);
    move |at, entry| {
        let wide = widest(entry);
        // SAFETY: the caller's contract; entries of a queue's format are how the widest one begins.
        unsafe {
            let to = buf.cast::<u8>().add(at * size);
            // A copy of a length that is known takes a third of the time.
            if size == size_of::<fi_cq_tagged_entry>() {
                to.cast::<fi_cq_tagged_entry>().write_unaligned(wide);
            } else {
                to.copy_from_nonoverlapping((&raw const wide).cast(), size);
            }
            if !src_addr.is_null() {
                src_addr.add(at).write(entry.source);
            }
        }
    }
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    room: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { sreadfrom(cq, buf, room, core::ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    room: usize,
    src_addr: *mut fi_addr_t,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the table is only in handles of queues.
    let queue = unsafe { object::<Cq>(cq) };
    if !queue.may_wait {
        return failed(Errno::INVAL);
    }
    // SAFETY: the caller's arguments.
    let mut take = unsafe { writer(queue, buf, src_addr) };
    count(queue.read_when_there(room, Timeout::from_ms(timeout), &mut take))
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _flags: u64) -> isize {
    // SAFETY: the table is only in handles of queues.
    let cq = unsafe { object::<Cq>(cq) };
    let mut state = cq.state.lock();
    let was_full = state.ring.is_full();
    let Some(entry) = state.ring.next_error() else {
        return failed(Errno::AGAIN);
    };
    if was_full {
        state.let_in();
    }
    let errno = entry.errno.map_or(0, Errno::raw);
    let error = fi_cq_err_entry {
        op_context: entry.context as *mut c_void,
        flags: entry.flags,
        len: entry.len,
        buf: entry.buf as *mut c_void,
        data: entry.data,
        tag: entry.tag,
        olen: entry.overflow,
        err: errno,
        prov_errno: errno,
        src_addr: entry.source,
        ..fi_cq_err_entry::ZERO
    };
    // SAFETY: the consumer passes room for an error entry.
    unsafe { buf.write(error) };
    1
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: the table is only in handles of queues.
    unsafe { object::<Cq>(cq) }.signal();
    0
}

unsafe extern "C" fn strerror(
    _cq: *mut fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = strerror_c(prov_errno);
    if !buf.is_null() && len > 0 {
        let bytes = text.to_bytes();
        let fitting = bytes.len().min(len - 1);
        // SAFETY: the consumer passes room for `len` characters.
        unsafe {
            buf.cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), fitting);
            buf.add(fitting).write(0);
        }
    }
    text.as_ptr()
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    if command != SET_CALLBACK {
        return -Errno::NOSYS.raw();
    }
    // SAFETY: the table is only in handles of queues; the argument of this command is a callback.
    let (cq, callback) = unsafe { (object::<Cq>(fid.cast()), arg.cast::<Callback>().as_ref()) };
    match callback {
        Some(callback) => {
            cq.set_callback(*callback);
            0
        }
        None => -Errno::INVAL.raw(),
    }
}

unsafe extern "C" fn close_cq(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in handles of queues.
    unsafe { close::<Cq>(fid, Cq::end) }
}

/// Returns how many bytes an entry of the queue's format has.
const fn entry_size(cq: &Cq) -> usize {
    match cq.format {
        FI_CQ_FORMAT_CONTEXT => core::mem::offset_of!(fi_cq_tagged_entry, flags),
        FI_CQ_FORMAT_MSG => core::mem::offset_of!(fi_cq_tagged_entry, buf),
        FI_CQ_FORMAT_DATA => core::mem::offset_of!(fi_cq_tagged_entry, tag),
        _ => size_of::<fi_cq_tagged_entry>(),
    }
}

/// Returns the entry in the format of which the others are the beginning.
const fn widest(entry: &Entry) -> fi_cq_tagged_entry {
    fi_cq_tagged_entry {
        op_context: entry.context as *mut c_void,
        flags: entry.flags,
        len: entry.len,
        buf: entry.buf as *mut c_void,
        data: entry.data,
        tag: entry.tag,
    }
}
