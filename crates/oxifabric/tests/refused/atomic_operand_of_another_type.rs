//! The operand has the type of the element.

use oxifabric::{Endpoint, Peer, Remote, Update};

fn add(endpoint: &Endpoint, peer: Peer, word: Remote<u64>) {
    let _ = endpoint.atomic(peer, word, Update::sum(1_i32));
}

fn main() {}
