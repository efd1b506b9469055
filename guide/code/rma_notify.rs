//! One thread writes blocks into memory of another, which learns of each block by the data that comes with the write.
//!
//! `cargo run -p oxifabric-guide --example guide_rma_notify [PROVIDER]`

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use oxifabric::{
    Access, Address, AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint,
    Fabric, Hints, Info, Op, Rdm, Region, RemoteRegion,
};

const BLOCKS: usize = 16;
const BLOCK: usize = 4096;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

struct Node {
    domain: Domain,
    endpoint: Endpoint,
    queue: CompletionQueue,
    peers: AddressVector,
}

impl Node {
    fn open(info: &Info) -> Outcome<Self> {
        let fabric = Fabric::open(info)?;
        let domain = Domain::open(&fabric, info)?;
        let peers = AddressVector::open(&domain)?;
        let queue = CompletionQueue::open(&domain, 2 * BLOCKS)?;
        let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
        Ok(Self {
            endpoint: builder.queue(&queue).enable()?,
            domain,
            queue,
            peers,
        })
    }
}

fn content(block: usize) -> Vec<u8> {
    (0..BLOCK).map(|i| (block * 37 + i) as u8).collect()
}

// ANCHOR: owner
fn owner(info: &Info, tell: &Sender<(Address, [u8; 32])>) -> Outcome {
    let node = Node::open(info)?;
    let memory = Buffer::zeroed(BLOCKS * BLOCK);
    let region = Region::register(&node.domain, memory, Access::WRITE)?;
    // Bytes, so that they can travel between processes.
    tell.send((node.endpoint.address()?, region.remote().to_bytes()))?;

    let mut block = vec![0; BLOCK];
    for _ in 0..BLOCKS {
        let completion = node.queue.wait(PATIENCE)?.ok_or("no write has arrived")?;
        assert_eq!(completion.op, Op::PEER);
        let data = completion.outcome?.data.ok_or("a write without data")?;
        // The block that the completion names is whole. Of others nothing is known yet.
        region.read(data as usize * BLOCK, &mut block)?;
        assert_eq!(block, content(data as usize));
    }
    println!("{BLOCKS} blocks have arrived");
    Ok(())
}
// ANCHOR_END: owner

// ANCHOR: writer
fn writer(info: &Info, hear: &Receiver<(Address, [u8; 32])>) -> Outcome {
    let node = Node::open(info)?;
    let (address, told) = hear.recv()?;
    let owner = node.peers.insert(&address)?;
    let bytes = RemoteRegion::from_bytes(&told)
        .ok_or("this is no region")?
        .bytes();

    let mut ended = Vec::new();
    for block in 0..BLOCKS {
        let at = bytes.range(block * BLOCK..(block + 1) * BLOCK)?;
        let write =
            |endpoint: &Endpoint, buffer| endpoint.write_data(owner, at, block as u64, buffer);
        // While there is no room, earlier writes end.
        let post = node
            .endpoint
            .post(content(block), write, |done| ended.push(done));
        post?;
    }
    while ended.len() < BLOCKS {
        ended.push(node.queue.wait(PATIENCE)?.ok_or("no completion")?);
    }
    for write in ended {
        write.ok()?;
    }
    Ok(())
}
// ANCHOR_END: writer

fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let mut hints = Hints::new().caps(Caps::MSG | Caps::RMA).provider(&provider);
    if provider != "shm" {
        hints = hints.local(Some("127.0.0.1"), None);
    }
    let info = hints.best(Backend::from_env()?)?;
    let (tell, hear) = channel();
    thread::scope(|scope| {
        let owner = scope.spawn(|| owner(&info, &tell));
        writer(&info, &hear)?;
        owner.join().expect("the owner ends")
    })
}
