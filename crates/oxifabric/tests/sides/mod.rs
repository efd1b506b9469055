//! Two endpoints of one thread that know each other, for tests that count what a game between them costs.

use oxifabric::{
    AddressVector, Backend, Caps, CompletionQueue, Domain, Endpoint, Fabric, Hints, Peer, Rdm,
};

/// An endpoint, its queue, and the other one's address.
pub(crate) type Side = (Endpoint, CompletionQueue, Peer);

/// Opens both.
pub(crate) fn open(provider: &str) -> [Side; 2] {
    let hints = Hints::new().caps(Caps::TAGGED).provider(provider);
    let info = hints.best(Backend::builtin()).unwrap();
    let fabric = Fabric::open(&info).unwrap();
    let domain = Domain::open(&fabric, &info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    let [left, right] = [(); 2].map(|()| {
        let queue = CompletionQueue::polled(&domain, 64).unwrap();
        let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
        (builder.queue(&queue).enable().unwrap(), queue)
    });
    let [to_right, to_left] =
        [&right, &left].map(|(endpoint, _)| peers.insert(&endpoint.address().unwrap()).unwrap());
    [(left.0, left.1, to_right), (right.0, right.1, to_left)]
}
