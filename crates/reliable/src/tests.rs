//! Two channels over a network that loses, doubles, delays and reorders, in time that passes as it likes.

mod coalescing;
mod fabric;
mod folding;
mod holes;
mod incast;
mod late_reader;
mod liveness;
mod mtu;
mod network;
mod sources;
mod transmit_complete;
mod window;

use core::time::Duration;
use std::vec::Vec;

use oxifabric_types::Instant;
use oxifabric_wire::reliable::packet::PacketKind;
use proptest::prelude::*;

use self::network::{Faults, Network, Side};
use super::channel::{CloseReason, Event};

const MS: Duration = Duration::from_millis(1);

/// A network without faults.
const CLEAN: Faults = Faults {
    loss: 0,
    doubled: 0,
    delay: Duration::from_micros(20),
    jitter: Duration::ZERO,
};

/// Sends `a` bytes one way and `b` the other; returns the network when all have arrived.
fn exchange(seed: u64, faults: Faults, a: usize, b: usize) -> Network {
    let mut network = Network::new(seed, faults);
    network.run_until(Duration::from_secs(600), |network| {
        network.write_up_to([a, b]);
        network.ends[0].arrived == b
            && network.ends[1].arrived == a
            && network.ends.iter().all(|end| end.channel.is_done())
    });
    network
}

#[test]
fn bytes_arrive_over_a_clean_network() {
    let network = exchange(1, CLEAN, 3_000_000, 100);
    assert_eq!(network.repeated(), 0, "nothing was lost");
}

#[test]
fn a_lost_packet_is_sent_again_alone() {
    let mut network = Network::new(2, CLEAN);
    network.open();
    network.drop_next = Some(PacketKind::Data);
    network.run_until(Duration::from_secs(5), |network| {
        network.write_up_to([40_000, 0]);
        network.ends[1].arrived == 40_000 && network.ends[0].channel.is_done()
    });
    assert_eq!(network.repeated(), 1);
    assert!(
        network.now.since(Instant::default()) < 5 * MS,
        "{:?}",
        network.now
    );
}

/// What was overtaken by seconds says nothing of how long packets take: the next loss is repaired as soon as before.
#[test]
fn a_late_packet_tells_no_time() {
    let mut network = Network::new(16, CLEAN);
    network.open();
    network.next_data_late = Duration::from_secs(3);
    for goal in [40_000, 80_000] {
        network.run_until(Duration::from_secs(2), |network| {
            network.write_up_to([goal, 0]);
            network.ends[1].arrived == goal && network.ends[0].channel.is_done()
        });
    }
    network.run_for(4000 * MS);
    let start = network.now;
    network.drop_next = Some(PacketKind::Data);
    network.run_until(Duration::from_secs(2), |network| {
        network.write_up_to([80_100, 0]);
        network.ends[1].arrived == 80_100
    });
    let took = network.now.since(start);
    assert!(took < 5 * MS, "{took:?}");
}

#[test]
fn both_ends_may_open_at_once() {
    let mut network = Network::new(3, CLEAN);
    network.accept_only = false;
    network.open();
    assert!(network.ends.iter().all(|end| end.channel.is_open()));
}

#[test]
fn a_peer_that_is_gone_is_noticed() {
    let mut network = Network::new(4, CLEAN);
    network.open();
    network.cut = true;
    network.write_up_to([100, 0]);
    let start = network.now;
    network.run_until(Duration::from_secs(30), |network| {
        network.ends[0].ended == Some(CloseReason::TimedOut)
    });
    let took = network.now.since(start);
    assert!(took >= network::DEADLINE && took < network::DEADLINE + 500 * MS);
}

/// Lets an end ask for that long and then not poll for five seconds; the report that no endpoint listens, which it reads then, may be as old as the last Hello.
fn opens_though_a_refusal_is_read_late(asks_for: Duration) {
    let mut network = Network::new(19, CLEAN);
    network.cut = true;
    network.run_for(asks_for);
    network.now = network.now.after(5000 * MS);
    let now = network.now;
    network.ends[0].channel.refuse(now);
    network.cut = false;
    network.open();
}

#[test]
fn a_refusal_that_is_read_late_ends_no_channel_that_has_hardly_asked() {
    opens_though_a_refusal_is_read_late(MS);
}

