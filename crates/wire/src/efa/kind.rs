//! The numbers of packets and the bits of their flags.

pub(super) const CTS: u8 = 3;
pub(super) const DATA: u8 = 4;
pub(super) const READ_RESPONSE: u8 = 5;
pub(super) const END_OF_READ: u8 = 7;
pub(super) const ATOMIC_RESPONSE: u8 = 8;
pub(super) const HANDSHAKE: u8 = 9;
pub(super) const RECEIPT: u8 = 10;
pub(super) const READ_NACK: u8 = 11;
pub(super) const PEER_ERROR: u8 = 12;

/// Messages: the number without a tag; with one it is the next.
pub(super) const EAGER: u8 = 64;
pub(super) const MEDIUM: u8 = 66;
pub(super) const LONG: u8 = 68;
pub(super) const LONG_READ: u8 = 128;
pub(super) const EAGER_RECEIPT: u8 = 133;
pub(super) const MEDIUM_RECEIPT: u8 = 135;
pub(super) const LONG_RECEIPT: u8 = 137;
pub(super) const RUNT_READ: u8 = 145;

pub(super) const EAGER_WRITE: u8 = 70;
pub(super) const LONG_WRITE: u8 = 71;
pub(super) const LONG_READ_WRITE: u8 = 130;
pub(super) const EAGER_WRITE_RECEIPT: u8 = 139;
pub(super) const LONG_WRITE_RECEIPT: u8 = 140;
pub(super) const SHORT_READ: u8 = 72;
pub(super) const LONG_READ_REQUEST: u8 = 73;
pub(super) const ATOMIC: u8 = 74;
pub(super) const FETCH: u8 = 75;
pub(super) const COMPARE: u8 = 76;
pub(super) const ATOMIC_RECEIPT: u8 = 141;

/// Bits of the flags of a header.
pub(super) mod flag {
    /// Requests: there is an address.
    pub(in super::super) const ADDRESS: u16 = 1;
    /// Requests: there is completion data.
    pub(in super::super) const DATA: u16 = 1 << 1;
    /// Requests: what it is.
    pub(in super::super) const MESSAGE: u16 = 1 << 2;
    pub(in super::super) const TAGGED: u16 = 1 << 3;
    pub(in super::super) const RMA: u16 = 1 << 4;
    pub(in super::super) const ATOMIC: u16 = 1 << 5;
    /// Requests: it follows a read that was refused.
    pub(in super::super) const AFTER_NACK: u16 = 1 << 13;
    /// All: there is a connid.
    pub(in super::super) const CONNID: u16 = 1 << 15;
    /// CTS: it is about a read.
    pub(in super::super) const OF_READ: u16 = 1 << 7;
    /// Handshakes: there is a number of the host.
    pub(in super::super) const HOST: u16 = 1;
    /// Handshakes: there is a number of the kind of device.
    pub(in super::super) const DEVICE: u16 = 1 << 1;
}
