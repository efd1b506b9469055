//! While an operation has a buffer, nobody else does.

use oxifabric::{Buffer, Endpoint, Peer};

fn send(endpoint: &Endpoint, peer: Peer, mut buffer: Buffer) {
    let _ = endpoint.send(peer, buffer);
    buffer[0] = 1;
}

fn main() {}
