//! An endpoint that is not enabled has no operations.

use oxifabric::{Buffer, Domain, Endpoint, Peer, Rdm};

fn send(domain: &Domain, peer: Peer) {
    let _ = Endpoint::<Rdm>::builder(domain).send(peer, Buffer::new());
}

fn main() {}
