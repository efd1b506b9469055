//! What a packet of an adapter says, beside the bytes that it carries.
//!
//! All adapters are in one process, so a packet is not encoded; on the way it counts as [`Head::LEN`] bytes longer than its body.

use oxifabric_engine::{Header, RemoteIov, RemoteWrite, Target};
use oxifabric_types::Errno;

/// What a packet says. A *generation* is what one endpoint sends to another until one of them takes the other for gone; a later one
/// has a higher number. An *incarnation* is one of the endpoints that have a name one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    /// The sender, this incarnation of it, begins a generation. The adapter of the receiver answers that it is there, and the
    /// endpoint [`Head::Welcome`].
    Hello(u64, u64),
    /// Frames of this generation are welcome at this incarnation of the sender.
    Welcome(u64, u64),
    /// A frame.
    Frame(FrameHead),
    /// The endpoint has taken the frame of this generation and number.
    Taken(u64, u64),
    /// Both generations, of the sender and of the receiver of the packet, are over; zero for none.
    Bye(u64, u64),
    /// Is the endpoint there? Its adapter answers.
    Probe,
    /// An endpoint is there, this incarnation of it.
    Alive(u64),
    /// No endpoint is there: the answer of the network to what was sent there.
    Gone(Sent),
    /// The adapter of the receiver is to carry out an access.
    Request(Request),
    /// The access with this number is carried out, or why not. The body is what was read, or was there before.
    Done(u64, Result<(), Errno>),
}

/// What was sent to no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A Hello or a frame of this generation.
    Generation(u64),
    /// The access with this number.
    Access(u64),
    /// A probe.
    Probe,
}

/// A frame on its way.
#[derive(Clone, Debug)]
pub(crate) struct FrameHead {
    pub(crate) generation: u64,
    /// Counts the frames of the generation.
    pub(crate) number: u64,
    /// The frame that has to be taken before this one.
    pub(crate) after: Option<u64>,
    pub(crate) load: Load,
}

/// What a frame is.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// One of the engine's.
    Engine {
        header: Header,
        targets: Box<[Target]>,
        /// The sender's memory that an Rts names.
        remote: Option<RemoteIov>,
    },
    /// The adapter of the sender has written to memory of the receiver, with data.
    Written(RemoteWrite),
}

/// A part of an access, as long as a packet can carry it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Numbers the requests of an endpoint.
    pub(crate) id: u64,
    pub(crate) access: Access,
    /// The memory; one piece, but for atomics.
    pub(crate) targets: Box<[Target]>,
}

/// What is done to memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Read,
    Write,
    /// The update that this header of the engine's describes.
    Atomic(Header),
}

impl Head {
    /// Number of bytes that it is taken to have.
    pub(crate) const LEN: usize = 64;

    /// Returns what is to be said of it where no endpoint is at its destination; `None` if that is of no use to the sender.
    pub(crate) fn refusal(&self) -> Option<Self> {
        match self {
            Self::Hello(generation, _) => Some(Self::Gone(Sent::Generation(*generation))),
            Self::Frame(frame) => Some(Self::Gone(Sent::Generation(frame.generation))),
            Self::Request(request) => Some(Self::Gone(Sent::Access(request.id))),
            Self::Probe => Some(Self::Gone(Sent::Probe)),
            _ => None,
        }
    }
}
