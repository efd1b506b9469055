//! The providers that are measured, and opening an endpoint of one.

use oxifabric::{
    Address, AddressFormat, AddressVector, Backend, CompletionQueue, Domain, Endpoint, Error,
    Fabric, Hints, Info, Peer, WhyNot,
};

/// The providers that are measured by default.
pub const USUAL: [&str; 2] = ["shm", "tcp"];

/// Returns the first info of a provider for two processes of one machine: over the loopback, if its addresses are internet addresses.
///
/// # Errors
/// Why the provider returns no info.
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

/// Returns the first info, which is the provider's best; an answer without any was an error before.
fn best(offers: Vec<Info>) -> Info {
    let first = offers.into_iter().next();
    first.expect("an answer has at least one offer")
}

/// An enabled endpoint, with its completion queue and address vector.
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

    /// Inserts the address of the other process's endpoint into the address vector.
    pub(crate) fn meet(&self, address: &Address) -> Result<Peer, Error> {
        self.peers.insert(address)
    }
}
