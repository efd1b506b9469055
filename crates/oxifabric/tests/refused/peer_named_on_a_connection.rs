//! A connection has one peer, which no operation names.

use oxifabric::{Buffer, Endpoint, Msg, Peer};

fn send(endpoint: &Endpoint<Msg>, peer: Peer) {
    let _ = endpoint.send(peer, Buffer::new());
}

fn main() {}
