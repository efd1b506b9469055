//! A safe Rust interface to fabrics.
//!
//! The objects are those of libfabric. Each holds its parents, so that they are closed in the right order whatever the order in
//! which a program drops them:
//!
//! ```text
//! Backend -> Hints -> Info            which library, what is asked for, what is offered
//! Fabric <- Domain <- CompletionQueue, Counter
//!        |         <- AddressVector
//!        |         <- Region          memory that peers may reach
//!        |         <- Endpoint<Rdm>, Endpoint<Dgram>, Endpoint<Msg>
//!        <- EventQueue <- PassiveEndpoint
//! ```
//!
//! An operation owns its [`Buffer`] while it is in flight; the [`Completion`] gives the buffer back. A program may drop
//! anything at any time: a buffer that the fabric still uses is freed only when the operation is done or its endpoint is closed. (If
//! one thread reads the queue and another closes the endpoint, the reading thread frees the buffer at its next read.)
//! [`Endpoint::scope`] takes borrowed memory, and waits.
//!
//! ```no_run
//! use oxifabric::{AddressVector, Backend, Buffer, CompletionQueue, Domain, Endpoint, Fabric, Hints, Rdm};
//!
//! # fn main() -> Result<(), oxifabric::Error> {
//! let info = Hints::new().provider("tcp").best(Backend::from_env()?)?;
//! let fabric = Fabric::open(&info)?;
//! let domain = Domain::open(&fabric, &info)?;
//! let peers = AddressVector::open(&domain)?;
//! let queue = CompletionQueue::open(&domain, 64)?;
//! let endpoint = Endpoint::<Rdm>::builder(&domain).address_vector(&peers).queue(&queue).enable()?;
//!
//! let me = peers.insert(&endpoint.address()?)?;
//! endpoint.receive_tagged(7, 0, Buffer::zeroed(64))?;
//! endpoint.send_tagged(me, 7, Buffer::from("hello"))?;
//! for _ in 0..2 {
//!     let (buffer, transfer) = queue.next()?.ok()?;
//!     println!("{:?}: {} bytes", transfer.operation, buffer.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | ways to learn of completions | |
//! |---|---|
//! | [`CompletionQueue::poll`] | without waiting |
//! | [`CompletionQueue::wait`], [`CompletionQueue::next`] | blocking, with or without a timeout |
//! | [`AsyncEndpoint`] | futures, under any executor |
//! | [`Counter`] | how many, but not which |
//!
//! The objects of a domain that is opened with [`Domain::open`] are `Send` and `Sync`; those of [`Domain::open_local`] stay on their
//! thread, and a provider may do without locks.
//!
//! Everything unsafe is in one private module, which calls the operation tables of the library's objects. That library is the
//! built-in one, or any other libfabric.so.1 ([`Backend::system`]).
//!
//! The feature `tokio` adds `AsyncQueue::tokio`.
#![deny(unsafe_code, missing_docs)]

mod address;
mod address_vector;
mod asynchronous;
mod atomic;
mod backend;
mod completion_queue;
mod counter;
mod deadline;
mod domain;
mod endpoint;
mod error;
mod event_queue;
mod hints;
mod info;
mod kind;
mod lock;
#[allow(
    unsafe_code,
    reason = "the wall: calls into the library and memory that it shares"
)]
mod raw;
mod region;
mod remote;
mod simulation;
mod threading;
mod why;

pub use address::{Address, AddressFormat};
pub use address_vector::{AddressVector, Peer};
pub use asynchronous::{AsyncEndpoint, AsyncQueue, InFlight, Next, QueueDescriptor, Readiness};
pub use atomic::{Atomic, AtomicInteger, Exchange, Update};
pub use backend::{Backend, Parameter, ParameterKind};
pub use completion_queue::{Completion, CompletionQueue, Transfer};
pub use counter::{Counted, Counter};
pub use domain::{Domain, Fabric};
pub use endpoint::{Connecting, Endpoint, EndpointBuilder, Level, SendOptions};
pub use error::{
    Error, LibraryError, Operation, OperationError, Precondition, Refused, Unsuitable,
};
pub use event_queue::{ConnectionRequest, EventQueue, PassiveEndpoint};
pub use hints::Hints;
pub use info::Info;
pub use kind::{Connectionless, Dgram, Kind, Msg, Rdm, Reliable};
pub use oxifabric_types::{AvType, Caps, EpType, Errno, MrMode, Order, Progress, ResourceMgmt};
pub use raw::{Buffer, DmaBuf, Op, Plain, Scope, ScopedOp};
pub use region::{Access, Payload, Region, RegionSlice};
pub use remote::{Remote, RemoteRegion};
pub use simulation::{PacketCount, Simulation};
pub use threading::{Local, Shared, Threading};
pub use why::{Rejection, WhyNot};
