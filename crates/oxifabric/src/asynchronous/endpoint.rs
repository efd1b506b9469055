//! Endpoints whose operations are futures.

use core::fmt;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::Arc;

use oxifabric_types::Errno;

use super::watcher::wake_soon;
use super::{AsyncQueue, InFlight, watching};
use crate::atomic::{Atomic, Exchange, Update};
use crate::kind::{Connectionless, Kind, Reliable};
use crate::{
    Buffer, Completion, Endpoint, Error, Msg, Op, Peer, Plain, Rdm, Refused, Remote, SendOptions,
};

/// An endpoint whose operations are futures.
///
/// A future posts its operation when it is first polled, waits for room where the queue is full, and returns the completion with the
/// buffer. Dropping it leaves the operation in flight, and its buffer goes with the completion: a message that a dropped receive
/// takes is lost, as it is with a receive whose completion is never read. [`AsyncEndpoint::start`] posts at once.
pub struct AsyncEndpoint<K: Kind = Rdm> {
    endpoint: Endpoint<K>,
    transmit: AsyncQueue,
    receive: AsyncQueue,
}

/// The queue in which an operation completes.
#[derive(Clone, Copy)]
enum Side {
    Transmit,
    Receive,
}

impl<K: Kind> AsyncEndpoint<K> {
    /// Takes an endpoint and the queues that it was built with.
    ///
    /// # Errors
    ///
    /// `DOMAIN` for queues of another endpoint.
    pub fn new(
        endpoint: Endpoint<K>,
        transmit: &AsyncQueue,
        receive: &AsyncQueue,
    ) -> Result<Self, Error> {
        let (tx, rx) = endpoint.object().queues();
        let fits = core::ptr::eq(tx, Arc::as_ptr(transmit.queue().queue()))
            && core::ptr::eq(rx, Arc::as_ptr(receive.queue().queue()));
        if !fits {
            let cause = "the endpoint's operations complete in other queues; pass those that it was built with, the transmit queue first";
            return Err(Error::unmet("fi_ep_bind", Errno::DOMAIN, cause));
        }
        Ok(Self {
            endpoint,
            transmit: transmit.clone(),
            receive: receive.clone(),
        })
    }

    /// Returns the endpoint itself.
    pub fn endpoint(&self) -> &Endpoint<K> {
        &self.endpoint
    }

    /// Returns the queue for completions of receives and of accesses by peers.
    pub fn receive_queue(&self) -> &AsyncQueue {
        &self.receive
    }

    /// Posts anything but a receive at once: `endpoint.start(|endpoint| endpoint.send(peer, buffer))`.
    ///
    /// # Errors
    ///
    /// Those of the post, `AGAIN` among them.
    pub fn start<E>(
        &self,
        post: impl FnOnce(&Endpoint<K>) -> Result<Op, E>,
    ) -> Result<InFlight, E> {
        self.transmit.post(|| post(&self.endpoint))
    }

    /// Posts a receive at once.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::start`].
    pub fn start_receive<E>(
        &self,
        post: impl FnOnce(&Endpoint<K>) -> Result<Op, E>,
    ) -> Result<InFlight, E> {
        self.receive.post(|| post(&self.endpoint))
    }

    /// Receives a message.
    pub async fn receive(&self, buffer: impl Into<Buffer>) -> Completion {
        let post = |endpoint: &Endpoint<K>, buffer: Buffer| endpoint.receive(buffer);
        self.perform(Side::Receive, buffer.into(), post).await
    }

    /// Posts as soon as there is room, and waits for the completion.
    async fn perform(
        &self,
        side: Side,
        buffer: Buffer,
        post: impl Fn(&Endpoint<K>, Buffer) -> Result<Op, Refused>,
    ) -> Completion {
        let queue = match side {
            Side::Transmit => &self.transmit,
            Side::Receive => &self.receive,
        };
        let mut buffer = Some(buffer);
        let posted = poll_fn(|cx| {
            let this = buffer.take().unwrap_or_default();
            match queue.post(|| post(&self.endpoint, this)) {
                Ok(flying) => Poll::Ready(Ok(flying)),
                Err(refused) if refused.is_again() => {
                    buffer = Some(refused.buffer);
                    if let Err(error) = self.wait_for_room(cx.waker()) {
                        let buffer = buffer.take().unwrap_or_default();
                        return Poll::Ready(Err(Refused { error, buffer }));
                    }
                    Poll::Pending
                }
                Err(refused) => Poll::Ready(Err(refused)),
            }
        });
        match posted.await {
            Ok(flying) => flying.await,
            Err(Refused { error, buffer }) => Completion {
                op: Op::PEER,
                buffer,
                outcome: Err(error),
            },
        }
    }

