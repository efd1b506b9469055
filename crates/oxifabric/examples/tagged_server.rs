//! One server answers a hundred clients, each of which knows its answers by a tag of its own.
//!
//! `cargo run --example tagged_server [PROVIDER] [CLIENTS]`

use std::collections::VecDeque;
use std::error::Error;
use std::thread;

use oxifabric::{
    Address, AddressVector, Backend, Buffer, Caps, Completion, CompletionQueue, Domain, Endpoint,
    Fabric, Hints, Info, Operation, Rdm,
};

/// The upper half of a tag is the kind of message, the lower half the number of the client.
const QUESTION: u64 = 1 << 32;
const ANSWER: u64 = 2 << 32;
const CLIENT: u64 = 0xffff_ffff;
/// Number of questions of each client.
const QUESTIONS: usize = 3;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// An endpoint with its queue and peers.
struct Node {
    endpoint: Endpoint,
    queue: CompletionQueue,
    peers: AddressVector,
}

impl Node {
    fn open(domain: &Domain) -> Outcome<Self> {
        let peers = AddressVector::open(domain)?;
        let queue = CompletionQueue::polled(domain, 1024)?;
        let builder = Endpoint::<Rdm>::builder(domain).address_vector(&peers);
        Ok(Self {
            endpoint: builder.queue(&queue).enable()?,
            queue,
            peers,
        })
    }

    /// Takes a completion that was kept, or the next one.
    fn next(&self, kept: &mut VecDeque<Completion>) -> Outcome<Completion> {
        loop {
            if let Some(completion) = kept.pop_front() {
                return Ok(completion);
            }
            match self.queue.poll()? {
                Some(completion) => return Ok(completion),
                None => thread::yield_now(),
            }
        }
    }
}

/// Answers each question with its length, until all have been answered.
fn serve(node: &Node, clients: &[Address]) -> Outcome {
    let known = node.peers.insert_all(clients)?;
    let mut kept = VecDeque::new();
    for _ in 0..64 {
        node.endpoint
            .receive_tagged(QUESTION, CLIENT, Buffer::zeroed(64))?;
    }
    let mut open = 2 * clients.len() * QUESTIONS;
    while open > 0 {
        let (mut buffer, transfer) = node.next(&mut kept)?.ok()?;
        open -= 1;
        if transfer.operation == Operation::Receive {
            let client = transfer.tag & CLIENT;
            let answer = Buffer::from(transfer.len.to_string().as_str());
            let to = known[client as usize];
            let send =
                |endpoint: &Endpoint, answer| endpoint.send_tagged(to, ANSWER | client, answer);
            node.endpoint
                .post(answer, send, |done| kept.push_back(done))?;
            // The buffer takes the next question.
            buffer.resize(64);
            let receive =
                |endpoint: &Endpoint, buffer| endpoint.receive_tagged(QUESTION, CLIENT, buffer);
            node.endpoint
                .post(buffer, receive, |done| kept.push_back(done))?;
        }
    }
    Ok(())
}

fn ask(node: &Node, number: u64, server: &Address) -> Outcome {
    let server = node.peers.insert(server)?;
    let mut kept = VecDeque::new();
    for length in 1..=QUESTIONS {
        node.endpoint
            .receive_tagged(ANSWER | number, 0, Buffer::zeroed(8))?;
        let send = |endpoint: &Endpoint, question| {
            endpoint.send_tagged(server, QUESTION | number, question)
        };
        let question = Buffer::zeroed(length);
        node.endpoint
            .post(question, send, |done| kept.push_back(done))?;
        let mut answer = None;
        for _ in 0..2 {
            let (buffer, transfer) = node.next(&mut kept)?.ok()?;
            if transfer.operation == Operation::Receive {
                answer = Some(buffer);
            }
        }
        let answer = answer.ok_or("the question came back in place of an answer")?;
        assert_eq!(&answer[..], length.to_string().as_bytes());
    }
    Ok(())
}

fn offer(provider: &str) -> Outcome<Info> {
    let hints = Hints::new().caps(Caps::TAGGED).provider(provider);
    Ok(hints.best(Backend::from_env()?)?)
}

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let provider = arguments.next().unwrap_or("tcp".into());
    let count: usize = arguments.next().map_or(Ok(100), |count| count.parse())?;
    let info = offer(&provider)?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let server = Node::open(&domain)?;
    let address = server.endpoint.address()?;
    let clients: Vec<Node> = (0..count)
        .map(|_| Node::open(&domain))
        .collect::<Outcome<_>>()?;
    let addresses: Result<Vec<_>, _> = clients.iter().map(|at| at.endpoint.address()).collect();
    let addresses = addresses?;
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(&server, &addresses));
        // A few threads run all clients.
        let groups = clients.chunks(count.div_ceil(4).max(1)).enumerate();
        let size = count.div_ceil(4).max(1);
        let threads: Vec<_> = groups
            .map(|(group, clients)| {
                let address = &address;
                scope.spawn(move || {
                    clients.iter().enumerate().try_for_each(|(at, client)| {
                        ask(client, (group * size + at) as u64, address)
                    })
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("a client ends")?;
        }
        server.join().expect("the server ends")
    })?;
    println!("{count} clients have their answers");
    Ok(())
}
