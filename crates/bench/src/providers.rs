//! The providers that are measured, and opening an endpoint of one.

use oxifabric::{
    Address, AddressFormat, AddressVector, Backend, CompletionQueue, Domain, Endpoint, Error,
    Fabric, Hints, Info, Peer, WhyNot,
};

/// The providers that are measured by default.
pub const USUAL: [&str; 2] = ["shm", "tcp"];

/// Finds the offer of a provider for two processes of one machine: over the loopback, if it has internet addresses.
///
/// # Errors
/// The provider is not here, for this reason.
pub fn offer(backend: Backend, provider: &str) -> Result<Info, WhyNot> {
    let hints = Hints::new().provider(provider);
    let first = best(hints.offers(backend)?);
    let internet = [AddressFormat::INET, AddressFormat::INET6].contains(&first.address_format());
    if !internet {
        return Ok(first);
    }
    let loopback = hints.local(Some("127.0.0.1"), None).offers(backend);
    Ok(loopback.map_or(first, best))
}

/// Returns the first offer; an answer without any is an error already.
fn best(offers: Vec<Info>) -> Info {
    let first = offers.into_iter().next();
    first.expect("an answer has at least one offer")
}

/// An endpoint with what it needs.
pub(crate) struct Opened {
    pub(crate) endpoint: Endpoint,
    pub(crate) queue: CompletionQueue,
    peers: AddressVector,
}

impl Opened {
    pub(crate) fn open(info: &Info) -> Result<Self, Error> {
        let fabric = Fabric::open(info)?;
        let domain = Domain::open(&fabric, info)?;
        let peers = AddressVector::open(&domain)?;
        let queue = CompletionQueue::polled(&domain, info.tx_size() + info.rx_size())?;
        let endpoint = Endpoint::builder(&domain)
            .address_vector(&peers)
            .queue(&queue)
            .enable()?;
        Ok(Self {
            endpoint,
            queue,
            peers,
        })
    }

    /// Makes the other process known.
    pub(crate) fn meet(&self, address: &Address) -> Result<Peer, Error> {
        self.peers.insert(address)
    }
}
