//! Address vectors.

use oxifabric::{Address, Buffer, Caps, Error};

use crate::node::{on_each, open};

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

#[test]
fn a_receive_that_names_a_peer_fails_with_it() -> Result<(), Error> {
    on_each(Caps::TAGGED | Caps::DIRECTED_RECV, |node| {
        let other = open(node.domain.info())?;
        let peer = node.peers.insert(&other.endpoint.address()?)?;
        let back = other.peers.insert(&node.endpoint.address()?)?;
        node.endpoint.receive_tagged(1, 0, Buffer::zeroed(1))?;
        other.endpoint.send_tagged(back, 1, Buffer::from("x"))?;
        while node.queue.poll()?.is_none() {
            other.queue.poll()?;
        }
        // ANCHOR: gone
        let from_any = node.endpoint.receive_tagged(2, 0, Buffer::zeroed(64))?;
        let from_peer = node
            .endpoint
            .receive_tagged_from(peer, 3, 0, Buffer::zeroed(64))?;
        // The peer goes.
        drop(other);
        let completion = node.next();
        assert_eq!(completion.op, from_peer);
        let error = completion.outcome.expect_err("its peer is gone");
        // "receive from 127.0.0.1:4711 failed: Connection reset by peer (FI_ECONNRESET); the peer is gone: ..."
        println!("{error}");
        // The other one waits for messages of other peers.
        node.endpoint.cancel(from_any)?;
        // ANCHOR_END: gone
        Ok(())
    })
}
