//! Endpoints: sending and receiving messages. Source: fi_endpoint(3), fi_msg(3), fi_tagged(3).

use std::sync::Arc;

use oxifabric_abi::{
    FI_DELIVERY_COMPLETE, FI_FENCE, FI_INJECT_COMPLETE, FI_REMOTE_CQ_DATA, FI_TRANSMIT_COMPLETE,
};
use oxifabric_types::Errno;

use crate::raw::{Inject, Port, Post, Queue};
use crate::{
    Address, AddressVector, Buffer, CompletionQueue, Domain, Error, Info, Op, Peer, Refused,
};

/// An enabled endpoint for reliable datagrams.
///
/// Every operation owns its buffer from the post until its completion. Messages to one peer arrive in the order of their sends;
/// a receive takes the earliest message that matches it, and the earliest receive that matches takes a message.
///
/// Dropping it closes it and frees the buffers of operations that have not completed; completions of them that nobody has read
/// do not appear.
pub struct Endpoint {
    port: Port,
    info: Info,
}

/// How an endpoint is put together; see [`Endpoint::builder`].
#[must_use = "an endpoint opens when it is enabled"]
pub struct EndpointBuilder {
    domain: Domain,
    transmit: Option<Arc<Queue>>,
    receive: Option<Arc<Queue>>,
    peers: Option<AddressVector>,
    name: Option<Address>,
}

/// When a send completes. Source: fi_cq(3) "Completion levels".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// At the endpoint's default level.
    #[default]
    Default,
    /// When the buffer may be used again.
    Inject,
    /// When the message no longer depends on this endpoint.
    Transmit,
    /// When the message has arrived in the peer's buffer.
    Delivery,
}

/// What [`Endpoint::send_with`] sends beside the bytes, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOptions {
    /// The tag; without one it is an untagged message.
    pub tag: Option<u64>,
    /// Data for the completion at the peer.
    pub data: Option<u64>,
    /// When the send completes.
    pub level: Level,
    /// Whether it waits for all earlier operations to the same peer.
    pub fence: bool,
}

impl Endpoint {
    /// Begins to put an endpoint together.
    ///
    /// It needs an address vector and a queue, or two, one for each direction; all of the same domain.
    pub fn builder(domain: &Domain) -> EndpointBuilder {
        EndpointBuilder {
            domain: domain.clone(),
            transmit: None,
            receive: None,
            peers: None,
            name: None,
        }
    }

