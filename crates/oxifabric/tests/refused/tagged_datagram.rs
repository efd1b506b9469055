//! Unreliable datagrams have no tags.

use oxifabric::{Buffer, Dgram, Endpoint, Peer};

fn send(endpoint: &Endpoint<Dgram>, peer: Peer) {
    let _ = endpoint.send_tagged(peer, 1, Buffer::new());
}

fn main() {}
