//! Only connections are connected.

use oxifabric::{Address, Domain, Endpoint, Rdm};

fn connect(domain: &Domain, to: &Address) {
    let _ = Endpoint::<Rdm>::builder(domain).connect(to);
}

fn main() {}