    /// The offer that it was opened with.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The address by which peers reach it.
    ///
    /// # Errors
    ///
    /// What `fi_getname` returned.
    pub fn address(&self) -> Result<Address, Error> {
        let bytes = self.port.name().map_err(Error::call("fi_getname"))?;
        Ok(Address::new(self.info.address_format(), &bytes))
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The post was refused: `AGAIN` when the queue is full, `INVAL` for a peer of another address vector, `MSGSIZE`.
    #[inline]
    pub fn send(&self, to: Peer, buffer: Buffer) -> Result<Op, Refused> {
        self.post("fi_send", buffer, send(to, None, None))
    }

    /// Sends a message with data for the completion at the peer.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    #[inline]
    pub fn send_data(&self, to: Peer, data: u64, buffer: Buffer) -> Result<Op, Refused> {
        self.post("fi_senddata", buffer, send(to, None, Some(data)))
    }

    /// Sends a tagged message.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    #[inline]
    pub fn send_tagged(&self, to: Peer, tag: u64, buffer: Buffer) -> Result<Op, Refused> {
        self.post("fi_tsend", buffer, send(to, Some(tag), None))
    }

    /// Sends a message with everything that can be said about it.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`]; `BADFLAGS` or `OPNOTSUPP` for an option that the provider does not have.
    pub fn send_with(&self, to: Peer, buffer: Buffer, options: SendOptions) -> Result<Op, Refused> {
        let post = Post::SendMsg {
            to,
            tag: options.tag,
            data: options.data.unwrap_or(0),
            flags: options.flags(),
        };
        self.post("fi_sendmsg", buffer, post)
    }

    /// Receives a message into the buffer; a longer one is cut, and the completion says so.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    #[inline]
    pub fn receive(&self, buffer: Buffer) -> Result<Op, Refused> {
        let (from, tag) = (None, None);
        self.post("fi_recv", buffer, Post::Recv { from, tag })
    }

    /// Receives a message with this tag; bits of it that are set in `ignore` do not matter.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    #[inline]
    pub fn receive_tagged(&self, tag: u64, ignore: u64, buffer: Buffer) -> Result<Op, Refused> {
        let (from, tag) = (None, Some((tag, ignore)));
        self.post("fi_trecv", buffer, Post::Recv { from, tag })
    }

    /// Receives a message of this peer only, with a tag and the bits of it that do not matter if it shall be tagged.
    ///
    /// The offer must have [`Caps::DIRECTED_RECV`](crate::Caps::DIRECTED_RECV); otherwise the sender does not matter.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    #[inline]
    pub fn receive_from(
        &self,
        from: Peer,
        tag: Option<(u64, u64)>,
        buffer: Buffer,
    ) -> Result<Op, Refused> {
        let from = Some(from);
        self.post("fi_recv", buffer, Post::Recv { from, tag })
    }

    /// Sends a short message, at most [`Info::inject_size`] bytes; it has no completion.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    #[inline]
    pub fn inject(&self, to: Peer, bytes: &[u8]) -> Result<(), Error> {
        let (tag, data) = (None, None);
        self.inject_with(bytes, Inject { to, tag, data })
    }

    /// Sends a short message with data for the completion at the peer; it has none here.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    #[inline]
    pub fn inject_data(&self, to: Peer, data: u64, bytes: &[u8]) -> Result<(), Error> {
        let (tag, data) = (None, Some(data));
        self.inject_with(bytes, Inject { to, tag, data })
    }

    /// Sends a short tagged message; it has no completion.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    #[inline]
    pub fn inject_tagged(&self, to: Peer, tag: u64, bytes: &[u8]) -> Result<(), Error> {
        let (tag, data) = (Some(tag), None);
        self.inject_with(bytes, Inject { to, tag, data })
    }

    /// Asks for the end of an operation. Its completion still appears: `CANCELED` if it was ended, otherwise as usual.
    ///
    /// # Errors
    ///
    /// `NOENT` when it has completed; or what `fi_cancel` returned.
    pub fn cancel(&self, op: Op) -> Result<(), Error> {
        self.port.cancel(op).map_err(Error::call("fi_cancel"))
    }

    #[inline]
    fn post(&self, call: &'static str, buffer: Buffer, post: Post) -> Result<Op, Refused> {
        self.port
            .post(buffer, post)
            .map_err(|(errno, buffer)| Refused {
                error: Error::Call { call, errno },
                buffer,
            })
    }

    #[inline]
    fn inject_with(&self, bytes: &[u8], inject: Inject) -> Result<(), Error> {
        // Some providers trust their caller about the length.
        if bytes.len() > self.info.inject_size() {
            return Err(Error::call("fi_inject")(Errno::MSGSIZE));
        }
        self.port
            .inject(bytes, inject)
            .map_err(Error::call("fi_inject"))
    }
}

#[inline]
fn send(to: Peer, tag: Option<u64>, data: Option<u64>) -> Post {
    Post::Send { to, tag, data }
}

impl SendOptions {
    fn flags(&self) -> u64 {
        let level = match self.level {
            Level::Default => 0,
            Level::Inject => FI_INJECT_COMPLETE,
            Level::Transmit => FI_TRANSMIT_COMPLETE,
            Level::Delivery => FI_DELIVERY_COMPLETE,
        };
        let data = self.data.map_or(0, |_| FI_REMOTE_CQ_DATA);
        let fence = if self.fence { FI_FENCE } else { 0 };
        level | data | fence
    }
}

impl EndpointBuilder {
    /// Uses this address vector.
    pub fn address_vector(mut self, peers: &AddressVector) -> Self {
        self.peers = Some(peers.clone());
        self
    }

    /// Uses one queue for both directions.
    pub fn queue(self, queue: &CompletionQueue) -> Self {
        self.transmit_queue(queue).receive_queue(queue)
    }

    /// Uses this queue for completions of sends.
    pub fn transmit_queue(mut self, queue: &CompletionQueue) -> Self {
        self.transmit = Some(queue.queue().clone());
        self
    }

    /// Uses this queue for completions of receives.
    pub fn receive_queue(mut self, queue: &CompletionQueue) -> Self {
        self.receive = Some(queue.queue().clone());
        self
    }

    /// Asks for this address in place of one that the provider chooses.
    pub fn name(mut self, address: &Address) -> Self {
        self.name = Some(address.clone());
        self
    }

    /// Opens and enables the endpoint: peers can reach it from now on.
    ///
    /// # Errors
    ///
    /// `NOAV` or `NOCQ` when something is missing, `DOMAIN` when something is of another domain, `ADDRINUSE` or `INVAL` for a
    /// name; or what the calls to open, bind and enable it returned.
    pub fn enable(self) -> Result<Endpoint, Error> {
        let missing = Error::call("fi_enable");
        let peers = self.peers.ok_or_else(|| missing(Errno::NOAV))?;
        let (Some(tx), Some(rx)) = (self.transmit, self.receive) else {
            return Err(missing(Errno::NOCQ));
        };
        let format = self.domain.info().address_format();
        let fits = |name: &&Address| name.format() == format && name.is_whole();
        let name = self.name.as_ref();
        if name.is_some() && name.filter(fits).is_none() {
            return Err(Error::call("fi_setname")(Errno::INVAL));
        }
        let name = name.map(Address::bytes);
        let port = Port::open(self.domain.object(), (tx, rx), peers.peers().clone(), name)
            .map_err(|(call, errno)| Error::Call { call, errno })?;
        Ok(Endpoint {
            port,
            info: self.domain.info().clone(),
        })
    }
}
