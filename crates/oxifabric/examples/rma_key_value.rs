//! A store of keys and values in registered memory: clients look up and change without the server's help.
//!
//! The server registers a table, tells clients where it is, and does nothing more but let the provider work. A slot is a word with
//! the key and a word with the value. A client takes a slot by swapping its key in atomically, so two clients never take one slot.
//!
//! `cargo run --example rma_key_value [PROVIDER]`

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use oxifabric::{
    Access, AddressVector, Backend, Buffer, Caps, Completion, CompletionQueue, Domain, Endpoint,
    Exchange, Fabric, Hints, Info, Op, Peer, Rdm, Refused, Region, Remote, RemoteRegion,
};

const SLOTS: usize = 256;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// An endpoint with its queue and peers.
struct Node {
    endpoint: Endpoint,
    queue: CompletionQueue,
    peers: AddressVector,
    domain: Domain,
}

impl Node {
    fn open(info: &Info) -> Outcome<Self> {
        let fabric = Fabric::open(info)?;
        let domain = Domain::open(&fabric, info)?;
        let peers = AddressVector::open(&domain)?;
        let queue = CompletionQueue::open(&domain, 64)?;
        let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
        Ok(Self {
            endpoint: builder.queue(&queue).enable()?,
            queue,
            peers,
            domain,
        })
    }
}

/// A table as a client reaches it.
struct Store<'a> {
    node: &'a Node,
    server: Peer,
    /// Keys and values by turns.
    words: Remote<[u64]>,
}

impl<'a> Store<'a> {
    fn new(node: &'a Node, server: Peer, table: &[u8]) -> Outcome<Self> {
        let table = RemoteRegion::from_bytes(table).ok_or("this is no region")?;
        let words = table.slice(0, 2 * SLOTS)?;
        Ok(Self {
            node,
            server,
            words,
        })
    }

    /// Runs one operation and waits for it.
    fn run(
        &self,
        buffer: Buffer,
        post: impl Fn(&Endpoint, Buffer) -> Result<Op, Refused>,
    ) -> Outcome<Completion> {
        // Nothing else is in flight that could complete meanwhile.
        let other = |done| panic!("no operation has this completion: {done:?}");
        self.node.endpoint.post(buffer, post, other)?;
        Ok(self.node.queue.next()?)
    }

    /// Returns the slot of a key, and takes one for it if there is none.
    fn slot(&self, key: u64) -> Outcome<usize> {
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        for at in (first..first + SLOTS).map(|at| at % SLOTS) {
            let place = self.words.at(2 * at)?;
            let take = Exchange::if_equal(0, key);
            let done = self.run(Buffer::new(), |endpoint, _| {
                endpoint.compare_atomic(self.server, place, take)
            })?;
            done.outcome.as_ref().map_err(ToString::to_string)?;
            let found: u64 = done.fetched().unwrap_or_default();
            if found == 0 || found == key {
                return Ok(at);
            }
        }
        Err("the table is full".into())
    }

    fn put(&self, key: u64, value: u64) -> Outcome {
        let at = 2 * self.slot(key)? + 1;
        let place = self.words.range(at..=at)?;
        let value = Buffer::from(value.to_ne_bytes());
        let write = |endpoint: &Endpoint, value| endpoint.write(self.server, place, value);
        self.run(value, write)?.ok()?;
        Ok(())
    }

    fn read(&self, key: u64) -> Outcome<u64> {
        let at = 2 * self.slot(key)? + 1;
        let place = self.words.range(at..=at)?;
        let read = |endpoint: &Endpoint, space| endpoint.read(self.server, place, space);
        let done = self.run(Buffer::zeroed_of::<u64>(1), read)?;
        Ok(done.ok()?.0.as_slice_of::<u64>()[0])
    }
}

fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("shm".into());
    let hints = Hints::new().caps(Caps::MSG | Caps::RMA | Caps::ATOMIC);
    let info = hints.provider(&provider).best(Backend::from_env()?)?;
    let server = Node::open(&info)?;
    let memory = Buffer::zeroed_of::<u64>(2 * SLOTS);
    let table = Region::register(&server.domain, memory, Access::READ_WRITE)?;
    // What clients need: 32 bytes about the table, and the server's address.
    let (table_bytes, address) = (table.remote().to_bytes(), server.endpoint.address()?);
    let closing = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| -> Outcome {
            while !closing.load(Ordering::Relaxed) {
                server.queue.poll()?;
                thread::yield_now();
            }
            Ok(())
        });
        let clients: Vec<_> = (0..4_u64)
            .map(|client| {
                let (info, address) = (&info, &address);
                scope.spawn(move || -> Outcome {
                    let node = Node::open(info)?;
                    let peer = node.peers.insert(address)?;
                    let store = Store::new(&node, peer, &table_bytes)?;
                    for key in client * 10 + 1..client * 10 + 11 {
                        store.put(key, key * key)?;
                        assert_eq!(store.read(key)?, key * key);
                    }
                    Ok(())
                })
            })
            .collect();
        let results = clients.into_iter().map(|client| client.join());
        let result = results
            .map(|client| client.expect("a client ends"))
            .collect::<Outcome<Vec<()>>>();
        closing.store(true, Ordering::Relaxed);
        serving.join().expect("the server ends")?;
        result
    })?;
    let mut keys = 0;
    for slot in 0..SLOTS {
        let (key, value) = (table.word(16 * slot)?, table.word(16 * slot + 8)?);
        let key = key.load(Ordering::Acquire);
        if key != 0 {
            assert_eq!(value.load(Ordering::Acquire), key * key);
            keys += 1;
        }
    }
    println!("the table has {keys} keys");
    assert_eq!(keys, 40);
    Ok(())
}
