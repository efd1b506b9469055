//! Time limits of blocking calls.

use core::time::Duration;
use std::time::Instant;

/// The longest time of one blocking read: the C call takes milliseconds in 31 bits.
const LONGEST_MS: i32 = 60_000;

/// The time at which a blocking call gives up; never, without a timeout or with one beyond the end of the clock.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the deadline of a timeout that begins now.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Returns how much time is left, zero once it is over; `None` if there is no end.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// Returns a time in milliseconds for the C call, rounded up.
pub(crate) fn milliseconds(time: Option<Duration>) -> i32 {
    let Some(time) = time else {
        return -1;
    };
    let ms = time.as_nanos().div_ceil(1_000_000);
    i32::try_from(ms).unwrap_or(LONGEST_MS).min(LONGEST_MS)
}