#[test]
fn nor_one_that_has_asked_often_and_then_not_for_long() {
    opens_though_a_refusal_is_read_late(200 * MS);
}

#[test]
fn a_host_that_goes_on_refusing_ends_a_channel() {
    let mut network = Network::new(20, CLEAN);
    network.cut = true;
    for _ in 0..31 {
        assert_eq!(network.ends[0].ended, None);
        network.run_for(100 * MS);
        let now = network.now;
        network.ends[0].channel.refuse(now);
    }
    network.run_for(MS);
    assert_eq!(network.ends[0].ended, Some(CloseReason::Refused));
}

#[test]
fn an_end_with_keepalive_notices_it_though_it_sends_nothing() {
    let mut network = Network::new(5, CLEAN);
    network.open();
    network.run_for(3000 * MS);
    let now = network.now;
    network.ends[0].channel.set_keepalive(true, now);
    network.run_for(60_000 * MS);
    assert_eq!(network.ends[0].ended, None, "the peer is there");
    network.cut = true;
    network.run_until(Duration::from_secs(30), |network| {
        network.ends[0].ended == Some(CloseReason::TimedOut)
    });
}

#[test]
fn a_cut_that_heals_costs_nothing_but_time() {
    let mut network = Network::new(6, CLEAN);
    network.open();
    network.write_up_to([2_000_000, 2_000_000]);
    network.run_for(MS);
    network.cut = true;
    network.run_for(5000 * MS);
    network.cut = false;
    network.run_until(Duration::from_secs(2), |network| {
        network.write_up_to([2_000_000, 2_000_000]);
        network.ends.iter().all(|end| end.arrived == 2_000_000)
    });
}

#[test]
fn a_restarted_peer_ends_the_old_channel() {
    let mut network = Network::new(7, CLEAN);
    network.open();
    network.restart(Side::B);
    network.run_until(Duration::from_secs(5), |network| {
        network.ends[0].ended == Some(CloseReason::Forgotten)
    });
}

#[test]
fn a_forged_hello_does_not_end_a_channel() {
    let mut network = Network::new(8, CLEAN);
    network.open();
    network.forge_hello(Side::A);
    network.run_for(3000 * MS);
    assert!(network.ends[0].channel.is_open());
    network.run_until(Duration::from_secs(1), |network| {
        network.write_up_to([1000, 1000]);
        network.ends.iter().all(|end| end.arrived == 1000)
    });
}

#[test]
fn a_closed_channel_says_so() {
    let mut network = Network::new(9, CLEAN);
    network.open();
    network.close(Side::A);
    network.run_until(Duration::from_secs(1), |network| {
        network.ends[1].ended == Some(CloseReason::Closed)
    });
}

#[test]
fn a_goodbye_acknowledges() {
    let mut network = Network::new(13, CLEAN);
    network.open();
    network.write_up_to([1000, 0]);
    // The bytes arrive, and the acknowledgement, which is not due yet, goes with the goodbye.
    network.run_for(CLEAN.delay);
    assert_eq!(network.ends[1].arrived, 1000);
    assert!(!network.ends[0].channel.is_done());
    network.close(Side::B);
    network.run_for(CLEAN.delay);
    assert_eq!(network.ends[0].ended, Some(CloseReason::Closed));
    assert!(network.ends[0].channel.is_done());
}

/// Or else the peer, which has not heard that its last bytes arrived, finds only that no endpoint listens any more.
#[test]
fn a_goodbye_that_is_lost_is_said_again() {
    let mut network = Network::new(13, CLEAN);
    network.open();
    network.write_up_to([1000, 0]);
    network.run_for(CLEAN.delay);
    network.drop_next = Some(PacketKind::Bye);
    network.close(Side::B);
    network.run_for(CLEAN.delay);
    assert_eq!(network.ends[0].ended, Some(CloseReason::Closed));
    assert!(network.ends[0].channel.is_done());
}

