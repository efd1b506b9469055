//! A part of a region is given to one operation only; a second one needs a part of its own.

use oxifabric::{Endpoint, Peer, RegionSlice};

fn send_twice(endpoint: &Endpoint, peer: Peer, part: RegionSlice) {
    let _ = endpoint.send(peer, part);
    let _ = endpoint.send(peer, part);
}

fn main() {}
