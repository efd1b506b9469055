//! A connection needs no address vector.

use oxifabric::{AddressVector, Domain, Endpoint, Msg};

fn bind(domain: &Domain, peers: &AddressVector) {
    let _ = Endpoint::<Msg>::builder(domain).address_vector(peers);
}

fn main() {}
