//! What threads sleep on.
//!
//! A thread takes the number of the signal, looks whether there is something for it, and sleeps if there is not: what is raised after the
//! number was taken ends the sleep at once, so nothing is missed.

use core::time::Duration;

use crate::system::RawSignal;

/// Raised when something happened that threads may wait for.
#[derive(Debug)]
pub struct Signal(RawSignal);

/// How long a thread sleeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not bounded.
    Never,
    /// This long.
    After(Duration),
}

impl Timeout {
    /// Reads a time limit of the C interface: milliseconds, negative for none.
    pub const fn from_ms(ms: i32) -> Self {
        match ms {
            0.. => Self::After(Duration::from_millis(ms as u64)),
            _ => Self::Never,
        }
    }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The signal was raised.
    Raised,
    /// The time is over; the rest is zero.
    TimedOut,
    /// A signal of the process, such as SIGKILL, interrupted it.
    Interrupted,
}

impl Signal {
    /// Makes a signal; `None` when there is not enough memory.
    pub fn new() -> Option<Self> {
        RawSignal::new().map(Self)
    }

    pub(crate) const fn raw(&self) -> &RawSignal {
        &self.0
    }

    /// Returns the number to give to [`Signal::wait`]; to be taken before looking.
    pub fn number(&self) -> u64 {
        self.0.number()
    }

    /// Wakes all threads that sleep. Never sleeps itself.
    pub fn raise(&self) {
        self.0.raise();
    }

    /// Sleeps until the signal is raised after `number` was taken; returns why it ended, and what is left of the time.
    pub fn wait(&self, number: u64, timeout: Timeout) -> (Ended, Timeout) {
        self.0.wait(number, timeout)
    }
}
