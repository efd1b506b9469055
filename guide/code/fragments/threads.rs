//! One thread, or many.

use std::thread;

use oxifabric::{
    AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint, Error, Fabric, Hints,
    Local, Rdm,
};

use crate::node::on_each;

#[test]
fn one_thread_needs_no_locks() -> Result<(), Error> {
    // ANCHOR: local
    let hints = Hints::new().caps(Caps::TAGGED).one_thread();
    let info = hints.provider("shm").best(Backend::builtin())?;
    let fabric = Fabric::open(&info)?;
    // Nothing that is opened on this domain can be given to another thread: it would not compile.
    let domain = Domain::open_local(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 16)?;
    let endpoint = Endpoint::<Rdm, Local>::builder(&domain)
        .address_vector(&peers)
        .queue(&queue)
        .enable()?;
    // ANCHOR_END: local
    let me = peers.insert(&endpoint.address()?)?;
    endpoint.receive_tagged(1, 0, Buffer::zeroed(1))?;
    endpoint.send_tagged(me, 1, Buffer::from("x"))?;
    for _ in 0..2 {
        queue.next()?.ok()?;
    }
    Ok(())
}

#[test]
fn many_threads_share_an_endpoint() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        // ANCHOR: shared
        let posted = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|tag| {
                    scope.spawn(move || -> Result<(), Error> {
                        node.endpoint.receive_tagged(tag, 0, Buffer::zeroed(1))?;
                        node.endpoint.send_tagged(node.me, tag, Buffer::from("x"))?;
                        Ok(())
                    })
                })
                .collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended
                .map(|result| result.expect("a thread ends"))
                .collect::<Result<Vec<()>, Error>>()
        })?;
        // ANCHOR_END: shared
        for _ in 0..2 * posted.len() {
            node.next().ok()?;
        }
        Ok(())
    })
}
