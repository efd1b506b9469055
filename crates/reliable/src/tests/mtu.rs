//! Paths that drop long packets without an error.

use core::time::Duration;

use super::network::{Faults, Network};
use super::{CLEAN, MS};

/// The longest packets that the ends send.
const LONGEST: usize = super::network::LONGEST;

/// Sends `bytes` each way until all have arrived.
fn exchange(network: &mut Network, bytes: usize) {
    network.run_until(Duration::from_secs(300), |network| {
        network.write_up_to([bytes, bytes]);
        (network.ends.iter()).all(|end| end.arrived == bytes && end.channel.is_done())
    });
}

#[test]
fn a_way_that_swallows_long_packets_is_found_out() {
    for loss in [0, 100] {
        let mut network = Network::new(21, Faults { loss, ..CLEAN });
        network.carries = 1300;
        network.open();
        exchange(&mut network, 300_000);
        assert!(network.ends.iter().all(|end| end.channel.is_open()));
        assert!(network.parts > 0, "what was swallowed came in parts");
    }
}

#[test]
fn a_way_that_becomes_narrow_is_found_out() {
    let mut network = Network::new(22, CLEAN);
    network.open();
    exchange(&mut network, 100_000);
    assert_eq!(network.parts, 0);
    network.write_up_to([600_000, 600_000]);
    network.run_for(MS / 10);
    network.carries = 1250;
    exchange(&mut network, 600_000);
    assert!(network.parts > 0);
}

#[test]
fn a_way_that_becomes_wide_again_is_used() {
    let mut network = Network::new(23, CLEAN);
    network.carries = 1300;
    network.open();
    exchange(&mut network, 100_000);
    network.carries = usize::MAX;
    network.longest = 0;
    network.run_for(1000 * MS);
    assert_eq!(network.longest, 0, "nothing is tried without need");
    exchange(&mut network, 200_000);
    (network.parts, network.data) = (0, 0);
    exchange(&mut network, 400_000);
    assert_eq!((network.parts, network.data), (0, LONGEST));
}

/// Some are lost three times and more while others arrive; behind the last one none does.
#[test]
fn losses_by_chance_do_not_shorten_packets() {
    let faults = Faults {
        loss: 200,
        delay: 50 * MS,
        ..CLEAN
    };
    let narrowed = (24..44).filter(|seed| {
        let mut network = Network::new(*seed, faults);
        network.open();
        exchange(&mut network, 400_000);
        network.parts > 0
    });
    let narrowed = narrowed.count();
    assert!(narrowed <= 2, "{narrowed} of 20");
}
