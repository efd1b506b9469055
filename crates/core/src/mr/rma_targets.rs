//! The endpoints through which peers reach the regions of a domain, and the counters that count on regions. Set-up path.
//!
//! A counter of a region is bound to no endpoint, so every endpoint of the domain is driven from it. Closing a region
//! drives them too, until the last access to it is over.
//!
//! Order of locks: this one, then an endpoint's bindings or its state; never the other way.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use oxifabric_types::Errno;

use crate::cntr::Cntr;
use crate::drive::{Drive, same};
use crate::handle::Ref;
use crate::lock::lock;
use crate::patience::{CLOSE_TIMEOUT, Patience};

/// What reaches the regions of a domain, and what counts there.
#[derive(Default)]
pub(crate) struct RmaTargets {
    lists: Mutex<Lists>,
    /// A counter was bound to a region, or one is in persistent memory.
    watched: AtomicBool,
}

#[derive(Default)]
struct Lists {
    endpoints: Vec<Reach>,
    /// Counters, with the number of bindings.
    counters: Vec<(Ref<Cntr>, usize)>,
}

impl Lists {
    fn revoke_access(&self) {
        for reach in &self.endpoints {
            reach.get().revoke_access();
        }
    }
}

struct Reach(NonNull<dyn Drive>);

// SAFETY: `Drive` is `Sync`, and the pointer stands for a shared reference.
unsafe impl Send for Reach {}

impl Reach {
    fn get(&self) -> &dyn Drive {
        // SAFETY: an endpoint that was added is removed before it goes (contract of `add_endpoint`).
        unsafe { self.0.as_ref() }
    }
}

impl RmaTargets {
    /// Returns whether a region may have a counter, or be in persistent memory.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Notes that a region has to be looked at when peers have accessed it.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Adds an endpoint, once however often it is added, so that every counter of a region drives it.
    ///
    /// # Errors
    /// As [`Cntr::join`]; the endpoint is to be removed then.
    ///
    /// # Safety
    /// The endpoint stays where it is until it is removed.
    pub(crate) unsafe fn add_endpoint(&self, endpoint: NonNull<dyn Drive>) -> Result<(), Errno> {
        let mut lists = lock(&self.lists);
        if lists.endpoints.iter().any(|reach| same(reach.0, endpoint)) {
            return Ok(());
        }
        lists.endpoints.push(Reach(endpoint));
        for (counter, _) in &lists.counters {
            // SAFETY: the caller's contract; removing the endpoint takes it from all counters.
            unsafe { counter.join(endpoint) }?;
        }
        // SAFETY: the caller's contract.
        unsafe { endpoint.as_ref() }.open_access(true);
        Ok(())
    }

    /// Removes an endpoint. Afterwards it is not driven from here, and peers access no memory through it without its notice: regions may be
    /// closed that it is not asked about.
    pub(crate) fn remove_endpoint(&self, endpoint: NonNull<dyn Drive>) {
        let mut lists = lock(&self.lists);
        if let Some(at) = (lists.endpoints.iter()).position(|reach| same(reach.0, endpoint)) {
            let reach = lists.endpoints.swap_remove(at);
            close_access(reach.get());
        }
        for (counter, _) in &lists.counters {
            counter.leave(endpoint);
        }
    }

    /// Lets a counter of a region drive every endpoint.
    ///
    /// # Errors
    /// As [`Cntr::join`].
    pub(crate) fn add_counter(&self, counter: &Cntr) -> Result<(), Errno> {
        let mut lists = lock(&self.lists);
        let known = lists.counters.iter_mut();
        if let Some((_, bindings)) = known.into_iter().find(|(known, _)| is(known, counter)) {
            *bindings += 1;
            return Ok(());
        }
        for reach in &lists.endpoints {
            // SAFETY: the endpoint is taken from the counter before it goes: it is in the list, as the counter will be.
            unsafe { counter.join(reach.0) }?;
        }
        lists.counters.push((Ref::to(counter), 1));
        self.watch();
        // What peers do from now on is to be counted.
        lists.revoke_access();
        Ok(())
    }

    /// Ends what [`RmaTargets::add_counter`] began.
    pub(crate) fn remove_counter(&self, counter: &Cntr) {
        let mut lists = lock(&self.lists);
        let Some(at) = lists
            .counters
            .iter()
            .position(|(known, _)| is(known, counter))
        else {
            return;
        };
        lists.counters[at].1 -= 1;
        if lists.counters[at].1 > 0 {
            return;
        }
        for reach in &lists.endpoints {
            // An endpoint that is bound to the counter itself stays with it.
            if !reach.get().is_bound_to(counter.handle()) {
                counter.leave(reach.0);
            }
        }
        lists.counters.swap_remove(at);
    }

