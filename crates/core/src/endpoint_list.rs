//! The endpoints that report to a queue or counter, and that it drives.
//!
//! Order of locks: the endpoint list, then an endpoint, then a queue or an address vector; never the other way.

mod backoff;

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use oxifabric_sync::SwitchLock;
use oxifabric_types::Errno;

use crate::cntr::Cntr;
use crate::progress::DomainProgress;
use crate::wait::{Doorbell, SLICE};
use backoff::YieldBackoff;

/// What a visit to an endpoint by a thread that polls others came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// It was left alone: the application has driven it since the last visit, or does so now.
    Attended,
    /// It was driven, and something moved.
    Moved,
    /// It was driven, nothing moved, and it has operations under way.
    Waiting,
    /// It was driven, and nothing moved.
    Quiet,
}

/// What became of an endpoint before the sleep of a thread that does not sleep on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It was left alone: a thread sleeps on it, or uses it now.
    Attended,
    /// It was left alone: the application has driven it since the last look.
    Driven,
    /// Its descriptor becomes readable when there is something to do.
    Armed,
    /// There is something to do.
    Busy,
    /// It has no way to wake a sleeper.
    Deaf,
}

/// What a queue asks of an endpoint.
pub(crate) trait Drive: Sync {
    /// Moves what can be moved without waiting; returns how many events there were.
    fn progress(&self) -> usize;

    /// Gets ready for sleep; returns false when there is something to do instead.
    fn arm(&self) -> bool;

    /// Returns the file descriptor that becomes readable after that.
    fn fd(&self) -> RawFd;

    /// Drives it on behalf of a thread that polls others, unless it has been driven since it had `turn` turns; `turn` becomes
    /// what it has now.
    fn visit(&self, turn: &mut u32) -> Visit {
        let _ = turn;
        Visit::Attended
    }

    /// Gets it ready for the sleep of a thread that does not sleep on it, with `turn` as for [`Drive::visit`].
    fn rest(&self, turn: &mut u32) -> Rest {
        let _ = turn;
        Rest::Attended
    }

    /// Returns whether the queue that has entries of its peers' making is left unread.
    fn is_left_unread(&self) -> bool {
        false
    }

    /// Returns whether a peer's access to the region with this key is under way (fi_mr(3)).
    fn uses_region(&self, key: u64) -> bool {
        let _ = key;
        false
    }

    /// Returns whether the endpoint itself is bound to a counter.
    fn is_bound_to(&self, counter: &Cntr) -> bool {
        let _ = counter;
        false
    }
}

/// The endpoints of one queue.
pub(crate) struct EndpointList {
    list: SwitchLock<Vec<Entry>>,
    /// The domain's progress, which runs whenever the endpoints are driven; `None` for an event queue and for the domain's own list.
    progress: Option<Arc<DomainProgress>>,
    backoff: YieldBackoff,
    /// The queue's bell watches the endpoints of the domain that are driven from elsewhere.
    watches_others: AtomicBool,
}

/// An endpoint in the list.
struct Entry(NonNull<dyn Drive>);

// SAFETY: `Drive` is `Sync`, and the pointer stands for a shared reference.
unsafe impl Send for Entry {}

impl Entry {
    fn get(&self) -> &dyn Drive {
        // SAFETY: an endpoint that was added is removed before it goes (contract of `add`).
        unsafe { self.0.as_ref() }
    }
}

impl EndpointList {
    /// Returns the empty list of a new queue. `locked` says whether threads may use it at once.
    pub(crate) fn none(locked: bool, progress: Option<Arc<DomainProgress>>) -> Self {
        // SAFETY: with the lock off, the application promised that one thread at a time uses the domain's objects;
        // no endpoint calls back into the queue that drives it.
        let list = unsafe { SwitchLock::new(Vec::new(), locked) };
        Self {
            list,
            progress,
            backoff: YieldBackoff::default(),
            watches_others: AtomicBool::new(false),
        }
    }

