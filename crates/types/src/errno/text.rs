//! The text of every error number, as `fi_strerror` prints it. Source: fi_errno(3), strerror(3).
//!
//! Texts of numbers below 256 are those of the C library of Linux in the C locale, so that they do not change with the
//! machine or its language.

use core::ffi::CStr;

/// The first number that belongs to libfabric.
const OFFSET: u32 = 256;

/// Returns the text of an error number, of either sign.
///
/// Numbers without a meaning are "Unknown error N" below 256 and "Unspecified error" above.
pub fn strerror(errnum: i32) -> &'static str {
    strerror_c(errnum).to_str().unwrap_or_default()
}

/// Returns what [`strerror`] returns, as C wants it.
pub fn strerror_c(errnum: i32) -> &'static CStr {
    let number = errnum.unsigned_abs();
    let listed = match number.checked_sub(OFFSET) {
        Some(own) => FABRIC.get(own as usize).or(FABRIC.first()),
        None => SYSTEM.get(number as usize).filter(|text| !text.is_empty()),
    };
    listed.copied().unwrap_or_else(|| unknown(number as usize))
}

fn unknown(number: usize) -> &'static CStr {
    let text = UNKNOWN.get(number).map_or(&[][..], |text| &text[..]);
    CStr::from_bytes_until_nul(text).unwrap_or(c"Unknown error")
}

/// Room for "Unknown error ", three digits and the end.
const UNKNOWN_LEN: usize = 18;

static UNKNOWN: [[u8; UNKNOWN_LEN]; OFFSET as usize] = {
    let mut all = [[0; UNKNOWN_LEN]; OFFSET as usize];
    let mut number = 0;
    while number < all.len() {
        all[number] = spell_unknown(number);
        number += 1;
    }
    all
};

const fn spell_unknown(number: usize) -> [u8; UNKNOWN_LEN] {
    let words = b"Unknown error ";
    let mut text = [0; UNKNOWN_LEN];
    let mut at = 0;
    while at < words.len() {
        text[at] = words[at];
        at += 1;
    }
    let mut unit = if number >= 100 {
        100
    } else if number >= 10 {
        10
    } else {
        1
    };
    while unit > 0 {
        text[at] = b'0' + (number / unit % 10) as u8;
        at += 1;
        unit /= 10;
    }
    text
}

