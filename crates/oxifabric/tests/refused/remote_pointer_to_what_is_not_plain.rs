//! What lies in the memory of a peer is nothing but bytes: a reference there means nothing here.

use oxifabric::{Error, Remote, RemoteRegion};

fn point(region: RemoteRegion) -> Result<Remote<&'static str>, Error> {
    region.at(0)
}

fn main() {}
