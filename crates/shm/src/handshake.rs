//! What to do about a hello, decided without I/O, docs/protocol/shm.md "Handshake".

use oxifabric_types::Errno;
use oxifabric_wire::shm::handshake::{Cause, Handshake, HandshakeError, Hello, Refuse, VERSION};

use crate::sys::socket::{self, Credentials};

/// State of the connection with a peer when its hello arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// No connection.
    Closed,
    /// This side has sent a hello, too.
    Connecting,
    /// A connection, open or nearly so, with the endpoint of this incarnation.
    Connected {
        /// The number that the endpoint chose.
        incarnation: u64,
        /// Whether its process runs, and has not closed the socket.
        lives: bool,
    },
    /// A connection that has not quite ended.
    Ending,
}

/// What to do about a hello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Connect with the initiator's memory; drop this side's own hello if there is one.
    Accept,
    /// Send a refuse.
    Refuse(Refuse),
    /// End the connection of the initiator's predecessor, then decide again.
    Replace,
    /// Decide again when the old connection has ended, which the initiator's predecessor decides if it lives.
    Wait,
}

/// Decides on a hello.
///
/// When two endpoints connect to each other at the same moment, the hello of the one with the lesser name counts, on
/// whichever side: both compare the same names.
pub(crate) fn decide(ours: &str, hello: &Hello, peer_state: PeerState) -> Verdict {
    if &*hello.to != ours {
        return refuse(
            Cause::Name,
            format!(
                "this is {ours}, not {}: their names have the same hash",
                hello.to
            ),
        );
    }
    if &*hello.from == ours {
        return refuse(
            Cause::Name,
            format!("the initiator has this endpoint's own name, {ours}"),
        );
    }
    match peer_state {
        PeerState::Closed => Verdict::Accept,
        PeerState::Connecting if ours < &*hello.from => refuse(
            Cause::Crossed,
            format!("{ours} connects too, and its hello counts"),
        ),
        PeerState::Connecting => Verdict::Accept,
        PeerState::Connected { incarnation, .. } if incarnation == hello.incarnation => {
            refuse(Cause::Crossed, "there is a connection already".into())
        }
        // An endpoint that lives is not replaced by one that claims its name. Its socket closes when it ends.
        PeerState::Connected { lives: true, .. } | PeerState::Ending => Verdict::Wait,
        PeerState::Connected { lives: false, .. } => Verdict::Replace,
    }
}

fn refuse(cause: Cause, text: String) -> Verdict {
    Verdict::Refuse(Refuse { cause, text })
}

/// Decides whether to connect with a process at all: it must belong to this user, or to one of `others` (FI_SHM_USERS).
///
/// The text names no process, so that a flood of connections is one line in the log.
pub(crate) fn check_owner(theirs: Credentials, ours: u32, others: &[u32]) -> Result<(), Refuse> {
    if theirs.uid == ours || others.contains(&theirs.uid) {
        return Ok(());
    }
    Err(Refuse {
        cause: Cause::Owner,
        text: format!(
            "user {} is not {ours}, nor named by FI_SHM_USERS",
            theirs.uid
        ),
    })
}

/// Returns the answer to bytes that are no hello; `None` for what is no handshake message at all.
pub(crate) fn answer_garbage(error: HandshakeError) -> Option<Handshake> {
    let HandshakeError::Version(theirs) = error else {
        return None;
    };
    Some(Handshake::Refuse(Refuse {
        cause: Cause::Version,
        text: format!("this endpoint speaks version {VERSION} of the shm protocol, not {theirs}"),
    }))
}

/// Returns the error that a refusal means for the operations that wait.
pub(crate) fn errno_of(cause: Cause) -> Errno {
    match cause {
        Cause::Version => Errno::PROTO,
        Cause::Memory => Errno::NOMEM,
        Cause::Owner => Errno::ACCES,
        Cause::Crossed | Cause::Name | Cause::Limit => Errno::CONNREFUSED,
    }
}

