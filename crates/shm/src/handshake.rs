//! What to do about a greeting, decided without I/O, docs/protocol/shm.md "Greeting".

use oxifabric_types::Errno;
use oxifabric_wire::shm::greeting::{Cause, Greeting, GreetingError, Hello, Refuse, VERSION};

use crate::sys::socket::{self, Credentials};

/// Where a pair stands when the other side says hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is none.
    Apart,
    /// This side calls too.
    Calling,
    /// There is one, or nearly, with the endpoint of this incarnation.
    Paired {
        /// The number that the endpoint chose.
        incarnation: u64,
        /// Its process runs, and has not closed the socket.
        lives: bool,
    },
    /// There was one, which has not quite ended.
    Ending,
}

/// What to do about a hello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Make a pair with the caller's memory; drop this side's own call if there is one.
    Accept,
    /// Say no.
    Refuse(Refuse),
    /// End the pair with the caller's predecessor, then judge again.
    Replace,
    /// Judge again when the old pair has ended, which the caller's predecessor decides if it lives.
    Wait,
}

/// Judges a hello.
///
/// When two endpoints call each other at the same moment, the call of the one with the lesser name counts, whoever
/// notices first: both sides compare the same names.
pub(crate) fn judge(ours: &str, hello: &Hello, standing: Standing) -> Verdict {
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
        return refuse(Cause::Name, format!("the caller has my own name, {ours}"));
    }
    match standing {
        Standing::Apart => Verdict::Accept,
        Standing::Calling if ours < &*hello.from => refuse(
            Cause::Crossed,
            format!("{ours} calls too, and its call counts"),
        ),
        Standing::Calling => Verdict::Accept,
        Standing::Paired { incarnation, .. } if incarnation == hello.incarnation => {
            refuse(Cause::Crossed, "there is a pair already".into())
        }
        // An endpoint that lives is not replaced by one that says it has its name. Its socket closes when it ends.
        Standing::Paired { lives: true, .. } | Standing::Ending => Verdict::Wait,
        Standing::Paired { lives: false, .. } => Verdict::Replace,
    }
}

fn refuse(cause: Cause, text: String) -> Verdict {
    Verdict::Refuse(Refuse { cause, text })
}

/// Decides whether to talk with a process at all: it must belong to this user, or to one of `others` (FI_SHM_USERS).
///
/// The text names no process, so that a flood of callers is one line in the log.
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

/// Answers bytes that are no hello; `None` to those of something else entirely.
pub(crate) fn answer_garbage(error: GreetingError) -> Option<Greeting> {
    let GreetingError::Version(theirs) = error else {
        return None;
    };
    Some(Greeting::Refuse(Refuse {
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

/// Says why a caller was refused, for the log: one text a cause, so that many callers are one line.
pub(crate) const fn reason_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Version => "it speaks another version of the shm protocol",
        Cause::Memory => {
            "its memory cannot be used (one that could shrink only with FI_SHM_DIR in both processes)"
        }
        Cause::Owner => "it belongs to a user that is not this one, nor named by FI_SHM_USERS",
        Cause::Crossed => "both sides called",
        Cause::Name => "it looks for another endpoint, or has the name of one that lives",
        Cause::Limit => "there is no room for more peers, or no descriptor to spare",
    }
}

/// Returns the abstract socket name of an endpoint. One that is too long is hashed; the hello says which is meant.
pub(crate) fn socket_name(name: &str) -> Vec<u8> {
    let plain = format!("oxifabric-shm:{name}");
    if plain.len() <= socket::MAX_NAME {
        return plain.into_bytes();
    }
    format!("oxifabric-shm#{:032x}", fnv1a(name.as_bytes())).into_bytes()
}

/// FNV-1a of 128 bits: the same in every build.
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
    use oxifabric_wire::shm::greeting::Ability;

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
    fn of_two_crossing_calls_exactly_one_counts() {
        let at_a = judge("a", &hello("b", "a"), Standing::Calling);
        let at_b = judge("b", &hello("a", "b"), Standing::Calling);
        assert_eq!(cause(at_a), Some(Cause::Crossed));
        assert_eq!(at_b, Verdict::Accept);
    }

    #[test]
    fn a_second_call_of_the_same_endpoint_is_refused_and_of_its_successor_taken_when_it_is_gone() {
        let call = hello("b", "a");
        let paired = |incarnation, lives| Standing::Paired { incarnation, lives };
        for lives in [false, true] {
            let again = judge("a", &call, paired(5, lives));
            assert_eq!(cause(again), Some(Cause::Crossed));
        }
        assert_eq!(judge("a", &call, paired(4, false)), Verdict::Replace);
        assert_eq!(judge("a", &call, paired(4, true)), Verdict::Wait);
        assert_eq!(judge("a", &call, Standing::Ending), Verdict::Wait);
        assert_eq!(judge("a", &call, Standing::Apart), Verdict::Accept);
    }

    #[test]
    fn calls_for_somebody_else_and_from_oneself_are_refused() {
        let wrong = judge("a", &hello("b", "c"), Standing::Apart);
        assert_eq!(cause(wrong), Some(Cause::Name));
        let own = judge("a", &hello("a", "a"), Standing::Apart);
        assert_eq!(cause(own), Some(Cause::Name));
    }

    #[test]
    fn only_users_that_are_named_are_no_strangers_even_to_root() {
        let who = |uid| Credentials { pid: 1, uid };
        assert!(check_owner(who(7), 7, &[]).is_ok());
        assert!(check_owner(who(0), 7, &[5, 0]).is_ok());
        for (theirs, ours) in [(8, 7), (0, 7), (7, 0)] {
            let refused = check_owner(who(theirs), ours, &[5]).expect_err("another user");
            assert_eq!(refused.cause, Cause::Owner);
        }
    }

    #[test]
    fn only_other_versions_get_an_answer() {
        assert!(answer_garbage(GreetingError::Magic).is_none());
        assert!(matches!(
            answer_garbage(GreetingError::Version(9)),
            Some(Greeting::Refuse(refuse)) if refuse.cause == Cause::Version
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
