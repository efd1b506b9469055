//! The operations of endpoints: with a named peer, or with the peer of the connection.

use super::{Endpoint, SendOptions};
use crate::atomic::{self, Atomic, Exchange, Update};
use crate::kind::{Connectionless, Kind, Reliable};
use crate::raw::{Inject, Post, from_word};
use crate::{Error, Msg, Op, Operation, Payload, Peer, Plain, Rdm, Refused, Remote, Threading};

/// Expands to the peer of an operation, if it names one.
macro_rules! peer {
    () => {
        None
    };
    ($to:ident) => {
        Some($to)
    };
}

/// Defines the messages of endpoints, with a peer for connectionless ones.
macro_rules! messages {
    ($addressee:literal $(($to:ident: $peer:ty))?) => {
        #[doc = concat!("Sends a message to ", $addressee, ".")]
        ///
        /// # Errors
        ///
        /// The post was refused: `AGAIN` when there is no room for it now (see [`Endpoint::post`]), `INVAL` for a peer of another address
        /// vector, `MSGSIZE` for a payload longer than [`Info::max_message_size`](crate::Info::max_message_size), `OPNOTSUPP` where the
        /// capability was not asked for: [`Caps::MSG`](crate::Caps::MSG) for messages, [`Caps::TAGGED`](crate::Caps::TAGGED) for tagged ones.
        #[inline]
        pub fn send(
            &self,
            $($to: $peer,)?
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            let (tag, data) = (None, None);
            self.submit("fi_send", payload, peer!($($to)?), Post::Send { tag, data })
        }

        /// Sends a message with remote completion data.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::send`].
        #[inline]
        pub fn send_data(
            &self,
            $($to: $peer,)?
            data: u64,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            let (tag, data) = (None, Some(data));
            self.submit("fi_senddata", payload, peer!($($to)?), Post::Send { tag, data })
        }

        /// Sends a message with options.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::send`]; `BADFLAGS` or `OPNOTSUPP` for an option that the provider does not have.
        pub fn send_with(
            &self,
            $($to: $peer,)?
            payload: impl Into<Payload<T>>,
            options: SendOptions,
        ) -> Result<Op, Refused> {
            let post = Post::SendMsg {
                tag: options.tag,
                data: options.data.unwrap_or(0),
                flags: options.flags(),
            };
            let call = options.tag.map_or("fi_sendmsg", |_| "fi_tsendmsg");
            self.submit(call, payload, peer!($($to)?), post)
        }

        /// Sends a short message whose bytes are copied within the call: they are the caller's again when it returns, and no completion
        /// appears in the queue.
        ///
        /// That saves a [`Buffer`](crate::Buffer) and the reading of a completion, for messages of at most
        /// [`Info::inject_size`](crate::Info::inject_size) bytes (`fi_inject`). After `Ok` the message has left; nothing tells whether it
        /// arrives. The first injections to a peer return `AGAIN` until the connection with it is there: read completions, which also makes
        /// progress, and try again ([`Endpoint::post`] does).
        ///
        /// # Errors
        ///
        /// As [`Endpoint::send`]; `MSGSIZE` for more bytes than `inject_size`.
        #[inline]
        pub fn inject(&self, $($to: $peer,)? bytes: &[u8]) -> Result<(), Error> {
            let (tag, data) = (None, None);
            self.inject_bytes(bytes, peer!($($to)?), Inject::Message { tag, data })
        }

        /// Sends a short message with remote completion data, as [`Self::inject`] does without; only the peer has a completion.
        ///
        /// # Errors
        ///
        /// As [`Self::inject`].
        #[inline]
        pub fn inject_data(&self, $($to: $peer,)? data: u64, bytes: &[u8]) -> Result<(), Error> {
            let (tag, data) = (None, Some(data));
            self.inject_bytes(bytes, peer!($($to)?), Inject::Message { tag, data })
        }
    };
}

