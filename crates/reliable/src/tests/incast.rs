//! Many send to one, behind a queue that holds little of it.

use core::time::Duration;

use oxifabric_types::{Flags, Instant, PeerId};

use super::fabric::{Fabric, Paths};

const SENDERS: usize = 100;
const MESSAGE: usize = 64 * 1024;
const EACH: usize = 8;

/// Lets all send to the first end at once; returns how long it took, in parts of the time that the bytes alone need, how many
/// packets were sent, and how many of them were lost.
fn incast(paths: Paths) -> (f64, u64, u64) {
    let mut fabric = Fabric::new(SENDERS + 1, paths);
    for from in 1..=SENDERS {
        for message in 0..EACH {
            fabric.recv(0, PeerId::ANY, MESSAGE, message);
            fabric.send(from, 0, MESSAGE, Flags::DELIVERY_COMPLETE, message);
        }
    }
    fabric.run_until(Duration::from_secs(60), |fabric| {
        let mut senders = fabric.ends[1..].iter();
        senders.all(|end| end.events.done.len() == EACH)
    });
    assert_eq!(fabric.ends[0].events.done.len(), SENDERS * EACH);
    assert!(fabric.ends.iter().all(|end| end.events.failed.is_empty()));
    let took = fabric.now().since(Instant::default()).as_micros() as f64;
    let alone = (SENDERS * EACH * MESSAGE) as f64 / paths.rate as f64;
    (took / alone, fabric.sent(), fabric.lost())
}

/// Queues for 250 packets, 25, and 139: a packet for each sender, or less. All messages arrive, in little more time than they
/// need, and packets are not sent for the dustbin.
#[test]
fn a_hundred_to_one() {
    for (longest, queue) in [
        (16 << 10, 4 << 20),
        (16 << 10, 400 << 10),
        (1472, 200 << 10),
    ] {
        let paths = Paths {
            longest,
            delay: Duration::from_micros(20),
            rate: 1000,
            queue,
        };
        let (times, sent, lost) = incast(paths);
        let told = std::format!("{longest} {queue}: {times:.2} times, {lost} of {sent} lost");
        assert!(times < 3.0 && lost * 20 < sent * 9, "{told}");
    }
}
