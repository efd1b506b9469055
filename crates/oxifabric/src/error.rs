//! Errors, and what to do about them.

use core::fmt;
use std::path::PathBuf;

use oxifabric_types::Errno;

use crate::{Access, Address, Buffer, WhyNot};

/// The error of a call or an operation. Its text includes what to do next.
///
/// It is small, because every completion has space for one; large parts are boxed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No provider offers what was asked for.
    #[error(transparent)]
    NotOffered(#[from] WhyNot),
    /// A library could not be loaded.
    #[error(transparent)]
    Library(Box<LibraryError>),
    /// An offer has requirements that this crate cannot meet.
    #[error(transparent)]
    Unsuitable(Box<Unsuitable>),
    /// A call failed.
    #[error("{call} failed: {errno} ({}){}", errno.name(), Advice(*errno))]
    Call {
        /// The name of the call in C, which is that of its man page.
        call: &'static str,
        /// The error.
        errno: Errno,
    },
    /// A call was not made, because something that it needs does not hold.
    #[error(transparent)]
    Precondition(Box<Precondition>),
    /// An operation that was posted failed.
    #[error(transparent)]
    Operation(Box<OperationError>),
    /// An access would reach beyond the end of memory. Nothing was posted or copied.
    #[error(
        "{len} bytes at offset {offset} reach beyond the end of {size} bytes; ask for less, or register more"
    )]
    OutOfBounds {
        /// The offset at which it would begin.
        offset: usize,
        /// The length of the access in bytes.
        len: usize,
        /// The length of the memory in bytes.
        size: usize,
    },
    /// The owner of the memory did not grant the access. No operation was posted.
    #[error("the region does not grant {needed:?}; its owner has to register it with that access")]
    NotGranted {
        /// The access that the operation needs.
        needed: Access,
    },
}

impl Error {
    /// Returns the error number of fi_errno(3) that stands for the error.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NotOffered(why) => why.errno(),
            Self::Library(_) => Errno::NOENT,
            Self::Unsuitable(_) => Errno::OPNOTSUPP,
            Self::Call { errno, .. } => *errno,
            Self::Precondition(unmet) => unmet.errno,
            Self::Operation(failed) => failed.errno,
            Self::OutOfBounds { .. } => Errno::INVAL,
            Self::NotGranted { .. } => Errno::ACCES,
        }
    }

    /// Returns whether the same call may succeed after completions were read.
    pub fn is_again(&self) -> bool {
        self.errno() == Errno::AGAIN
    }

    /// Makes the error of a call that was not made; `cause` says what was expected, and what to do.
    #[cold]
    pub(crate) fn unmet(call: &'static str, errno: Errno, cause: impl Into<String>) -> Self {
        Self::Precondition(Box::new(Precondition {
            call,
            errno,
            cause: cause.into(),
        }))
    }

    /// Makes the error of a call, to be used with `map_err`.
    pub(crate) fn call(call: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::Call { call, errno }
    }
}

/// The error of a call that was not made, because something that it needs does not hold.
#[derive(thiserror::Error)]
#[error("{call} failed: {errno} ({}): {cause}", errno.name())]
#[non_exhaustive]
pub struct Precondition {
    /// The name of the call in C, which is that of its man page.
    pub call: &'static str,
    /// The error number of fi_errno(3) that stands for the cause.
    pub errno: Errno,
    /// What was expected, and what to do.
    pub cause: String,
}

/// The error of a library that could not be loaded.
#[derive(thiserror::Error)]
#[error(
    "cannot use {} as libfabric: {reason}; name a libfabric.so.1, or leave it out (`Backend::builtin`, `OXIFABRIC_LIBRARY` unset)",
    path.display()
)]
#[non_exhaustive]
pub struct LibraryError {
    /// The path or name under which it was looked for.
    pub path: PathBuf,
    /// The loader's message.
    pub reason: String,
}

