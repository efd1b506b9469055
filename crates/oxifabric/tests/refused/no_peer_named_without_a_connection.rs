//! Without a connection an operation says to whom.

use oxifabric::{Buffer, Endpoint};

fn send(endpoint: &Endpoint) {
    let _ = endpoint.send(Buffer::new());
}

fn main() {}
