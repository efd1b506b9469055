//! The parameters of the library itself, and those that providers outside it define ([`external`]). Source: fi_getparams in
//! fabric(7).

pub mod external;
mod inert;

use oxifabric_provider::faults;
use oxifabric_provider::log;
use oxifabric_provider::params::{Parameter, sysconfig};

use crate::endpoint::dispatch::guard;
use crate::{budget, registry, stats};

/// Lists the parameters of the library itself.
pub fn of_library() -> impl Iterator<Item = &'static Parameter> {
    let general = registry::PARAMETERS.iter().chain(&log::PARAMETERS);
    general
        .chain(&faults::PARAMETERS)
        .chain(&guard::PARAMETERS)
        .chain(&stats::PARAMETERS)
        .chain(&budget::PARAMETERS)
        .chain(&sysconfig::PARAMETERS)
        .chain(&inert::PARAMETERS)
}
