//! What a device says about work that failed: `enum efa_io_comp_status`, docs/protocol/efa.md section 5.

use oxifabric_provider::queues::WorkError;
use oxifabric_types::{Address, Errno};

/// A status, the error that applications get, and what it means.
struct Row {
    code: u32,
    errno: Errno,
    text: &'static str,
}

const fn row(code: u32, errno: Errno, text: &'static str) -> Row {
    Row { code, errno, text }
}

/// Lengths of messages that do not fit their receive, at either side.
const TOO_LONG: [u32; 2] = [6, 11];

/// The statuses of failures. The errors are those that the C library gives.
const ROWS: [Row; 16] = [
    row(
        1,
        Errno::CANCELED,
        "the endpoint was closed, or its queue pair failed",
    ),
    row(2, Errno::INVAL, "the queue pair has an internal error"),
    row(3, Errno::INVAL, "the device does not support the operation"),
    row(4, Errno::INVAL, "the address handle is not valid"),
    row(
        5,
        Errno::INVAL,
        "memory of this side is not registered, or not for this; check descriptors and regions that were closed",
    ),
    row(6, Errno::MSGSIZE, "the message is too long"),
    row(
        7,
        Errno::INVAL,
        "the peer's memory is not registered under that key, or not for this; check key, address and access",
    ),
    row(8, Errno::CONNABORTED, "the peer ended the operation"),
    row(
        9,
        Errno::NOTCONN,
        "the peer has no such endpoint any more, or it has failed; its process may have ended",
    ),
    row(10, Errno::NORX, "the peer has posted no receive"),
    row(11, Errno::MSGSIZE, "the peer's receive is too short"),
    row(
        12,
        Errno::REMOTEIO,
        "the peer answered with an unexpected status",
    ),
    row(
        13,
        Errno::CONNABORTED,
        "the peer does not answer any more; its host may be gone",
    ),
    row(
        14,
        Errno::NOTCONN,
        "the peer has to insert this endpoint into its address vector before it can be read or written",
    ),
    row(
        15,
        Errno::HOSTUNREACH,
        "the peer never answered; check its address and the security group of both hosts",
    ),
    row(18, Errno::INVAL, "the peer's device lacks a feature"),
];

/// Returns the error of a status.
pub(crate) fn error(code: u32, is_receive: bool) -> WorkError {
    let errno = match find(code) {
        Some(_) if is_receive && TOO_LONG.contains(&code) => Errno::TRUNC,
        Some(row) => row.errno,
        None => Errno::OTHER,
    };
    WorkError { errno, code }
}

/// Says what a status means for an operation with a peer.
pub(crate) fn explain(code: u32, peer: Option<&Address>) -> String {
    let text = find(code).map_or("the device says no more", |row| row.text);
    match peer {
        Some(peer) => format!("{peer}: {text} (status {code} of the device)"),
        None => format!("{text} (status {code} of the device)"),
    }
}

fn find(code: u32) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_an_error_and_a_reason() {
        assert_eq!(error(1, false).errno, Errno::CANCELED);
        assert_eq!(error(9, false).errno, Errno::NOTCONN);
        assert_eq!(error(11, false).errno, Errno::MSGSIZE);
        assert_eq!(error(6, true).errno, Errno::TRUNC);
        assert_eq!(
            error(77, false),
            WorkError {
                errno: Errno::OTHER,
                code: 77
            }
        );
        let text = explain(10, None);
        assert_eq!(
            text,
            "the peer has posted no receive (status 10 of the device)"
        );
        assert!(explain(77, None).contains("status 77"));
    }

    #[test]
    fn no_status_is_listed_twice() {
        for row in &ROWS {
            let same = ROWS.iter().filter(|other| other.code == row.code);
            assert_eq!(same.count(), 1, "{}", row.code);
        }
    }
}
