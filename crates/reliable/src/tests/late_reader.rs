//! An end that posts for a while and does not poll: answers wait at its port.

use core::time::Duration;

use oxifabric_types::{Flags, PeerId};

use super::fabric::{DEADLINE, FAST, Fabric};
use super::network::Network;
use super::{CLEAN, exchange};

/// Longer than a packet and its header, so that a post sends.
const LEN: usize = 4000;

/// Lets an end post messages that far apart and read nothing until the last one; returns how many packets it repeated.
fn repeated_after(pause: Duration) -> u64 {
    const COUNT: usize = 4;
    let mut fabric = Fabric::new(2, FAST);
    for message in 0..COUNT {
        fabric.recv(1, PeerId::ANY, LEN, message);
    }
    fabric.send(0, 1, LEN, Flags::empty(), 0);
    fabric.run_until(Duration::from_secs(1), |fabric| {
        fabric.ends[1].events.done.len() == 1 && fabric.ends[0].link.is_done()
    });
    fabric.ends[0].still = true;
    for message in 1..COUNT {
        fabric.send(0, 1, LEN, Flags::empty(), message);
        fabric.run_for(pause);
    }
    fabric.ends[0].still = false;
    fabric.run_until(Duration::from_secs(1), |fabric| {
        fabric.ends[1].events.done.len() == COUNT && fabric.ends[0].link.is_done()
    });
    let failed = fabric.ends.iter().map(|end| end.events.failed.len());
    assert_eq!(failed.sum::<usize>(), 0);
    fabric.ends[0].link.repeated()
}

#[test]
fn answers_that_were_not_read_are_no_losses() {
    assert_eq!(repeated_after(Duration::from_millis(500)), 0);
}

#[test]
fn a_peer_whose_answers_were_not_read_is_not_given_up() {
    assert_eq!(repeated_after(DEADLINE * 2), 0);
}

#[test]
fn no_more_is_written_ahead_than_two_windows_hold() {
    let mut network = Network::new(3, CLEAN);
    network.open();
    let first = network.ends[0].channel.room_ahead();
    assert_eq!(first, 256 << 10, "the window is short");
    let later = exchange(3, CLEAN, 3_000_000, 100);
    let later = later.ends[0].channel.room_ahead();
    assert!(later > first, "{later}: the window has grown");
}