    /// Drives the endpoints until no access to the region with this key is under way; returns whether that came about
    /// in time.
    pub(crate) fn quiesce(&self, key: u64) -> bool {
        let lists = lock(&self.lists);
        lists.revoke_access();
        let in_use = |reach: &&Reach| reach.get().uses_region(key);
        let mut patience = Patience::begin();
        while lists.endpoints.iter().any(|reach| in_use(&reach)) {
            if !patience.lasts() {
                return false;
            }
            patience.moved(lists.endpoints.iter().map(|to| to.get().progress()).sum());
        }
        true
    }
}

/// Takes access from the peers of an endpoint, and waits for what they have begun, for a bounded time.
fn close_access(endpoint: &dyn Drive) {
    endpoint.open_access(false);
    let begin = Instant::now();
    while endpoint.is_accessed() && begin.elapsed() < CLOSE_TIMEOUT {
        std::thread::yield_now();
    }
}

fn is(known: &Ref<Cntr>, counter: &Cntr) -> bool {
    std::ptr::eq(&**known, counter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::RawFd;
    use std::sync::atomic::AtomicUsize;

    /// An endpoint whose accesses end one with every turn, as far as they end.
    #[derive(Default)]
    struct Busy {
        left: AtomicUsize,
        ends: bool,
        is_open: AtomicBool,
        /// How often peers are still found in an access without notice.
        unseen: AtomicUsize,
    }

    impl Drive for Busy {
        fn progress(&self) -> usize {
            match self.ends {
                true => self.left.fetch_sub(1, Ordering::Relaxed),
                false => 0,
            }
        }

        fn arm(&self) -> bool {
            true
        }

        fn fd(&self) -> RawFd {
            -1
        }

        fn open_access(&self, is_open: bool) {
            self.is_open.store(is_open, Ordering::Relaxed);
        }

        fn is_accessed(&self) -> bool {
            let left = self.unseen.load(Ordering::Relaxed);
            self.unseen.store(left.saturating_sub(1), Ordering::Relaxed);
            left > 0
        }

        fn uses_region(&self, key: u64) -> bool {
            key == 7 && self.left.load(Ordering::Relaxed) > 0
        }
    }

    fn quiesce(busy: &Busy, key: u64) -> bool {
        let rma_targets = RmaTargets::default();
        // SAFETY: the endpoint outlives the list.
        unsafe { rma_targets.add_endpoint(NonNull::from(busy)) }.expect("there are no counters");
        rma_targets.quiesce(key)
    }

    #[test]
    fn endpoints_are_driven_until_a_region_is_left_alone() {
        let busy = Busy {
            left: AtomicUsize::new(3),
            ends: true,
            ..Busy::default()
        };
        assert!(quiesce(&busy, 8));
        assert_eq!(busy.left.load(Ordering::Relaxed), 3);
        assert!(quiesce(&busy, 7));
        assert_eq!(busy.left.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_access_that_stands_still_keeps_its_region() {
        let busy = Busy {
            left: AtomicUsize::new(1),
            ..Busy::default()
        };
        assert!(!quiesce(&busy, 7));
    }

    #[test]
    fn accesses_that_never_end_keep_their_region() {
        let busy = Busy {
            left: AtomicUsize::new(usize::MAX),
            ends: true,
            ..Busy::default()
        };
        assert!(
            !quiesce(&busy, 7),
            "for five seconds one ended in each turn"
        );
    }

    #[test]
    fn peers_access_memory_unseen_only_through_endpoints_that_are_asked_before_a_region_is_closed()
    {
        let busy = Busy {
            unseen: AtomicUsize::new(3),
            ..Busy::default()
        };
        let rma_targets = RmaTargets::default();
        // SAFETY: the endpoint outlives the list.
        unsafe { rma_targets.add_endpoint(NonNull::from(&busy)) }.expect("there are no counters");
        assert!(busy.is_open.load(Ordering::Relaxed));
        rma_targets.remove_endpoint(NonNull::from(&busy));
        assert!(!busy.is_open.load(Ordering::Relaxed));
        let unseen = busy.unseen.load(Ordering::Relaxed);
        assert_eq!(unseen, 0, "what they had begun is waited for");
    }
}
