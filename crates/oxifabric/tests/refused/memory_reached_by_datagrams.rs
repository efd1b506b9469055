//! Unreliable datagrams do not reach memory of peers.

use oxifabric::{Buffer, Dgram, Endpoint, Peer, Remote};

fn write(endpoint: &Endpoint<Dgram>, peer: Peer, at: Remote<[u8]>) {
    let _ = endpoint.write(peer, at, Buffer::new());
}

fn main() {}
