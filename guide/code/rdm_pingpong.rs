//! Two threads throw a tagged message to and fro, each with an endpoint of its own.
//!
//! `cargo run -p oxifabric-guide --example guide_rdm_pingpong [PROVIDER]`

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use oxifabric::{
    Address, AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint, Fabric,
    Hints, Op, Peer, Rdm, Refused,
};

const ROUNDS: u64 = 1000;
const PING: u64 = 1;
const PONG: u64 = 2;
/// How long each waits for the other before it gives up.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

// ANCHOR: node
struct Node {
    endpoint: Endpoint,
    queue: CompletionQueue,
    peer: Peer,
}
// ANCHOR_END: node

impl Node {
    // ANCHOR: open
    fn open(provider: &str, tell: Sender<Address>, hear: Receiver<Address>) -> Outcome<Self> {
        let mut hints = Hints::new().caps(Caps::TAGGED).provider(provider);
        if provider != "shm" {
            // Over an IP network, only within this host.
            hints = hints.local(Some("127.0.0.1"), None);
        }
        let info = hints.best(Backend::from_env()?)?;
        let fabric = Fabric::open(&info)?;
        let domain = Domain::open(&fabric, &info)?;
        let peers = AddressVector::open(&domain)?;
        let queue = CompletionQueue::open(&domain, 16)?;
        let endpoint = Endpoint::<Rdm>::builder(&domain)
            .address_vector(&peers)
            .queue(&queue)
            .enable()?;
        tell.send(endpoint.address()?)?;
        let peer = peers.insert(&hear.recv()?)?;
        Ok(Self {
            endpoint,
            queue,
            peer,
        })
    }
    // ANCHOR_END: open

    // ANCHOR: post
    /// Posts a send, reading completions while there is no room for it. None can appear here: nothing else is under way.
    fn send(&self, tag: u64, mut message: Buffer) -> Outcome<Op> {
        loop {
            match self.endpoint.send_tagged(self.peer, tag, message) {
                Ok(op) => return Ok(op),
                Err(Refused { error, buffer }) if error.is_again() => message = buffer,
                Err(refused) => return Err(refused.into()),
            }
            self.queue.poll()?;
        }
    }
    // ANCHOR_END: post

    // ANCHOR: finish
    /// Waits until two operations are done, and gives their buffers back.
    fn finish(&self, first: Op, second: Op) -> Outcome<(Buffer, Buffer)> {
        let (mut one, mut other) = (None, None);
        loop {
            let completion = self.queue.wait(PATIENCE)?.ok_or("the other is silent")?;
            let op = completion.op;
            let (buffer, _) = completion.ok()?;
            match op {
                _ if op == first => one = Some(buffer),
                _ if op == second => other = Some(buffer),
                _ => {}
            }
            match (one, other) {
                (Some(first), Some(second)) => return Ok((first, second)),
                so_far => (one, other) = so_far,
            }
        }
    }
    // ANCHOR_END: finish
}

// ANCHOR: play
fn ping(node: &Node) -> Outcome {
    let mut ball = Buffer::zeroed_of::<u64>(1);
    let mut space = Buffer::zeroed_of::<u64>(1);
    for round in 0..ROUNDS {
        // The receive first: then the answer goes straight into its buffer.
        let receive = node.endpoint.receive_tagged(PONG, 0, space)?;
        let send = node.send(PING, ball)?;
        // Each buffer is the program's again only now.
        (ball, space) = node.finish(receive, send)?;
        assert_eq!(ball.as_slice_of::<u64>(), [round + 1]);
    }
    println!("{ROUNDS} messages went there and back");
    Ok(())
}

fn pong(node: &Node) -> Outcome {
    let mut ball = Buffer::zeroed_of::<u64>(1);
    for _ in 0..ROUNDS {
        node.endpoint.receive_tagged(PING, 0, ball)?;
        ball = node.queue.wait(PATIENCE)?.ok_or("no ball")?.ok()?.0;
        ball.as_mut_slice_of::<u64>()[0] += 1;
        node.send(PONG, ball)?;
        ball = node.queue.wait(PATIENCE)?.ok_or("not sent")?.ok()?.0;
    }
    Ok(())
}

fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let ((to_left, at_left), (to_right, at_right)) = (channel(), channel());
    thread::scope(|scope| {
        let other = scope.spawn(|| pong(&Node::open(&provider, to_left, at_right)?));
        ping(&Node::open(&provider, to_right, at_left)?)?;
        other.join().expect("the other side ends")
    })
}
// ANCHOR_END: play
