//! What calls of data transfer describe. Path class: hot.

use core::ffi::c_void;

use oxifabric_abi::fi_addr_t;
use oxifabric_types::Flags;

/// A send as a call describes it.
pub(super) struct SendCall {
    pub(super) to: fi_addr_t,
    /// `MSG` or `TAGGED`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) tag: u64,
    pub(super) data: u64,
    pub(super) context: *mut c_void,
}

/// A receive as a call describes it.
pub(super) struct RecvCall {
    pub(super) from: fi_addr_t,
    /// `MSG` or `TAGGED`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) tag: u64,
    pub(super) ignore: u64,
    pub(super) context: *mut c_void,
}

/// A read or write of memory of a peer as a call describes it.
pub(super) struct Access {
    pub(super) peer: fi_addr_t,
    /// `RMA` with `READ` or `WRITE`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) data: u64,
    pub(super) context: *mut c_void,
}
