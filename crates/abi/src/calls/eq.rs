//! Calls of `rdma/fi_eq.h` on event queues and wait objects. Source: fi_eq(3), fi_poll(3).

use crate::*;
use core::ffi::{c_char, c_int, c_void};

calls! {
    /// Whether a thread may sleep on the wait objects of these queues: 0, or `-FI_EAGAIN`. Source: fi_poll(3).
    pub fi_trywait: ops.trywait(
        fabric: *mut fid_fabric,
        fids: *mut *mut fid,
        count: c_int,
    ) -> c_int;

    /// Sleeps on a wait set, deprecated. Source: fi_poll(3).
    pub fi_wait: ops.wait(waitset: *mut fid_wait, timeout: c_int) -> c_int;

    /// Lists the contexts of objects with news, deprecated. Source: fi_poll(3).
    pub fi_poll: ops.poll(pollset: *mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int;

    /// Adds an object to a poll set, deprecated. Source: fi_poll(3).
    pub fi_poll_add: ops.poll_add(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int;

    /// Removes an object from a poll set, deprecated. Source: fi_poll(3).
    pub fi_poll_del: ops.poll_del(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int;

    /// Opens an event queue. Source: fi_eq(3).
    pub fi_eq_open: ops.eq_open(
        fabric: *mut fid_fabric,
        attr: *mut fi_eq_attr,
        eq: *mut *mut fid_eq,
        context: *mut c_void,
    ) -> c_int;

    /// Takes one event, or returns `-FI_EAGAIN` or `-FI_EAVAIL`. Source: fi_eq(3).
    pub fi_eq_read: ops.read(
        eq: *mut fid_eq,
        event: *mut u32,
        buf: *mut c_void,
        len: usize,
        flags: u64,
    ) -> isize;

    /// Takes one event in error. Source: fi_eq(3).
    pub fi_eq_readerr: ops.readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize;

    /// Adds an event of the caller. Source: fi_eq(3).
    pub fi_eq_write: ops.write(
        eq: *mut fid_eq,
        event: u32,
        buf: *const c_void,
        len: usize,
        flags: u64,
    ) -> isize;

    /// Takes one event, waiting up to `timeout` milliseconds. Source: fi_eq(3).
    pub fi_eq_sread: ops.sread(
        eq: *mut fid_eq,
        event: *mut u32,
        buf: *mut c_void,
        len: usize,
        timeout: c_int,
        flags: u64,
    ) -> isize;

    /// Spells an error of the provider. Source: fi_eq(3).
    pub fi_eq_strerror: ops.strerror(
        eq: *mut fid_eq,
        prov_errno: c_int,
        err_data: *const c_void,
        buf: *mut c_char,
        len: usize,
    ) -> *const c_char;
}
