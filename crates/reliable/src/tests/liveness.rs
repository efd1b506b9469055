//! A peer that is gone is noticed by all endpoints that wait for it, and by no others.

use core::time::Duration;
use std::vec::Vec;

use oxifabric_types::{Errno, Flags, Instant, PeerId};

use super::fabric::{DEADLINE, FAST, Fabric};

const MS: Duration = Duration::from_millis(1);

/// The endpoint that dies.
const VICTIM: usize = 1;
const VICTIM_ID: PeerId = PeerId(1);

/// Returns two ends that have exchanged messages and whose channel has nothing under way.
fn acquainted() -> Fabric {
    let mut fabric = Fabric::new(2, FAST);
    for (from, to) in [(0, 1), (1, 0)] {
        fabric.recv(to, PeerId::ANY, 100, 1);
        fabric.send(from, to, 100, Flags::empty(), 2);
    }
    fabric.run_until(Duration::from_secs(1), |fabric| {
        fabric.ends.iter().all(|end| end.events.done.len() == 2)
    });
    fabric.run_for(3000 * MS);
    fabric
}

/// Begins something that waits for the victim, which has acknowledged every packet when it dies.
fn dies_owing(begin: impl FnOnce(&mut Fabric)) {
    let mut fabric = acquainted();
    begin(&mut fabric);
    fabric.run_for(100 * MS);
    assert!(fabric.ends[0].link.is_done(), "nothing is unacknowledged");
    assert_eq!(fabric.ends[0].events.done.len(), 2, "it waits");
    fabric.kill(VICTIM);
    let start = fabric.now();
    fabric.run_until(DEADLINE * 2, |fabric| {
        !fabric.ends[0].events.failed.is_empty()
    });
    assert_eq!(fabric.ends[0].events.failed, [(7, Errno::TIMEDOUT)]);
    assert!(fabric.now().since(start) < DEADLINE + 3000 * MS);
}

#[test]
fn a_peer_that_owes_the_answer_to_an_offer() {
    dies_owing(|fabric| fabric.send(0, VICTIM, 1 << 20, Flags::empty(), 7));
}

#[test]
fn a_peer_that_owes_an_acknowledgement_of_delivery() {
    dies_owing(|fabric| fabric.send(0, VICTIM, 100, Flags::DELIVERY_COMPLETE, 7));
}

#[test]
fn a_peer_whose_message_is_waited_for() {
    dies_owing(|fabric| fabric.recv(0, VICTIM_ID, 100, 7));
}

#[test]
fn a_peer_that_owes_what_was_read() {
    dies_owing(|fabric| {
        fabric.mute(VICTIM, true);
        fabric.read(0, VICTIM, 1000, 7);
    });
}

#[test]
fn a_peer_that_owes_the_rest_of_a_message() {
    let mut fabric = acquainted();
    fabric.recv(0, PeerId::ANY, 1 << 20, 7);
    fabric.send(VICTIM, 0, 1 << 20, Flags::empty(), 8);
    // Some of the body is here, and the receive takes from any source.
    fabric.run_for(Duration::from_micros(300));
    fabric.kill(VICTIM);
    fabric.run_until(DEADLINE * 2, |fabric| {
        !fabric.ends[0].events.failed.is_empty()
    });
    assert_eq!(fabric.ends[0].events.failed, [(7, Errno::TIMEDOUT)]);
}

/// Neither did this end ask again in that time, nor can the peer have known.
#[test]
fn a_peer_is_asked_again_after_an_end_has_not_polled_for_longer_than_the_deadline() {
    goes_on_after_a_pause(|_| {});
}

#[test]
fn also_where_the_end_posts_before_it_polls() {
    goes_on_after_a_pause(|fabric| fabric.send(0, VICTIM, 100, Flags::empty(), 9));
}

/// Loses a message and does not poll for twice the deadline; `resumes` is what the end does before the next poll.
fn goes_on_after_a_pause(resumes: impl FnOnce(&mut Fabric)) {
    let mut fabric = acquainted();
    fabric.recv(VICTIM, PeerId::ANY, 100, 8);
    fabric.mute(0, true);
    fabric.send(0, VICTIM, 100, Flags::DELIVERY_COMPLETE, 7);
    fabric.mute(0, false);
    fabric.ends[0].still = true;
    fabric.run_for(DEADLINE * 2);
    assert_eq!(fabric.ends[VICTIM].events.done.len(), 2, "it was lost");
    resumes(&mut fabric);
    fabric.ends[0].still = false;
    fabric.run_until(Duration::from_secs(1), |fabric| {
        fabric.ends[0].events.done.contains(&7)
    });
    assert!(fabric.ends[VICTIM].events.done.contains(&8));
}

#[test]
fn a_peer_that_died_while_an_end_did_not_poll_is_noticed() {
    let mut fabric = acquainted();
    fabric.kill(VICTIM);
    fabric.send(0, VICTIM, 100, Flags::DELIVERY_COMPLETE, 7);
    fabric.ends[0].still = true;
    fabric.run_for(DEADLINE * 2);
    fabric.ends[0].still = false;
    fabric.run_until(DEADLINE, |fabric| {
        fabric.ends[0].events.failed == [(7, Errno::TIMEDOUT)]
    });
}