/// The error of an offer that cannot be opened.
#[derive(thiserror::Error)]
#[error(
    "{provider} cannot be opened here: {obstacle}; ask for offers with `Hints::new()`, which leaves such offers out"
)]
#[non_exhaustive]
pub struct Unsuitable {
    /// The name of the provider.
    pub provider: String,
    /// The requirement that cannot be met.
    pub obstacle: &'static str,
}

impl Error {
    /// Makes the error of an offer that cannot be opened.
    pub(crate) fn unsuitable(provider: &str, obstacle: &'static str) -> Self {
        Self::Unsuitable(Box::new(Unsuitable {
            provider: provider.to_owned(),
            obstacle,
        }))
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Sends a message.
    Send,
    /// Receives a message.
    Receive,
    /// Reads memory of a peer.
    Read,
    /// Writes memory of a peer.
    Write,
    /// Updates memory of a peer.
    Atomic,
    /// Updates memory of a peer and returns its previous value.
    Fetch,
    /// Compares memory of a peer, updates it if the comparison holds, and returns its previous value.
    Compare,
    /// Makes a connection.
    Connect,
    /// A peer has read memory of this process.
    RemoteRead,
    /// A peer has written memory of this process.
    RemoteWrite,
}

impl Operation {
    /// Returns whether the operation returns an element's previous value.
    #[inline]
    pub(crate) fn fetches(self) -> bool {
        matches!(self, Self::Fetch | Self::Compare)
    }

    /// Returns the preposition between the operation and its peer in a sentence.
    fn preposition(self) -> &'static str {
        match self {
            Self::Receive | Self::Read | Self::RemoteRead | Self::RemoteWrite => "from",
            Self::Send | Self::Write | Self::Connect => "to",
            Self::Atomic | Self::Fetch | Self::Compare => "at",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic update",
            Self::Fetch => "atomic fetch",
            Self::Compare => "atomic compare",
            Self::Connect => "connection",
            Self::RemoteRead => "read by a peer",
            Self::RemoteWrite => "write by a peer",
        })
    }
}

/// The error of an operation that was posted.
#[non_exhaustive]
pub struct OperationError {
    /// The operation that failed.
    pub operation: Operation,
    /// The address of the peer, if the operation named one.
    pub peer: Option<Address>,
    /// The error.
    pub errno: Errno,
    /// The provider's own number for it.
    pub provider_errno: i32,
    /// The provider's text for it; may be empty.
    pub detail: String,
    /// How many bytes of the message did not fit into the receive buffer.
    pub overflow: usize,
}

impl std::error::Error for OperationError {}

impl OperationError {
    /// Returns the advice about an access to a peer's memory that the peer does not allow.
    fn access_advice(&self) -> Option<&'static str> {
        let reaches = matches!(
            self.operation,
            Operation::Read
                | Operation::Write
                | Operation::Atomic
                | Operation::Fetch
                | Operation::Compare
        );
        let denied = matches!(
            self.errno,
            Errno::ACCES | Errno::PERM | Errno::NOKEY | Errno::KEYREJECTED | Errno::INVAL
        );
        (reaches && denied).then_some(
            "no region of the peer allows it: check that the region is still registered, with this access, and that the peer told this `RemoteRegion` since it last started",
        )
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if let Some(peer) = &self.peer {
            write!(f, " {} {peer}", self.operation.preposition())?;
        }
        write!(f, " failed: {} ({})", self.errno, self.errno.name())?;
        if !self.detail.is_empty() && self.detail != self.errno.text() {
            write!(f, ", {}", self.detail)?;
        }
        if self.overflow != 0 {
            write!(f, ", {} bytes too long", self.overflow)?;
        }
        match self.access_advice() {
            Some(advice) => write!(f, "; {advice}"),
            None => write!(f, "{}", Advice(self.errno)),
        }
    }
}

/// The error of an operation that was not posted, with its buffer.
pub struct Refused {
    /// The reason why the post was refused.
    pub error: Error,
    /// The buffer that was passed in.
    pub buffer: Buffer,
}

