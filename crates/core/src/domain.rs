//! Domains: fi_domain(3). They say which locks their objects take; what they open is in [`ops`].

pub(crate) mod ops;

use core::any::Any;
use std::sync::{Arc, Mutex};

use oxifabric_abi::{FI_REG_MR, fi_wait_obj, fid_domain};
use oxifabric_provider::domain::ProviderDomain;
use oxifabric_sync::{Guard, SwitchLock};
use oxifabric_types::{Caps, EpType, Errno, Info, MrMode, Progress, Threading};

use crate::eq::Eq;
use crate::fabric::Fabric;
use crate::handle::{Fid, Ref, Uses};
use crate::lock::lock;
use crate::misuse::{self, Named};
use crate::mr::regions::Regions;
use crate::mr::rma_targets::RmaTargets;
use crate::progress::DomainProgress;
use crate::wait::Doorbell;
use crate::wait_set::WaitSet;

/// An opened domain.
#[repr(C)]
pub(crate) struct Domain {
    fid: Fid<fid_domain>,
    uses: Uses,
    fabric: Ref<Fabric>,
    info: Info,
    /// What the provider keeps for it.
    provider: Arc<dyn ProviderDomain>,
    eq: Mutex<Option<Events>>,
    regions: SwitchLock<Regions>,
    progress: Arc<DomainProgress>,
    rma_targets: RmaTargets,
}

/// The event queue of a domain.
#[derive(Clone)]
pub(crate) struct Events {
    /// Where events go.
    pub(crate) eq: Ref<Eq>,
    /// Registrations are reported there (`FI_REG_MR`).
    pub(crate) registrations: bool,
}

impl Domain {
    /// Lets the log say that an object of the domain could not be opened, and what was asked for.
    #[cold]
    pub(crate) fn log_not_opened(&self, call: &str, asked: &str, cause: Errno) {
        // SAFETY: the handle is ours and open.
        let named = unsafe { Named::of(self.fid.as_ptr().cast()) };
        misuse::not_opened(self.fabric.entry().name, call, named, asked, cause);
    }

    /// Returns the fabric.
    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Returns what the domain was opened for.
    pub(crate) const fn info(&self) -> &Info {
        &self.info
    }

    /// Returns what the provider keeps for it.
    pub(crate) fn provider(&self) -> &dyn ProviderDomain {
        &*self.provider
    }

    /// Returns what the provider keeps for it, to be kept.
    pub(crate) fn shared_provider(&self) -> Arc<dyn ProviderDomain> {
        Arc::clone(&self.provider)
    }

    /// Returns what the provider keeps for it, as the provider knows it.
    ///
    /// # Errors
    /// `INVAL` for another provider's.
    pub(crate) fn provider_domain<D: ProviderDomain>(&self) -> Result<Arc<D>, Errno> {
        let domain: Arc<dyn Any + Send + Sync> = Arc::clone(&self.provider) as _;
        domain.downcast().map_err(|_| Errno::INVAL)
    }

    /// Returns whether the application registers the memory of its own operations (FI_MR_LOCAL).
    pub(crate) fn asks_for_local_registration(&self) -> bool {
        self.info.domain.mr_mode.contains(MrMode::LOCAL)
    }

    /// Returns whether its objects exclude threads.
    pub(crate) fn locks(&self) -> bool {
        locks(&self.info)
    }

    /// Returns what the domain does by itself.
    pub(crate) const fn progress(&self) -> &Arc<DomainProgress> {
        &self.progress
    }

    /// Makes the bell of a queue or counter, which may belong to a wait set.
    ///
    /// # Errors
    /// As [`Doorbell::open`].
    pub(crate) fn bell(&self, set: Option<&WaitSet>, kind: fi_wait_obj) -> Result<Doorbell, Errno> {
        let bell = WaitSet::member_bell(set, kind)?;
        if let Some(cond) = bell.cond() {
            self.progress.add_cond(cond);
        }
        Ok(bell)
    }

    /// Returns whether the application may sleep on the wait object of a bell by itself: on a condition variable
    /// only if a thread makes progress, since it is no descriptor of a device (fi_poll(3) "fi_trywait").
    pub(crate) fn lets_sleep(&self, bell: &Doorbell) -> bool {
        bell.cond().is_none() || self.progress.is_automatic()
    }

    /// Returns the event queue that is bound.
    pub(crate) fn events(&self) -> Option<Events> {
        lock(&self.eq).clone()
    }

    /// Returns the registered memory.
    #[inline]
    pub(crate) fn regions(&self) -> Guard<'_, Regions> {
        self.regions.lock()
    }

    /// Returns what reaches the registered memory.
    #[inline]
    pub(crate) const fn rma_targets(&self) -> &RmaTargets {
        &self.rma_targets
    }

    fn bind(&self, eq: &Eq, flags: u64) -> Result<(), Errno> {
        if flags & !FI_REG_MR != 0 {
            return Err(Errno::BADFLAGS);
        }
        let mut bound = lock(&self.eq);
        if bound.is_some() {
            return Err(Errno::INVAL);
        }
        *bound = Some(Events {
            eq: Ref::to(eq),
            registrations: flags & FI_REG_MR != 0,
        });
        Ok(())
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.fabric.unregister(&self.progress);
        self.progress.stop();
    }
}

/// Returns whether objects of a domain exclude threads: not, when the application promised that one thread at a time uses the
/// domain (FI_THREAD_DOMAIN, fi_domain(3)). What it promises of single endpoints and queues does not help, since whichever is polled drives
/// the others, too (docs/adr/0028). A thread of the library makes the promise worthless, and so does work that one endpoint does on
/// account of another, and an event queue, which is not part of the domain and drives its connections, the joins of
/// collective groups, and what deferred work waits for.
fn locks(info: &Info) -> bool {
    info.domain.data_progress == Progress::Auto
        || info.ep.kind == EpType::Msg
        || info.caps.intersects(Caps::COLLECTIVE | Caps::TRIGGER)
        || info.domain.threading != Threading::Domain
}
