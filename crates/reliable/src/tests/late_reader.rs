//! An end that posts for a while and does not poll: answers wait at its port.

use core::time::Duration;

use oxifabric_types::{Flags, PeerId};

use super::fabric::{DEADLINE, FAST, Fabric};
use super::network::Network;
use super::{CLEAN, exchange};

/// Longer than a packet and its header, so that a post sends.
const LEN: usize = 4000;

/// Longer than a first window.
const LONG: usize = 60_000;

/// Lets an end post messages that far apart and read nothing until the last one, while so many others send to it; returns how many packets it repeated.
fn repeated_after(pause: Duration, others: usize) -> u64 {
    const COUNT: usize = 4;
    let mut fabric = Fabric::new(2 + others, FAST);
    for message in 0..COUNT {
        fabric.recv(1, PeerId::ANY, LEN, message);
    }
    fabric.send(0, 1, LEN, Flags::empty(), 0);
    for other in 2..2 + others {
        fabric.recv(0, PeerId::ANY, LONG, other);
        fabric.recv(0, PeerId::ANY, LONG, other);
        fabric.send(other, 0, LEN, Flags::empty(), 0);
    }
    fabric.run_until(Duration::from_secs(1), |fabric| {
        let is_done = fabric.ends.iter().all(|end| end.link.is_done());
        fabric.ends[1].events.done.len() == 1 && is_done
    });
    fabric.ends[0].still = true;
    for other in 2..2 + others {
        fabric.send(other, 0, LONG, Flags::empty(), 1);
    }
    fabric.run_for(Duration::from_millis(1));
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
    assert_eq!(repeated_after(Duration::from_millis(500), 0), 0);
}

#[test]
fn a_peer_whose_answers_were_not_read_is_not_given_up() {
    assert_eq!(repeated_after(DEADLINE * 2, 0), 0);
}

#[test]
fn answers_behind_more_packets_than_a_poll_takes_are_no_losses() {
    assert_eq!(repeated_after(Duration::from_millis(100), 12), 0);
}

#[test]
fn two_windows_or_a_quarter_of_a_megabyte_may_be_written_ahead() {
    let mut network = Network::new(3, CLEAN);
    network.open();
    let first = network.ends[0].channel.room_ahead();
    assert_eq!(first, 256 << 10, "the window is short");
    let later = exchange(3, CLEAN, 3_000_000, 100);
    let later = later.ends[0].channel.room_ahead();
    assert!(later > first, "{later}: the window has grown");
}
