//! Which side owns which memory, and until when.

use oxifabric::{Access, Buffer, Caps, Error, Region, SendOptions, Update};

use crate::node::on_each;

#[test]
fn a_scope_borrows_and_waits() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        // ANCHOR: scope
        let ours = *b"on the stack";
        let mut theirs = [0; 12];
        let len = node.endpoint.scope(|scope| {
            let receive = scope.receive_tagged(5, 0, &mut theirs)?;
            scope.send(node.me, &ours, SendOptions::new().tag(5))?;
            Ok(scope.wait(receive)?.len)
        })?;
        assert_eq!(theirs[..len], ours);
        // ANCHOR_END: scope
        Ok(())
    })
}

#[test]
fn memory_of_a_peer_is_read_and_updated() -> Result<(), Error> {
    on_each(Caps::MSG | Caps::RMA | Caps::ATOMIC, |node| {
        // ANCHOR: region
        let memory = Buffer::zeroed_of::<u64>(4);
        let region = Region::register(&node.domain, memory, Access::READ_WRITE)?;
        region.write(0, &7_u64.to_ne_bytes())?;
        // What the owner tells to its peers.
        let remote = region.remote();
        // ANCHOR_END: region

        // ANCHOR: read
        let words = remote.slice::<u64>(0, 4)?;
        node.endpoint
            .read(node.me, words, Buffer::zeroed_of::<u64>(4))?;
        let (buffer, _) = node.next().ok()?;
        assert_eq!(buffer.as_slice_of::<u64>(), [7, 0, 0, 0]);
        // ANCHOR_END: read

        // ANCHOR: atomic
        let first = words.at(0)?;
        node.endpoint.fetch_atomic(node.me, first, Update::sum(1))?;
        let (_, transfer) = node.next().ok()?;
        assert_eq!(transfer.fetched::<u64>(), Some(7));
        // ANCHOR_END: atomic

        // ANCHOR: bounds
        let beyond = remote.slice::<u64>(3, 4).expect_err("it has 32 bytes");
        assert!(matches!(beyond, Error::OutOfBounds { .. }));
        // ANCHOR_END: bounds
        Ok(())
    })
}
