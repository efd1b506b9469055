//! The protocol of the block device over a fabric (docs/protocol/kofi-blk.md): `kofi_blk.ko` is the initiator, `kofi_target.ko` the target.
//!
//! Pure functions of bytes and numbers, without allocation. What they return is within bounds: a target that carries out only [`Job`]s
//! touches neither blocks outside its disk nor memory outside its buffers, and an initiator that ends only requests which
//! [`Response::ends`] names takes no more data than it asked for.
//!
//! - [`Hello`], [`Welcome`], [`Refusal`]: the data of a connection.
//! - [`Request`] and [`Job`]: what the initiator asks for, and what is left of it after the target's checks.
//! - [`Response`]: how it went.
#![no_std]
#![forbid(unsafe_code)]

mod bytes;
mod handshake;
mod request;
mod response;

pub use handshake::{Features, Hello, Limits, Reason, Refusal, Welcome};
pub use request::{Flags, Job, Op, Request};
pub use response::{Response, Status};

/// The version of the protocol. Version 1 had no data in requests.
pub const VERSION: u16 = 2;
/// The unit of positions on the disk and of its capacity, in bytes.
pub const SECTOR: u64 = 512;
/// Most requests that may be under way on a connection.
pub const DEPTH_MAX: u32 = 1024;
/// Longest read or write, in bytes.
pub const LONGEST_MAX: u32 = 1 << 20;
/// Most bytes of data that a target may let a write's request carry.
pub const INLINE_MAX: u32 = 1 << 14;

/// Why bytes are no message of the protocol. The connection on which they came is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There are not as many as the message has.
    Length,
    /// They do not begin as the message does.
    Magic,
    /// They are of another version.
    Version,
    /// A number is none of those that are defined.
    Number,
    /// A limit is zero, too large, or no power of two.
    Limit,
    /// A field that has no meaning is not zero.
    Reserved,
}
