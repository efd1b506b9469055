//! An endpoint that is a pair of contexts of a scalable endpoint: its directions are bound and enabled one by one.
//!
//! Source: fi_endpoint(3) "SCALABLE ENDPOINTS". Path class: setup; once enabled it is an endpoint like any other.

use core::ptr::{NonNull, null_mut};

use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EQ, FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE,
    FI_SELECTIVE_COMPLETION, FI_SEND, FI_TRANSMIT, FI_WRITE, fid, fid_ep,
};
use oxifabric_provider::device::{Device, Provider};
use oxifabric_types::{Address, Errno, Info};

use super::Endpoint;
use crate::av::Av;
use crate::domain::Domain;
use crate::handle::checked;
use crate::lock::lock;

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

    const fn queue_flag(self) -> u64 {
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
    /// As [`Device::rename`].
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
    /// `BUSY` when transfers stand still, whose buffers are in use: it may be tried again.
    fn disable_direction(&self, direction: Direction) -> Result<(), Errno>;

    /// Closes the endpoint, as fi_close does.
    ///
    /// # Safety
    /// No thread uses the endpoint now or later.
    unsafe fn close(&self);
}

impl<P: Provider> ContextPair for Endpoint<P> {
    fn handle(&self) -> NonNull<fid_ep> {
        NonNull::from(self).cast()
    }

    fn name(&self) -> Address {
        self.state.lock().device.name()
    }

    fn rename(&self, name: Address) -> Result<(), Errno> {
        self.state.lock().device.rename(name)
    }

    fn bind_vector(&self, av: &Av) -> Result<(), Errno> {
        self.bind_av(av)
    }

    unsafe fn bind_direction(
        &self,
        bfid: *mut fid,
        flags: u64,
        direction: Direction,
    ) -> Result<(), Errno> {
        if bfid.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: every open object begins with a `fid`; `checked` has the same contract.
        unsafe {
            match (*bfid).fclass {
                FI_CLASS_CQ if flags & !(direction.queue_flag() | FI_SELECTIVE_COMPLETION) == 0 => {
                    self.bind_cq(checked(bfid)?, flags | direction.queue_flag())
                }
                FI_CLASS_CNTR if flags & !direction.counted() == 0 => {
                    self.bind_cntr(checked(bfid)?, flags)
                }
                FI_CLASS_EQ => self.bind_eq(checked(bfid)?),
                _ => Err(Errno::INVAL),
            }
        }
    }

    fn enable_direction(&self, direction: Direction) -> Result<(), Errno> {
        let mut bindings = lock(&self.bindings);
        if bindings.enabled_directions & direction.bit() != 0 {
            return Ok(());
        }
        if self.has_direction(direction) {
            bindings.check_direction(direction)?;
        }
        if self.state.lock().av.is_none() {
            return Err(Errno::NOAV);
        }
        if let Err(errno) = self.join(&bindings).and_then(|()| self.start(&bindings)) {
            if bindings.enabled_directions == 0 {
                self.leave(&bindings);
            }
            return Err(errno);
        }
        bindings.enabled_directions |= direction.bit();
        self.open_tables();
        Ok(())
    }

    fn is_enabled(&self, direction: Direction) -> bool {
        lock(&self.bindings).enabled_directions & direction.bit() != 0
    }

    fn disable_direction(&self, direction: Direction) -> Result<(), Errno> {
        let mut bindings = lock(&self.bindings);
        self.leave(&bindings);
        bindings.unbind(direction);
        if self.state.lock().enabled {
            self.start(&bindings)?;
            self.quiesce(direction)?;
        }
        bindings.enabled_directions &= !direction.bit();
        self.join(&bindings)
    }

    unsafe fn close(&self) {
        // SAFETY: the endpoint is boxed and begins with its handle; the caller gives it up.
        unsafe { Self::close(self.fid.as_ptr().cast()) };
    }
}

/// Opens an endpoint whose directions are apart.
///
/// # Errors
/// As [`Endpoint::open`].
pub(crate) fn open<P: Provider>(
    domain: &Domain,
    info: Info,
) -> Result<NonNull<dyn ContextPair>, Errno> {
    let handle = Endpoint::<P>::open(domain, info, null_mut())?;
    // SAFETY: the handle is that of a boxed endpoint of this provider.
    let endpoint = unsafe { Endpoint::<P>::of(handle) };
    lock(&endpoint.bindings).apart = true;
    Ok(NonNull::from(endpoint))
}
