//! Fault injection: the faults that the environment asks for (FI_OXI_FAULTS). Set-up path.

use oxifabric_engine::faults::{FaultKinds, FaultPlan};
use oxifabric_types::Errno;

use crate::device::Device;
use crate::log;
use crate::operations::Operations;
use crate::params::{Parameter, ParameterKind};

/// The parameters of all endpoints.
pub static PARAMETERS: [Parameter; 1] = [Parameter {
    name: "oxi_faults",
    kind: ParameterKind::Text,
    help: "For tests: endpoints that send packets (udp, sim) lose, double and delay this share of them, such as drop=0.01,dup=0.001,reorder=0.02,seed=7; \
           everywhere, links refuse this share of the posts for the moment and, where there are connections, lose the one with the peer, such as refuse=0.1,break=0.001,seed=7; \
           panic=0.001 ends the process at this share of the posts as a defect of the library would",
    default: "",
}];

/// Returns the faults that the environment asks for.
///
/// # Errors
/// [`Errno::INVAL`] when it asks for something else: a test that relies on fault injection must not run without it.
pub fn planned() -> Result<Option<FaultPlan>, Errno> {
    let Some(text) = PARAMETERS[0].text("") else {
        return Ok(None);
    };
    let plan = text.parse().map_err(|error| {
        log::warn!("core", Core, "{}: {error}", PARAMETERS[0].variable(""));
        Errno::INVAL
    });
    plan.map(Some)
}

/// Returns whether posts are refused, connections broken, or panics planned.
pub fn affects_posts() -> bool {
    let plan = planned().ok().flatten();
    plan.is_some_and(|plan| plan.kinds().intersects(FaultKinds::POSTS))
}

/// Returns the faults that can be injected over a kind of device. They are injected at posts of an engine, so that there are none without one.
pub const fn possible<D: Device>() -> FaultKinds {
    match D::Operations::MATCHES {
        true => D::FAULTS,
        false => FaultKinds::empty(),
    }
}

/// Returns the faults that the environment asks for, checked for devices of one kind.
///
/// # Errors
/// As [`planned`], and [`Errno::INVAL`] where a fault is planned that cannot happen to such devices.
pub fn planned_for<D: Device>(provider: &str) -> Result<Option<FaultPlan>, Errno> {
    let plan = planned()?;
    let asked = plan.map_or(FaultKinds::empty(), |plan| plan.kinds());
    let possible = possible::<D>();
    let impossible = asked - possible;
    if impossible.is_empty() {
        return Ok(plan);
    }
    let variable = PARAMETERS[0].variable("");
    log::warn!(
        "core",
        Core,
        "{variable}: {impossible} cannot happen to this kind of endpoint of {provider}, so none opens; what can: {possible}"
    );
    Err(Errno::INVAL)
}
