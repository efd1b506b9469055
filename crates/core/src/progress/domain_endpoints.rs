//! All enabled endpoints of a domain, driven and slept on as one.

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock};

use oxifabric_abi::FI_WAIT_FD;
use oxifabric_types::Errno;

use crate::drive::Drive;
use crate::endpoint_list::EndpointList;
use crate::lock::lock;
use crate::wait::Doorbell;

/// The endpoints.
pub(super) struct DomainEndpoints {
    endpoints: EndpointList,
    /// Watches all of them. Made when a thread first sleeps on all.
    bell: OnceLock<Doorbell>,
    /// Held while an endpoint comes or goes, and while the bell is made.
    gate: Mutex<()>,
}

impl DomainEndpoints {
    /// Returns the empty list of a new domain, in which no endpoint is enabled.
    pub(super) fn none(locked: bool) -> Self {
        Self {
            endpoints: EndpointList::none(locked),
            bell: OnceLock::new(),
            gate: Mutex::new(()),
        }
    }

    /// Adds an endpoint.
    ///
    /// # Errors
    /// When its descriptor cannot be watched.
    ///
    /// # Safety
    /// The endpoint stays where it is until it is removed.
    pub(super) unsafe fn add(&self, endpoint: NonNull<dyn Drive>) -> Result<(), Errno> {
        let _gate = lock(&self.gate);
        // SAFETY: the caller's contract, passed on.
        unsafe { self.endpoints.add(endpoint, self.bell.get()) }?;
        self.wake();
        Ok(())
    }

    /// Removes an endpoint.
    pub(super) fn remove(&self, endpoint: NonNull<dyn Drive>) {
        let _gate = lock(&self.gate);
        self.endpoints.remove(endpoint, self.bell.get());
    }

    /// Drives them as [`EndpointList::progress_unattended`] does.
    pub(super) fn progress_unattended(&self) -> (usize, bool) {
        self.endpoints.progress_unattended()
    }

    /// Returns the bell of all endpoints.
    ///
    /// # Errors
    /// `MFILE`, or when a descriptor cannot be watched.
    pub(super) fn bell(&self) -> Result<&Doorbell, Errno> {
        let _gate = lock(&self.gate);
        if self.bell.get().is_none() {
            let bell = Doorbell::open(FI_WAIT_FD)?;
            self.endpoints.watch(&bell)?;
            return Ok(self.bell.get_or_init(|| bell));
        }
        self.bell.get().ok_or(Errno::OTHER)
    }

    /// Wakes threads that sleep on all endpoints, or are about to.
    pub(super) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }

    /// Wakes threads that sleep on all endpoints, or will next.
    pub(super) fn wake(&self) {
        if let Some(bell) = self.bell.get() {
            bell.wake();
        }
    }
}

impl Drive for DomainEndpoints {
    fn progress(&self) -> usize {
        self.endpoints.progress()
    }

    fn arm(&self) -> bool {
        if let Some(bell) = self.bell.get() {
            bell.arm();
        }
        self.endpoints.arm()
    }

    fn fd(&self) -> RawFd {
        // Without a bell no thread sleeps on the list: `DomainProgress::all_endpoints` makes it first.
        self.bell.get().and_then(Doorbell::fd).unwrap_or(-1)
    }
}
