//! Wait objects, and the deprecated wait and poll sets. Source: fi_eq(3), fi_poll(3).

use crate::system::{pollfd, pthread_cond_t, pthread_mutex_t};
use crate::*;
use core::ffi::{c_int, c_void};

/// What a thread can sleep on.
pub type fi_wait_obj = u32;
pub const FI_WAIT_NONE: fi_wait_obj = 0;
pub const FI_WAIT_UNSPEC: fi_wait_obj = 1;
pub const FI_WAIT_SET: fi_wait_obj = 2;
pub const FI_WAIT_FD: fi_wait_obj = 3;
pub const FI_WAIT_MUTEX_COND: fi_wait_obj = 4;
pub const FI_WAIT_YIELD: fi_wait_obj = 5;
pub const FI_WAIT_POLLFD: fi_wait_obj = 6;

/// The wait object of `FI_WAIT_MUTEX_COND`. Source: fi_eq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_mutex_cond {
    pub mutex: *mut pthread_mutex_t,
    pub cond: *mut pthread_cond_t,
}

/// The wait object of `FI_WAIT_POLLFD`. Source: fi_eq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_wait_pollfd {
    pub change_index: u64,
    pub nfds: usize,
    pub fd: *mut pollfd,
}

/// How to open a wait set. Source: fi_poll(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_wait_attr {
    pub wait_obj: fi_wait_obj,
    pub flags: u64,
}

/// A wait set, deprecated. Source: fi_poll(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_wait {
    pub fid: fid,
    pub ops: *mut fi_ops_wait,
}

ops_table! {
    /// Operations of a wait set, deprecated. Source: fi_poll(3).
    fi_ops_wait {
        wait(waitset: *mut fid_wait, timeout: c_int) -> c_int;
    }
}

/// How to open a poll set. Source: fi_poll(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_poll_attr {
    pub flags: u64,
}

/// A poll set, deprecated. Source: fi_poll(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_poll {
    pub fid: fid,
    pub ops: *mut fi_ops_poll,
}

ops_table! {
    /// Operations of a poll set, deprecated. Source: fi_poll(3).
    fi_ops_poll {
        poll(pollset: *mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int;
        poll_add(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int;
        poll_del(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int;
    }
}

zeroed!(fi_wait_attr, fi_wait_pollfd, fi_poll_attr);