impl Refused {
    /// Returns the error number of fi_errno(3) that stands for the reason.
    pub fn errno(&self) -> Errno {
        self.error.errno()
    }

    /// Returns whether the same post may succeed after completions were read.
    pub fn is_again(&self) -> bool {
        self.error.is_again()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

impl From<Error> for Refused {
    /// Adds an empty buffer, for posts without one.
    fn from(error: Error) -> Self {
        let buffer = Buffer::new();
        Self { error, buffer }
    }
}

/// Prints errors for `Debug` as for `Display`: that is what a program shows whose `main` returns an error, or that unwraps one.
macro_rules! debug_as_display {
    ($($error:ty),*) => {$(
        impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

debug_as_display!(
    Error,
    LibraryError,
    Unsuitable,
    Precondition,
    OperationError,
    Refused,
    WhyNot
);

/// Advice about an error, as the end of a sentence.
struct Advice(Errno);

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match advice(self.0) {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}

fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::AGAIN => "read completions, then try again",
        Errno::CONNREFUSED => "check that the peer runs, and that the address is its present one",
        Errno::CONNRESET | Errno::CONNABORTED | Errno::SHUTDOWN | Errno::NOTCONN => {
            "the peer is gone: exchange addresses anew once it runs again"
        }
        Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN => {
            "check the network and its firewalls between the two hosts"
        }
        Errno::TRUNC => "receive into a buffer as long as the longest message",
        Errno::MSGSIZE => "send at most `Info::max_message_size` bytes",
        Errno::NOSPC => "free some shared memory (df /dev/shm), or give the container more",
        Errno::MFILE => "raise the limit of open files (ulimit -n)",
        Errno::ADDRINUSE => "choose another address or port, or let the provider choose",
        Errno::AVAIL => {
            "an operation has failed: read the completion queue of its endpoint, which says which one and why"
        }
        Errno::NOAV => "give the builder an address vector",
        Errno::NOCQ => "give the builder a completion queue for each direction",
        Errno::NOEQ => "give the builder an event queue",
        Errno::CANCELED => "this is what `cancel` asked for",
        Errno::DOMAIN => "bind only objects of the same domain",
        Errno::NOSYS | Errno::OPNOTSUPP => "ask for the capability in `Hints`",
        Errno::BUSY => "close what uses it first",
        Errno::ACCES | Errno::PERM => "check the permissions of this user and container",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as StdError;

    use super::*;
    use crate::{Backend, Hints};

    #[test]
    fn an_error_is_no_longer_than_four_words() {
        assert!(size_of::<Error>() <= 4 * size_of::<usize>());
    }

    /// Returns what a program prints whose `main` returned the error.
    fn printed(error: impl Into<Box<dyn StdError>>) -> String {
        format!("{:?}", error.into())
    }

    fn failed() -> OperationError {
        OperationError {
            operation: Operation::Receive,
            peer: None,
            errno: Errno::TRUNC,
            provider_errno: 0,
            detail: String::new(),
            overflow: 3,
        }
    }

    #[test]
    fn a_main_that_returns_an_error_prints_its_text_and_advice() {
        let again = || Error::call("fi_send")(Errno::AGAIN);
        let text = "fi_send failed: Resource temporarily unavailable (FI_EAGAIN); read completions, then try again";
        assert_eq!(printed(again()), text);
        let buffer = Buffer::zeroed(1);
        assert_eq!(
            printed(Refused {
                error: again(),
                buffer
            }),
            text
        );
        assert_eq!(printed(failed()), failed().to_string());
        let operation = Error::Operation(Box::new(failed()));
        assert_eq!(printed(operation), failed().to_string());
    }

    #[test]
    fn a_main_that_returns_reasons_prints_them_as_lines() {
        let asked = Hints::new().provider("no such provider");
        let Err(why) = asked.best(Backend::builtin()) else {
            panic!("no provider has that name");
        };
        assert_eq!(printed(why.clone()), why.to_string());
        assert_eq!(printed(Error::NotOffered(why.clone())), why.to_string());
    }
}
