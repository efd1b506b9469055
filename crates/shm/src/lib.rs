//! The shm provider: reliable datagrams between the processes of one host, docs/protocol/shm.md.
//!
//! Two endpoints share one piece of memory with a lane in each direction, and a socket that carries the handshake and
//! afterwards reports when the other side is gone. Both belong to the kernel: however a process ends, nothing stays
//! behind. Long messages are read directly from the sender's memory (CMA, process_vm_readv(2)) where the two processes
//! may do that.
//!
//! - `link`: the data path: `ShmLink` posts into lanes and polls them. `conn` is one peer's part of it; `conns` keeps
//!   active connections apart from idle ones.
//! - `device`: how an endpoint is opened, named and put to sleep.
//! - `connect`: how connections open and close (connection management). `handshake` decides, without I/O; `peer` and
//!   `conn_table` hold the state.
//! - `wire_kind`: the numbers of the kinds of frames.
//! - `region`: the memory of a connection. `doorbell`: how a sleeping endpoint is woken. `pull`: long messages;
//!   `rndv_threshold`: which messages are. `direct`: long reads and writes that their initiator carries out by itself; `recently`: what is
//!   not looked for at each of them.
//! - `info`, `params`: the provider's fi_info, and its parameters of the environment.
//! - `hostile`: a connection with an untrusted peer, for the fuzz targets.
//! - `sys`: system calls; all unsafe code.

mod conn;
mod conn_table;
mod connect;
mod conns;
mod device;
mod direct;
mod doorbell;
mod handshake;
#[doc(hidden)]
pub mod hostile;
mod info;
mod link;
mod params;
mod peer;
mod pull;
mod recently;
mod region;
mod rndv_threshold;
mod sys;
mod wire_kind;

pub use info::Shm;
pub use link::ShmLink;
pub use params::Params;

/// The provider's name.
const NAME: &str = "shm";
