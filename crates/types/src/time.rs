//! Points in time, as the caller of the protocol reads them.

use core::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an arbitrary start.
///
/// The engine and the links never read a clock: their caller passes the time, so that a simulation can make time pass as
/// it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The end of time: a deadline that never comes.
    pub const END: Self = Self(u64::MAX);

    /// Makes an instant of nanoseconds since the clock's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns how long before `self` the other instant was; zero if it was later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `by` later, at most the end of time.
    pub const fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.as_nanos() as u64))
    }
}
