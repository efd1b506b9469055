//! How much memory an endpoint and a peer take, where a program has thousands of both (docs/adr/0043).
//!
//! Bytes are those that the allocator was asked for, so that they are the same each time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use oxifabric::{
    Address, AddressVector, Backend, Buffer, CompletionQueue, Domain, Endpoint, Fabric, Hints,
    Local, Peer, Rdm, Simulation,
};

/// Number of endpoints, and of others that each sends a message to.
const NODES: usize = 100;
const TARGETS: usize = 30;

/// Length of a message.
const SIZE: usize = 64;

/// Counts the bytes that a thread has allocated and not given back.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends may allocate after its count is gone.
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes));
}

// SAFETY: every call is handed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count(len as isize - layout.size() as isize);
        // SAFETY: the caller's contract.
        unsafe { System.realloc(start, layout, len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Node {
    endpoint: Endpoint<Rdm, Local>,
    queue: CompletionQueue<Local>,
    peers: AddressVector<Local>,
    arrived: usize,
}

impl Node {
    fn open(domain: &Domain<Local>) -> Self {
        let peers = AddressVector::open(domain).expect("a vector");
        let queue = CompletionQueue::polled(domain, 16).expect("a queue");
        let endpoint = Endpoint::builder(domain)
            .address_vector(&peers)
            .queue(&queue);
        let endpoint = endpoint.enable().expect("an endpoint");
        (endpoint.receive(Buffer::zeroed(SIZE))).expect("there is room");
        Self {
            endpoint,
            queue,
            peers,
            arrived: 0,
        }
    }

    /// Takes messages that have arrived.
    fn step(&mut self) {
        while let Some(completion) = self.queue.poll().expect("a queue") {
            let (buffer, _) = completion.ok().expect("it was received");
            self.endpoint.receive(buffer).expect("there is room");
            self.arrived += 1;
        }
    }
}

struct Nodes {
    nodes: Vec<Node>,
    network: Simulation,
}

impl Nodes {
    fn open() -> Self {
        let hints = Hints::new().provider("sim").one_thread();
        let info = hints.best(Backend::builtin()).expect("sim is built in");
        let fabric = Fabric::open(&info).expect("a fabric");
        let domain = Domain::open_local(&fabric, &info).expect("a domain");
        let nodes: Vec<_> = (0..NODES).map(|_| Node::open(&domain)).collect();
        let network = Simulation::of(&nodes[0].endpoint).expect("it is simulated");
        Self { nodes, network }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.network.now() + time;
        while let Some(turn) = self.network.turn(until) {
            self.nodes[turn as usize].step();
        }
    }

    /// Has a node send a message.
    fn send(&mut self, from: usize, to: Peer) {
        while self.nodes[from].endpoint.inject(to, &[7; SIZE]).is_err() {
            let until = self.network.now() + Duration::from_secs(1);
            let turn = self.network.turn(until).expect("a channel is opened");
            self.nodes[turn as usize].step();
        }
    }

    fn arrived(&self) -> usize {
        self.nodes.iter().map(|node| node.arrived).sum()
    }
}

#[test]
fn endpoints_and_idle_peers_take_little_memory() {
    let before = BYTES.get();
    let mut nodes = Nodes::open();
    let opened = BYTES.get();
    let endpoint = (opened - before) as usize / NODES;
    let addresses: Vec<Address> = (nodes.nodes.iter())
        .map(|node| node.endpoint.address().expect("it is open"))
        .collect();
    for from in 0..NODES {
        for ahead in 1..=TARGETS {
            let address = &addresses[(from + ahead) % NODES];
            let to = nodes.nodes[from].peers.insert(address).expect("a peer");
            nodes.send(from, to);
        }
    }
    nodes.run_for(Duration::from_secs(3));
    assert_eq!(nodes.arrived(), NODES * TARGETS);
    // Each channel has an end in two nodes.
    let end = (BYTES.get() - opened) as usize / (2 * NODES * TARGETS);
    println!("{endpoint} bytes an endpoint, {end} bytes an idle peer");
    assert!(endpoint <= 17_000, "{endpoint} bytes an endpoint");
    assert!(end <= 380, "{end} bytes an idle peer");
}
