//! Several clients draw numbers from one counter in a server's memory, and no number twice.
//!
//! `cargo run --example atomic_counter [PROVIDER]`

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use oxifabric::{
    Access, Address, AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint,
    Fabric, Hints, Info, Rdm, Region, RemoteRegion, Update,
};

const CLIENTS: usize = 4;
const DRAWS: usize = 50;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn open(info: &Info) -> Outcome<(Domain, Endpoint, CompletionQueue, AddressVector)> {
    let fabric = Fabric::open(info)?;
    let domain = Domain::open(&fabric, info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 64)?;
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    Ok((domain, builder.queue(&queue).enable()?, queue, peers))
}

fn draw(info: &Info, server: &Address, counter: RemoteRegion) -> Outcome<Vec<u64>> {
    let (_domain, endpoint, queue, peers) = open(info)?;
    let server = peers.insert(server)?;
    let counter = counter.at::<u64>(0)?;
    let mut numbers = Vec::new();
    let add = |endpoint: &Endpoint, _| endpoint.fetch_atomic(server, counter, Update::sum(1));
    while numbers.len() < DRAWS {
        // Nothing else is in flight that could complete meanwhile.
        let other = |done| panic!("no operation has this completion: {done:?}");
        endpoint.post(Buffer::new(), add, other)?;
        let (_, transfer) = queue.next()?.ok()?;
        numbers.extend(transfer.fetched::<u64>());
    }
    Ok(numbers)
}

fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let hints = Hints::new().caps(Caps::MSG | Caps::ATOMIC);
    let info = hints.provider(&provider).best(Backend::from_env()?)?;
    let (domain, endpoint, queue, _peers) = open(&info)?;
    let counter = Region::register(&domain, Buffer::zeroed_of::<u64>(1), Access::READ_WRITE)?;
    let (address, remote) = (endpoint.address()?, counter.remote());
    let closing = AtomicBool::new(false);
    let drawn = thread::scope(|scope| {
        let serving = scope.spawn(|| -> Outcome {
            while !closing.load(Ordering::Relaxed) {
                queue.poll()?;
                thread::yield_now();
            }
            Ok(())
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| draw(&info, &address, remote)))
            .collect();
        let drawn = clients
            .into_iter()
            .map(|client| client.join().expect("a client ends"))
            .collect::<Outcome<Vec<_>>>();
        closing.store(true, Ordering::Relaxed);
        serving.join().expect("the server ends")?;
        drawn
    })?;
    let numbers: BTreeSet<u64> = drawn.into_iter().flatten().collect();
    assert_eq!(numbers.len(), CLIENTS * DRAWS);
    println!(
        "{} numbers were drawn, and the counter stands at {}",
        numbers.len(),
        counter.word(0)?.load(Ordering::Acquire)
    );
    Ok(())
}
