//! One endpoint with more peers than a poll looks at.

mod recorder;

use oxifabric_engine::{Kind, Link, Posted, RxToken};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Device;
use oxifabric_types::{Errno, PeerId};
use recorder::{Port, both, header, lend, params, pattern};

const SPOKES: usize = 50;

/// Polls in which each peer is checked, at sixteen a poll, however they are ordered.
const ROUND: usize = 2 * SPOKES.div_ceil(16);

/// One endpoint and its peers, all idle.
struct Wheel {
    hub: Port,
    spokes: Vec<Port>,
    to_hub: Vec<PeerId>,
    to_spokes: Vec<PeerId>,
}

impl Wheel {
    fn new() -> Self {
        let mut wheel = Self {
            hub: Port::open(&params()),
            spokes: (0..SPOKES).map(|_| Port::open(&params())).collect(),
            to_hub: Vec::new(),
            to_spokes: Vec::new(),
        };
        for spoke in &mut wheel.spokes {
            let to_hub = spoke.peer(&wheel.hub);
            both("it connects", spoke, &mut wheel.hub, |spoke, _| {
                spoke.send(to_hub, 0, b"x") == Ok(Posted::Done)
            });
            let hub = &mut wheel.hub;
            hub.until("it arrives", |sink| !sink.arrived.is_empty());
            let got = hub.sink.arrived.pop_front().expect("just seen");
            wheel.to_spokes.push(got.from);
            wheel.to_hub.push(to_hub);
        }
        wheel.make_idle();
        wheel
    }

    fn poll(&mut self, count: usize) {
        for _ in 0..count {
            self.hub.poll();
        }
    }

    fn make_idle(&mut self) {
        self.poll(1000);
    }

    /// Sends a message to the hub as a peer.
    fn send(&mut self, spoke: usize, id: u32) {
        let posted = self.spokes[spoke].send(self.to_hub[spoke], id, b"x");
        assert_eq!(posted, Ok(Posted::Done));
    }
}

#[test]
fn a_message_of_each_idle_peer_arrives_within_a_round() {
    let mut wheel = Wheel::new();
    for spoke in 0..SPOKES {
        wheel.send(spoke, spoke as u32);
        wheel.poll(ROUND);
        let got = wheel.hub.sink.arrived.pop_front().expect("it is there");
        assert_eq!(
            (got.from, got.header.id),
            (wheel.to_spokes[spoke], spoke as u32)
        );
        wheel.make_idle();
    }
}

#[test]
fn messages_of_all_idle_peers_at_once_arrive_within_a_round() {
    let mut wheel = Wheel::new();
    (0..SPOKES).for_each(|spoke| wheel.send(spoke, spoke as u32));
    wheel.poll(ROUND);
    let mut ids: Vec<u32> = wheel
        .hub
        .sink
        .arrived
        .iter()
        .map(|got| got.header.id)
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..SPOKES as u32));
}

#[test]
fn an_endpoint_about_to_sleep_sees_every_peer_and_delivers_with_the_next_poll() {
    let mut wheel = Wheel::new();
    for spoke in [0, SPOKES / 2, SPOKES - 1] {
        wheel.make_idle();
        assert!(wheel.hub.link.arm(), "all are idle");
        wheel.hub.poll();
        wheel.send(spoke, 1);
        assert!(!wheel.hub.link.arm(), "there is a message");
        wheel.hub.poll();
        assert!(wheel.hub.sink.arrived.pop_front().is_some());
    }
}

#[test]
fn the_first_poll_after_a_sleep_delivers_what_ended_it() {
    let mut wheel = Wheel::new();
    for spoke in [0, SPOKES / 2, SPOKES - 1] {
        wheel.make_idle();
        assert!(wheel.hub.link.arm());
        wheel.send(spoke, 1);
        wheel.hub.poll();
        assert!(wheel.hub.sink.arrived.pop_front().is_some());
    }
}

