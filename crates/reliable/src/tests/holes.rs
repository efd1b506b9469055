//! Packets behind a hole, which acknowledgements tell of as far as the bits of one reach.

use core::time::Duration;
use std::vec::Vec;

use oxifabric_types::Instant;

use crate::sender::Sender;

const PAYLOAD: usize = 100;
const NOW: Instant = Instant::from_nanos(1_000_000_000);
const ROOM: u64 = 1 << 20;

/// Writes packets.
fn write(sender: &mut Sender, packets: usize) {
    sender.write(packets * PAYLOAD, |_, into| into.fill(1));
}

/// Sends all that may leave; returns the numbers of the packets.
fn send(sender: &mut Sender) -> Vec<u64> {
    core::iter::from_fn(|| sender.next(NOW).map(|segment| segment.number)).collect()
}

/// Returns a sender of which this many packets may be under way, and the number of its next one.
fn sender(window: usize) -> (Sender, u64) {
    let mut sender = Sender::new(PAYLOAD, usize::MAX);
    sender.open(PAYLOAD, u16::MAX);
    while sender.path.window() < window {
        let open = sender.path.window();
        write(&mut sender, open);
        assert_eq!(send(&mut sender).len(), open);
        assert!(sender.acknowledged(sender.written(), 0, ROOM, NOW));
    }
    let next = sender.written();
    (sender, next)
}

#[test]
fn packets_that_no_acknowledgement_can_tell_of_are_not_taken_for_lost() {
    let (mut sender, first) = sender(400);
    write(&mut sender, 300);
    assert_eq!(send(&mut sender).len(), 300);
    // All have arrived but two, as far as the bits reach.
    let second = first + 100;
    let all_but_second = !(1 << (second - first - 1));
    assert!(sender.acknowledged(first, all_but_second, ROOM, NOW));
    assert_eq!(send(&mut sender), [first, second]);
    // The second one arrives: it has overtaken the first, and left long after the last.
    assert!(sender.acknowledged(first, u128::MAX, ROOM, NOW));
    assert_eq!(send(&mut sender), [first]);
    assert!(sender.acknowledged(first + 300, 0, ROOM, NOW));
    assert!(sender.is_done());
    assert_eq!(sender.repeated, 3);
}

#[test]
fn packets_behind_those_are_found_lost_when_the_hole_is_filled() {
    let (mut sender, first) = sender(400);
    write(&mut sender, 300);
    send(&mut sender);
    assert!(sender.acknowledged(first, u128::MAX, ROOM, NOW));
    assert_eq!(send(&mut sender), [first]);
    // So are the packets before another hole, beyond the bits of the first.
    let second = first + 200;
    assert!(sender.acknowledged(second, (1 << 99) - 1, ROOM, NOW));
    assert_eq!(send(&mut sender), [second]);
    assert!(sender.acknowledged(first + 300, 0, ROOM, NOW));
    assert!(sender.is_done());
}

#[test]
fn all_that_was_under_way_in_a_long_silence_is_found_lost_by_one_answer() {
    let (mut sender, first) = sender(400);
    write(&mut sender, 300);
    assert_eq!(send(&mut sender).len(), 300);
    let mut now = NOW;
    for _ in 0..3 {
        now = now.after(Duration::from_secs(1));
        sender.on_pto(now);
        assert_eq!(sender.next(now).map(|segment| segment.number), Some(first));
    }
    assert!(sender.acknowledged(first + 1, 0, ROOM, now));
    let again: Vec<u64> = core::iter::from_fn(|| {
        now = now.after(Duration::from_secs(1));
        sender.next(now).map(|segment| segment.number)
    })
    .collect();
    assert_eq!(again[..2], [first + 1, first + 2]);
}
