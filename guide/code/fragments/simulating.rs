//! Endpoints of a network that exists in this process only.

use oxifabric::{
    AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint, Error, Fabric, Hints,
    Rdm,
};

#[test]
fn a_message_crosses_a_simulated_network() -> Result<(), Error> {
    // ANCHOR: open
    let hints = Hints::new().caps(Caps::TAGGED).provider("sim");
    let info = hints.best(Backend::builtin())?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    let node = || -> Result<(Endpoint, CompletionQueue), Error> {
        let queue = CompletionQueue::polled(&domain, 16)?;
        let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
        Ok((builder.queue(&queue).enable()?, queue))
    };
    let ((left, at_left), (right, at_right)) = (node()?, node()?);
    // ANCHOR_END: open

    // ANCHOR: play
    let to_right = peers.insert(&right.address()?)?;
    right.receive_tagged(1, 0, Buffer::zeroed(5))?;
    left.send_tagged(to_right, 1, Buffer::from("hello"))?;
    let received = loop {
        // Time passes when every endpoint is polled and has nothing to do.
        if let Some(sent) = at_left.poll()? {
            sent.ok()?;
        }
        if let Some(completion) = at_right.poll()? {
            break completion.ok()?.0;
        }
    };
    // ANCHOR_END: play
    assert_eq!(&received[..], b"hello");
    Ok(())
}
