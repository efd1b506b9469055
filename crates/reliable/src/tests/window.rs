//! How many packets are under way at most.

use oxifabric_types::Instant;

use crate::sender::Sender;

const PAYLOAD: usize = 100;
const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// Returns a sender with a hundred packets to send to a peer that has room for all of them.
fn sender(window_max: usize) -> Sender {
    let mut sender = Sender::new(PAYLOAD, window_max);
    sender.open(PAYLOAD, 1000);
    assert_eq!(
        sender.write(100 * PAYLOAD, |_, into| into.fill(1)),
        100 * PAYLOAD
    );
    sender
}

/// Sends what may leave now; returns how many packets that were.
fn send(sender: &mut Sender) -> usize {
    core::iter::from_fn(|| sender.next(NOW).map(|_| ())).count()
}

#[test]
fn no_more_is_under_way_than_the_bound_of_the_port() {
    let mut sender = sender(4);
    assert_eq!(send(&mut sender), 4);
    assert_eq!(
        sender.leaves_at(),
        Instant::END,
        "an acknowledgement is awaited"
    );
    assert!(sender.acknowledged(3, 0, 1000, NOW));
    assert_eq!(send(&mut sender), 3);
    assert!(sender.acknowledged(7, 0, 1000, NOW));
    assert_eq!(send(&mut sender), 4);
}

#[test]
fn without_a_bound_the_congestion_window_counts() {
    let mut sender = sender(usize::MAX);
    let first = send(&mut sender);
    assert!(first > 4);
    assert!(sender.acknowledged(first as u64, 0, 1000, NOW));
    assert!(send(&mut sender) > first, "it grows");
}
