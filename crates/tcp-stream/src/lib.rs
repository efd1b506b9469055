//! What an endpoint of the tcp provider says over its sockets (docs/protocol/tcp.md), wherever it runs: in a process, or in a kernel.
//!
//! The owner of the sockets makes and polls them; what is written to them and read from them is decided here, over the trait [`Socket`]. There is
//! neither clock nor log nor operating system.
//!
//! - [`cm`]: connection management: messages in pieces, what both ends negotiate, attempts and their answers.
//! - [`stream`]: the frames of a connection in use, over its two halves: [`tx`] and [`rx`].
//! - [`id_map`]: engine headers into wire headers and back. [`limits`]: what a peer can take.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cm;
pub mod id_map;
pub mod limits;
pub mod rx;
mod socket;
pub mod stream;
pub mod tx;

pub use socket::Socket;
