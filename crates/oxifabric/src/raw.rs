//! The safety boundary: everything unsafe of this crate, behind safe functions.
//!
//! - [`Library`]: the functions that a libfabric.so.1 exports;
//! - [`HintsImage`], [`InfoHandle`]: a request as C lays it out, and an offer;
//! - [`FabricObject`], [`DomainObject`], [`Queue`], [`Peers`], [`EndpointObject`], [`RegionObject`], [`CounterObject`], [`Events`],
//!   [`Listener`]: open objects, each with its parents;
//! - [`Memory`] and `Slots`: the memory of operations, which stays in place while they are in flight.
//!
//! Four promises make it sound: an object is closed only after all objects opened from it or bound to it; memory belongs to
//! its slot from the post until the completion, or at least until its endpoint is closed; slots stay allocated until the queue that may
//! name them is closed; objects of a domain that is not for all threads are reached only through public types that stay on one.

mod batch;
mod counter;
mod domain;
mod endpoint;
mod events;
mod exchange;
mod foreign;
mod handle;
mod hints;
mod info;
mod library;
mod listener;
mod memory;
mod owner_thread;
mod peers;
mod plain;
mod post;
mod queue;
mod region;
mod scope;
mod simulation;
mod slots;
#[cfg(test)]
mod slots_tests;
mod watch;

pub(crate) use batch::Batch;
pub(crate) use counter::CounterObject;
pub(crate) use domain::{DomainObject, FabricObject, obstacle};
pub(crate) use endpoint::{Bindings, EndpointObject};
pub(crate) use events::{Connection, ConnectionState, EventFailure, Events, Read};
pub use foreign::DmaBuf;
pub(crate) use hints::HintsImage;
pub(crate) use info::InfoHandle;
pub(crate) use library::{Library, RawParameter};
pub(crate) use listener::Listener;
pub use memory::Buffer;
pub(crate) use memory::Memory;
pub use peers::Peer;
pub(crate) use peers::Peers;
pub use plain::Plain;
pub(crate) use plain::{from_word, to_word};
pub(crate) use post::{Inject, Place, Post};
pub(crate) use queue::{
    Arrival, Done, Entry, ErrorEntry, Other, Polled, Queue, Remote, Room, Waits,
};
pub(crate) use region::RegionObject;
pub(crate) use scope::PollBackoff;
pub use scope::{Scope, ScopedOp};
pub(crate) use simulation::SimulationOps;
pub(crate) use slots::InFlightOp;
pub use slots::Op;
pub(crate) use slots::ReadGuard;
pub(crate) use slots::Scalars;
pub(crate) use watch::{Doorbell, readable};

use core::ffi::{CStr, c_char};
use oxifabric_types::Errno;

/// Returns the error number behind a negative return value.
fn errno(ret: isize) -> Errno {
    let positive = ret.checked_neg().and_then(|ret| i32::try_from(ret).ok());
    Errno::from_raw(positive.unwrap_or(0))
}

/// Turns the return value of a control call into a result.
fn check(ret: i32) -> Result<(), Errno> {
    if ret == 0 {
        Ok(())
    } else {
        Err(errno(ret as isize))
    }
}

/// Copies a C string; empty for null.
///
/// # Safety
///
/// `text` must be null or a string that ends.
unsafe fn owned_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for the string.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// Returns the provider's text for an error.
///
/// # Safety
///
/// The call must take space for a text and its length, and return null or a string that ends.
unsafe fn error_text(call: impl FnOnce(*mut c_char, usize) -> *const c_char) -> String {
    let mut text: [c_char; 512] = [0; 512];
    // SAFETY: the caller vouches for what the call returns, which may be in the text.
    unsafe { owned_text(call(text.as_mut_ptr(), text.len())) }
}
