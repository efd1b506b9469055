//! The endpoints that report to a queue or counter, and that it drives, together with the progress of the domain.

mod backoff;
mod processor;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use oxifabric_types::Errno;

use crate::drive::Drive;
use crate::endpoint_list::EndpointList;
use crate::progress::DomainProgress;
use crate::wait::{Doorbell, SLICE};
use backoff::YieldBackoff;

/// The endpoints of one queue or counter.
pub(crate) struct QueueEndpoints {
    list: EndpointList,
    /// The domain's progress, which runs whenever the endpoints are driven; `None` for an event queue.
    progress: Option<Arc<DomainProgress>>,
    backoff: YieldBackoff,
    /// The queue's bell watches the endpoints of the domain that are driven from elsewhere.
    watches_others: AtomicBool,
}

impl QueueEndpoints {
    /// Returns the empty list of a new queue. `locked` says whether threads may use it at once.
    pub(crate) fn none(locked: bool, progress: Option<Arc<DomainProgress>>) -> Self {
        Self {
            list: EndpointList::none(locked),
            progress,
            backoff: YieldBackoff::default(),
            watches_others: AtomicBool::new(false),
        }
    }

    /// Adds an endpoint.
    ///
    /// # Errors
    /// As [`EndpointList::add`].
    ///
    /// # Safety
    /// As [`EndpointList::add`].
    pub(crate) unsafe fn add(
        &self,
        endpoint: NonNull<dyn Drive>,
        bell: &Doorbell,
    ) -> Result<(), Errno> {
        // SAFETY: the caller's contract, passed on.
        unsafe { self.list.add(endpoint, Some(bell)) }
    }

    /// Removes an endpoint. Afterwards it is not driven from here.
    pub(crate) fn remove(&self, endpoint: NonNull<dyn Drive>, bell: &Doorbell) {
        self.list.remove(endpoint, Some(bell));
    }

    /// Drives every endpoint once; returns how many events there were. A caller that polls again and again without events
    /// yields the processor in between.
    pub(crate) fn progress(&self) -> usize {
        self.drive()
    }

    /// Drives every endpoint once, as [`QueueEndpoints::progress`] does, inlined into reads of a queue.
    #[inline(always)]
    pub(crate) fn drive(&self) -> usize {
        let events = self.list.progress();
        if let Some(progress) = &self.progress {
            progress.run_pending();
            self.backoff.polled(events, progress);
        }
        events
    }

    /// Gets the queue ready for sleep (fi_trywait(3)): true when nothing is there and the bell will ring.
    ///
    /// `empty` looks at the queue.
    pub(crate) fn try_sleep(&self, bell: &Doorbell, empty: impl Fn() -> bool) -> bool {
        if !empty() {
            return false;
        }
        bell.arm();
        self.progress();
        let quiet = self.list.arm() && self.others_may_sleep(bell) && empty();
        if !quiet {
            // Another thread may sleep on the same bell, and this one has cleared it.
            bell.wake();
        }
        quiet
    }

    /// Gets the other endpoints of the domain ready for sleep; they wake the sleeper by its bell.
    fn others_may_sleep(&self, bell: &Doorbell) -> bool {
        let progress = self.progress.as_ref();
        progress.is_none_or(|progress| progress.others_may_sleep(bell, &self.watches_others))
    }

    /// Returns how long to sleep at a time.
    pub(crate) fn slice(&self) -> Duration {
        self.progress
            .as_ref()
            .map_or(SLICE, |progress| progress.slice())
    }
}

impl Drop for QueueEndpoints {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress
            && *self.watches_others.get_mut()
        {
            progress.remove_watcher();
        }
    }
}
