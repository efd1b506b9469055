//! What a provider implements.

use alloc::sync::Arc;
use alloc::vec::Vec;

use core::any::Any;

use oxifabric_kernel_sync::Work;
use oxifabric_mem::Iov;
use oxifabric_types::{Address, Errno, Flags, Info, PeerId};

use crate::operations::Operations;

/// A provider of a kernel.
pub trait Provider: Sized + Send + Sync + 'static {
    /// Its name, as in `fi_fabric_attr.prov_name`.
    const NAME: &'static str;
    /// Longest data of an application that goes with a connection, in bytes; at most 256.
    const CM_DATA: usize = 256;
    /// What the endpoints of a domain share; `()` where that is nothing.
    type Domain: ProviderDomain;
    /// What moves the messages of an endpoint.
    type Device: Device;
    /// What listens for a passive endpoint.
    type Listener: Listener<Arrival: Arrival<Device = Self::Device, Domain = Self::Domain>>;

    /// Returns the endpoints that it offers, with addresses of its own where it has some.
    fn offers() -> Vec<Info>;

    /// Returns the address of a node and a service.
    ///
    /// # Errors
    /// They name none.
    fn resolve(node: Option<&str>, service: i32) -> Result<Address, Errno>;

    /// Returns whether an offer stands for an endpoint at the source address that it has got. The first of a provider with several
    /// adapters is not at the address of the second.
    fn is_at(offer: &Info) -> bool {
        let _ = offer;
        true
    }

    /// Makes what the endpoints of a domain share.
    ///
    /// # Errors
    /// There is no memory for it, or no such domain.
    fn domain(info: &Info) -> Result<Self::Domain, Errno>;

    /// Makes the device of an endpoint; `work` is to be queued when there is something to poll it for.
    ///
    /// # Errors
    /// There is no memory for it, or its address cannot be had.
    fn device(
        info: &Info,
        domain: &Arc<Self::Domain>,
        work: &Arc<Work>,
    ) -> Result<Self::Device, Errno>;

    /// Makes what listens for a passive endpoint; `work` is to be queued when there is a request.
    ///
    /// # Errors
    /// As [`Provider::device`].
    fn listener(info: &Info, work: &Arc<Work>) -> Result<Self::Listener, Errno>;
}

/// What the endpoints of a domain share, and where a device learns of memory.
pub trait ProviderDomain: Any + Send + Sync {
    /// Makes memory reachable for peers of the device, and returns the key that the device has given it; `None` where accesses are
    /// carried out by the endpoints' engines, which know registered memory by themselves.
    ///
    /// # Errors
    /// `INVAL` for more than the device takes at once; `NOMEM`, or the error of the device.
    ///
    /// # Safety
    /// The memory stays valid until the registration is ended.
    unsafe fn register(&self, memory: &Iov, access: Flags) -> Result<Option<u64>, Errno> {
        let _ = (memory, access);
        Ok(None)
    }

    /// Ends a registration by the key that it has got. The device does not reach the memory any more when this returns.
    fn deregister(&self, key: u64) {
        let _ = key;
    }
}

impl ProviderDomain for () {}

/// What moves the messages of one endpoint, has an address and knows its peers by theirs. [`Device::Operations`] says what it needs besides: it is a
/// [`Link`](oxifabric_engine::Link) under an engine, or has [`Queues`](crate::Queues) of its own.
pub trait Device: Sized + Send + 'static {
    /// What carries out operations over it.
    type Operations: Operations<Self>;

    /// Returns the address of the endpoint.
    fn address(&self) -> Address;

    /// Sets the address, before the endpoint is enabled.
    ///
    /// # Errors
    /// `ADDRINUSE`, `ADDRNOTAVAIL`, or `INVAL` for what is no address of this provider.
    fn set_address(&mut self, address: &Address) -> Result<(), Errno>;

    /// Lets peers reach it.
    ///
    /// # Errors
    /// `ADDRINUSE` when its address is another endpoint's.
    fn enable(&mut self) -> Result<(), Errno>;

    /// Returns the number of the peer with this address.
    ///
    /// # Errors
    /// `INVAL` for an address that no peer can have; `NOMEM`.
    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno>;

    /// Returns the address of a peer.
    fn address_of(&self, peer: PeerId) -> Option<Address>;

    /// Returns once whether a number of a peer that is gone was given to another one.
    fn takes_new_numbers(&mut self) -> bool {
        false
    }

    /// Lets peers in that have begun to talk; called before each poll.
    fn admit(&mut self) {}

    /// Asks the endpoint at `to` for a connection.
    ///
    /// # Errors
    /// `OPNOTSUPP` without connections; `CONNREFUSED` where no endpoint listens.
    fn connect(&mut self, to: &Address, data: &[u8]) -> Result<(), Errno> {
        let _ = (to, data);
        Err(Errno::OPNOTSUPP)
    }

    /// Accepts the connection that a request asked for.
    ///
    /// # Errors
    /// `OPNOTSUPP` without connections; `NOTCONN` where there was no request.
    fn accept(&mut self, data: &[u8]) -> Result<(), Errno> {
        let _ = data;
        Err(Errno::OPNOTSUPP)
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// `NOTCONN` where there is none.
    fn shutdown(&mut self) -> Result<(), Errno> {
        Err(Errno::NOTCONN)
    }

    /// Takes what became of the connection; called after each poll.
    fn event(&mut self) -> Option<ConnectionEvent> {
        None
    }
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// It stands; with the data of the peer that accepted.
    Connected(Vec<u8>),
    /// The peer refused; with its data.
    Refused(Errno, Vec<u8>),
    /// It has ended.
    Shutdown,
}

/// What listens for a passive endpoint.
pub trait Listener: Send + 'static {
    /// A request for a connection.
    type Arrival: Arrival;

    /// Returns its address.
    fn address(&self) -> Address;

    /// Sets the address, before it listens.
    ///
    /// # Errors
    /// As [`Device::set_address`].
    fn set_address(&mut self, address: &Address) -> Result<(), Errno>;

    /// Begins to listen.
    ///
    /// # Errors
    /// `ADDRINUSE`.
    fn listen(&mut self) -> Result<(), Errno>;

    /// Takes the next request for a connection.
    fn next(&mut self) -> Option<Self::Arrival>;
}

/// A request for a connection. Dropped, it is refused.
pub trait Arrival: Send + 'static {
    /// What it becomes.
    type Device: Device;
    /// The domain that it becomes one in.
    type Domain: ProviderDomain;

    /// Returns the address of the endpoint that asks.
    fn from(&self) -> Address;

    /// Returns the data that its application sent along.
    fn data(&self) -> &[u8];

    /// Refuses it.
    fn reject(self, data: &[u8]);

    /// Makes the device of the endpoint that will accept it.
    ///
    /// # Errors
    /// There is no memory for it, or the endpoint that asks is gone.
    fn into_device(
        self,
        domain: &Arc<Self::Domain>,
        work: &Arc<Work>,
    ) -> Result<Self::Device, Errno>;
}
