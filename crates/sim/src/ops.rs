//! What programs ask that know that their network is simulated: `fi_open_ops(endpoint, "oxi_sim_ops", ...)`, docs/sim.md.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use oxifabric_provider::simulation::{NO_NODE, SIM_OPS, SimOps};
use oxifabric_types::Instant;

use crate::network::{BEGIN, Count};
use crate::params;
use crate::world::World;

static OPS: SimOps = SimOps {
    size: size_of::<SimOps>(),
    now,
    turn,
    count,
};

/// What can be asked for, by its number.
const COUNTS: [Count; 10] = [
    Count::Sent,
    Count::Repeated,
    Count::Delivered,
    Count::Lost,
    Count::Doubled,
    Count::Late,
    Count::Overflowed,
    Count::Cut,
    Count::Overtaken,
    Count::Access,
];

/// Returns the table of this name.
pub(crate) fn named(name: &CStr) -> Option<NonNull<c_void>> {
    (name == SIM_OPS).then(|| NonNull::from(&OPS).cast())
}

fn with<R>(call: impl FnOnce(&World) -> R) -> Option<R> {
    params::world().ok().map(|world| call(world))
}

extern "C" fn now() -> u64 {
    let since = with(|world| world.now().since(BEGIN));
    since.map_or(0, |since| since.as_nanos() as u64)
}

extern "C" fn turn(until: u64) -> u64 {
    let until = Instant::from_nanos(until.saturating_add(BEGIN.as_nanos()));
    with(|world| world.turn(until))
        .flatten()
        .map_or(NO_NODE, u64::from)
}

extern "C" fn count(what: u32) -> u64 {
    let what = COUNTS.get(what as usize).copied();
    what.and_then(|what| with(|world| world.count(what)))
        .unwrap_or(0)
}
