//! A safe Rust interface to fabrics.
//!
//! The objects are those of libfabric, and they hold their parents, so that they are closed in the right order whatever the
//! order in which a program drops them:
//!
//! ```text
//! Backend -> Hints -> Info          which library, what is asked for, what is offered
//! Fabric <- Domain <- CompletionQueue
//!                  <- AddressVector
//!                  <- Endpoint      (holds its queues and its address vector)
//! ```
//!
//! An operation owns its [`Buffer`] while it is in flight; the [`Completion`] gives the buffer back. A program may drop
//! anything at any time: a buffer that the fabric still uses is freed only after the endpoint that uses it is closed.
//!
//! All objects are `Send` and `Sync`: only offers of threading level `FI_THREAD_SAFE` are opened.
//!
//! ```no_run
//! use oxifabric::{Backend, Buffer, CompletionQueue, Domain, AddressVector, Endpoint, Fabric, Hints};
//!
//! # fn main() -> Result<(), oxifabric::Error> {
//! let offers = Hints::new().provider("tcp").offers(Backend::from_env()?)?;
//! let fabric = Fabric::open(&offers[0])?;
//! let domain = Domain::open(&fabric, &offers[0])?;
//! let peers = AddressVector::open(&domain)?;
//! let queue = CompletionQueue::open(&domain, 64)?;
//! let endpoint = Endpoint::builder(&domain).address_vector(&peers).queue(&queue).enable()?;
//!
//! let me = peers.insert(&endpoint.address()?)?;
//! endpoint.receive_tagged(7, 0, Buffer::zeroed(64))?;
//! endpoint.send_tagged(me, 7, Buffer::from(b"hello"))?;
//! for _ in 0..2 {
//!     let done = queue.wait(None)?.expect("without a deadline there is always a completion");
//!     println!("{:?}: {} bytes", done.outcome?.operation, done.buffer.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Everything unsafe is in one private module, which calls the operation tables of the library's objects. That library is
//! the one built in, or any other libfabric.so.1 ([`Backend::system`]).
#![deny(unsafe_code)]

mod address;
mod address_vector;
mod backend;
mod completion_queue;
mod domain;
mod endpoint;
mod error;
mod hints;
mod info;
#[allow(
    unsafe_code,
    reason = "the wall: calls into the library and memory that it shares"
)]
mod raw;
mod why;

pub use address::{Address, AddressFormat};
pub use address_vector::{AddressVector, Peer};
pub use backend::{Backend, Parameter, ParameterKind};
pub use completion_queue::{Completion, CompletionQueue, Transfer};
pub use domain::{Domain, Fabric};
pub use endpoint::{Endpoint, EndpointBuilder, Level, SendOptions};
pub use error::{Error, Operation, OperationError, Refused};
pub use hints::Hints;
pub use info::Info;
pub use oxifabric_types::{Caps, EpType, Errno};
pub use raw::{Buffer, Op};
pub use why::{Rejection, WhyNot};