#[test]
fn a_lane_that_was_full_is_writable_with_the_next_poll() {
    let mut wheel = Wheel::new();
    let to_spoke = wheel.to_spokes[20];
    let mut posted = 0;
    while wheel.hub.send(to_spoke, posted, b"12345678") == Ok(Posted::Done) {
        posted += 1;
    }
    wheel.make_idle();
    assert!(wheel.hub.sink.writable.is_empty());
    let spoke = &mut wheel.spokes[20];
    spoke.until("all arrive", |sink| sink.arrived.len() == posted as usize);
    wheel.hub.poll();
    assert_eq!(wheel.hub.sink.writable, [to_spoke]);
}

#[test]
fn a_stalled_arrival_is_delivered_with_the_next_poll_after_its_resumption() {
    let mut wheel = Wheel::new();
    wheel.hub.sink.room = Some(0);
    wheel.send(30, 1);
    wheel.hub.until("it stalls", |sink| sink.stalls == 1);
    wheel.make_idle();
    wheel.hub.sink.room = None;
    wheel.hub.link.resume(wheel.to_spokes[30]);
    wheel.hub.poll();
    assert_eq!(wheel.hub.sink.arrived.len(), 1);
}

#[test]
fn a_message_of_an_idle_peer_is_pulled() {
    let mut wheel = Wheel::new();
    let (to_hub, source) = (wheel.to_hub[40], pattern(200_000, 1));
    if !wheel.spokes[40].link.limits(to_hub).pull {
        println!(
            "SKIP: {:?}",
            wheel.spokes[40].link.directory().reason(to_hub)
        );
        return;
    }
    let sent = header(Kind::TaggedRts, 9, source.len());
    let posted = wheel.spokes[40].try_post(to_hub, sent, &lend(&source));
    assert_eq!(posted, Ok(Posted::Done));
    let hub = &mut wheel.hub;
    hub.until("the Rts arrives", |sink| !sink.arrived.is_empty());
    let remote = hub.sink.arrived.pop_front().and_then(|got| got.remote);
    wheel.make_idle();
    let mut target = vec![0; source.len()];
    // SAFETY: the vector outlives the pull.
    let into: Iov = unsafe { Iov::contiguous(target.as_mut_ptr(), target.len()) };
    let (hub, from) = (&mut wheel.hub, wheel.to_spokes[40]);
    let remote = remote.expect("the sender's memory");
    hub.link
        .pull(from, &remote, into, RxToken(5))
        .expect("a live peer");
    hub.until("the pull ends", |sink| !sink.pulled.is_empty());
    assert!(target == source);
}

#[test]
fn idle_peers_that_end_are_reported_and_others_keep_their_indices() {
    let mut wheel = Wheel::new();
    let gone: Vec<PeerId> = (0..SPOKES)
        .step_by(3)
        .map(|spoke| wheel.to_spokes[spoke])
        .collect();
    let mut left = Vec::new();
    for (index, spoke) in std::mem::take(&mut wheel.spokes).into_iter().enumerate() {
        if index % 3 != 0 {
            left.push((spoke, wheel.to_hub[index], wheel.to_spokes[index]));
        }
    }
    let hub = &mut wheel.hub;
    hub.until("all are down", |sink| sink.down.len() == gone.len());
    assert!(
        hub.sink
            .down
            .iter()
            .all(|&(peer, why)| gone.contains(&peer) && why == Errno::CONNRESET)
    );
    for (spoke, to_hub, at_hub) in &mut left {
        assert_eq!(spoke.send(*to_hub, 1, b"x"), Ok(Posted::Done));
        hub.until("it arrives", |sink| !sink.arrived.is_empty());
        let got = hub.sink.arrived.pop_front().expect("just seen");
        assert_eq!(got.from, *at_hub);
        assert_eq!(hub.send(*at_hub, 2, b"y"), Ok(Posted::Done));
        spoke.until("the answer", |sink| !sink.arrived.is_empty());
        spoke.sink.arrived.clear();
    }
}
