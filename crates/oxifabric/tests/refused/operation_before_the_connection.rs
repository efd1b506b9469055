//! A connection that is on its way has no operations.

use oxifabric::{Buffer, Connecting};

fn send(connecting: Connecting) {
    let _ = connecting.send(Buffer::new());
}

fn main() {}
