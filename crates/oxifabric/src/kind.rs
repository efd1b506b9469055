//! The types of endpoints. Source: fi_endpoint(3).

use oxifabric_types::EpType;

/// A type of endpoints: [`Rdm`], [`Msg`] or [`Dgram`].
pub trait Kind: sealed::Sealed + 'static {
    /// The type as a value at run time.
    const EP_TYPE: EpType;
}

/// A type of endpoints whose operations name the peer: [`Rdm`] or [`Dgram`].
pub trait Connectionless: Kind {}

/// A type of endpoints that lose nothing: [`Rdm`] or [`Msg`]. They alone have tags, memory of peers, and atomic operations.
pub trait Reliable: Kind {}

/// Reliable datagrams: one endpoint talks to many peers, nothing is lost, messages to one peer stay in order.
#[derive(Clone, Copy, Debug)]
pub enum Rdm {}

/// Connections: an endpoint talks to the one peer that it is connected with.
///
/// Operations on a connection name no peer, and only endpoints of this type can be connected.
#[derive(Clone, Copy, Debug)]
pub enum Msg {}

/// Unreliable datagrams: one endpoint talks to many peers, and messages may be lost, or come twice, or out of order.
///
/// Only messages without a tag exist: no other operation makes sense where the answer of a peer may be lost.
#[derive(Clone, Copy, Debug)]
pub enum Dgram {}

impl Kind for Rdm {
    const EP_TYPE: EpType = EpType::Rdm;
}

impl Kind for Msg {
    const EP_TYPE: EpType = EpType::Msg;
}

impl Kind for Dgram {
    const EP_TYPE: EpType = EpType::Dgram;
}

impl Connectionless for Rdm {}
impl Connectionless for Dgram {}

impl Reliable for Rdm {}
impl Reliable for Msg {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Rdm {}
    impl Sealed for super::Msg {}
    impl Sealed for super::Dgram {}
}
