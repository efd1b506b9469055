//! The application's memory behind a safe interface.
//!
//! The protocol needs to remember, split and fill memory that belongs to the application without owning it.
//! [`Iov`] is that memory: making one is `unsafe` and carries the promise of fi_msg(3) that the memory stays
//! valid until the operation completes; everything after that is safe.
#![no_std]

extern crate alloc;

mod copy;
mod heap;
mod iov;
mod registered;
mod registration;

pub use iov::{Iov, IovSegment, MAX_SEGMENTS};
pub use registration::{MemoryKind, RegionId, Registration};
