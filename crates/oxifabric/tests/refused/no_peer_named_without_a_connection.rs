//! An operation without a connection names its peer.

use oxifabric::{Buffer, Endpoint};

fn send(endpoint: &Endpoint) {
    let _ = endpoint.send(Buffer::new());
}

fn main() {}
