//! The libraries' objects, each with a drop that gives it back.
//!
//! Objects of libibverbs may be used by several threads at once; it locks them. What a pointer in here points at lives as long as the object that has the
//! pointer, and that keeps the objects alive which it was made from.

mod cq;
mod device;
#[cfg(test)]
mod layout;
mod library;
mod pd;
mod poller;
mod qp;
mod structures;

pub use cq::{Channel, Cq};
pub use device::{Context, Device, DeviceAttributes, EfaAttributes, EfaCaps, Port};
pub use library::{Absence, Verbs};
pub use pd::{Ah, Interconnects, Mr, Pd, Piece};
pub use poller::{Poll, Poller};
pub use qp::{Qp, Send, SendOp};

use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;

use oxifabric_types::Errno;

/// Returns the error of the call that has just failed.
fn last_error() -> Errno {
    let error = io::Error::last_os_error().raw_os_error();
    Errno::from_raw(error.unwrap_or(libc::EIO))
}

/// Returns the object that a call made; null means that it failed.
fn made<T>(pointer: *mut T) -> Result<NonNull<T>, Errno> {
    NonNull::new(pointer).ok_or_else(last_error)
}

/// Returns whether a call succeeded that returns 0 or an error number, which some functions return negative.
fn done(result: c_int) -> Result<(), Errno> {
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw(result.saturating_abs()))
    }
}
