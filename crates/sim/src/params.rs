//! The provider's parameters: one table, read once, into the plan of the network of this process.

use std::fs;
use std::sync::{Arc, OnceLock};

use oxifabric_provider::log;
use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_types::Errno;

use crate::NAME;
use crate::plan::{PeerTimeout, Plan, Time};
use crate::world::World;

const PLAN: Parameter = text(
    "plan",
    "A file in TOML that says what is simulated, docs/sim.md",
    "",
);
const TIME: Parameter = text("time", "Clock of the network: virtual or real", "virtual");
const SEED: Parameter = text("seed", "What decides all that happens at random", "0");
const LATENCY_US: Parameter = text(
    "latency_us",
    "Propagation delay of a link in microseconds; there are two between nodes",
    "1",
);
const GBPS: Parameter = text("gbps", "Gigabits that pass a link in a second", "100");
const QUEUE: Parameter = text(
    "queue_bytes",
    "Most bytes that wait for a link; what comes then is lost",
    "1048576",
);
const MTU: Parameter = text("mtu", "The longest packet in bytes", "4096");
const DROP: Parameter = text(
    "drop",
    "The share of packets that is lost, between 0 and 1",
    "0",
);
const DUP: Parameter = text("dup", "The share of packets that arrives twice", "0");
const REORDER: Parameter = text("reorder", "The share of packets that others overtake", "0");
const PEER_TIMEOUT_MS: Parameter = text(
    "peer_timeout_ms",
    "How long, in the network's time, a peer may leave everything unanswered",
    "10000",
);

/// The former name of the last one.
const PATIENCE_MS: Parameter = Parameter {
    name: "patience_ms",
    ..PEER_TIMEOUT_MS
};

/// The table that `fi_info -e` prints. A variable overrides the plan.
pub(crate) static TABLE: [Parameter; 11] = [
    PLAN,
    TIME,
    SEED,
    LATENCY_US,
    GBPS,
    QUEUE,
    MTU,
    DROP,
    DUP,
    REORDER,
    PEER_TIMEOUT_MS,
];

const fn text(name: &'static str, help: &'static str, default: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Text,
        help,
        default,
    }
}

/// Returns the network of this process.
///
/// # Errors
/// `INVAL` when the environment asks for none that can be: a test that believes in faults must not run without them.
pub(crate) fn world() -> Result<&'static Arc<World>, Errno> {
    static WORLD: OnceLock<Option<Arc<World>>> = OnceLock::new();
    let world = WORLD.get_or_init(|| plan().ok().map(|plan| Arc::new(World::new(plan.clone()))));
    world.as_ref().ok_or(Errno::INVAL)
}

/// Returns the plan that the environment asks for, or why there can be no network of that kind.
pub(crate) fn plan() -> Result<&'static Plan, &'static str> {
    static PLAN_READ: OnceLock<Result<Plan, String>> = OnceLock::new();
    let read = || read().inspect_err(|why| log::warn!(NAME, Core, "there is no network: {why}"));
    PLAN_READ.get_or_init(read).as_ref().map_err(String::as_str)
}

fn read() -> Result<Plan, String> {
    let mut plan = match PLAN.text(NAME).filter(|file| !file.is_empty()) {
        None => Plan::default(),
        Some(file) => {
            let text = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
            Plan::parse(&text).map_err(|error| format!("{file}, {error}"))?
        }
    };
    let time = TIME.text(NAME).map(|text| text.trim().to_ascii_lowercase());
    match time.as_deref() {
        None => {}
        Some("virtual") => plan.time = Time::Virtual,
        Some("real") => plan.time = Time::Real,
        Some(other) => return Err(format!("FI_SIM_TIME is virtual or real, not {other:?}")),
    }
    let link = &mut plan.link;
    set(&SEED, &mut plan.seed)?;
    set(&LATENCY_US, &mut link.latency_us)?;
    set(&GBPS, &mut link.gbps)?;
    set(&QUEUE, &mut link.queue_bytes)?;
    set(&MTU, &mut link.mtu)?;
    set(&DROP, &mut link.drop)?;
    set(&DUP, &mut link.dup)?;
    set(&REORDER, &mut link.reorder)?;
    let PeerTimeout(peer_timeout_ms) = &mut plan.peer_timeout_ms;
    set(&PATIENCE_MS, peer_timeout_ms)?;
    set(&PEER_TIMEOUT_MS, peer_timeout_ms)?;
    plan.check().map(|()| plan)
}

/// Lets a variable change a part of the plan, if it is set.
fn set<T: std::str::FromStr>(parameter: &Parameter, part: &mut T) -> Result<(), String> {
    let Some(text) = parameter.text(NAME) else {
        return Ok(());
    };
    let none = |_| format!("{}={text} is no value of it", parameter.variable(NAME));
    *part = text.trim().parse().map_err(none)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_plan() {
        let plan = Plan::default();
        let link = plan.link;
        let is = [
            plan.seed.to_string(),
            link.latency_us.to_string(),
            link.gbps.to_string(),
            link.queue_bytes.to_string(),
            link.mtu.to_string(),
            link.drop.to_string(),
            link.dup.to_string(),
            link.reorder.to_string(),
            plan.peer_timeout_ms.0.to_string(),
        ];
        assert_eq!(
            TABLE[2..].iter().map(|row| row.default).collect::<Vec<_>>(),
            is
        );
        assert_eq!((TABLE[1].default, plan.time), ("virtual", Time::Virtual));
    }

    #[test]
    fn a_value_that_is_none_is_named() {
        let mut part = 7_u64;
        assert_eq!(set(&text("of_a_test", "", ""), &mut part), Ok(()));
        assert_eq!(part, 7);
        assert_eq!(text("seed", "", "").variable(NAME), "FI_SIM_SEED");
    }
}
