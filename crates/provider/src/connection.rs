//! What a provider implements for endpoints that are connected: FI_EP_MSG, fi_cm(3).
//!
//! Such an endpoint is an engine over a device as any other is; its device has one peer, which calls of the application
//! choose. A listener takes the requests of others.

use std::os::fd::RawFd;
use std::sync::Arc;

use oxifabric_types::{Address, Errno, Info, Instant, PeerId};

use crate::device::{Device, Provider};

/// The one peer of a device that is connected.
pub const THE_PEER: PeerId = PeerId(0);

/// The connection of a device. A device that finds its peers by their addresses leaves everything as it is here.
pub trait Connection {
    /// The device has one peer, [`THE_PEER`], and only once it is connected.
    const CONNECTED: bool = false;

    /// How many bytes may go with a request, an acceptance or a rejection.
    const CM_DATA_SIZE: usize = 0;

    /// Starts to connect, fi_connect(3). The result comes as an event.
    ///
    /// # Errors
    /// `INVAL` for an address of the wrong kind or when there is, or was, a connection; what the operating system says.
    fn connect(&mut self, to: &Address, data: &[u8]) -> Result<(), Errno> {
        let _ = (to, data);
        Err(Errno::NOSYS)
    }

    /// Accepts the request that the device was made from, fi_accept(3).
    ///
    /// # Errors
    /// `INVAL` when it was made from none; when the requester is gone, what the operating system says.
    fn accept(&mut self, data: &[u8]) -> Result<(), Errno> {
        let _ = data;
        Err(Errno::NOSYS)
    }

    /// Ends the connection, fi_shutdown(3). What the link still has to report comes with the next poll.
    ///
    /// # Errors
    /// `NOTCONN` when there is none.
    fn shutdown(&mut self) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Returns the address of the peer, fi_getpeer(3).
    ///
    /// # Errors
    /// `NOTCONN` when there is none.
    fn peer_name(&self) -> Result<Address, Errno> {
        Err(Errno::NOSYS)
    }

    /// Returns the socket, for options that are the operating system's (FI_GET_FD, fi_tcp(7)).
    ///
    /// # Errors
    /// `NOTCONN` when there is none any more, `NOSYS` where there are several or none.
    fn socket(&self) -> Result<RawFd, Errno> {
        Err(Errno::NOSYS)
    }

    /// Takes the next event, in order. The caller asks after every poll.
    fn next_event(&mut self) -> Option<ConnectionEvent> {
        None
    }
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// Data can be transferred; with the connection data of the peer (fi_cm(3)).
    Connected(Box<[u8]>),
    /// The connection could not be made; with the connection data of the peer if it rejected the request.
    Failed(Errno, Box<[u8]>),
    /// The connection has ended; either end may have closed it.
    Ended,
}

/// A provider that offers FI_EP_MSG endpoints as well.
pub trait MsgProvider: Provider {
    /// The device that is opened for an active endpoint.
    type Connected: Device<Domain = DomainOf<Self>>;
    /// The listener that is opened for a passive endpoint.
    type Listener: Listener;

    /// Makes a device of a request, not yet accepted.
    ///
    /// # Errors
    /// What the operating system says.
    fn answer(
        info: &Info,
        domain: &Arc<DomainOf<Self>>,
        request: <Self::Listener as Listener>::Request,
    ) -> Result<Self::Connected, Errno>;

    /// Makes a device of a listener that does not listen: it keeps the address, fi_endpoint(3).
    ///
    /// # Errors
    /// `INVAL` when it listens; what the operating system says.
    fn take_over(
        info: &Info,
        domain: &Arc<DomainOf<Self>>,
        listener: Self::Listener,
    ) -> Result<Self::Connected, Errno>;
}

/// What the devices of a domain of this provider share.
pub type DomainOf<P> = <<P as Provider>::Device as Device>::Domain;

/// What accepts connections: the requests of peers arrive at its address.
pub trait Listener: Send + Sized + 'static {
    /// A request that has no answer yet. Dropping it ends the requester's attempt.
    type Request: Send + 'static;

    /// Takes the address `info.src`, or any.
    ///
    /// # Errors
    /// `ADDRINUSE`, `INVAL`, or what the operating system says.
    fn open(info: &Info) -> Result<Self, Errno>;

    /// Returns the address.
    fn name(&self) -> Address;

    /// Takes another address, before [`Listener::listen`].
    ///
    /// # Errors
    /// As [`Listener::open`], `OPBADSTATE`.
    fn rename(&mut self, name: Address) -> Result<(), Errno>;

    /// Starts to take requests; once.
    ///
    /// # Errors
    /// `OPBADSTATE` the second time.
    fn listen(&mut self) -> Result<(), Errno>;

    /// Takes what has come in without waiting, at most `room` requests; returns how many events there were.
    fn poll(
        &mut self,
        now: Instant,
        room: usize,
        requests: &mut Vec<Incoming<Self::Request>>,
    ) -> usize;

    /// Returns the file descriptor to sleep on, as [`Device::fd`].
    fn fd(&self) -> RawFd;

    /// Gets ready for sleep, as [`Device::arm`].
    fn arm(&mut self) -> bool;

    /// Rejects a request; `data` goes to the requester (fi_reject).
    fn reject(request: Self::Request, data: &[u8]);
}

/// A request for a connection.
#[derive(Debug)]
pub struct Incoming<R> {
    /// The request itself.
    pub request: R,
    /// The address at which it came in.
    pub local: Address,
    /// The address of the requester.
    pub from: Address,
    /// The connection data of the requester.
    pub data: Box<[u8]>,
}
