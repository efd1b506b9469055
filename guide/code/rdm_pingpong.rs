//! Two threads throw a tagged message to and fro, each with an endpoint of its own.
//!
//! `cargo run -p oxifabric-guide --example guide_rdm_pingpong [PROVIDER]`

use std::collections::VecDeque;
use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use oxifabric::{
    Address, AddressVector, Backend, Buffer, Caps, Completion, CompletionQueue, Domain, Endpoint,
    Fabric, Hints, Op, Peer, Rdm,
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
    /// Completions that were read while a send found no room.
    kept: VecDeque<Completion>,
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
            kept: VecDeque::new(),
        })
    }
    // ANCHOR_END: open

    // ANCHOR: post
    /// Posts a send. While there is no room for it, completions are read, and kept.
    fn send(&mut self, tag: u64, message: Buffer) -> Outcome<Op> {
        let (peer, kept) = (self.peer, &mut self.kept);
        let send = |endpoint: &Endpoint, message| endpoint.send_tagged(peer, tag, message);
        let posted = self
            .endpoint
            .post(message, send, |done| kept.push_back(done));
        Ok(posted?)
    }

    /// Takes a completion that was kept, or waits for the next one.
    fn next(&mut self) -> Outcome<Completion> {
        match self.kept.pop_front() {
            Some(kept) => Ok(kept),
            None => Ok(self.queue.wait(PATIENCE)?.ok_or("the other is silent")?),
        }
    }
    // ANCHOR_END: post

    // ANCHOR: finish
    /// Waits until two operations are done, and gives their buffers back.
    fn finish(&mut self, first: Op, second: Op) -> Outcome<(Buffer, Buffer)> {
        let (mut one, mut other) = (None, None);
        loop {
            let completion = self.next()?;
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
fn ping(node: &mut Node) -> Outcome {
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

fn pong(node: &mut Node) -> Outcome {
    let mut ball = Buffer::zeroed_of::<u64>(1);
    for _ in 0..ROUNDS {
        node.endpoint.receive_tagged(PING, 0, ball)?;
        (ball, _) = node.next()?.ok()?;
        ball.as_mut_slice_of::<u64>()[0] += 1;
        node.send(PONG, ball)?;
        (ball, _) = node.next()?.ok()?;
    }
    Ok(())
}

fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let ((to_left, at_left), (to_right, at_right)) = (channel(), channel());
    thread::scope(|scope| {
        let other = scope.spawn(|| pong(&mut Node::open(&provider, to_left, at_right)?));
        ping(&mut Node::open(&provider, to_right, at_left)?)?;
        other.join().expect("the other side ends")
    })
}
// ANCHOR_END: play
