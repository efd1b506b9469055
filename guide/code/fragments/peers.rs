//! Address vectors.

use oxifabric::{Address, Caps, Error};

use crate::node::on_each;

#[test]
fn a_peer_is_looked_up_and_removed() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        // ANCHOR: insert
        // Bytes, as they came from another process.
        let told = node.endpoint.address()?;
        let address = Address::new(told.format(), told.bytes());
        let peer = node.peers.insert(&address)?;
        println!("a peer is at {}", node.peers.lookup(peer)?);
        node.peers.remove(peer)?;
        // ANCHOR_END: insert
        Ok(())
    })
}
