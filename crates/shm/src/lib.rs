//! The shm provider: reliable datagrams between the processes of one host, docs/protocol/shm.md.
//!
//! A pair of endpoints shares one piece of memory with a lane in each direction, and a socket that carries the greeting
//! and afterwards says when the other side is gone. Both belong to the kernel: however a process ends, nothing stays
//! behind. Long messages are read directly from the sender's memory where the two processes may do that.
//!
//! - `link`: the data path: `ShmLink` posts into lanes and polls them. `pair` is one peer's part of it, and
//!   `pairs` says at which of them a poll looks.
//! - `device`: how an endpoint is opened, named and put to sleep.
//! - `connect`: how pairs open and close. `handshake` decides, without I/O; `peer` and `switchboard` remember.
//! - `region`: the memory of a pair. `doorbell`: how a sleeper is woken. `pull`: long messages.
//! - `fault`: fault injection.
//! - `info`, `params`: what the provider offers, and what the environment asks of it.
//! - `hostile`: a pair with a stranger, for the fuzz targets.
//! - `sys`: system calls; all unsafe code.

mod connect;
mod device;
mod doorbell;
mod fault;
mod handshake;
#[doc(hidden)]
pub mod hostile;
mod info;
mod link;
mod pair;
mod pairs;
mod params;
mod peer;
mod pull;
mod region;
mod switchboard;
mod sys;

pub use info::Shm;
pub use link::ShmLink;
pub use params::Params;

/// The provider's name.
const NAME: &str = "shm";
