//! Datagrams, which may be lost.

use std::time::Duration;

use oxifabric::{
    AddressVector, Backend, Buffer, CompletionQueue, Dgram, Domain, Endpoint, Error, Fabric, Hints,
    Operation,
};

#[test]
fn who_gets_no_answer_asks_again() -> Result<(), Error> {
    // ANCHOR: open
    let hints = Hints::new().kind::<Dgram>().provider("udp");
    let info = hints
        .local(Some("127.0.0.1"), None)
        .best(Backend::builtin())?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 16)?;
    let endpoint = Endpoint::<Dgram>::builder(&domain)
        .address_vector(&peers)
        .queue(&queue)
        .enable()?;
    // ANCHOR_END: open
    let me = peers.insert(&endpoint.address()?)?;
    // ANCHOR: ask
    endpoint.receive(Buffer::zeroed(64))?;
    let mut attempts = 0;
    let answer = loop {
        attempts += 1;
        assert!(attempts < 500, "no answer");
        endpoint.send(me, Buffer::from("?"))?;
        let mut answer = None;
        // Both the send and the answer, or nothing more within the time.
        while let Some(completion) = queue.wait(Some(Duration::from_millis(20)))? {
            let (buffer, transfer) = completion.ok()?;
            if transfer.operation == Operation::Receive {
                answer = Some(buffer);
                break;
            }
        }
        if let Some(answer) = answer {
            break answer;
        }
    };
    // ANCHOR_END: ask
    assert_eq!(&answer[..], b"?");
    Ok(())
}
