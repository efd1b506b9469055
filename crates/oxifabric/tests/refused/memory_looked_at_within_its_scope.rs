//! Memory that an operation fills is looked at after the scope.

use oxifabric::{Endpoint, Error};

fn receive(endpoint: &Endpoint) -> Result<u8, Error> {
    let mut bytes = [0; 8];
    endpoint.scope(|scope| {
        scope.receive(&mut bytes)?;
        Ok(bytes[0])
    })
}

fn main() {}
