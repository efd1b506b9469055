//! What a simulated network tells programs that know of it: the functions of `fi_open_ops(endpoint, "oxi_sim_ops", ...)`,
//! docs/sim.md section 5.

use core::ffi::CStr;

/// The name of the functions.
pub const SIM_OPS: &CStr = c"oxi_sim_ops";

/// What [`SimOps::turn`] returns when the time has come.
pub const NO_NODE: u64 = u64::MAX;

/// The functions, as a C structure. They are only ever added to at its end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SimOps {
    /// How many bytes the structure has.
    pub size: usize,
    /// What time it is, in nanoseconds since the network began.
    pub now: extern "C" fn() -> u64,
    /// Waits until an endpoint has something to do, at most until a time; returns its node, or [`NO_NODE`].
    pub turn: extern "C" fn(u64) -> u64,
    /// How often something has happened to packets, by its number in docs/sim.md; zero for other numbers.
    pub count: extern "C" fn(u32) -> u64,
}