/// Returns why a connection was refused, for the log: one text a cause, so that many connections are one line.
pub(crate) const fn reason_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Version => "it speaks another version of the shm protocol",
        Cause::Memory => {
            "its memory cannot be used (one that could shrink only with FI_SHM_DIR in both processes)"
        }
        Cause::Owner => "it belongs to a user that is not this one, nor named by FI_SHM_USERS",
        Cause::Crossed => "both sides connected",
        Cause::Name => "it looks for another endpoint, or has the name of one that lives",
        Cause::Limit => "there is no room for more peers, or no descriptor to spare",
    }
}

/// Returns the abstract socket name of an endpoint. A name that is too long is hashed; the hello has it in full.
pub(crate) fn socket_name(name: &str) -> Vec<u8> {
    let plain = format!("oxifabric-shm:{name}");
    if plain.len() <= socket::MAX_NAME {
        return plain.into_bytes();
    }
    format!("oxifabric-shm#{:032x}", fnv1a(name.as_bytes())).into_bytes()
}

/// Returns the 128-bit FNV-1a hash, which is the same in every build.
fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxifabric_wire::shm::handshake::Ability;

    fn hello(from: &str, to: &str) -> Hello {
        Hello {
            ability: Ability::empty(),
            incarnation: 5,
            probe: 0,
            cells: 16,
            bytes: 16384,
            from: from.into(),
            to: to.into(),
        }
    }

    fn cause(verdict: Verdict) -> Option<Cause> {
        match verdict {
            Verdict::Refuse(refuse) => Some(refuse.cause),
            _ => None,
        }
    }

    #[test]
    fn of_two_crossing_hellos_exactly_one_counts() {
        let at_a = decide("a", &hello("b", "a"), PeerState::Connecting);
        let at_b = decide("b", &hello("a", "b"), PeerState::Connecting);
        assert_eq!(cause(at_a), Some(Cause::Crossed));
        assert_eq!(at_b, Verdict::Accept);
    }

    #[test]
    fn a_second_hello_of_the_same_endpoint_is_refused_and_of_its_successor_taken_when_it_is_gone() {
        let hello = hello("b", "a");
        let connected = |incarnation, lives| PeerState::Connected { incarnation, lives };
        for lives in [false, true] {
            let again = decide("a", &hello, connected(5, lives));
            assert_eq!(cause(again), Some(Cause::Crossed));
        }
        assert_eq!(decide("a", &hello, connected(4, false)), Verdict::Replace);
        assert_eq!(decide("a", &hello, connected(4, true)), Verdict::Wait);
        assert_eq!(decide("a", &hello, PeerState::Ending), Verdict::Wait);
        assert_eq!(decide("a", &hello, PeerState::Closed), Verdict::Accept);
    }

    #[test]
    fn hellos_for_another_endpoint_and_from_oneself_are_refused() {
        let wrong = decide("a", &hello("b", "c"), PeerState::Closed);
        assert_eq!(cause(wrong), Some(Cause::Name));
        let own = decide("a", &hello("a", "a"), PeerState::Closed);
        assert_eq!(cause(own), Some(Cause::Name));
    }

    #[test]
    fn only_users_that_are_named_may_connect_even_to_root() {
        let credentials = |uid| Credentials { pid: 1, uid };
        assert!(check_owner(credentials(7), 7, &[]).is_ok());
        assert!(check_owner(credentials(0), 7, &[5, 0]).is_ok());
        for (theirs, ours) in [(8, 7), (0, 7), (7, 0)] {
            let refused = check_owner(credentials(theirs), ours, &[5]).expect_err("another user");
            assert_eq!(refused.cause, Cause::Owner);
        }
    }

    #[test]
    fn only_other_versions_get_an_answer() {
        assert!(answer_garbage(HandshakeError::Magic).is_none());
        assert!(matches!(
            answer_garbage(HandshakeError::Version(9)),
            Some(Handshake::Refuse(refuse)) if refuse.cause == Cause::Version
        ));
    }

    #[test]
    fn long_names_are_hashed_into_what_a_socket_takes() {
        let long = "x".repeat(255);
        let name = socket_name(&long);
        assert!(name.len() <= socket::MAX_NAME);
        assert_ne!(name, socket_name(&"x".repeat(254)));
        assert_eq!(socket_name("fi_shm://1"), b"oxifabric-shm:fi_shm://1");
    }
}
