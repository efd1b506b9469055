//! An endpoint as a pair of contexts: its directions are bound and enabled apart. Path class: setup.

use core::ptr::{NonNull, null_mut};

use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EQ, FI_SELECTIVE_COMPLETION, fid, fid_ep,
};
use oxifabric_provider::device::{Device, Provider};
use oxifabric_types::{Address, Errno, Info};

use super::Endpoint;
use super::context_pair::{ContextPair, Direction};
use crate::av::Av;
use crate::domain::Domain;
use crate::handle::checked;
use crate::lock::lock;

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
        if let Err(errno) = self.check_context(direction, &bindings) {
            self.explain(errno, &bindings);
            return Err(errno);
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
            if let Err(busy) = self.quiesce(direction) {
                // The other direction goes on meanwhile.
                self.join(&bindings)?;
                return Err(busy);
            }
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