/// Defines the operations that only reliable endpoints have.
macro_rules! reliable {
    ($addressee:literal $(($to:ident: $peer:ty))?) => {
        #[doc = concat!("Sends a tagged message to ", $addressee, ".")]
        ///
        /// # Errors
        ///
        /// As [`Endpoint::send`].
        #[inline]
        pub fn send_tagged(
            &self,
            $($to: $peer,)?
            tag: u64,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            let (tag, data) = (Some(tag), None);
            self.submit("fi_tsend", payload, peer!($($to)?), Post::Send { tag, data })
        }

        /// Sends a short tagged message whose bytes are copied within the call, as [`Self::inject`] does without a tag; it has no completion.
        ///
        /// # Errors
        ///
        /// As [`Self::inject`].
        #[inline]
        pub fn inject_tagged(&self, $($to: $peer,)? tag: u64, bytes: &[u8]) -> Result<(), Error> {
            let (tag, data) = (Some(tag), None);
            self.inject_bytes(bytes, peer!($($to)?), Inject::Message { tag, data })
        }

        /// Reads memory of the peer, as many bytes as the payload has.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::send`]; [`Error::OutOfBounds`] and [`Error::NotGranted`] before anything is sent.
        pub fn read<E: Plain>(
            &self,
            $($to: $peer,)?
            from: Remote<[E]>,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            self.read_into(peer!($($to)?), from, payload)
        }

        /// Writes memory of the peer, as many bytes as the payload has.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::read`].
        pub fn write<E: Plain>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            self.write_from(peer!($($to)?), at, payload, None)
        }

        /// Writes memory of the peer; a completion with the data appears at the peer ([`Op::PEER`]).
        ///
        /// # Errors
        ///
        /// As [`Endpoint::read`].
        pub fn write_data<E: Plain>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            data: u64,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            self.write_from(peer!($($to)?), at, payload, Some(data))
        }

        /// Writes memory of the peer with options.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::read`]; `BADFLAGS` or `OPNOTSUPP` for an option that the provider does not have.
        pub fn write_with<E: Plain>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            payload: impl Into<Payload<T>>,
            options: SendOptions,
        ) -> Result<Op, Refused> {
            self.write_options(peer!($($to)?), at, payload, options)
        }

        /// Writes a few bytes of the peer's memory, at most [`Info::inject_size`](crate::Info::inject_size), which are copied within the
        /// call as [`Self::inject`] does; it has no completion.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::read`]; `MSGSIZE` for more bytes than `inject_size`.
        pub fn inject_write<E: Plain>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            bytes: &[u8],
        ) -> Result<(), Error> {
            self.inject_write_bytes(peer!($($to)?), at, bytes)
        }

        /// Updates an element of the peer's memory.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::read`]; `OPNOTSUPP` where the provider does not have the operation for this type.
        pub fn atomic<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<E>,
            update: Update<E>,
        ) -> Result<Op, Refused> {
            self.update(peer!($($to)?), at, update)
        }

        /// Updates elements of the peer's memory, each with the element of the payload in its place:
        /// `endpoint.atomic_slice(peer, histogram, Update::sum, buffer)`.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::atomic`]; `INVAL` for a payload that is no whole number of elements.
        pub fn atomic_slice<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            update: fn(E) -> Update<E>,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            let op = update(from_word(0)).op;
            self.elements(Operation::Atomic, peer!($($to)?), at, op, payload)
        }

        /// Updates elements of the peer's memory as [`Self::atomic_slice`] does, and returns their previous values.
        ///
        /// The payload has two rows of as many elements: the operands, and space for the previous values.
        ///
        /// # Errors
        ///
        /// As [`Self::atomic_slice`]; `INVAL` for a payload of another shape.
        pub fn fetch_atomic_slice<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            update: fn(E) -> Update<E>,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            let op = update(from_word(0)).op;
            self.elements(Operation::Fetch, peer!($($to)?), at, op, payload)
        }

        /// Reads elements of the peer's memory, as many as the payload has, each of them atomically.
        ///
        /// # Errors
        ///
        /// As [`Self::atomic_slice`].
        pub fn atomic_read_slice<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            self.elements(Operation::Fetch, peer!($($to)?), at, atomic::READ, payload)
        }

        /// Compares elements of the peer's memory, writes each for which the comparison holds, and returns their previous values:
        /// `endpoint.compare_atomic_slice(peer, locks, Exchange::if_equal, buffer)`.
        ///
        /// The payload has three rows of as many elements: the comparands, the values to be written, and space for the previous values.
        ///
        /// # Errors
        ///
        /// As [`Self::fetch_atomic_slice`].
        pub fn compare_atomic_slice<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<[E]>,
            exchange: fn(E, E) -> Exchange<E>,
            payload: impl Into<Payload<T>>,
        ) -> Result<Op, Refused> {
            let op = exchange(from_word(0), from_word(0)).op;
            self.elements(Operation::Compare, peer!($($to)?), at, op, payload)
        }

        /// Updates an element of the peer's memory; [`Completion::fetched`](crate::Completion::fetched) is its previous value.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::atomic`].
        pub fn fetch_atomic<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<E>,
            update: Update<E>,
        ) -> Result<Op, Refused> {
            self.fetch(peer!($($to)?), at, Some(update))
        }

        /// Reads an element of the peer's memory atomically; [`Completion::fetched`](crate::Completion::fetched) is its value.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::atomic`].
        pub fn atomic_read<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<E>,
        ) -> Result<Op, Refused> {
            self.fetch(peer!($($to)?), at, None)
        }

        /// Compares an element of the peer's memory and writes it if the comparison holds;
        /// [`Completion::fetched`](crate::Completion::fetched) is its previous value.
        ///
        /// # Errors
        ///
        /// As [`Endpoint::atomic`].
        pub fn compare_atomic<E: Atomic>(
            &self,
            $($to: $peer,)?
            at: Remote<E>,
            exchange: Exchange<E>,
        ) -> Result<Op, Refused> {
            self.exchange(peer!($($to)?), at, exchange)
        }
    };
}

