//! A request becomes one connection.

use oxifabric::{ConnectionRequest, Domain, Endpoint, Msg};

fn accept(domain: &Domain, request: ConnectionRequest) {
    let _ = Endpoint::<Msg>::builder(domain).accept(request);
    let _ = Endpoint::<Msg>::builder(domain).accept(request);
}

fn main() {}
