//! Unreliable datagrams have no tags that a receive could ask for.

use oxifabric::{Buffer, Dgram, Endpoint};

fn receive(endpoint: &Endpoint<Dgram>) {
    let _ = endpoint.receive_tagged(1, 0, Buffer::new());
}

fn main() {}
