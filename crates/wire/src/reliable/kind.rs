//! Numbers of the kinds of frames in records, docs/protocol/reliable.md section 7. They never change.

/// The number of `Msg`.
pub const MSG: u8 = 0;
/// The number of `Tagged`.
pub const TAGGED: u8 = 1;
/// The number of `MsgRts`.
pub const MSG_RTS: u8 = 2;
/// The number of `TaggedRts`.
pub const TAGGED_RTS: u8 = 3;
/// The number of `Cts`.
pub const CTS: u8 = 4;
/// The number of `Segment`.
pub const SEGMENT: u8 = 5;
/// The number of `Ack`.
pub const ACK: u8 = 6;
/// The number of `Fin`.
pub const FIN: u8 = 7;
/// The number of `Write`.
pub const WRITE: u8 = 8;
/// The number of `WriteRts`.
pub const WRITE_RTS: u8 = 9;
/// The number of `Read`.
pub const READ: u8 = 10;
/// The number of `Response`.
pub const RESPONSE: u8 = 11;
/// The number of `ResponseRts`.
pub const RESPONSE_RTS: u8 = 12;
/// The number of `Atomic`.
pub const ATOMIC: u8 = 13;
/// The number of `FetchAtomic`.
pub const FETCH_ATOMIC: u8 = 14;
/// The number of `CompareAtomic`.
pub const COMPARE_ATOMIC: u8 = 15;
/// The number of `Collective`.
pub const COLLECTIVE: u8 = 16;
/// The number of `CollectiveRts`.
pub const COLLECTIVE_RTS: u8 = 17;
