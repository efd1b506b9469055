//! A program that uses the functions of a simulated network.

use std::time::Duration;

use oxifabric::{
    AddressVector, Backend, Buffer, CompletionQueue, Domain, Endpoint, Fabric, Hints, PacketCount,
    Simulation,
};

const SECOND: Duration = Duration::from_secs(1);

/// One endpoint with a queue of its own.
struct Node {
    endpoint: Endpoint,
    queue: CompletionQueue,
    peers: AddressVector,
}

fn node(domain: &Domain) -> Node {
    let peers = AddressVector::open(domain).expect("a vector");
    let queue = CompletionQueue::polled(domain, 16).expect("a queue");
    let endpoint = Endpoint::builder(domain)
        .address_vector(&peers)
        .queue(&queue);
    let endpoint = endpoint.enable().expect("an endpoint");
    Node {
        endpoint,
        queue,
        peers,
    }
}

#[test]
fn turns_let_time_pass_until_a_message_has_arrived() {
    let hints = Hints::new().provider("sim");
    let info = hints.best(Backend::builtin()).expect("sim is built in");
    let fabric = Fabric::open(&info).expect("a fabric");
    let domain = Domain::open(&fabric, &info).expect("a domain");
    let nodes = [node(&domain), node(&domain)];
    let network = Simulation::of(&nodes[0].endpoint).expect("it is simulated");
    assert_eq!(network.turn(Duration::ZERO), None);
    let address = nodes[1].endpoint.address().expect("it is open");
    let to = nodes[0].peers.insert(&address).expect("a peer");
    nodes[1].endpoint.receive(Buffer::zeroed(8)).expect("room");
    while nodes[0].endpoint.inject(to, b"hello").is_err() {
        let turn = network.turn(SECOND).expect("a channel is opened");
        nodes[turn as usize].queue.poll().expect("a queue");
    }
    let message = loop {
        let turn = network.turn(SECOND).expect("a packet is under way");
        if let Some(message) = nodes[turn as usize].queue.poll().expect("a queue") {
            break message.ok().expect("it was received").0;
        }
    };
    assert_eq!(&message[..], b"hello");
    assert!(network.now() > Duration::ZERO && network.now() < SECOND / 1000);
    assert_eq!(network.count(PacketCount::Lost), 0);
    assert!(network.count(PacketCount::Delivered) >= 3);
}

#[test]
fn a_real_network_is_not_simulated() {
    let hints = Hints::new().provider("shm");
    let info = hints.best(Backend::builtin()).expect("shm is built in");
    let fabric = Fabric::open(&info).expect("a fabric");
    let domain = Domain::open(&fabric, &info).expect("a domain");
    assert!(Simulation::of(&node(&domain).endpoint).is_err());
}
