//! The inline functions of the C headers: calls through the operation tables of an object.
//!
//! They are what a C program compiles into itself, so a Rust program on any libfabric.so.1 needs them too. Each is as thin
//! as in C, but a table or an operation that is missing is an error here and not a crash.

mod atomic;
mod av;
mod cm;
mod cntr;
mod collective;
mod cq;
mod domain;
mod endpoint;
mod eq;
mod fabric;
mod mr;
mod msg;
mod rma;
mod tagged;
mod xpu;

pub use atomic::*;
pub use av::*;
pub use cm::*;
pub use cntr::*;
pub use collective::*;
pub use cq::*;
pub use domain::*;
pub use endpoint::*;
pub use eq::*;
pub use fabric::*;
pub use mr::*;
pub use msg::*;
pub use rma::*;
pub use tagged::*;
pub use xpu::*;

use crate::FI_ENOSYS;
use core::ffi::{c_char, c_int};
use core::ptr;

/// What a call gives when its object lacks the operation.
pub trait Absent {
    /// `-FI_ENOSYS`; 0 for counts, null for strings.
    const ABSENT: Self;
}

impl Absent for c_int {
    const ABSENT: Self = -FI_ENOSYS;
}

impl Absent for isize {
    const ABSENT: Self = -(FI_ENOSYS as isize);
}

impl Absent for u64 {
    const ABSENT: Self = 0;
}

impl Absent for *const c_char {
    const ABSENT: Self = ptr::null();
}
