//! Reliable byte streams over any link that carries packets, docs/protocol/reliable.md.
//!
//! A [`Channel`] is one end of a stream in each direction between two endpoints. It does no I/O and reads no clock:
//! the owner of the packet link hands it what arrived and sends what it wants sent.
//!
//! - [`channel`]: the ids that the ends give a channel, opening, closing, restarts, and timers.
//! - [`sender`]: packets from the first byte written to their acknowledgement; which of them are lost.
//! - [`receiver`]: what has arrived, in order or not, and how much more may come.
//! - [`path`]: how long packets take, and how many may be under way; `mtu`: how long they may be.
//! - `parts`: packets that come in parts.
//! - `faults`: fault injection: packets that are lost, duplicated or overtaken.
//! - [`link`]: a [`oxifabric_engine::Link`] of channels, over a [`PacketPort`], which folds those that are idle; [`reader`] makes frames of bytes;
//!   `wire_kind`: the numbers of their kinds.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod channel;
mod faults;
pub mod link;
mod mtu;
mod parts;
mod path;
mod reader;
mod receiver;
mod sender;
mod wire_kind;

pub use channel::{Channel, ChannelConfig, CloseReason, Consumer, Event, Identity, PacketWriter};
pub use link::{PacketPort, ReliableLink};

#[cfg(test)]
mod tests;
