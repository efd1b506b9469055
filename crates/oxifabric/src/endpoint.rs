//! Endpoints: where operations are posted. Source: fi_endpoint(3).

mod builder;
mod connection;
mod operations;
mod options;
mod posting;

pub use builder::EndpointBuilder;
pub use connection::Connecting;
pub use options::{Level, SendOptions};

use core::fmt;
use core::marker::PhantomData;

use oxifabric_types::{Caps, Errno};

use self::posting::refused_by;
use crate::atomic::{self, Atomic, Exchange, Update};
use crate::kind::Kind;
use crate::raw::{EndpointObject, Inject, Post};
use crate::threading::Marker;
use crate::{
    Access, Address, Buffer, Domain, Error, Info, Op, Operation, Payload, Peer, Plain, Rdm,
    Refused, Remote, Shared, Threading,
};

/// An enabled endpoint: [`Rdm`], [`Msg`](crate::Msg) or [`Dgram`](crate::Dgram).
///
/// Operations of a connectionless endpoint name their peer, those of a connected one do not:
///
/// | | a message | a tagged message | a write |
/// |---|---|---|---|
/// | `Endpoint<Rdm>` | `send(peer, payload)` | `send_tagged(peer, tag, payload)` | `write(peer, at, payload)` |
/// | `Endpoint<Dgram>` | `send(peer, payload)` | | |
/// | `Endpoint<Msg>` | `send(payload)` | `send_tagged(tag, payload)` | `write(at, payload)` |
///
/// An endpoint has only the capabilities that its offer was asked for ([`Hints::caps`](crate::Hints::caps)): a post that needs another one
/// is refused with `OPNOTSUPP`.
///
/// Every operation owns its memory from the post until its completion, which appears in the endpoint's queue for sends and accesses, or in
/// that for receives. A post that
/// is refused returns its buffer at once. Messages to one peer arrive in the order of their sends (but for [`Dgram`](crate::Dgram));
/// a receive takes the earliest message that matches it, and the earliest receive that matches takes a message.
///
/// Dropping it closes it and frees the buffers of operations that have not completed; unread completions of the endpoint do not
/// appear.
pub struct Endpoint<K: Kind = Rdm, T: Threading = Shared> {
    object: EndpointObject,
    info: Info,
    /// The capabilities of the offer, against which every post is checked.
    caps: Caps,
    kind: PhantomData<fn() -> K>,
    threading: Marker<T>,
}

impl<K: Kind, T: Threading> Endpoint<K, T> {
    /// Starts to build an endpoint: `Endpoint::<Rdm>::builder(&domain)`.
    pub fn builder(domain: &Domain<T>) -> EndpointBuilder<K, T> {
        EndpointBuilder::new(domain)
    }

    fn new(object: EndpointObject, info: Info) -> Self {
        Self {
            object,
            caps: info.caps(),
            info,
            kind: PhantomData,
            threading: PhantomData,
        }
    }

    /// Returns the offer that it was opened with.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the address by which peers reach it.
    ///
    /// # Errors
    ///
    /// What `fi_getname` returned.
    pub fn address(&self) -> Result<Address, Error> {
        let bytes = self.object.name().map_err(Error::call("fi_getname"))?;
        Ok(Address::new(self.info.address_format(), &bytes))
    }

    /// Requests the cancellation of an operation. Its completion still appears: `CANCELED` if it was cancelled, otherwise as usual.
    ///
    /// # Errors
    ///
    /// `NOENT` when it has completed; or what `fi_cancel` returned.
    pub fn cancel(&self, op: Op) -> Result<(), Error> {
        self.object.cancel(op).map_err(Error::call("fi_cancel"))
    }

    pub(crate) fn object(&self) -> &EndpointObject {
        &self.object
    }

    /// Reads as many bytes as the payload has.
    fn read_into<E: Plain>(
        &self,
        peer: Option<Peer>,
        from: Remote<[E]>,
        payload: impl Into<Payload<T>>,
    ) -> Result<Op, Refused> {
        let payload = payload.into();
        match from.place(payload.len(), Access::READ) {
            Ok(from) => self.submit("fi_read", payload, peer, Post::Read { from }),
            Err(error) => Err(refused(error, payload)),
        }
    }

    /// Writes as many bytes as the payload has.
    fn write_from<E: Plain>(
        &self,
        peer: Option<Peer>,
        to: Remote<[E]>,
        payload: impl Into<Payload<T>>,
        data: Option<u64>,
    ) -> Result<Op, Refused> {
        let payload = payload.into();
        match to.place(payload.len(), Access::WRITE) {
            Ok(to) => self.submit("fi_write", payload, peer, Post::Write { to, data }),
            Err(error) => Err(refused(error, payload)),
        }
    }

