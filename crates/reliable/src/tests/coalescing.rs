//! Small messages leave together, and a lone one at once.

use core::time::Duration;

use oxifabric_types::{Flags, Instant, PeerId};

use super::fabric::{FAST, Fabric};

/// Returns two ends, of which the first has nothing under way.
fn acquainted() -> Fabric {
    let mut fabric = Fabric::new(2, FAST);
    fabric.recv(1, PeerId::ANY, 100, 0);
    fabric.send(0, 1, 100, Flags::empty(), 0);
    fabric.run_until(Duration::from_secs(1), |fabric| {
        fabric.ends[1].events.done.len() == 1 && fabric.ends[0].link.is_done()
    });
    fabric
}

fn post(fabric: &mut Fabric, count: usize) -> u64 {
    let before = fabric.sent();
    for message in 1..=count {
        fabric.recv(1, PeerId::ANY, 64, message);
        fabric.send(0, 1, 64, Flags::empty(), message);
    }
    fabric.sent() - before
}

#[test]
fn what_is_posted_behind_a_message_leaves_at_the_next_poll() {
    let mut fabric = acquainted();
    assert_eq!(post(&mut fabric, 10), 1, "the first one is alone");
    assert!(fabric.ends[0].link.holds_back());
    let before = fabric.sent();
    fabric.poll(0);
    assert_eq!(fabric.sent() - before, 1, "nine leave together");
    assert!(!fabric.ends[0].link.holds_back());
    fabric.run_until(Duration::from_secs(1), |fabric| {
        fabric.ends[1].events.done.len() == 11
    });
}

#[test]
fn full_packets_do_not_wait() {
    let mut fabric = acquainted();
    // 104 bytes each, in packets of 1,416.
    assert_eq!(post(&mut fabric, 1 + 14), 3);
}

#[test]
fn nothing_waits_while_a_thread_sleeps() {
    let mut fabric = acquainted();
    fabric.poll(0);
    fabric.ends[0].link.note_sleep(Instant::END);
    assert_eq!(post(&mut fabric, 5), 5);
    assert!(!fabric.ends[0].link.holds_back());
    assert!(
        fabric.ends[0].link.is_timer_late(),
        "losses are to be repaired"
    );
    fabric.poll(0);
    assert!(!fabric.ends[0].link.is_timer_late(), "no thread sleeps");
}
