//! Binding and enabling: fi_endpoint(3) "fi_ep_bind" and "fi_enable".

use core::ffi::c_int;
use core::ptr::NonNull;
use std::sync::Arc;

use oxifabric_abi::{
    FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EQ, FI_CLASS_SRX_CTX, FI_CLASS_STX_CTX,
    FI_RECV, FI_SELECTIVE_COMPLETION, FI_SEND, FI_TRANSMIT, FI_WRITE, fid,
};
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Device, Provider};
use oxifabric_provider::operations::Operations;
use oxifabric_types::{Caps, Errno};

use super::Endpoint;
use super::bindings::Bindings;
use super::connection::Reports;
use super::context_pair::Direction;
use super::dispatch::guard::{self, Guard};
use super::srx::{Feed, Srx};
use super::state::EndpointState;
use super::stx::Stx;
use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::eq::Eq;
use crate::handle::{Ref, checked, status, table};
use crate::lock::lock;
use crate::misuse::{self, Named};

impl<P: Provider> Endpoint<P> {
    pub(super) unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
        // SAFETY: the table is only in the handles of this type; the application binds an open object.
        let bound = unsafe { Self::of(fid.cast()).bind_object(bfid, flags) };
        if let Err(cause) = bound {
            // SAFETY: both are open objects, or the second is null.
            let (endpoint, object) = unsafe { (Named::of(fid), Named::of(bfid)) };
            misuse::not_bound(P::NAME, endpoint, object, flags, cause);
        }
        status(bound)
    }

    /// Binds any object.
    ///
    /// # Safety
    /// `bfid` is null or an open object.
    unsafe fn bind_object(&self, bfid: *mut fid, flags: u64) -> Result<(), Errno> {
        if bfid.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: every open object begins with a `fid`; `checked` has the same contract.
        unsafe {
            match (*bfid).fclass {
                FI_CLASS_CQ => self.bind_cq(checked(bfid)?, flags),
                FI_CLASS_CNTR => self.bind_cntr(checked(bfid)?, flags),
                FI_CLASS_AV => self.bind_av(checked(bfid)?),
                FI_CLASS_EQ => self.bind_eq(checked(bfid)?),
                FI_CLASS_SRX_CTX => self.bind_srx(checked(bfid)?),
                FI_CLASS_STX_CTX => self.bind_stx(checked(bfid)?),
                _ => Err(Errno::INVAL),
            }
        }
    }

    pub(super) fn bind_cq(&self, cq: &Cq, flags: u64) -> Result<(), Errno> {
        self.check_domain(cq.domain())?;
        let mut bindings = lock(&self.bindings);
        bindings.check_cq(flags)?;
        if self.is_enabled() {
            // SAFETY: as in `join`.
            unsafe { cq.join(self.driven()) }?;
        }
        bindings.add_cq(cq, flags);
        if flags & FI_SELECTIVE_COMPLETION != 0 {
            if flags & FI_TRANSMIT != 0 {
                self.defaults.tx.select();
            }
            if flags & FI_RECV != 0 {
                self.defaults.rx.select();
            }
        }
        self.rewire(&bindings);
        Ok(())
    }

    pub(super) fn bind_cntr(&self, cntr: &Cntr, flags: u64) -> Result<(), Errno> {
        self.check_domain(cntr.domain())?;
        let mut bindings = lock(&self.bindings);
        bindings.check_cntr(flags)?;
        if self.is_enabled() {
            // SAFETY: as in `join`.
            unsafe { cntr.join(self.driven()) }?;
        }
        bindings.add_cntr(cntr, flags);
        if flags & FI_SEND != 0 {
            self.defaults.tx.count();
        }
        if flags & FI_WRITE != 0 {
            self.defaults.tx.count_writes();
        }
        self.rewire(&bindings);
        Ok(())
    }

    pub(super) fn bind_av(&self, av: &Av) -> Result<(), Errno> {
        self.check_domain(av.domain())?;
        let apart = lock(&self.bindings).apart;
        let mut state = self.state.lock();
        if state.enabled && !apart {
            return Err(Errno::OPBADSTATE);
        }
        if state.av.is_some() {
            return Err(Errno::INVAL);
        }
        state.av = Some(Ref::to(av));
        Ok(())
    }

    pub(super) fn bind_eq(&self, eq: &Eq) -> Result<(), Errno> {
        let mut bindings = lock(&self.bindings);
        if P::Device::CONNECTED && self.state.lock().enabled {
            return Err(Errno::OPBADSTATE);
        }
        if bindings.eq.is_some() {
            return Err(Errno::INVAL);
        }
        bindings.eq = Some(Ref::to(eq));
        Ok(())
    }

    /// Returns the event queue that is bound.
    pub(super) fn events(&self) -> Option<Ref<Eq>> {
        lock(&self.bindings).eq.clone()
    }

    fn bind_srx(&self, srx: &Srx) -> Result<(), Errno> {
        self.check_domain(srx.domain())?;
        if !Self::MATCHES {
            return Err(Errno::NOSYS);
        }
        let mut bindings = lock(&self.bindings);
        if bindings.srx.is_some() {
            return Err(Errno::INVAL);
        }
        bindings.srx = Some(Ref::to(srx));
        if self.is_enabled() {
            // SAFETY: as in `join`.
            unsafe { srx.join(NonNull::from(self)) };
            self.rewire(&bindings);
            // What waits here has not asked for its receives.
            self.feed();
        }
        Ok(())
    }

    fn bind_stx(&self, stx: &Stx) -> Result<(), Errno> {
        self.check_domain(stx.domain())?;
        let mut bindings = lock(&self.bindings);
        match core::mem::replace(&mut bindings.stx, true) {
            true => Err(Errno::INVAL),
            false => Ok(()),
        }
    }

    /// Checks that an object of data transfer is of the same domain.
    fn check_domain(&self, domain: &Domain) -> Result<(), Errno> {
        match core::ptr::eq(domain, &*self.domain) {
            true => Ok(()),
            false => Err(Errno::DOMAIN),
        }
    }

    /// Returns whether data may be transferred. It stays so while the bindings are locked.
    fn is_enabled(&self) -> bool {
        self.state.lock().enabled
    }

    /// Lets an enabled endpoint report to what has just been bound.
    fn rewire(&self, bindings: &Bindings) {
        let mut state = self.state.lock();
        if !state.enabled {
            return;
        }
        // Where peers were told that no thread sleeps here, sleepers are refused, and poll.
        state.sleeps = state.sleeps || bindings.waits() && state.device.enable(true).is_ok();
        self.wire(&mut state, bindings);
    }

    /// Connects the queues and counters that results go to.
    fn wire(&self, state: &mut EndpointState<P::Device>, bindings: &Bindings) {
        let queues = [bindings.tx_cq.clone(), bindings.rx_cq.clone()];
        state.out.wire(queues, |kind| bindings.counter(kind));
        state.out.shared.clone_from(&bindings.srx);
        // A counter may have come that counts what peers do.
        state.device.revoke_access();
    }

    /// Enables the endpoint; a second time changes nothing.
    ///
    /// # Errors
    /// `NOAV`, `NOCQ` when nothing can take the results of one direction, and what the device says.
    pub(super) fn enable(&self) -> Result<(), Errno> {
        let bindings = lock(&self.bindings);
        if self.state.lock().enabled {
            return Ok(());
        }
        if let Err(errno) = self.check_bindings(&bindings) {
            self.explain(errno, &bindings);
            return Err(errno);
        }
        if let Err(errno) = self.join(&bindings).and_then(|()| self.start(&bindings)) {
            self.leave(&bindings);
            self.explain(errno, &bindings);
            return Err(errno);
        }
        self.open_tables();
        Ok(())
    }

    /// Checks that something takes the results of a context, and that its peers have a vector.
    pub(super) fn check_context(
        &self,
        direction: Direction,
        bindings: &Bindings,
    ) -> Result<(), Errno> {
        if self.has_direction(direction) {
            bindings.check_direction(direction)?;
        }
        match self.state.lock().av {
            Some(_) => Ok(()),
            None => Err(Errno::NOAV),
        }
    }

    /// Lets the log say why the endpoint is not enabled.
    #[cold]
    pub(super) fn explain(&self, errno: Errno, bindings: &Bindings) {
        let lacks = |direction| {
            self.has_direction(direction) && bindings.check_direction(direction).is_err()
        };
        // SAFETY: the handle is ours and open.
        let named = unsafe { Named::of(self.fid.as_ptr().cast()) };
        misuse::not_enabled_for(
            P::NAME,
            named,
            (lacks(Direction::Transmit), lacks(Direction::Receive)),
            errno,
        );
    }

    /// Exchanges the tables of data transfers for those of an enabled endpoint.
    pub(super) fn open_tables(&self) {
        let handle = self.fid.as_ptr();
        // SAFETY: the handle is ours; the application enables an endpoint before it transfers data on it.
        unsafe {
            (*handle).msg = match P::Device::DATAGRAM {
                true => table(const { &Self::DATAGRAMS }),
                false => table(const { &Self::MSG }),
            };
            if Self::HAS_TAGS {
                (*handle).tagged = table(const { &Self::TAGGED });
            }
            if self.has(Caps::RMA) {
                (*handle).rma = table(const { &Self::RMA });
            }
            if self.has(Caps::ATOMIC) {
                (*handle).atomic = table(const { &Self::ATOMIC });
            }
        }
    }

    /// Checks that something takes the results of both directions, as far as the endpoint has them. Something must be
    /// bound in any case: nothing else drives the endpoint.
    fn check_bindings(&self, bindings: &Bindings) -> Result<(), Errno> {
        let (sends, receives) = (
            self.has_direction(Direction::Transmit),
            self.has_direction(Direction::Receive),
        );
        if sends || !receives && !bindings.has(Direction::Receive) {
            bindings.check_direction(Direction::Transmit)?;
        }
        if receives {
            bindings.check_direction(Direction::Receive)?;
        }
        Ok(())
    }

    /// Returns whether there are results of a direction: those of messages, and of reads and writes that begin here.
    pub(super) fn has_direction(&self, direction: Direction) -> bool {
        let (own, other) = match direction {
            Direction::Transmit if self.has(Caps::COLLECTIVE) || self.initiates() => return true,
            Direction::Transmit => (Caps::SEND, Caps::RECV),
            Direction::Receive => (Caps::RECV, Caps::SEND),
        };
        self.has(Caps::MSG | Caps::TAGGED) && (self.has(own) || !self.has(other))
    }

    /// Returns whether the endpoint reads and writes memory of peers, beyond being their target.
    fn initiates(&self) -> bool {
        let target_only = self.has(Caps::REMOTE_READ | Caps::REMOTE_WRITE);
        self.has(Caps::RMA | Caps::ATOMIC) && (self.has(Caps::READ | Caps::WRITE) || !target_only)
    }

    /// Opens the device to peers, if it is not, and wires the results.
    pub(super) fn start(&self, bindings: &Bindings) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let progress = self.domain.progress();
        let joins = self.has(Caps::COLLECTIVE) && bindings.eq.as_ref().is_some_and(|eq| eq.waits());
        let waits = bindings.waits() || joins || progress.is_automatic() || self.has(Caps::TRIGGER);
        state.sleeps |= waits && !state.enabled;
        if P::Device::CONNECTED {
            state.device.enable(waits)?;
            let handle = self.fid.as_ptr();
            state.out.events = bindings.eq.clone();
            state.reports = Reports {
                eq: bindings.eq.clone(),
                fid: handle.expose_provenance(),
                // SAFETY: the handle is ours.
                context: unsafe { (*handle).fid.context }.expose_provenance(),
                ended: false,
            };
        } else if !state.enabled {
            let av = state.av.clone().ok_or(Errno::NOAV)?;
            state.device.enable(waits)?;
            // A datagram to itself may be lost as any other.
            if Self::MATCHES && !P::Device::DATAGRAM {
                let name = state.device.name();
                let me = state.device.peer(&name)?;
                if let Some(engine) = state.operations.engine_mut() {
                    engine.set_self(me);
                }
            }
            state.out.vector = Some(av.clone());
            if self.has(Caps::SOURCE) {
                state.out.name_sources(av, self.has(Caps::SOURCE_ERR));
            }
        }
        self.wire(&mut state, bindings);
        if self.has(Caps::RMA | Caps::ATOMIC) {
            self.expose_memory(&mut state);
        }
        state.out.progress = Some(Arc::clone(progress));
        state.enabled = true;
        state.watch(P::NAME, self.info.ep.kind);
        Ok(())
    }

    /// Lets peers access the domain's memory: all of them, or those in the address vector (FI_OXI_REGIONS). The peer of a
    /// connected endpoint is one that the application accepted.
    fn expose_memory(&self, state: &mut EndpointState<P::Device>) {
        match &state.av {
            Some(av) if !P::Device::CONNECTED && guard::is_wanted() => {
                let guard = Guard::new(self.domain.clone(), av.clone());
                state.out.guard = Some(Box::new(guard));
            }
            _ => state.out.domain = Some(self.domain.clone()),
        }
    }

    /// Lets queues and counters drive the endpoint.
    pub(super) fn join(&self, bindings: &Bindings) -> Result<(), Errno> {
        let me = self.driven();
        for cq in bindings.cqs() {
            // SAFETY: the endpoint is boxed, and leaves before it goes (`close`, or at once when joining fails).
            unsafe { cq.join(me) }?;
        }
        for (_, cntr) in &bindings.counters {
            // SAFETY: as above.
            unsafe { cntr.join(me) }?;
        }
        if let Some(srx) = &bindings.srx {
            // SAFETY: as above.
            unsafe { srx.join(NonNull::from(self)) };
        }
        if let Some(eq) = bindings.eq.as_ref().filter(|_| P::Device::CONNECTED) {
            // SAFETY: as above; connected endpoints exclude threads (`open_connected`).
            unsafe { eq.join(me) }?;
        }
        // SAFETY: as above.
        unsafe { self.domain.rma_targets().add_endpoint(me) }?;
        // SAFETY: as above.
        unsafe { self.domain.progress().join(me) }
    }

    /// Ends what [`Endpoint::join`] began.
    pub(super) fn leave(&self, bindings: &Bindings) {
        let me = self.driven();
        self.domain.rma_targets().remove_endpoint(me);
        for cq in bindings.cqs() {
            cq.leave(me);
        }
        for (_, cntr) in &bindings.counters {
            cntr.leave(me);
        }
        self.domain.progress().leave(me);
        if let Some(srx) = &bindings.srx {
            srx.leave(NonNull::from(self));
        }
        if let Some(eq) = &bindings.eq {
            eq.leave(me, self.fid.as_ptr().addr());
        }
    }
}
