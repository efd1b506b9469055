//! A list of endpoints that are driven, watched and readied for sleep together.
//!
//! Order of locks: the endpoint list, then an endpoint, then a queue or an address vector; never the other way.

use std::ptr::NonNull;

use oxifabric_sync::SwitchLock;
use oxifabric_types::Errno;

use crate::drive::{Drive, same};
use crate::wait::Doorbell;

/// The endpoints of one queue, counter or domain.
pub(crate) struct EndpointList {
    list: SwitchLock<Vec<Entry>>,
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
    pub(crate) fn none(locked: bool) -> Self {
        // SAFETY: with the lock off, the application promised that one thread at a time uses the domain's objects;
        // no endpoint calls back into the queue that drives it.
        let list = unsafe { SwitchLock::new(Vec::new(), locked) };
        Self { list }
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

    /// Drives every endpoint once; returns how many events there were.
    #[inline]
    pub(crate) fn progress(&self) -> usize {
        let list = self.list.lock();
        list.iter().map(|entry| entry.get().progress()).sum()
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
}