#[test]
fn a_peer_that_is_slow_is_waited_for() {
    let mut fabric = acquainted();
    fabric.send(0, VICTIM, 1 << 20, Flags::empty(), 7);
    fabric.run_for(DEADLINE * 10);
    assert_eq!(fabric.ends[0].events.failed, []);
    fabric.recv(VICTIM, PeerId::ANY, 1 << 20, 8);
    fabric.run_until(Duration::from_secs(1), |fabric| {
        fabric.ends[0].events.done.contains(&7)
    });
}

#[test]
fn no_peer_is_probed_that_owes_nothing() {
    let mut fabric = acquainted();
    let before = fabric.sent();
    fabric.recv(0, PeerId::ANY, 100, 7);
    fabric.run_for(DEADLINE * 10);
    assert_eq!(fabric.sent(), before);
}

#[test]
fn a_peer_that_starts_anew_ends_what_the_old_one_owed() {
    let mut fabric = acquainted();
    fabric.send(0, VICTIM, 1 << 20, Flags::empty(), 7);
    fabric.run_for(100 * MS);
    fabric.restart(VICTIM);
    fabric.run_until(Duration::from_secs(5), |fabric| {
        !fabric.ends[0].events.failed.is_empty()
    });
    assert_eq!(fabric.ends[0].events.failed, [(7, Errno::CONNRESET)]);
    fabric.recv(VICTIM, PeerId::ANY, 1 << 20, 8);
    fabric.send(0, VICTIM, 1 << 20, Flags::empty(), 9);
    fabric.run_until(Duration::from_secs(5), |fabric| {
        fabric.ends[0].events.done.contains(&9) && fabric.ends[VICTIM].events.done == [8]
    });
}

#[test]
fn a_peer_that_is_still_for_five_seconds_goes_on() {
    let mut fabric = acquainted();
    fabric.recv(VICTIM, PeerId::ANY, 1 << 20, 8);
    fabric.send(0, VICTIM, 1 << 20, Flags::empty(), 7);
    fabric.run_for(Duration::from_micros(300));
    fabric.ends[VICTIM].still = true;
    fabric.run_for(Duration::from_secs(5));
    fabric.ends[VICTIM].still = false;
    fabric.run_until(Duration::from_secs(2), |fabric| {
        fabric.ends[0].events.done.contains(&7) && fabric.ends[VICTIM].events.done.contains(&8)
    });
}

/// Lets a client and a server that does not know it exchange messages, and do nothing for a quarter of an hour.
fn idle_server() -> Fabric {
    let mut fabric = acquainted();
    fabric.ends[VICTIM].link.know(PeerId(0));
    let before = fabric.sent();
    fabric.run_for(Duration::from_secs(900));
    assert_eq!(fabric.ends[0].link.due(), Instant::END, "its channel rests");
    assert_eq!(fabric.sent(), before, "the client is not told");
    fabric
}

/// Exchanges `count` messages each way, `first` begins; each arrives once.
fn goes_on(fabric: &mut Fabric, first: usize, count: usize) {
    for (from, to) in [(first, 1 - first), (1 - first, first)] {
        for end in &mut fabric.ends {
            end.events.done.clear();
        }
        let sent = (0..count).collect::<Vec<_>>();
        for &message in &sent {
            fabric.recv(to, PeerId::ANY, 1 << 20, message);
            let len = if message % 2 == 0 { 100 } else { 1 << 20 };
            fabric.send(from, to, len, Flags::DELIVERY_COMPLETE, message);
        }
        fabric.run_until(Duration::from_secs(5), |fabric| {
            let mut ends = fabric.ends.iter();
            ends.all(|end| end.events.done.len() >= count)
        });
        fabric.run_for(3000 * MS);
        for end in &mut fabric.ends {
            end.events.done.sort_unstable();
            assert_eq!(end.events.done, sent, "each once");
            assert_eq!(end.events.failed, []);
        }
    }
}

#[test]
fn a_client_that_was_idle_for_long_goes_on_with_a_server_that_does_not_know_it() {
    let mut fabric = idle_server();
    goes_on(&mut fabric, VICTIM, 10);
}

#[test]
fn a_server_that_addresses_a_client_that_was_idle_for_long_goes_on() {
    let mut fabric = idle_server();
    fabric.ends[0].link.know(VICTIM_ID);
    goes_on(&mut fabric, 0, 10);
}

#[test]
fn two_that_do_not_know_each_other_and_were_idle_for_long_begin_anew() {
    let mut fabric = acquainted();
    fabric.run_for(Duration::from_secs(900));
    for first in [0, VICTIM] {
        goes_on(&mut fabric, first, 10);
    }
}

#[test]
fn messages_rest_and_go_on_again_and_again() {
    let mut fabric = idle_server();
    for _ in 0..20 {
        goes_on(&mut fabric, VICTIM, 3);
        fabric.run_for(Duration::from_secs(900));
        assert_eq!(fabric.ends[0].link.due(), Instant::END);
    }
}
