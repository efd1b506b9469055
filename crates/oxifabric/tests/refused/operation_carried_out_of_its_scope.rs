//! An operation of a scope is waited for within it.

use oxifabric::{Endpoint, Error};

fn receive(endpoint: &Endpoint, bytes: &mut [u8]) -> Result<(), Error> {
    let operation = endpoint.scope(|scope| scope.receive(bytes))?;
    drop(operation);
    Ok(())
}

fn main() {}