    /// Has the task woken when its post may find room. Not every provider reports that by an event, so the task is woken a little later
    /// in any case.
    fn wait_for_room(&self, waker: &Waker) -> Result<(), Error> {
        self.transmit.wait_for_room(waker)?;
        self.receive.wait_for_room(waker)?;
        wake_soon(waker.clone()).map_err(watching)
    }
}

impl<K: Reliable> AsyncEndpoint<K> {
    /// Receives a message with this tag; bits of it that are set in `ignore` do not matter.
    pub async fn receive_tagged(
        &self,
        tag: u64,
        ignore: u64,
        buffer: impl Into<Buffer>,
    ) -> Completion {
        let post =
            |endpoint: &Endpoint<K>, buffer: Buffer| endpoint.receive_tagged(tag, ignore, buffer);
        self.perform(Side::Receive, buffer.into(), post).await
    }
}

/// Defines the messages of endpoints, with a peer for connectionless ones.
macro_rules! messages {
    ($kind:ty $(, $to:ident: $peer:ty)?) => {
        /// Sends a message.
        pub async fn send(&self, $($to: $peer,)? buffer: impl Into<Buffer>) -> Completion {
            let post = |endpoint: &Endpoint<$kind>, buffer: Buffer| endpoint.send($($to,)? buffer);
            self.perform(Side::Transmit, buffer.into(), post).await
        }

        /// Sends a message with options.
        pub async fn send_with(
            &self,
            $($to: $peer,)?
            buffer: impl Into<Buffer>,
            options: SendOptions,
        ) -> Completion {
            let post = |endpoint: &Endpoint<$kind>, buffer: Buffer| {
                endpoint.send_with($($to,)? buffer, options)
            };
            self.perform(Side::Transmit, buffer.into(), post).await
        }
    };
}

/// Defines the operations that only reliable endpoints have.
macro_rules! reliable {
    ($kind:ty $(, $to:ident: $peer:ty)?) => {
        /// Sends a tagged message.
        pub async fn send_tagged(
            &self,
            $($to: $peer,)?
            tag: u64,
            buffer: impl Into<Buffer>,
        ) -> Completion {
            let post = |endpoint: &Endpoint<$kind>, buffer: Buffer| {
                endpoint.send_tagged($($to,)? tag, buffer)
            };
            self.perform(Side::Transmit, buffer.into(), post).await
        }

        /// Reads memory of the peer, as many bytes as the buffer has.
        pub async fn read<E: Plain>(
            &self,
            $($to: $peer,)?
            from: Remote<[E]>,
            buffer: impl Into<Buffer>,
        ) -> Completion {
            let post = |endpoint: &Endpoint<$kind>, buffer: Buffer| endpoint.read($($to,)? from, buffer);
            self.perform(Side::Transmit, buffer.into(), post).await
        }

        /// Writes memory of the peer, as many bytes as the buffer has.
        pub async fn write<E: Plain>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            buffer: impl Into<Buffer>,
        ) -> Completion {
            let post = |endpoint: &Endpoint<$kind>, buffer: Buffer| endpoint.write($($to,)? at, buffer);
            self.perform(Side::Transmit, buffer.into(), post).await
        }

        /// Updates an element of the peer's memory and returns its previous value.
        ///
        /// # Errors
        ///
        /// Those of the operation.
        pub async fn fetch_atomic<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<E>,
            update: Update<E>,
        ) -> Result<E, Error> {
            let post = |endpoint: &Endpoint<$kind>, _| endpoint.fetch_atomic($($to,)? at, update);
            let done = self.perform(Side::Transmit, Buffer::new(), post).await;
            fetched(done)
        }

        /// Compares an element of the peer's memory, writes it if the comparison holds, and returns its previous value.
        ///
        /// # Errors
        ///
        /// Those of the operation.
        pub async fn compare_atomic<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<E>,
            exchange: Exchange<E>,
        ) -> Result<E, Error> {
            let post = |endpoint: &Endpoint<$kind>, _| endpoint.compare_atomic($($to,)? at, exchange);
            let done = self.perform(Side::Transmit, Buffer::new(), post).await;
            fetched(done)
        }
    };
}

/// Messages to a named peer.
impl<K: Connectionless> AsyncEndpoint<K> {
    messages!(K, to: Peer);
}

/// All other operations with a named peer.
impl AsyncEndpoint<Rdm> {
    reliable!(Rdm, to: Peer);
}

/// Operations with the peer of the connection.
impl AsyncEndpoint<Msg> {
    messages!(Msg);
    reliable!(Msg);
}

/// Returns the previous value of an element.
fn fetched<E: Atomic>(done: Completion) -> Result<E, Error> {
    let element = done.outcome?.fetched();
    element.ok_or_else(|| Error::call("fi_fetch_atomic")(Errno::IO))
}

impl<K: Kind> fmt::Debug for AsyncEndpoint<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncEndpoint")
            .field(&self.endpoint)
            .finish()
    }
}
