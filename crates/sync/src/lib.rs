//! Rings and locks shared by the providers.
//!
//! - [`switch_lock`]: the lock of an object group, which the application's threading promise switches off.
//! - [`spsc`]: a single-producer single-consumer (SPSC) ring of cells and bodies in memory that two processes share.

pub mod spsc;
pub mod switch_lock;

pub use switch_lock::{Guard, SwitchLock};
