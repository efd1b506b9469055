//! Error numbers as fi_errno(3) lists them.

use core::fmt;

/// An error number of fi_errno(3), as a positive value.
///
/// C calls return it negated.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

impl Errno {
    /// No such message: a peek that found nothing.
    pub const NOMSG: Self = Self(42);
    /// Try again: a queue is full or nothing is there yet.
    pub const AGAIN: Self = Self(11);
    /// An argument is invalid.
    pub const INVAL: Self = Self(22);
    /// Out of memory.
    pub const NOMEM: Self = Self(12);
    /// The object is in use.
    pub const BUSY: Self = Self(16);
    /// No such function.
    pub const NOSYS: Self = Self(38);
    /// Input or output failed.
    pub const IO: Self = Self(5);
    /// No space left: shared memory cannot be reserved.
    pub const NOSPC: Self = Self(28);
    /// No data: no provider matches.
    pub const NODATA: Self = Self(61);
    /// The peer refused the connection.
    pub const CONNREFUSED: Self = Self(111);
    /// The peer reset the connection.
    pub const CONNRESET: Self = Self(104);
    /// The connection was aborted.
    pub const CONNABORTED: Self = Self(103);
    /// Not connected.
    pub const NOTCONN: Self = Self(107);
    /// A deadline passed.
    pub const TIMEDOUT: Self = Self(110);
    /// The operation was cancelled.
    pub const CANCELED: Self = Self(125);
    /// The message is too large.
    pub const MSGSIZE: Self = Self(90);
    /// The message was longer than the receive buffer.
    pub const TRUNC: Self = Self(265);

    /// Makes an error number of a positive value; anything else becomes [`Errno::IO`].
    pub const fn from_raw(value: i32) -> Self {
        if value > 0 { Self(value) } else { Self::IO }
    }

    /// Returns the positive value.
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({})", self.0)
    }
}
