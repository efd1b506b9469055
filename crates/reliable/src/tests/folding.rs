//! Idle channels are folded, and go on as if they had not been.

use core::time::Duration;

use oxifabric_types::{Errno, Flags, PeerId};
use proptest::prelude::*;

use super::fabric::{DEADLINE, FAST, Fabric};

const SECOND: Duration = Duration::from_secs(1);

/// Length of the messages.
const LEN: usize = 100;

/// Sends a message and waits until it has arrived.
fn pass(fabric: &mut Fabric, from: usize, to: usize) {
    let arrived = fabric.ends[to].events.done.len();
    fabric.recv(to, PeerId(from as u32), LEN, 0);
    fabric.send(from, to, LEN, Flags::empty(), 0);
    fabric.run_until(SECOND, |fabric| fabric.ends[to].events.done.len() > arrived);
}

/// Returns ends of which the first one has exchanged messages with each other one, and all channels are folded.
fn folded(count: usize) -> Fabric {
    let mut fabric = Fabric::new(count, FAST);
    for other in 1..count {
        pass(&mut fabric, 0, other);
        pass(&mut fabric, other, 0);
    }
    fabric.run_for(2 * SECOND);
    assert_eq!(fabric.ends[0].link.folded(), count - 1);
    assert!(fabric.ends[1..].iter().all(|end| end.link.folded() == 1));
    fabric
}

#[test]
fn a_folded_channel_goes_on_in_both_directions() {
    let mut fabric = folded(4);
    let sent = fabric.sent();
    for _ in 0..3 {
        pass(&mut fabric, 0, 2);
        pass(&mut fabric, 3, 0);
        fabric.run_for(2 * SECOND);
        assert_eq!(fabric.ends[0].link.folded(), 3);
    }
    let packets = fabric.sent() - sent;
    assert_eq!(
        packets,
        6 * 2,
        "a packet and its acknowledgement each, and no handshake message"
    );
    assert!(fabric.ends.iter().all(|end| end.events.failed.is_empty()));
    assert!(fabric.ends.iter().all(|end| end.link.repeated() == 0));
}

#[test]
fn channels_in_use_are_not_folded() {
    let mut fabric = folded(3);
    for _ in 0..500 {
        pass(&mut fabric, 0, 1);
        fabric.run_for(Duration::from_millis(5));
    }
    assert_eq!(
        fabric.ends[0].link.folded(),
        1,
        "the one with the other end"
    );
    // Its peer is waited for.
    fabric.recv(0, PeerId(1), LEN, 0);
    fabric.run_for(5 * SECOND);
    assert_eq!(fabric.ends[0].link.folded(), 1);
}

#[test]
fn others_are_folded_when_a_channel_opens() {
    let mut fabric = Fabric::new(40, FAST);
    for other in 1..40 {
        pass(&mut fabric, 0, other);
        fabric.run_for(Duration::from_millis(25));
    }
    // Less than a second has passed, after which all are looked at.
    assert!(fabric.now().since(Default::default()) < 2 * SECOND);
    assert!(fabric.ends[0].link.folded() >= 36);
}

#[test]
fn the_death_of_a_peer_is_noticed_though_its_channel_was_folded() {
    let mut fabric = folded(2);
    fabric.kill(1);
    fabric.recv(0, PeerId(1), LEN, 7);
    fabric.run_for(DEADLINE + 5 * SECOND);
    assert_eq!(fabric.ends[0].events.failed, [(7, Errno::TIMEDOUT)]);
    let mut fabric = folded(2);
    fabric.kill(1);
    fabric.send(0, 1, LEN, Flags::DELIVERY_COMPLETE, 8);
    fabric.run_for(DEADLINE + 5 * SECOND);
    assert_eq!(fabric.ends[0].events.failed, [(8, Errno::TIMEDOUT)]);
}

#[test]
fn a_peer_that_started_anew_has_forgotten_a_folded_channel() {
    let mut fabric = folded(2);
    fabric.restart(1);
    fabric.send(0, 1, LEN, Flags::DELIVERY_COMPLETE, 8);
    fabric.run_for(5 * SECOND);
    assert_eq!(fabric.ends[0].events.failed, [(8, Errno::CONNRESET)]);
    pass(&mut fabric, 0, 1);
}

#[test]
fn the_peers_of_folded_channels_hear_that_an_end_closes() {
    let mut fabric = folded(3);
    fabric.recv(1, PeerId(0), LEN, 7);
    fabric.ends[0].link.close();
    fabric.ends[0].still = true;
    fabric.run_for(SECOND);
    assert_eq!(fabric.ends[1].events.failed, [(7, Errno::CONNRESET)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_whenever_channels_are_folded(
        steps in prop::collection::vec((0_usize..4, 1_usize..4, 1_usize..200_000, 0_u64..60), 1..80),
    ) {
        let mut fabric = Fabric::new(4, FAST);
        let mut expected = [0; 4];
        for (from, ahead, len, pause_ms) in steps {
            let to = (from + ahead) % 4;
            expected[to] += 1;
            fabric.recv(to, PeerId(from as u32), len, 1);
            fabric.send(from, to, len, Flags::empty(), 0);
            fabric.run_for(Duration::from_millis(pause_ms));
        }
        fabric.run_for(5 * SECOND);
        for (end, expected) in fabric.ends.iter().zip(expected) {
            let arrived = end.events.done.iter().filter(|context| **context == 1).count();
            prop_assert_eq!(arrived, expected);
            prop_assert!(end.events.failed.is_empty());
        }
    }
}
