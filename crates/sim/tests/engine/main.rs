//! Engines under simulation: several endpoints over an in-memory network with virtual time, driven at random by
//! a seed, with checkers beside them.
//!
//! A failing seed is printed with the command that replays it. `OXI_SEEDS` sets how many seeds each test tries,
//! `OXI_SEED` tries one only.
//!
//! - `packets`: another network, which carries packets and does worse to them, under reliable links.
//! - `net`: the network and the link; it delays, blocks, splits, reorders where it may, fails, and (to test the checkers) misbehaves.
//! - `nic`: adapters that deliver everything once, in order or not, and carry out accesses.
//! - `in_flight`: frames on their way.
//! - `one_sided`: accesses that the network carries out by itself.
//! - `app` and `access`: what the applications do, and what they remember of it.
//! - `check`: what must hold; `clocks`: for how long operations may take.
//! - `collective`: groups that do collectives, by themselves.
//! - `world`: steps everything, and drains it at the end.

mod access;
mod app;
mod atomic;
mod check;
mod clocks;
mod collective;
mod config;
mod in_flight;
mod net;
mod nic;
mod one_sided;
mod packets;
mod rng;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use config::{Config, Sabotage};
use oxifabric_sim::Count;
use packets::{Crook, Packets};
use world::World;

/// Runs one seed; says what went wrong.
fn run(config: &Config, seed: u64) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(config, seed).run()));
    match outcome {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.unwrap_or_else(|| "panicked".to_owned()))
        }
    }
}

/// Runs many seeds, or the one of the environment.
fn run_all(test: &str, config: &Config) {
    let from_env = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (first, count) = match from_env("OXI_SEED") {
        Some(seed) => (seed, 1),
        None => (1, from_env("OXI_SEEDS").unwrap_or(config.seeds)),
    };
    for seed in first..first + count {
        if let Err(what) = run(config, seed) {
            panic!(
                "seed {seed}: {what}\nreplay with: OXI_SEED={seed} cargo test -p oxifabric-sim --test engine {test}"
            );
        }
    }
}

macro_rules! simulations {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run_all(stringify!($name), &Config::$name());
            }
        )*
    };
}

simulations! {
    two_endpoints_over_streams
    two_endpoints_pull_from_each_other
    pulling_turns_out_to_be_forbidden
    many_endpoints_over_streams
    many_endpoints_over_packets
    acknowledged_on_arrival
    long_messages_without_rendezvous
    hardly_any_room_for_the_unexpected
    connections_break
    connections_break_while_pulling
    links_pull_unasked
    pulling_unasked_turns_out_to_be_forbidden
    many_endpoints_pull_unasked
    links_pull_unasked_with_hardly_any_room
    connections_break_while_pulling_unasked
    an_endpoint_that_pulls_unasked_dies
    peers_reach_memory_by_themselves
    peers_reach_memory_by_themselves_but_send_no_data
    connections_break_amid_accesses
    a_wire_without_order
    many_endpoints_without_order
    connections_break_without_order
    data_is_granted_by_windows
    an_endpoint_dies
    packets_are_lost
    packets_are_doubled_and_overtaken
    queues_overflow
    long_packets_vanish
    a_partition_heals
    a_partition_outlasts_the_timeout
    an_endpoint_behind_packets_dies
    an_endpoint_behind_packets_comes_back
    adapters_with_order
    adapters_without_order
    adapters_carry_out_accesses_in_order
    adapters_carry_out_accesses_in_any_order
    adapters_carry_out_writes_only
    many_adapters_without_order
    many_adapters_carry_out_accesses_in_order
    many_adapters_carry_out_accesses_in_any_order
    adapters_with_hardly_any_room_for_the_unexpected
    connections_of_adapters_break
    connections_of_ordered_adapters_break
    a_partition_of_adapters_heals
    a_partition_of_adapters_outlasts_the_timeout
    an_endpoint_with_an_adapter_dies
    an_endpoint_with_an_adapter_comes_back
}

/// Seeds beyond those that each test tries, which have shown something once.
#[test]
fn seeds_that_failed_before() {
    // The sender of a write dies while it is being placed, and nothing else is left to be done.
    for (config, seed) in [
        (Config::a_partition_outlasts_the_timeout(), 1422),
        (Config::an_endpoint_behind_packets_dies(), 2531),
        (Config::an_endpoint_behind_packets_comes_back(), 859),
        // An endpoint connects in the place of one that died, and that had never sent anything.
        (Config::an_endpoint_with_an_adapter_comes_back(), 186),
    ] {
        assert_eq!(run(&config, seed), Ok(()), "seed {seed}");
    }
}

