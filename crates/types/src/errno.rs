//! Error numbers as fi_errno(3) lists them.

mod text;

pub use text::{strerror, strerror_c};

use core::fmt;

/// An error number of fi_errno(3), as a positive value.
///
/// C calls return it negated. Numbers below 256 are those of Linux; the others belong to libfabric.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

impl Errno {
    /// Operation would block; the same number as [`Errno::AGAIN`].
    pub const WOULDBLOCK: Self = Self::AGAIN;

    /// Makes an error number of a positive value; anything else becomes [`Errno::IO`].
    pub const fn from_raw(value: i32) -> Self {
        if value > 0 { Self(value) } else { Self::IO }
    }

    /// Returns the positive value.
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// Returns the text that `fi_strerror` gives. Source: fi_errno(3).
    pub fn text(self) -> &'static str {
        strerror(self.0)
    }

    /// Returns the name of the constant in C, or `"unlisted"` for a number that fi_errno(3) does not name.
    pub fn name(self) -> &'static str {
        listed_name(self).unwrap_or("unlisted")
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match listed_name(*self) {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl core::error::Error for Errno {}

/// Declares the constants of [`Errno`] and the names that C has for them.
macro_rules! errnos {
    ($($(#[$meta:meta])* $name:ident = $value:literal, $c_name:literal;)*) => {
        impl Errno {
            $( $(#[$meta])* pub const $name: Self = Self($value); )*
        }

        fn listed_name(errno: Errno) -> Option<&'static str> {
            match errno.0 {
                $( $value => Some($c_name), )*
                _ => None,
            }
        }
    };
}

errnos! {
    /// The caller may not do this.
    PERM = 1, "FI_EPERM";
    /// Nothing has that name.
    NOENT = 2, "FI_ENOENT";
    /// A signal interrupted the call.
    INTR = 4, "FI_EINTR";
    /// Input or output failed.
    IO = 5, "FI_EIO";
    /// A list of arguments is too long.
    TOOBIG = 7, "FI_E2BIG";
    /// The file descriptor is bad.
    BADF = 9, "FI_EBADF";
    /// Try again: a queue is full or nothing is there yet.
    AGAIN = 11, "FI_EAGAIN";
    /// Out of memory.
    NOMEM = 12, "FI_ENOMEM";
    /// Access is denied.
    ACCES = 13, "FI_EACCES";
    /// An address is bad.
    FAULT = 14, "FI_EFAULT";
    /// The object is in use.
    BUSY = 16, "FI_EBUSY";
    /// No such device.
    NODEV = 19, "FI_ENODEV";
    /// An argument is invalid.
    INVAL = 22, "FI_EINVAL";
    /// The process has too many open files.
    MFILE = 24, "FI_EMFILE";
    /// No space left: shared memory cannot be reserved.
    NOSPC = 28, "FI_ENOSPC";
    /// No such function.
    NOSYS = 38, "FI_ENOSYS";
    /// No such message: a peek that found nothing.
    NOMSG = 42, "FI_ENOMSG";
    /// No data: no provider matches.
    NODATA = 61, "FI_ENODATA";
    /// The peer broke the protocol.
    PROTO = 71, "FI_EPROTO";
    /// A value is too large for its type.
    OVERFLOW = 75, "FI_EOVERFLOW";
    /// The message is too large.
    MSGSIZE = 90, "FI_EMSGSIZE";
    /// No such option.
    NOPROTOOPT = 92, "FI_ENOPROTOOPT";
    /// The operation is not supported.
    OPNOTSUPP = 95, "FI_EOPNOTSUPP";
    /// The address is in use.
    ADDRINUSE = 98, "FI_EADDRINUSE";
    /// The address is not one of this machine.
    ADDRNOTAVAIL = 99, "FI_EADDRNOTAVAIL";
    /// The network is down.
    NETDOWN = 100, "FI_ENETDOWN";
    /// The network cannot be reached.
    NETUNREACH = 101, "FI_ENETUNREACH";
    /// The connection was aborted.
    CONNABORTED = 103, "FI_ECONNABORTED";
    /// The peer reset the connection.
    CONNRESET = 104, "FI_ECONNRESET";
    /// No buffer space is left.
    NOBUFS = 105, "FI_ENOBUFS";
    /// Already connected.
    ISCONN = 106, "FI_EISCONN";
    /// Not connected.
    NOTCONN = 107, "FI_ENOTCONN";
    /// The endpoint was shut down.
    SHUTDOWN = 108, "FI_ESHUTDOWN";
    /// A deadline passed.
    TIMEDOUT = 110, "FI_ETIMEDOUT";
    /// The peer refused the connection.
    CONNREFUSED = 111, "FI_ECONNREFUSED";
    /// The host is down.
    HOSTDOWN = 112, "FI_EHOSTDOWN";
    /// The host cannot be reached.
    HOSTUNREACH = 113, "FI_EHOSTUNREACH";
    /// The operation is already under way.
    ALREADY = 114, "FI_EALREADY";
    /// The operation has begun and goes on.
    INPROGRESS = 115, "FI_EINPROGRESS";
    /// Input or output failed at the peer.
    REMOTEIO = 121, "FI_EREMOTEIO";
    /// The operation was cancelled.
    CANCELED = 125, "FI_ECANCELED";
    /// The key was rejected.
    KEYREJECTED = 129, "FI_EKEYREJECTED";
    /// Any other failure.
    OTHER = 256, "FI_EOTHER";
    /// The buffer of the caller is too small.
    TOOSMALL = 257, "FI_ETOOSMALL";
    /// Not permitted in the state of the object.
    OPBADSTATE = 258, "FI_EOPBADSTATE";
    /// An error waits to be read.
    AVAIL = 259, "FI_EAVAIL";
    /// A flag is not supported.
    BADFLAGS = 260, "FI_EBADFLAGS";
    /// No event queue is bound.
    NOEQ = 261, "FI_ENOEQ";
    /// The resource belongs to another domain.
    DOMAIN = 262, "FI_EDOMAIN";
    /// No completion queue is bound.
    NOCQ = 263, "FI_ENOCQ";
    /// A checksum is wrong.
    CRC = 264, "FI_ECRC";
    /// The message was longer than the receive buffer.
    TRUNC = 265, "FI_ETRUNC";
    /// No such key.
    NOKEY = 266, "FI_ENOKEY";
    /// No address vector is bound.
    NOAV = 267, "FI_ENOAV";
    /// A queue has overrun.
    OVERRUN = 268, "FI_EOVERRUN";
    /// The peer has no receive posted.
    NORX = 269, "FI_ENORX";
    /// No more registrations are possible.
    NOMR = 270, "FI_ENOMR";
    /// A firewall hides the host.
    FIREWALLADDR = 271, "FI_EFIREWALLADDR";
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn listed_numbers_have_the_names_of_c() {
        assert_eq!(Errno::NODATA.name(), "FI_ENODATA");
        assert_eq!(Errno::TOOBIG.name(), "FI_E2BIG");
        assert_eq!(Errno::FIREWALLADDR.name(), "FI_EFIREWALLADDR");
        assert_eq!(Errno::from_raw(3).name(), "unlisted");
    }

    #[test]
    fn display_is_the_text_and_debug_the_name() {
        assert_eq!(Errno::TRUNC.to_string(), "Truncation error");
        assert_eq!(std::format!("{:?}", Errno::AGAIN), "FI_EAGAIN");
        assert_eq!(std::format!("{:?}", Errno::from_raw(3)), "Errno(3)");
    }

    #[test]
    fn numbers_that_are_not_positive_become_io() {
        assert_eq!(Errno::from_raw(0), Errno::IO);
        assert_eq!(Errno::from_raw(-11), Errno::IO);
    }
}