/// Messages from any peer.
impl<K: Kind, T: Threading> Endpoint<K, T> {
    /// Receives a message; a longer one is truncated, and the completion has an error.
    ///
    /// The message may come from any peer, so the receive does not fail when one of them is gone: `receive_from` does.
    ///
    /// # Errors
    ///
    /// The post was refused: `AGAIN` when there is no room for it now, `OPNOTSUPP` if [`Caps::MSG`](crate::Caps::MSG) was not asked for.
    #[inline]
    pub fn receive(&self, payload: impl Into<Payload<T>>) -> Result<Op, Refused> {
        self.submit("fi_recv", payload, None, Post::Recv { tag: None })
    }
}

/// Tagged messages from any peer.
impl<K: Reliable, T: Threading> Endpoint<K, T> {
    /// Receives a message with this tag; bits of it that are set in `ignore` do not matter.
    ///
    /// The message may come from any peer, so the receive does not fail when one of them is gone: `receive_tagged_from` does.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive`], with [`Caps::TAGGED`](crate::Caps::TAGGED).
    #[inline]
    pub fn receive_tagged(
        &self,
        tag: u64,
        ignore: u64,
        payload: impl Into<Payload<T>>,
    ) -> Result<Op, Refused> {
        let tag = Some((tag, ignore));
        self.submit("fi_trecv", payload, None, Post::Recv { tag })
    }
}

/// Messages to and from a named peer.
impl<K: Connectionless, T: Threading> Endpoint<K, T> {
    messages!("a peer" (to: Peer));

    /// Receives a message of one peer. It fails when that peer is gone, where a receive from any peer waits on.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive`]; `INVAL` for a peer of another address vector; `OPNOTSUPP` if
    /// [`Caps::DIRECTED_RECV`](crate::Caps::DIRECTED_RECV) was not asked for.
    #[inline]
    pub fn receive_from(&self, from: Peer, payload: impl Into<Payload<T>>) -> Result<Op, Refused> {
        self.submit("fi_recv", payload, Some(from), Post::Recv { tag: None })
    }
}

/// All other operations with a named peer.
impl<T: Threading> Endpoint<Rdm, T> {
    reliable!("a peer" (to: Peer));

    /// Receives a message of one peer with this tag; bits of it that are set in `ignore` do not matter. It fails when that peer is gone,
    /// where a receive from any peer waits on.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive_from`].
    #[inline]
    pub fn receive_tagged_from(
        &self,
        from: Peer,
        tag: u64,
        ignore: u64,
        payload: impl Into<Payload<T>>,
    ) -> Result<Op, Refused> {
        let tag = Some((tag, ignore));
        self.submit("fi_trecv", payload, Some(from), Post::Recv { tag })
    }
}

/// Operations with the peer of the connection.
impl<T: Threading> Endpoint<Msg, T> {
    messages!("the peer of the connection");
    reliable!("the peer of the connection");
}
