//! Which receive takes which message.

use oxifabric::{Buffer, Caps, Error, Operation};

use crate::node::on_each;

#[test]
fn ignored_bits_do_not_count() -> Result<(), Error> {
    on_each(Caps::TAGGED | Caps::SOURCE, |node| {
        // ANCHOR: tags
        // The upper half says what a message is, the lower half which client it is of.
        const QUESTION: u64 = 1 << 32;
        const CLIENT: u64 = 0xffff_ffff;

        let (endpoint, peer) = (&node.endpoint, node.me);
        endpoint.send_tagged(peer, QUESTION | 4, Buffer::from("a"))?;
        endpoint.send_tagged(peer, QUESTION | 7, Buffer::from("b"))?;
        // Bits that are ignored do not count: this takes questions of every client, and gets the earliest.
        let any = endpoint.receive_tagged(QUESTION, CLIENT, Buffer::zeroed(1))?;
        let seventh = endpoint.receive_tagged(QUESTION | 7, 0, Buffer::zeroed(1))?;
        // ANCHOR_END: tags
        // ANCHOR: source
        for _ in 0..4 {
            let completion = node.next();
            let op = completion.op;
            let (buffer, transfer) = completion.ok()?;
            if transfer.operation == Operation::Receive {
                assert_eq!(transfer.source, Some(peer));
                match transfer.tag & CLIENT {
                    4 => assert_eq!((op, &buffer[..]), (any, &b"a"[..])),
                    _ => assert_eq!((op, &buffer[..]), (seventh, &b"b"[..])),
                }
            }
        }
        // ANCHOR_END: source
        Ok(())
    })
}
