use std::collections::VecDeque;

use super::*;
use crate::plan::{Cut, LinkPlan};

/// Plays two nodes, one of which sends 1,000 numbered packets at once; returns what comes at the other, and the counters.
fn play(plan: Plan) -> (Vec<u16>, Stats) {
    let mut network = Network::new(plan, BEGIN);
    let places = ["fi_sim://0", "fi_sim://1"].map(|name| {
        let place = network.place(name).expect("a name");
        assert!(network.settle(place));
        network.open(place);
        place
    });
    for number in 0..1000_u16 {
        assert!(network.send(places[0], places[1], packet(number)));
    }
    while let Some(next) = network.next_event() {
        network.pass(next);
    }
    let mut inbox = VecDeque::new();
    network.take(places[1], &mut inbox);
    let numbers = inbox
        .iter()
        .map(|packet| u16::from_le_bytes([packet.bytes[0], packet.bytes[1]]));
    (numbers.collect(), network.stats)
}

/// Returns 100 bytes, which take a link 8 ns.
fn packet(number: u16) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    bytes[..2].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn link(change: impl FnOnce(&mut LinkPlan)) -> Plan {
    let mut plan = Plan::default();
    change(&mut plan.link);
    plan
}

#[test]
fn packets_arrive_in_order_where_nothing_is_planned() {
    let (arrived, stats) = play(Plan::default());
    assert_eq!(arrived, (0..1000).collect::<Vec<_>>());
    assert_eq!(
        (stats.of(Count::Sent), stats.of(Count::Delivered)),
        (1000, 1000)
    );
}

#[test]
fn each_fault_takes_its_share_and_is_counted() {
    let (arrived, stats) = play(link(|link| link.drop = 0.1));
    assert_eq!(arrived.len() as u64 + stats.of(Count::Lost), 1000);
    assert!((50..150).contains(&stats.of(Count::Lost)) && arrived.is_sorted());
    let (arrived, stats) = play(link(|link| link.dup = 0.1));
    assert_eq!(arrived.len() as u64, 1000 + stats.of(Count::Doubled));
    let (mut arrived, stats) = play(link(|link| link.reorder = 0.1));
    assert!((50..150).contains(&stats.of(Count::Late)) && !arrived.is_sorted());
    arrived.sort_unstable();
    assert_eq!(arrived, (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_full_queue_loses_what_comes_then() {
    let (arrived, stats) = play(link(|link| link.queue_bytes = 10_000));
    assert_eq!(arrived, (0..100).collect::<Vec<_>>());
    assert_eq!(stats.of(Count::Overflowed), 900);
}

#[test]
fn longer_packets_than_a_link_carries_vanish() {
    let (arrived, stats) = play(link(|link| link.carries = 99));
    assert_eq!((arrived.len(), stats.of(Count::Cut)), (0, 1000));
    let (arrived, _) = play(link(|link| link.carries = 100));
    assert_eq!(arrived.len(), 1000);
}

#[test]
fn nothing_passes_a_cut() {
    let cut = Cut {
        nodes: vec![1],
        ..Cut::default()
    };
    let plan = Plan {
        cut: vec![cut],
        ..Plan::default()
    };
    let (arrived, stats) = play(plan);
    assert_eq!((arrived.len(), stats.of(Count::Cut)), (0, 1000));
}

#[test]
fn the_seed_decides() {
    let of = |seed: u64| {
        let plan = Plan {
            seed,
            ..link(|link| (link.drop, link.reorder) = (0.1, 0.1))
        };
        play(plan).0
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn what_is_sent_to_no_endpoint_is_refused() {
    let mut network = Network::new(Plan::default(), BEGIN);
    let places = ["fi_sim://0", "fi_sim://1"].map(|name| network.place(name).expect("a name"));
    assert!(network.settle(places[0]) && !network.settle(places[0]));
    assert!(
        !network.send(places[0], places[1], Vec::new()),
        "no endpoint is there"
    );
    assert!(network.settle(places[1]));
    assert!(!network.send(places[0], places[1], Vec::new()), "nor open");
    network.open(places[1]);
    assert!(network.send(places[0], places[1], Vec::new()));
    network.leave(places[1]);
    assert!(!network.send(places[0], places[1], Vec::new()));
}

#[test]
fn a_path_between_racks_is_longer() {
    let plan = Plan::parse("[rack]\nnodes = 2\ngbps = 100").expect("a plan");
    let paths = Paths::new(&plan);
    let lens = [[0, 0], [0, 1], [1, 2], [3, 2]].map(|nodes| {
        (0..5)
            .take_while(|hops| paths.next(nodes, *hops).is_some())
            .count()
    });
    assert_eq!(lens, [0, 2, 4, 2]);
}
