//! One stream over several rails: each provider that the two sides share carries the next piece that it has room for.
//!
//! `cargo run --example multi_rail [PROVIDER...]`; without names over shm and tcp.

use std::error::Error;
use std::sync::mpsc::channel;
use std::thread;

use oxifabric::{
    Address, AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint, Fabric,
    Hints, Operation, Peer, Rdm,
};

/// Bytes of one piece, how many pieces there are, and how many may be under way on one rail.
const PIECE: usize = 64 * 1024;
const PIECES: usize = 200;
const DEPTH: usize = 4;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// One endpoint of one provider.
struct Rail {
    endpoint: Endpoint,
    queue: CompletionQueue,
    peers: AddressVector,
}

impl Rail {
    fn open(provider: &str) -> Outcome<Self> {
        let hints = Hints::new().caps(Caps::TAGGED).provider(provider);
        let info = hints.best(Backend::from_env()?)?;
        let fabric = Fabric::open(&info)?;
        let domain = Domain::open(&fabric, &info)?;
        let peers = AddressVector::open(&domain)?;
        let queue = CompletionQueue::open(&domain, 4 * DEPTH)?;
        let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
        Ok(Self {
            endpoint: builder.queue(&queue).enable()?,
            queue,
            peers,
        })
    }
}

fn piece(number: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(PIECE);
    buffer.fill(number as u8);
    buffer
}

/// Sends each piece, with its number as the tag, over the first rail that has room.
fn send(rails: &[Rail], to: &[Peer]) -> Outcome<Vec<usize>> {
    let mut carried = vec![0; rails.len()];
    let mut free = vec![DEPTH; rails.len()];
    let mut number = 0;
    while number < PIECES || free.iter().any(|free| *free < DEPTH) {
        for (at, rail) in rails.iter().enumerate() {
            if number < PIECES && free[at] > 0 {
                match rail
                    .endpoint
                    .send_tagged(to[at], number as u64, piece(number))
                {
                    Ok(_) => {
                        free[at] -= 1;
                        carried[at] += 1;
                        number += 1;
                    }
                    Err(refused) if refused.is_again() => {}
                    Err(refused) => return Err(refused.into()),
                }
            }
            if let Some(done) = rail.queue.poll()? {
                done.ok()?;
                free[at] += 1;
            }
        }
    }
    Ok(carried)
}

/// Receives pieces on all rails, in any order.
fn receive(rails: &[Rail]) -> Outcome {
    let any = u64::MAX;
    for rail in rails {
        for _ in 0..DEPTH {
            rail.endpoint
                .receive_tagged(0, any, Buffer::zeroed(PIECE))?;
        }
    }
    let mut seen = [false; PIECES];
    while seen.contains(&false) {
        for rail in rails {
            let Some(done) = rail.queue.poll()? else {
                continue;
            };
            let (buffer, transfer) = done.ok()?;
            assert_eq!(transfer.operation, Operation::Receive);
            let number = transfer.tag as usize;
            assert_eq!(buffer[..], piece(number)[..]);
            assert!(
                !std::mem::replace(&mut seen[number], true),
                "a piece came twice"
            );
            rail.endpoint.receive_tagged(0, any, buffer)?;
        }
    }
    Ok(())
}

fn main() -> Outcome {
    let mut providers: Vec<String> = std::env::args().skip(1).collect();
    if providers.is_empty() {
        providers = vec!["shm".into(), "tcp".into()];
    }
    let open = || {
        providers
            .iter()
            .map(|name| Rail::open(name))
            .collect::<Outcome<Vec<_>>>()
    };
    let (tell, hear) = channel::<Vec<Address>>();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| -> Outcome {
            let rails = open()?;
            let addresses: Result<_, _> =
                rails.iter().map(|rail| rail.endpoint.address()).collect();
            tell.send(addresses?)?;
            receive(&rails)
        });
        let rails = open()?;
        let to = rails.iter().zip(hear.recv()?);
        let to: Result<Vec<_>, _> = to.map(|(rail, other)| rail.peers.insert(&other)).collect();
        let carried = send(&rails, &to?)?;
        for (provider, count) in providers.iter().zip(carried) {
            println!("{provider} carried {count} of {PIECES} pieces");
        }
        receiver.join().expect("the receiver ends")
    })
}