#[test]
fn what_came_before_a_goodbye_is_taken_after_it() {
    let mut network = Network::new(14, CLEAN);
    network.open();
    network.ends[1].appetite = 10_000;
    network.write_up_to([50_000, 0]);
    network.run_until(Duration::from_secs(5), |network| {
        network.ends[0].channel.is_done()
    });
    network.close(Side::A);
    network.run_for(1000 * MS);
    assert_eq!(
        (network.ends[1].arrived, network.ends[1].ended),
        (10_000, None)
    );
    assert!(!network.ends[1].channel.is_open(), "it takes nothing more");
    network.ends[1].appetite = usize::MAX;
    network.run_for(MS);
    assert_eq!(network.ends[1].arrived, 50_000);
    assert_eq!(network.ends[1].ended, Some(CloseReason::Closed));
}

/// What waits for the peer, such as an answer that will never be sent, ends though the consumer takes nothing that the peer sent before.
#[test]
fn no_end_waits_for_ever_for_a_peer_that_closed() {
    let mut network = Network::new(17, CLEAN);
    network.open();
    network.ends[1].appetite = 0;
    network.write_up_to([1000, 0]);
    network.run_until(Duration::from_secs(5), |network| {
        network.ends[0].channel.is_done()
    });
    network.close(Side::A);
    network.run_for(1000 * MS);
    let now = network.now;
    network.ends[1].channel.set_keepalive(true, now);
    network.run_for(network::DEADLINE - 1001 * MS);
    assert_eq!(network.ends[1].ended, None);
    network.run_for(2 * MS);
    assert_eq!(network.ends[1].ended, Some(CloseReason::Closed));
}

/// Or else 4 MiB that wait for such a peer would be four million packets.
#[test]
fn a_peer_that_takes_hardly_anything_is_none() {
    let mut network = Network::new(18, CLEAN);
    for payload in [0, 1, 199] {
        network.welcome(Side::B, payload);
        assert!(!network.ends[1].channel.is_open(), "{payload}");
    }
    network.welcome(Side::B, 200);
    assert!(network.ends[1].channel.is_open());
}

#[test]
fn to_send_again_is_no_progress() {
    let mut network = Network::new(15, CLEAN);
    network.open();
    network.cut = true;
    network.write_up_to([1000, 0]);
    let moves = |network: &Network| {
        let events = network.ends[0].events.iter();
        events.filter(|event| **event == Event::Moved).count()
    };
    let before = moves(&network);
    network.run_for(3000 * MS);
    assert!(network.repeated() > 0);
    assert_eq!(moves(&network), before);
}

#[test]
fn a_consumer_without_room_stops_the_sender() {
    let mut network = Network::new(10, CLEAN);
    network.open();
    network.ends[1].appetite = 10_000;
    network.write_up_to([8_000_000, 0]);
    network.run_for(20_000 * MS);
    assert_eq!(network.ends[1].arrived, 10_000);
    assert_eq!(network.ends[0].ended, None);
    network.ends[1].appetite = usize::MAX;
    network.run_until(Duration::from_secs(5), |network| {
        network.write_up_to([8_000_000, 0]);
        network.ends[1].arrived == 8_000_000
    });
}

#[test]
fn goodput_falls_smoothly_with_loss() {
    let times: Vec<Duration> = [0, 10, 50, 200]
        .into_iter()
        .map(|loss| {
            let network = exchange(11, Faults { loss, ..CLEAN }, 4_000_000, 0);
            network.now.since(Instant::default())
        })
        .collect();
    for pair in times.windows(2) {
        assert!(pair[1] < pair[0] * 40, "{times:?}");
    }
}

#[test]
fn the_events_of_opening_are_told_once() {
    let mut network = Network::new(12, CLEAN);
    network.open();
    let opened = |end: &network::Node| {
        (end.events.iter())
            .filter(|event| **event == Event::Opened)
            .count()
    };
    assert_eq!(network.ends.iter().map(opened).collect::<Vec<_>>(), [1, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order(
        seed: u64, loss in 0u32..300, doubled in 0u32..200, delay in 1u64..5000, jitter in 0u64..5000,
        a in 0usize..300_000, b in 0usize..300_000,
    ) {
        let faults = Faults {
            loss,
            doubled,
            delay: Duration::from_micros(delay),
            jitter: Duration::from_micros(jitter),
        };
        exchange(seed, faults, a, b);
    }
}
