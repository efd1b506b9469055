//! Borrowed memory outlives the scope of the operations on it.

use oxifabric::{Endpoint, Error};

fn receive(endpoint: &Endpoint) -> Result<(), Error> {
    endpoint.scope(|scope| {
        let mut bytes = [0; 8];
        scope.receive(&mut bytes).map(drop)
    })
}

fn main() {}