    fn write_options<E: Plain>(
        &self,
        peer: Option<Peer>,
        to: Remote<[E]>,
        payload: impl Into<Payload<T>>,
        options: SendOptions,
    ) -> Result<Op, Refused> {
        let payload = payload.into();
        match to.place(payload.len(), Access::WRITE) {
            Ok(place) => {
                let post = Post::RmaMsg {
                    write: true,
                    place,
                    data: options.data.unwrap_or(0),
                    flags: options.flags(),
                };
                self.submit("fi_writemsg", payload, peer, post)
            }
            Err(error) => Err(refused(error, payload)),
        }
    }

    fn inject_write_bytes<E: Plain>(
        &self,
        peer: Option<Peer>,
        to: Remote<[E]>,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let to = to.place(bytes.len(), Access::WRITE)?;
        self.inject_bytes(bytes, peer, Inject::Write { to })
    }

    fn update<E: Atomic>(
        &self,
        peer: Option<Peer>,
        at: Remote<E>,
        update: Update<E>,
    ) -> Result<Op, Refused> {
        let operands = (Some(update.operand), None);
        self.scalar(Operation::Atomic, peer, at, update.op, operands)
    }

    fn fetch<E: Atomic>(
        &self,
        peer: Option<Peer>,
        at: Remote<E>,
        update: Option<Update<E>>,
    ) -> Result<Op, Refused> {
        let op = update.map_or(atomic::READ, |update| update.op);
        let operands = (update.map(|update| update.operand), None);
        self.scalar(Operation::Fetch, peer, at, op, operands)
    }

    fn exchange<E: Atomic>(
        &self,
        peer: Option<Peer>,
        at: Remote<E>,
        exchange: Exchange<E>,
    ) -> Result<Op, Refused> {
        let operands = (Some(exchange.new), Some(exchange.compare));
        self.scalar(Operation::Compare, peer, at, exchange.op, operands)
    }

    fn scalar<E: Atomic>(
        &self,
        kind: Operation,
        peer: Option<Peer>,
        at: Remote<E>,
        op: u32,
        (operand, compare): (Option<E>, Option<E>),
    ) -> Result<Op, Refused> {
        let needed = match kind {
            Operation::Fetch if op == atomic::READ => Access::READ,
            _ => Access::READ_WRITE,
        };
        let post = Post::Scalar {
            kind,
            at: at.as_slice().place(size_of::<E>(), needed)?,
            op,
            scalars: &atomic::scalars(operand, compare),
        };
        self.submit(atomic_call(kind), Buffer::new(), peer, post)
    }

    /// Posts an atomic operation on as many elements as a row of the payload has.
    fn elements<E: Atomic>(
        &self,
        kind: Operation,
        peer: Option<Peer>,
        at: Remote<[E]>,
        op: u32,
        payload: impl Into<Payload<T>>,
    ) -> Result<Op, Refused> {
        let payload = payload.into();
        let (needed, rows) = match kind {
            Operation::Fetch if op == atomic::READ => (Access::READ, 1),
            Operation::Fetch => (Access::READ_WRITE, 2),
            Operation::Compare => (Access::READ_WRITE, 3),
            _ => (Access::READ_WRITE, 1),
        };
        let row = payload.len() / rows;
        let call = atomic_call(kind);
        let place = match at.place(row, needed) {
            Ok(_) if payload.len() % (rows * size_of::<E>()) != 0 => {
                Err(uneven(call, payload.len(), rows, size_of::<E>()))
            }
            place => place,
        };
        match place {
            Ok(at) => {
                let post = Post::Elements {
                    kind,
                    at,
                    count: row / size_of::<E>(),
                    row,
                    datatype: E::DATATYPE,
                    op,
                };
                self.submit(call, payload, peer, post)
            }
            Err(error) => Err(refused(error, payload)),
        }
    }
}

/// Returns the name of an atomic operation's call in C.
fn atomic_call(kind: Operation) -> &'static str {
    match kind {
        Operation::Fetch => "fi_fetch_atomic",
        Operation::Compare => "fi_compare_atomic",
        _ => "fi_atomic",
    }
}

/// Returns the error of a payload that is no whole number of elements in each of its rows.
#[cold]
fn uneven(call: &'static str, len: usize, rows: usize, size: usize) -> Error {
    let cause = match rows {
        1 => format!("{len} bytes are no whole number of elements of {size} bytes"),
        _ => format!(
            "{len} bytes are not {rows} rows of as many elements of {size} bytes; see the documentation of the method"
        ),
    };
    Error::unmet(call, Errno::INVAL, cause)
}

#[cold]
fn refused<T: Threading>(error: Error, payload: Payload<T>) -> Refused {
    refused_by(error, payload.into_memory())
}

impl<K: Kind, T: Threading> fmt::Debug for Endpoint<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("kind", &K::EP_TYPE)
            .field("address", &self.address().ok())
            .finish_non_exhaustive()
    }
}
