//! Providers operate on numbers of a fixed size, and not on whatever lies in memory.

use oxifabric::{Endpoint, Peer, Remote};

fn read(endpoint: &Endpoint, peer: Peer, at: Remote<[u8; 4]>) {
    let _ = endpoint.atomic_read(peer, at);
}

fn main() {}
