//! An endpoint that is a pair of contexts of a scalable endpoint: its directions are bound and enabled one by one.
//!
//! Source: fi_endpoint(3) "SCALABLE ENDPOINTS". Path class: setup; once enabled it is an endpoint like any other.

use core::ptr::NonNull;

use oxifabric_abi::{
    FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_TRANSMIT, FI_WRITE, fid, fid_ep,
};
use oxifabric_types::{Address, Errno};

use crate::av::Av;

/// A direction of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Transmit,
    Receive,
}

impl Direction {
    /// Returns the bit of the direction in a set.
    pub(super) const fn bit(self) -> u8 {
        match self {
            Self::Transmit => 1,
            Self::Receive => 2,
        }
    }

    pub(super) const fn queue_flag(self) -> u64 {
        match self {
            Self::Transmit => FI_TRANSMIT,
            Self::Receive => FI_RECV,
        }
    }

    /// Returns what counters of the direction may count.
    pub(super) const fn counted(self) -> u64 {
        match self {
            Self::Transmit => FI_SEND | FI_READ | FI_WRITE,
            Self::Receive => FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE,
        }
    }
}

/// An endpoint whose directions are apart, without its provider.
pub(crate) trait ContextPair {
    /// Returns the handle.
    fn handle(&self) -> NonNull<fid_ep>;

    /// Returns the address that peers use.
    fn name(&self) -> Address;

    /// Changes the address, before the endpoint is enabled.
    ///
    /// # Errors
    /// As [`Device::rename`](oxifabric_provider::device::Device::rename).
    fn rename(&self, name: Address) -> Result<(), Errno>;

    /// Binds the address vector, which both directions use.
    ///
    /// # Errors
    /// `DOMAIN`, `INVAL` when there is one, `OPBADSTATE` once a direction is enabled.
    fn bind_vector(&self, av: &Av) -> Result<(), Errno>;

    /// Binds a queue or counter to one direction.
    ///
    /// # Errors
    /// `INVAL` for other objects, for the other direction, and for what has a queue or counter.
    ///
    /// # Safety
    /// `bfid` is null or an open object.
    unsafe fn bind_direction(
        &self,
        bfid: *mut fid,
        flags: u64,
        direction: Direction,
    ) -> Result<(), Errno>;

    /// Enables one direction; a second time changes nothing. Where no messages are received, receiving needs no queue: the
    /// queue of the other direction drives both.
    ///
    /// # Errors
    /// As fi_enable.
    fn enable_direction(&self, direction: Direction) -> Result<(), Errno>;

    /// Returns whether a direction is enabled.
    fn is_enabled(&self, direction: Direction) -> bool;

    /// Ends a direction and releases what is bound to it, so that it is as if it had never been enabled.
    ///
    /// # Errors
    /// `BUSY` when transfers stand still, or do not end in time, whose buffers are in use: it may be tried again, and the other direction goes on.
    fn disable_direction(&self, direction: Direction) -> Result<(), Errno>;

    /// Closes the endpoint, as fi_close does.
    ///
    /// # Safety
    /// No thread uses the endpoint now or later.
    unsafe fn close(&self);
}
