//! Two reliable datagram endpoints throw a tagged message to and fro.
//!
//! `cargo run --example rdm_pingpong [PROVIDER]`; the provider is tcp, or shm, or another one of the library.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use oxifabric::{
    Address, AddressVector, Backend, Buffer, Caps, Completion, CompletionQueue, Domain, Endpoint,
    Fabric, Hints, Operation, Peer, Rdm,
};

const ROUNDS: usize = 1000;
const PING: u64 = 1;
const PONG: u64 = 2;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// One side: an endpoint, its queue, and the address of the other side.
struct Player {
    endpoint: Endpoint<Rdm>,
    queue: CompletionQueue,
    other: Peer,
    /// Completions that were read while a send found no room.
    kept: VecDeque<Completion>,
}

impl Player {
    /// Opens an endpoint and exchanges addresses with the other side.
    fn open(provider: &str, tell: Sender<Address>, hear: Receiver<Address>) -> Outcome<Self> {
        let hints = Hints::new().caps(Caps::TAGGED).provider(provider);
        let info = hints.best(Backend::from_env()?)?;
        let fabric = Fabric::open(&info)?;
        let domain = Domain::open(&fabric, &info)?;
        let peers = AddressVector::open(&domain)?;
        let queue = CompletionQueue::open(&domain, 64)?;
        let endpoint = Endpoint::<Rdm>::builder(&domain)
            .address_vector(&peers)
            .queue(&queue)
            .enable()?;
        tell.send(endpoint.address()?)?;
        let other = peers.insert(&hear.recv()?)?;
        Ok(Self {
            endpoint,
            queue,
            other,
            kept: VecDeque::new(),
        })
    }

    /// Posts a send, and keeps what completes while there is no room for it.
    fn send(&mut self, tag: u64, message: Buffer) -> Outcome {
        let (to, kept) = (self.other, &mut self.kept);
        let send = |endpoint: &Endpoint, message| endpoint.send_tagged(to, tag, message);
        let posted = self
            .endpoint
            .post(message, send, |done| kept.push_back(done));
        posted?;
        Ok(())
    }

    /// Waits until an operation of this kind has completed, and returns its buffer.
    fn done(&mut self, operation: Operation) -> Outcome<Buffer> {
        loop {
            let Completion {
                buffer, outcome, ..
            } = match self.kept.pop_front() {
                Some(kept) => kept,
                None => self.queue.next()?,
            };
            if outcome?.operation == operation {
                return Ok(buffer);
            }
        }
    }
}

fn ping(player: &mut Player) -> Outcome {
    let mut message = Buffer::from("0");
    for round in 0..ROUNDS {
        player
            .endpoint
            .receive_tagged(PONG, 0, Buffer::zeroed(16))?;
        player.send(PING, message)?;
        message = player.done(Operation::Receive)?;
        assert_eq!(&message[..], (round + 1).to_string().as_bytes());
    }
    println!("{ROUNDS} messages went there and back");
    Ok(())
}

fn pong(player: &mut Player) -> Outcome {
    for _ in 0..ROUNDS {
        player
            .endpoint
            .receive_tagged(PING, 0, Buffer::zeroed(16))?;
        let message = player.done(Operation::Receive)?;
        let count: usize = std::str::from_utf8(&message)?.parse()?;
        player.send(PONG, Buffer::from((count + 1).to_string().as_str()))?;
    }
    // Its sends are done only when it has seen their completions.
    player.done(Operation::Send)?;
    Ok(())
}

fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let ((to_left, at_left), (to_right, at_right)) = (channel(), channel());
    thread::scope(|scope| {
        let other = scope.spawn(|| pong(&mut Player::open(&provider, to_left, at_right)?));
        ping(&mut Player::open(&provider, to_right, at_left)?)?;
        other.join().expect("the other side ends")
    })
}
