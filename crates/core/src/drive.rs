//! What a queue, a counter and the progress of a domain ask of an endpoint. Path class: hot.

use std::os::fd::RawFd;
use std::ptr::NonNull;

use oxifabric_abi::fid_cntr;

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

/// The state of an endpoint before the sleep of a thread that does not sleep on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepState {
    /// It was left alone: a thread sleeps on it, or uses it now.
    Attended,
    /// It was left alone: the application has driven it since the last look.
    Driven,
    /// Its descriptor becomes readable when there is something to do.
    Armed,
    /// There is something to do.
    Busy,
    /// It has no descriptor that would wake a thread that sleeps.
    NoDescriptor,
}

/// What a queue asks of an endpoint.
pub(crate) trait Drive: Sync {
    /// Moves what can be moved without waiting; returns how many events there were.
    fn progress(&self) -> usize;

    /// Gets ready for sleep; returns false when there is something to do instead.
    fn arm(&self) -> bool;

    /// Returns the file descriptor that becomes readable after that.
    fn fd(&self) -> RawFd;

    /// Drives the endpoint for a thread that polls others, unless it has been driven since it had `turn` turns; `turn` becomes
    /// the number that it has now.
    fn visit(&self, turn: &mut u32) -> Visit {
        let _ = turn;
        Visit::Attended
    }

    /// Gets the endpoint ready for the sleep of a thread that does not sleep on it, with `turn` as for [`Drive::visit`].
    fn prepare_to_sleep(&self, turn: &mut u32) -> SleepState {
        let _ = turn;
        SleepState::Attended
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

    /// Takes from peers what lets them access memory without this endpoint's notice.
    fn revoke_access(&self) {}

    /// Returns whether a peer may be in an access without notice that it had begun before [`Drive::revoke_access`].
    fn is_accessed(&self) -> bool {
        false
    }

    /// Lets peers be granted access without this endpoint's notice from now on, or takes it from them: only while it is among those that are
    /// asked before a region is closed.
    fn open_access(&self, is_open: bool) {
        let _ = is_open;
    }

    /// Returns whether the endpoint itself is bound to the counter with this handle.
    fn is_bound_to(&self, counter: *const fid_cntr) -> bool {
        let _ = counter;
        false
    }
}

/// Returns whether both are the same endpoint. It compares places, not tables: the same type may have several tables.
pub(crate) fn same(a: NonNull<dyn Drive>, b: NonNull<dyn Drive>) -> bool {
    a.cast::<()>() == b.cast::<()>()
}
