//! Objects of different threading levels do not mix.

use oxifabric::{AddressVector, Domain, Endpoint, Local, Rdm, Shared};

fn bind(domain: &Domain<Local>, peers: &AddressVector<Shared>) {
    let _ = Endpoint::<Rdm, Local>::builder(domain).address_vector(peers);
}

fn main() {}
