//! Locks, waiting and deferred work of the kernel.
//!
//! In a kernel these are calls of `krt_shim.h`; elsewhere the standard library has the other side, so that what is built on them is
//! tested as a program as well.
//!
//! - [`Mutex`]: sleeps; only in process context.
//! - [`Signal`]: what threads sleep on until something happened.
//! - [`wait_until`]: for what raises no signal.
//! - [`Work`]: a task that the kernel's workers run soon.
//! - [`Global`]: what lives as long as the module.
#![no_std]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

mod global;
#[cfg(not(target_os = "none"))]
mod hosted;
#[cfg(target_os = "none")]
mod kernel;
mod mutex;
mod signal;
mod wait;
mod work;

#[cfg(not(target_os = "none"))]
use hosted as system;
#[cfg(target_os = "none")]
use kernel as system;

pub use global::Global;
pub use mutex::{Guard, Mutex};
pub use signal::{Ended, Signal, Timeout};
pub use wait::wait_until;
pub use work::{Attended, Few, Task, Work};
