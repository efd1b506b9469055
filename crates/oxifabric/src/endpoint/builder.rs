//! The builder of endpoints.

use core::marker::PhantomData;
use std::sync::Arc;

use oxifabric_types::Errno;

use super::{Connecting, Endpoint};
use crate::kind::{Connectionless, Kind};
use crate::raw::{Bindings, CounterObject, EndpointObject, Queue};
use crate::{
    Address, AddressVector, CompletionQueue, ConnectionRequest, Counted, Counter, Domain, Error,
    EventQueue, Info, Msg, Threading,
};

/// A builder of an endpoint; see [`Endpoint::builder`].
///
/// Connectionless endpoints need an address vector and end with [`enable`](Self::enable). Connected ones need an event queue and end
/// with [`connect`](Self::connect) or [`accept`](Self::accept). All need a completion queue, or two, one for each direction.
#[must_use = "an endpoint opens when it is enabled, connected or accepted"]
pub struct EndpointBuilder<K: Kind, T: Threading> {
    domain: Domain<T>,
    transmit: Option<Arc<Queue>>,
    receive: Option<Arc<Queue>>,
    peers: Option<AddressVector<T>>,
    events: Option<EventQueue<T>>,
    counters: Vec<(Arc<CounterObject>, u64)>,
    name: Option<Address>,
    data: Vec<u8>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind, T: Threading> EndpointBuilder<K, T> {
    pub(super) fn new(domain: &Domain<T>) -> Self {
        Self {
            domain: domain.clone(),
            transmit: None,
            receive: None,
            peers: None,
            events: None,
            counters: Vec::new(),
            name: None,
            data: Vec::new(),
            kind: PhantomData,
        }
    }

    /// Uses one queue for both directions.
    pub fn queue(self, queue: &CompletionQueue<T>) -> Self {
        self.transmit_queue(queue).receive_queue(queue)
    }

    /// Uses this queue for completions of all operations but receives.
    pub fn transmit_queue(mut self, queue: &CompletionQueue<T>) -> Self {
        self.transmit = Some(queue.queue().clone());
        self
    }

    /// Uses this queue for completions of receives.
    pub fn receive_queue(mut self, queue: &CompletionQueue<T>) -> Self {
        self.receive = Some(queue.queue().clone());
        self
    }

    /// Counts operations, in addition to their completions in the queues.
    pub fn counter(mut self, counter: &Counter<T>, what: Counted) -> Self {
        self.counters.push((counter.object().clone(), what.0));
        self
    }

    /// Sets the endpoint's address, in place of one that the provider chooses.
    pub fn name(mut self, address: &Address) -> Self {
        self.name = Some(address.clone());
        self
    }

    /// Returns the objects to be bound, if none is missing and all fit the offer.
    fn bindings(&self, info: &Info) -> Result<Bindings, Error> {
        if info.ep_type() != Some(K::EP_TYPE) {
            return Err(Error::unsuitable(
                info.provider(),
                "its endpoints are of another kind, so `Hints::kind` has to ask for this one",
            ));
        }
        let missing = Error::call("fi_enable");
        let (Some(tx), Some(rx)) = (self.transmit.clone(), self.receive.clone()) else {
            return Err(missing(Errno::NOCQ));
        };
        if let Some(name) = &self.name {
            let checked = name.check(info.address_format());
            checked.map_err(|cause| Error::unmet("fi_setname", Errno::INVAL, cause))?;
        }
        Ok(Bindings {
            tx,
            rx,
            peers: self.peers.as_ref().map(|peers| peers.peers().clone()),
            events: self.events.as_ref().map(|events| events.object().clone()),
            counters: self.counters.clone(),
        })
    }

    fn open(&self, info: &Info, bindings: Bindings) -> Result<Endpoint<K, T>, Error> {
        let name = self.name.as_ref().map(Address::bytes);
        let object = EndpointObject::open(self.domain.object(), info.handle(), bindings, name)
            .map_err(|(call, errno)| Error::Call { call, errno })?;
        Ok(Endpoint::new(object, info.clone()))
    }
}

impl<K: Connectionless, T: Threading> EndpointBuilder<K, T> {
    /// Uses this address vector.
    pub fn address_vector(mut self, peers: &AddressVector<T>) -> Self {
        self.peers = Some(peers.clone());
        self
    }

    /// Opens and enables the endpoint: peers can reach it from now on.
    ///
    /// # Errors
    ///
    /// `NOAV` or `NOCQ` when something is missing, `DOMAIN` when something is of another domain, `ADDRINUSE` or `INVAL` for a name,
    /// [`Error::Unsuitable`] for a domain of another endpoint type; or what the calls to open, bind and enable it returned.
    pub fn enable(self) -> Result<Endpoint<K, T>, Error> {
        if self.peers.is_none() {
            return Err(Error::call("fi_enable")(Errno::NOAV));
        }
        let info = self.domain.info();
        self.open(info, self.bindings(info)?)
    }
}

impl<T: Threading> EndpointBuilder<Msg, T> {
    /// Uses this event queue.
    pub fn events(mut self, events: &EventQueue<T>) -> Self {
        self.events = Some(events.clone());
        self
    }

    /// Sends a few bytes along with the request, or with its acceptance.
    pub fn data(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self
    }

    /// Opens the endpoint and starts to connect to a listening peer.
    ///
    /// # Errors
    ///
    /// `NOEQ` or `NOCQ` when something is missing, `DOMAIN` when something is of another domain, `INVAL` for an address that is not
    /// of the domain's format; or what the calls to open, bind, enable and connect it returned.
    pub fn connect(self, to: &Address) -> Result<Connecting<T>, Error> {
        let info = self.domain.info();
        let checked = to.check(info.address_format());
        checked.map_err(|cause| Error::unmet("fi_connect", Errno::INVAL, cause))?;
        let events = self.the_events()?;
        let endpoint = self.open(info, self.bindings(info)?)?;
        let connecting = endpoint.object().connect(to.bytes(), &self.data);
        connecting.map_err(Error::call("fi_connect"))?;
        Ok(Connecting::new(endpoint, events, Some(to.clone())))
    }

    /// Opens the endpoint and accepts a request.
    ///
    /// # Errors
    ///
    /// As [`EndpointBuilder::connect`]. The connection is not established then.
    pub fn accept(self, request: ConnectionRequest<T>) -> Result<Connecting<T>, Error> {
        let events = self.the_events()?;
        let info = request.info().clone();
        let bindings = self.bindings(&info)?;
        // From here on the request belongs to the endpoint, even if that fails.
        request.taken();
        let endpoint = self.open(&info, bindings)?;
        let accepted = endpoint.object().accept(&self.data);
        accepted.map_err(Error::call("fi_accept"))?;
        Ok(Connecting::new(endpoint, events, None))
    }

    fn the_events(&self) -> Result<EventQueue<T>, Error> {
        let events = self.events.clone();
        events.ok_or_else(|| Error::call("fi_enable")(Errno::NOEQ))
    }
}
