//! Rings and locks shared by the providers.
//!
//! - [`switch_lock`]: the lock of an object group, which the application's threading promise switches off.

pub mod switch_lock;

pub use switch_lock::{Guard, SwitchLock};
