//! The sans-IO messaging protocol: matching, eager, segmented and rendezvous transfers, completion.
//!
//! The engine turns operations into frames and frames into completions. It does no I/O, reads no clock and
//! starts no thread: a [`Link`] moves the frames, its driver passes the time, and a [`Completions`] takes
//! the results. State is plain; only the few functions that touch the link are generic over it, so that a
//! shared-memory link is inlined into the progress loop.
//!
//! - [`link`]: the interface of a transport ([`Link`]) and what it calls when something arrives ([`Sink`]).
//! - [`op`]: operations and their completions.
//! - [`engine`]: the state of one endpoint between the two.
//! - [`faults`]: fault injection, for tests.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod engine;
pub mod faults;
mod kind_numbers;
pub mod link;
pub mod op;

mod announce;
mod atomic;
mod budget;
mod collective;
mod deferred;
mod down;
mod fence;
mod index;
mod list;
mod loopback;
mod matching;
mod message;
mod multi_recv;
mod peek;
mod peer;
mod peer_set;
mod pending_peers;
mod posted;
mod pull;
mod refusal;
mod respond;
mod rma;
mod rndv;
mod rx;
mod rx_placement;
mod segment;
mod shared;
mod sink;
mod slab;
mod transmit;
mod tx;
mod unexpected;
mod waiting_events;

pub use atomic::{AtomicOp, MAX_ATOMIC_BYTES, Update};
pub use collective::{CollectiveOp, GroupId, MAX_MEMBERS};
pub use engine::{Config, Engine};
pub use link::{
    Announced, Body, Frame, Header, HeaderFlags, Kind, Limits, Link, OneSided, OpenRegion,
    Placement, PostError, Posted, RemoteIov, RemoteWrite, RxToken, Sink, Target, TxToken,
};
pub use op::{Completion, Completions, Failure, PIECE, RmaOp, RxOp, TxOp, WaitEvent, Waiting};
pub use peer_set::PeerSet;