/// Texts of the numbers of Linux; an empty one is a number without a meaning.
#[rustfmt::skip]
static SYSTEM: [&CStr; 134] = [
    c"Success",
    c"Operation not permitted",
    c"No such file or directory",
    c"No such process",
    c"Interrupted system call",
    c"Input/output error",
    c"No such device or address",
    c"Argument list too long",
    c"Exec format error",
    c"Bad file descriptor",
    c"No child processes",
    c"Resource temporarily unavailable",
    c"Cannot allocate memory",
    c"Permission denied",
    c"Bad address",
    c"Block device required",
    c"Device or resource busy",
    c"File exists",
    c"Invalid cross-device link",
    c"No such device",
    c"Not a directory",
    c"Is a directory",
    c"Invalid argument",
    c"Too many open files in system",
    c"Too many open files",
    c"Inappropriate ioctl for device",
    c"Text file busy",
    c"File too large",
    c"No space left on device",
    c"Illegal seek",
    c"Read-only file system",
    c"Too many links",
    c"Broken pipe",
    c"Numerical argument out of domain",
    c"Numerical result out of range",
    c"Resource deadlock avoided",
    c"File name too long",
    c"No locks available",
    c"Function not implemented",
    c"Directory not empty",
    c"Too many levels of symbolic links",
    c"",
    c"No message of desired type",
    c"Identifier removed",
    c"Channel number out of range",
    c"Level 2 not synchronized",
    c"Level 3 halted",
    c"Level 3 reset",
    c"Link number out of range",
    c"Protocol driver not attached",
    c"No CSI structure available",
    c"Level 2 halted",
    c"Invalid exchange",
    c"Invalid request descriptor",
    c"Exchange full",
    c"No anode",
    c"Invalid request code",
    c"Invalid slot",
    c"",
    c"Bad font file format",
    c"Device not a stream",
    c"No data available",
    c"Timer expired",
    c"Out of streams resources",
    c"Machine is not on the network",
    c"Package not installed",
    c"Object is remote",
    c"Link has been severed",
    c"Advertise error",
    c"Srmount error",
    c"Communication error on send",
    c"Protocol error",
    c"Multihop attempted",
    c"RFS specific error",
    c"Bad message",
    c"Value too large for defined data type",
    c"Name not unique on network",
    c"File descriptor in bad state",
    c"Remote address changed",
    c"Can not access a needed shared library",
    c"Accessing a corrupted shared library",
    c".lib section in a.out corrupted",
    c"Attempting to link in too many shared libraries",
    c"Cannot exec a shared library directly",
    c"Invalid or incomplete multibyte or wide character",
    c"Interrupted system call should be restarted",
    c"Streams pipe error",
    c"Too many users",
    c"Socket operation on non-socket",
    c"Destination address required",
    c"Message too long",
    c"Protocol wrong type for socket",
    c"Protocol not available",
    c"Protocol not supported",
    c"Socket type not supported",
    c"Operation not supported",
    c"Protocol family not supported",
    c"Address family not supported by protocol",
    c"Address already in use",
    c"Cannot assign requested address",
    c"Network is down",
    c"Network is unreachable",
    c"Network dropped connection on reset",
    c"Software caused connection abort",
    c"Connection reset by peer",
    c"No buffer space available",
    c"Transport endpoint is already connected",
    c"Transport endpoint is not connected",
    c"Cannot send after transport endpoint shutdown",
    c"Too many references: cannot splice",
    c"Connection timed out",
    c"Connection refused",
    c"Host is down",
    c"No route to host",
    c"Operation already in progress",
    c"Operation now in progress",
    c"Stale file handle",
    c"Structure needs cleaning",
    c"Not a XENIX named type file",
    c"No XENIX semaphores available",
    c"Is a named type file",
    c"Remote I/O error",
    c"Disk quota exceeded",
    c"No medium found",
    c"Wrong medium type",
    c"Operation canceled",
    c"Required key not available",
    c"Key has expired",
    c"Key has been revoked",
    c"Key was rejected by service",
    c"Owner died",
    c"State not recoverable",
    c"Operation not possible due to RF-kill",
    c"Memory page has hardware error",
];

/// Texts of the numbers of libfabric, from 256 on.
static FABRIC: [&CStr; 16] = [
    c"Unspecified error",
    c"Provided buffer is too small",
    c"Operation not permitted in current state",
    c"Error available",
    c"Flags not supported",
    c"Missing or unavailable event queue",
    c"Invalid resource domain",
    c"Missing or unavailable completion queue",
    c"CRC error",
    c"Truncation error",
    c"Required key not available",
    c"Missing or unavailable address vector",
    c"Queue has been overrun",
    c"Receiver not ready, no receive buffers available",
    c"Memory registration limit exceeded",
    c"Host unreacheable due to firewall",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_does_not_matter() {
        assert_eq!(strerror(-61), "No data available");
        assert_eq!(strerror(61), "No data available");
        assert_eq!(strerror(0), "Success");
    }

    #[test]
    fn numbers_without_a_meaning_are_spelled_out() {
        assert_eq!(strerror(41), "Unknown error 41");
        assert_eq!(strerror(58), "Unknown error 58");
        assert_eq!(strerror(255), "Unknown error 255");
    }

    #[test]
    fn numbers_of_libfabric_end_at_the_firewall() {
        assert_eq!(strerror(259), "Error available");
        assert_eq!(strerror(271), "Host unreacheable due to firewall");
        assert_eq!(strerror(272), "Unspecified error");
        assert_eq!(strerror(i32::MIN), "Unspecified error");
    }
}
