//! A connection that is being established has no operations.

use oxifabric::{Buffer, Connecting};

fn send(connecting: Connecting) {
    let _ = connecting.send(Buffer::new());
}

fn main() {}
