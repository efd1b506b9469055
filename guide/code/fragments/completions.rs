//! What completions and errors say.

use std::time::Duration;

use oxifabric::{
    Buffer, Caps, Counted, Counter, Endpoint, Errno, Error, Level, Operation, Rdm, SendOptions,
};

use crate::node::on_each;

#[test]
fn a_message_that_does_not_fit_is_an_error_of_its_receive() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        // ANCHOR: truncated
        let receive = node.endpoint.receive_tagged(1, 0, Buffer::zeroed(4))?;
        node.endpoint.send_tagged(node.me, 1, Buffer::zeroed(64))?;
        for _ in 0..2 {
            let completion = node.next();
            match completion.outcome {
                Ok(transfer) => assert_eq!(transfer.operation, Operation::Send),
                Err(Error::Operation(failed)) => {
                    assert_eq!(completion.op, receive);
                    assert_eq!(failed.errno, Errno::TRUNC);
                    assert_eq!(failed.overflow, 60);
                    // "receive failed: ... receive into a buffer as long as the longest message"
                    println!("{failed}");
                }
                Err(other) => return Err(other),
            }
        }
        // ANCHOR_END: truncated
        Ok(())
    })
}

#[test]
fn a_send_may_wait_for_delivery() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        node.endpoint.receive_tagged(2, 0, Buffer::zeroed(1))?;
        // ANCHOR: level
        let options = SendOptions::new().tag(2).level(Level::Delivery);
        let send = node
            .endpoint
            .send_with(node.me, Buffer::from("x"), options)?;
        // ANCHOR_END: level
        let completions = [node.next(), node.next()];
        assert!(completions.iter().any(|done| done.op == send));
        assert!(completions.iter().all(|done| done.outcome.is_ok()));
        Ok(())
    })
}

#[test]
fn an_injected_message_has_no_completion() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        node.endpoint.receive_tagged(3, 0, Buffer::zeroed(8))?;
        // ANCHOR: inject
        let mut kept = Vec::new();
        let inject = |endpoint: &Endpoint, _| endpoint.inject_tagged(node.me, 3, b"now");
        node.endpoint
            .post(Buffer::new(), inject, |done| kept.push(done))?;
        // ANCHOR_END: inject
        let received = kept.pop().unwrap_or_else(|| node.next());
        let (buffer, transfer) = received.ok()?;
        assert_eq!(transfer.operation, Operation::Receive);
        assert_eq!(&buffer[..], b"now");
        Ok(())
    })
}

#[test]
fn a_cancelled_receive_gives_its_buffer_back() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        // ANCHOR: cancel
        let receive = node.endpoint.receive_tagged(4, 0, Buffer::zeroed(8))?;
        node.endpoint.cancel(receive)?;
        let completion = node.next();
        assert_eq!(completion.op, receive);
        assert_eq!(completion.buffer.len(), 8);
        let error = completion.outcome.expect_err("it was cancelled");
        assert_eq!(error.errno(), Errno::CANCELED);
        // ANCHOR_END: cancel
        Ok(())
    })
}

#[test]
fn a_counter_counts_beside_the_queue() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        // ANCHOR: counter
        let received = Counter::open(&node.domain)?;
        let endpoint = Endpoint::<Rdm>::builder(&node.domain)
            .address_vector(&node.peers)
            .queue(&node.queue)
            .counter(&received, Counted::RECEIVE)
            .enable()?;
        // ANCHOR_END: counter
        let peer = node.peers.insert(&endpoint.address()?)?;
        for _ in 0..3 {
            endpoint.receive_tagged(0, 0, Buffer::zeroed(1))?;
            endpoint.send_tagged(peer, 0, Buffer::from("x"))?;
        }
        // ANCHOR: count
        let all = received.wait(3, Some(Duration::from_secs(20)))?;
        assert!(all);
        assert_eq!(received.errors(), 0);
        // ANCHOR_END: count
        Ok(())
    })
}