/// Returns whether the checkers notice a link that misbehaves, within some seeds.
fn is_noticed(sabotage: Sabotage) -> bool {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let configs = [
        Config::two_endpoints_pull_from_each_other(),
        Config::two_endpoints_over_streams(),
    ];
    let noticed = configs.iter().all(|config| {
        let broken = Config {
            sabotage: Some(sabotage),
            ..config.clone()
        };
        (1..=20).any(|seed| run(&broken, seed).is_err())
    });
    std::panic::set_hook(quiet);
    noticed
}

#[test]
fn checkers_notice_a_link_that_reorders() {
    assert!(is_noticed(Sabotage::Reorder));
}

#[test]
fn checkers_notice_a_link_that_duplicates() {
    assert!(is_noticed(Sabotage::Duplicate));
}

#[test]
fn checkers_notice_a_link_that_loses() {
    assert!(is_noticed(Sabotage::Lose));
}

#[test]
fn checkers_notice_a_link_that_corrupts() {
    assert!(is_noticed(Sabotage::Corrupt));
}

/// Returns whether the checkers notice, within some seeds, that a link of this world misbehaves.
fn is_noticed_in(config: Config, sabotage: Sabotage) -> bool {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let broken = Config {
        sabotage: Some(sabotage),
        ..config
    };
    let noticed = (1..=20).any(|seed| run(&broken, seed).is_err());
    std::panic::set_hook(quiet);
    noticed
}

#[test]
fn checkers_notice_messages_that_overtake_on_a_wire_without_order() {
    let config = Config::a_wire_without_order();
    assert!(is_noticed_in(config, Sabotage::Overtake));
}

#[test]
fn checkers_notice_accesses_that_end_without_being_carried_out() {
    let config = Config::peers_reach_memory_by_themselves();
    assert!(is_noticed_in(config, Sabotage::SkipAccesses));
}

/// Returns how many packets were overtaken, and how many parts of accesses adapters carried out, in each of some seeds.
fn overtaken_and_carried_out(config: &Config) -> Vec<[u64; 2]> {
    let of = |seed| {
        let mut world = World::new(config, seed);
        assert_eq!(world.run(), Ok(()), "seed {seed}");
        [Count::Overtaken, Count::Access].map(|what| world.count(what))
    };
    (1..=10).map(of).collect()
}

/// An adapter whose packets keep their order in secret would prove nothing of what the engine does without order.
#[test]
fn adapters_without_order_deliver_without_order() {
    let many = |counts: &[u64; 2]| counts[0] > 20;
    for config in [
        Config::adapters_without_order(),
        Config::adapters_carry_out_accesses_in_any_order(),
    ] {
        let counts = overtaken_and_carried_out(&config);
        assert!(counts.iter().all(many), "{counts:?}");
    }
    for config in [
        Config::adapters_with_order(),
        Config::adapters_carry_out_accesses_in_order(),
    ] {
        let counts = overtaken_and_carried_out(&config);
        assert!(counts.iter().all(|counts| counts[0] == 0), "{counts:?}");
    }
}

/// Accesses that went the way of messages would end well, too.
#[test]
fn adapters_carry_out_accesses_by_themselves_where_that_is_planned() {
    for config in [
        Config::adapters_carry_out_accesses_in_order(),
        Config::adapters_carry_out_accesses_in_any_order(),
    ] {
        let counts = overtaken_and_carried_out(&config);
        assert!(counts.iter().all(|counts| counts[1] > 20), "{counts:?}");
    }
    for config in [
        Config::adapters_with_order(),
        Config::adapters_without_order(),
    ] {
        let counts = overtaken_and_carried_out(&config);
        assert!(counts.iter().all(|counts| counts[1] == 0), "{counts:?}");
    }
}

/// Returns whether the checkers notice reliable links whose engine is broken, within some seeds.
fn is_crook_noticed(crook: Crook) -> bool {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let usual = Config::packets_are_doubled_and_overtaken();
    let packets = usual.packets.map(|packets| Packets {
        crook: Some(crook),
        drop: 0.02,
        ..packets
    });
    let broken = Config { packets, ..usual };
    let noticed = (1..=5).any(|seed| run(&broken, seed).is_err());
    std::panic::set_hook(quiet);
    noticed
}

#[test]
fn checkers_notice_an_engine_that_acknowledges_too_much() {
    assert!(is_crook_noticed(Crook::AcknowledgesTooMuch));
}

#[test]
fn checkers_notice_an_engine_that_delivers_as_it_comes() {
    assert!(is_crook_noticed(Crook::DeliversAsItComes));
}