    /// Adds an endpoint, once however often it is added.
    ///
    /// # Errors
    /// When its file descriptor cannot be watched.
    ///
    /// # Safety
    /// The endpoint stays where it is until it is removed.
    pub(crate) unsafe fn add(
        &self,
        endpoint: NonNull<dyn Drive>,
        bell: Option<&Doorbell>,
    ) -> Result<(), Errno> {
        let mut list = self.list.lock();
        if list.iter().any(|entry| same(entry.0, endpoint)) {
            return Ok(());
        }
        let entry = Entry(endpoint);
        if let Some(bell) = bell.filter(|bell| bell.has_fd()) {
            bell.watch(entry.get().fd())?;
        }
        list.push(entry);
        Ok(())
    }

    /// Removes an endpoint. Afterwards it is not driven from here.
    pub(crate) fn remove(&self, endpoint: NonNull<dyn Drive>, bell: Option<&Doorbell>) {
        let mut list = self.list.lock();
        if let Some(at) = list.iter().position(|entry| same(entry.0, endpoint)) {
            let entry = list.swap_remove(at);
            if let Some(bell) = bell.filter(|bell| bell.has_fd()) {
                bell.unwatch(entry.get().fd());
            }
        }
    }

    /// Lets a bell watch all endpoints that were added.
    ///
    /// # Errors
    /// When a file descriptor cannot be watched.
    pub(crate) fn watch(&self, bell: &Doorbell) -> Result<(), Errno> {
        let list = self.list.lock();
        list.iter()
            .try_for_each(|entry| bell.watch(entry.get().fd()))
    }

    /// Drives every endpoint once; returns how many events there were. A caller that polls again and again without events
    /// yields the processor in between.
    #[inline]
    pub(crate) fn progress(&self) -> usize {
        let list = self.list.lock();
        let events = list.iter().map(|entry| entry.get().progress()).sum();
        drop(list);
        if let Some(progress) = &self.progress {
            progress.run_pending();
            self.backoff.polled(events, progress);
        }
        events
    }

    /// Drives every endpoint once on behalf of an application that reads no queue now. Endpoints whose queue is left unread are
    /// left alone: their peers have to wait until it is read. Returns how many events there were, and whether one was left alone.
    pub(crate) fn progress_unattended(&self) -> (usize, bool) {
        let list = self.list.lock();
        let (mut events, mut is_one_left) = (0, false);
        for entry in list.iter().map(Entry::get) {
            match entry.is_left_unread() {
                true => is_one_left = true,
                false => events += entry.progress(),
            }
        }
        (events, is_one_left)
    }

    /// Gets every endpoint ready for sleep; returns false when one has something to do.
    pub(crate) fn arm(&self) -> bool {
        let list = self.list.lock();
        list.iter().all(|entry| entry.get().arm())
    }

    /// Gets the other endpoints of the domain ready for sleep; they wake the sleeper by its bell.
    fn others_rest(&self, bell: &Doorbell) -> bool {
        let progress = self.progress.as_ref();
        progress.is_none_or(|progress| progress.others_rest(bell, &self.watches_others))
    }

    /// Returns how long to sleep at a time.
    pub(crate) fn slice(&self) -> Duration {
        self.progress
            .as_ref()
            .map_or(SLICE, |progress| progress.slice())
    }
}

impl Drop for EndpointList {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress
            && *self.watches_others.get_mut()
        {
            progress.remove_watcher();
        }
    }
}

/// Returns whether both are the same endpoint. It compares places, not tables: the same type may have several tables.
pub(crate) fn same(a: NonNull<dyn Drive>, b: NonNull<dyn Drive>) -> bool {
    a.cast::<()>() == b.cast::<()>()
}

/// Gets a queue ready for sleep (fi_trywait(3)): true when nothing is there and the bell will ring.
///
/// `empty` looks at the queue.
pub(crate) fn try_sleep(
    endpoints: &EndpointList,
    bell: &Doorbell,
    empty: impl Fn() -> bool,
) -> bool {
    if !empty() {
        return false;
    }
    bell.arm();
    endpoints.progress();
    let quiet = endpoints.arm() && endpoints.others_rest(bell) && empty();
    if !quiet {
        // Another thread may sleep on the same bell, and this one has cleared it.
        bell.wake();
    }
    quiet
}
