//! RDMA devices by libibverbs and libefa, which are opened when they are asked for and never linked.
//!
//! [`Verbs::get`] opens the libraries; where they are missing, [`Absence`] says what to install. From a [`Device`] to a [`Qp`], each object keeps those
//! alive that it was made from, so they may be dropped in any order. Memory that a device touches is lent to an [`Mr`] and outlives it; a [`Piece`] of it is
//! an address and a key, which the device checks, so a stale one fails with a status instead of reaching foreign memory.
//!
//! The structures of `infiniband/verbs.h` and `infiniband/efadv.h` are written by hand and held against those headers by a test.

#![deny(unsafe_code)]

mod completion;
mod qp_attr;
#[allow(
    unsafe_code,
    reason = "calls of C functions, by pointers that the libraries hand out"
)]
mod sys;

pub use completion::{Completion, Opcode, Received, Status};
pub use qp_attr::{Access, Capacity, CqOptions, QpKind, QpOptions, QpState, SendOps, StateChange};
pub use sys::{
    Absence, Ah, Channel, Context, Cq, Device, DeviceAttributes, EfaAttributes, EfaCaps,
    Interconnects, Mr, Pd, Piece, Poll, Poller, Port, Qp, Send, SendOp, Verbs,
};

/// The address of a port, as InfiniBand and EFA write it.
pub type Gid = [u8; 16];
