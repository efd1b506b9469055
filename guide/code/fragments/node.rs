//! An endpoint that is its own peer, over both providers that can be on every machine.

use std::time::Duration;

use oxifabric::{
    AddressVector, Backend, Caps, Completion, CompletionQueue, Domain, Endpoint, Error, Fabric,
    Hints, Info, Peer, Rdm,
};

// ANCHOR: node
pub(crate) struct Node {
    pub(crate) domain: Domain,
    pub(crate) peers: AddressVector,
    pub(crate) queue: CompletionQueue,
    pub(crate) endpoint: Endpoint,
    pub(crate) me: Peer,
}
// ANCHOR_END: node

impl Node {
    // ANCHOR: next
    /// Waits for the next completion.
    pub(crate) fn next(&self) -> Completion {
        let completion = self.queue.wait(Some(Duration::from_secs(20)));
        completion
            .expect("the queue can be read")
            .expect("something completes")
    }
    // ANCHOR_END: next
}

/// Runs `test` over tcp and over shm.
pub(crate) fn on_each(caps: Caps, test: impl Fn(&Node) -> Result<(), Error>) -> Result<(), Error> {
    let tcp = Hints::new().provider("tcp").local(Some("127.0.0.1"), None);
    let shm = Hints::new().provider("shm");
    for hints in [tcp, shm] {
        let info = hints.caps(caps).best(Backend::builtin())?;
        test(&open(&info)?)?;
    }
    Ok(())
}

/// Opens an endpoint that is its own peer.
pub(crate) fn open(info: &Info) -> Result<Node, Error> {
    let fabric = Fabric::open(info)?;
    let domain = Domain::open(&fabric, info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 64)?;
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let endpoint = builder.queue(&queue).enable()?;
    let me = peers.insert(&endpoint.address()?)?;
    Ok(Node {
        domain,
        peers,
        queue,
        endpoint,
        me,
    })
}
