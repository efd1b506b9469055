//! The endpoints that report to a queue or counter, and that it drives.
//!
//! Order of locks: members, then an endpoint, then a queue or an address vector. Nobody takes them the other way.

mod patience;

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use oxifabric_sync::SwitchLock;
use oxifabric_types::Errno;

use crate::cntr::Cntr;
use crate::upkeep::Upkeep;
use crate::wait::Doorbell;
use patience::Patience;

/// What a queue asks of an endpoint.
pub(crate) trait Drive: Sync {
    /// Moves what can be moved without waiting; returns how many events there were.
    fn progress(&self) -> usize;

    /// Gets ready for sleep; returns false when there is something to do instead.
    fn arm(&self) -> bool;

    /// Returns the file descriptor that becomes readable after that.
    fn fd(&self) -> RawFd;

    /// Tells whether a peer's access to the region with this key is under way (fi_mr(3)).
    fn uses_region(&self, key: u64) -> bool {
        let _ = key;
        false
    }

    /// Tells whether the endpoint itself is bound to a counter.
    fn is_bound_to(&self, counter: &Cntr) -> bool {
        let _ = counter;
        false
    }
}

/// The endpoints of one queue.
pub(crate) struct Members {
    list: SwitchLock<Vec<Member>>,
    /// What the domain does whenever its endpoints are driven; not, if they are driven for the domain itself.
    upkeep: Option<Arc<Upkeep>>,
    patience: Patience,
}

struct Member(NonNull<dyn Drive>);

// SAFETY: `Drive` is `Sync`, and the pointer stands for a shared reference.
unsafe impl Send for Member {}

impl Member {
    fn get(&self) -> &dyn Drive {
        // SAFETY: whoever added the endpoint removes it before it goes (contract of `add`).
        unsafe { self.0.as_ref() }
    }
}

impl Members {
    /// Nobody reports to a new queue. `locked` says whether threads may use it at once.
    pub(crate) fn none(locked: bool, upkeep: Option<Arc<Upkeep>>) -> Self {
        // SAFETY: with the lock off, the application promised that one thread at a time uses the domain's objects;
        // no endpoint calls back into the queue that drives it.
        let list = unsafe { SwitchLock::new(Vec::new(), locked) };
        Self {
            list,
            upkeep,
            patience: Patience::default(),
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
        if list.iter().any(|member| same(member.0, endpoint)) {
            return Ok(());
        }
        let member = Member(endpoint);
        if let Some(bell) = bell.filter(|bell| bell.has_fd()) {
            bell.watch(member.get().fd())?;
        }
        list.push(member);
        Ok(())
    }

    /// Removes an endpoint. Afterwards nobody drives it from here.
    pub(crate) fn remove(&self, endpoint: NonNull<dyn Drive>, bell: Option<&Doorbell>) {
        let mut list = self.list.lock();
        if let Some(at) = list.iter().position(|member| same(member.0, endpoint)) {
            let member = list.swap_remove(at);
            if let Some(bell) = bell.filter(|bell| bell.has_fd()) {
                bell.unwatch(member.get().fd());
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
            .try_for_each(|member| bell.watch(member.get().fd()))
    }

    /// Drives every endpoint once; returns how many events there were. Whoever calls it again and again in vain lets
    /// others have the processor in between.
    #[inline]
    pub(crate) fn progress(&self) -> usize {
        let list = self.list.lock();
        let events = list.iter().map(|member| member.get().progress()).sum();
        drop(list);
        if let Some(upkeep) = &self.upkeep {
            upkeep.keep_up();
            self.patience.polled(events, upkeep);
        }
        events
    }

    /// Gets every endpoint ready for sleep; returns false when one has something to do.
    pub(crate) fn arm(&self) -> bool {
        let list = self.list.lock();
        list.iter().all(|member| member.get().arm())
    }
}

/// Compares places, not tables: the same type may have several tables.
pub(crate) fn same(a: NonNull<dyn Drive>, b: NonNull<dyn Drive>) -> bool {
    a.cast::<()>() == b.cast::<()>()
}

/// Gets a queue ready for sleep (fi_trywait(3)): true when nothing is there and the bell will ring.
///
/// `empty` looks at the queue.
pub(crate) fn try_sleep(members: &Members, bell: &Doorbell, empty: impl Fn() -> bool) -> bool {
    if !empty() {
        return false;
    }
    bell.arm();
    members.progress();
    let quiet = members.arm() && empty();
    if !quiet {
        // Another thread may sleep on the same bell, and this one has cleared it.
        bell.wake();
    }
    quiet
}
