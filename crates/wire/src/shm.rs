//! What travels between two shm endpoints, docs/protocol/shm.md.
//!
//! - [`cell`]: the header of a frame in a lane; hot path.
//! - [`kind`]: the numbers of the kinds of frames in it.
//! - [`handshake`]: the messages that open a connection, over its socket; set-up path.

pub mod cell;
pub mod handshake;
pub mod kind;
