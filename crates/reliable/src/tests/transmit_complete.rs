//! A send at FI_TRANSMIT_COMPLETE ends when the peer's end has acknowledged its packets, and no sooner.

use core::time::Duration;

use oxifabric_types::{Errno, Flags, PeerId};

use super::fabric::{FAST, Fabric};

const LIMIT: Duration = Duration::from_secs(60);

/// Returns two ends that know each other, with nothing under way.
fn acquainted() -> Fabric {
    let mut fabric = Fabric::new(2, FAST);
    fabric.recv(1, PeerId::ANY, 100, 0);
    fabric.send(0, 1, 100, Flags::empty(), 0);
    fabric.run_until(LIMIT, |fabric| {
        fabric.ends[1].events.done.len() == 1 && fabric.ends[0].link.is_done()
    });
    fabric.ends[0].events.done.clear();
    fabric.ends[1].events.done.clear();
    fabric
}

#[test]
fn without_that_level_the_channel_is_enough() {
    let mut fabric = acquainted();
    fabric.send(0, 1, 100, Flags::empty(), 7);
    assert_eq!(fabric.ends[0].events.done, [7]);
}

/// No receive is posted: the message waits at the peer, and the send is over all the same.
#[test]
fn a_send_waits_for_the_acknowledgement_and_not_for_a_receive() {
    let mut fabric = acquainted();
    fabric.send(0, 1, 100, Flags::TRANSMIT_COMPLETE, 7);
    fabric.poll(0);
    assert!(fabric.ends[0].events.done.is_empty());
    fabric.run_until(LIMIT, |fabric| !fabric.ends[0].events.done.is_empty());
    assert_eq!(fabric.ends[0].events.done, [7]);
    assert!(fabric.ends[1].events.done.is_empty());
}

#[test]
fn a_lost_message_is_not_over_until_it_came_again() {
    let mut fabric = acquainted();
    fabric.mute(0, true);
    fabric.send(0, 1, 100, Flags::TRANSMIT_COMPLETE, 7);
    fabric.run_for(Duration::from_secs(2));
    assert!(fabric.ends[0].events.done.is_empty());
    fabric.kill(1);
    fabric.run_until(LIMIT, |fabric| !fabric.ends[0].events.failed.is_empty());
    assert_eq!(fabric.ends[0].events.failed, [(7, Errno::TIMEDOUT)]);
}

/// Short ones, one that the channel takes in parts, one on request, and an injected one: all end, each once, in the order of their
/// packets where the receiver has not to ask.
#[test]
fn sends_of_all_lengths_end_once() {
    let mut fabric = acquainted();
    fabric.send(0, 1, 64, Flags::TRANSMIT_COMPLETE | Flags::INJECT, 9);
    let lengths = [8, 60_000, 0, 300_000, 64, 64_000];
    for (context, len) in lengths.into_iter().enumerate() {
        fabric.recv(1, PeerId::ANY, len, context);
        fabric.send(0, 1, len, Flags::TRANSMIT_COMPLETE, context);
    }
    fabric.run_until(LIMIT, |fabric| {
        fabric.ends[0].events.done.len() == lengths.len() + 1
    });
    fabric.run_for(LIMIT);
    let mut done = fabric.ends[0].events.done.clone();
    done.sort_unstable();
    assert_eq!(done, [0, 1, 2, 3, 4, 5, 9]);
    assert!(fabric.ends[0].events.failed.is_empty());
}

/// More than a channel's queue holds: the rest is written as acknowledgements come, and counts from there.
#[test]
fn a_queue_that_is_full_makes_no_difference() {
    let mut fabric = acquainted();
    for context in 0..120 {
        fabric.recv(1, PeerId::ANY, 60_000, context);
        fabric.send(0, 1, 60_000, Flags::TRANSMIT_COMPLETE, context);
    }
    fabric.run_until(LIMIT, |fabric| fabric.ends[0].events.done.len() == 120);
    let expected: alloc::vec::Vec<usize> = (0..120).collect();
    assert_eq!(fabric.ends[0].events.done, expected);
}
