//! While an operation has a buffer, no other code can reach it.

use oxifabric::{Buffer, Endpoint, Peer};

fn send(endpoint: &Endpoint, peer: Peer, mut buffer: Buffer) {
    let _ = endpoint.send(peer, buffer);
    buffer[0] = 1;
}

fn main() {}
