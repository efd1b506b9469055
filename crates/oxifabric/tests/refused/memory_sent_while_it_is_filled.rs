//! Two operations of a scope do not share memory that one of them fills.

use oxifabric::{Endpoint, Error, Peer, SendOptions};

fn exchange(endpoint: &Endpoint, peer: Peer, bytes: &mut [u8]) -> Result<(), Error> {
    endpoint.scope(|scope| {
        scope.receive(bytes)?;
        scope.send(peer, bytes, SendOptions::new()).map(drop)
    })
}

fn main() {}
