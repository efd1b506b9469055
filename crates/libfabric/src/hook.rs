//! Hooks: code that sees every call of an application on its objects, under any provider. Source: fi_hook(7).
//!
//! FI_HOOK names hooks with semicolons between them. With any of them, fi_fabric(3) returns a wrapper of the fabric, and
//! everything that is opened through a wrapper is wrapped in turn; without, nothing is wrapped and nothing costs.
//!
//! - [`Hook`], [`Call`]: what a hook implements and what it gets;
//! - `wrapper`: a handle that an application holds in place of another, and the map between the two;
//! - `shims`: the tables of wrappers, generated from the tables of the ABI, so that no operation is left out;
//! - `pass`: how arguments go down: handles in them are replaced, and objects that come back are wrapped;
//! - `special`: the operations whose arguments hide handles;
//! - `counts`, `noop`, `trace`, `perf`, `profile`, `monitor`, `debug`: the hooks.
//!
//! One wrapper serves all hooks of a stack, the first named is the innermost, as when each had its own.

mod call;
mod counts;
mod debug;
mod monitor;
mod pass;
mod perf;
mod profile;
mod shims;
mod special;
mod trace;
mod wrapper;

use std::sync::{Arc, OnceLock};

use oxifabric_abi::fid_fabric;
use oxifabric_provider::log;
use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_types::words::HOOK_PREFIX;

use call::{Call, Completion, Hook, Hooks};
pub(crate) use monitor::PARAMETERS as MONITOR_PARAMETERS;

/// Parameters of the library that concern hooks.
pub(crate) static PARAMETERS: [Parameter; 2] = [
    Parameter {
        name: "hook",
        kind: ParameterKind::Text,
        help: "Watch all calls by these hooks, with semicolons between them: ofi_hook_perf, ofi_hook_trace, \
               ofi_hook_profile, ofi_hook_monitor, ofi_hook_debug, ofi_hook_noop; ofi_hook_ may be left out",
        default: "",
    },
    Parameter {
        name: "perf_cntr",
        kind: ParameterKind::Text,
        help: "What the hook perf counts in each call: cpu_cycles or cpu_instr",
        default: "cpu_instr",
    },
];

/// A function that makes a hook for a fabric of the provider of this name.
type Make = fn(provider: &str) -> Option<Box<dyn Hook>>;

/// Hooks by name.
const HOOKS: [(&str, Make); 6] = [
    ("perf", perf::Perf::start),
    ("trace", trace::Trace::start),
    ("profile", profile::Profile::start),
    ("monitor", monitor::Monitor::start),
    ("debug", debug::Debug::start),
    ("noop", |_| Some(Box::new(Noop))),
];

/// A hook that does nothing: what the wrapping itself costs.
#[derive(Debug)]
struct Noop;

impl Hook for Noop {}

/// Wraps a fabric of `provider` that was just opened, if FI_HOOK asks for it.
///
/// # Safety
/// `place` holds the handle.
pub(crate) unsafe fn install(place: *mut *mut fid_fabric, provider: &str) {
    let wanted = wanted();
    if wanted.is_empty() {
        return;
    }
    let hooks: Vec<Box<dyn Hook>> = wanted.iter().filter_map(|make| make(provider)).collect();
    log::info!(provider, Fabric, "{} hooks watch this fabric", hooks.len());
    let hooks = Arc::new(Hooks::new(hooks));
    // SAFETY: the caller vouches for the handle, which only the wrapper uses from here on.
    unsafe { *place = wrapper::wrap(*place, &hooks) };
}

/// Returns what FI_HOOK names, read once.
fn wanted() -> &'static [Make] {
    static WANTED: OnceLock<Vec<Make>> = OnceLock::new();
    WANTED.get_or_init(|| parse(&PARAMETERS[0].words("").unwrap_or_default()))
}

fn parse(text: &str) -> Vec<Make> {
    let names = text
        .split(';')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let make = |name: &str| {
        let short = name.strip_prefix(HOOK_PREFIX).unwrap_or(name);
        let found = HOOKS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(short));
        found.map(|&(_, make)| make)
    };
    names.filter_map(make).take(Hooks::MOST).collect()
}

#[cfg(test)]
mod tests {
    use oxifabric_types::words;

    use super::*;

    #[test]
    fn the_words_of_the_variable_are_the_hooks() {
        assert_eq!(HOOKS.map(|(name, _)| name), words::HOOKS);
    }

    #[test]
    fn hooks_are_named_with_or_without_their_prefix() {
        assert!(parse("").is_empty());
        assert_eq!(parse("perf; ofi_hook_TRACE;nothing;noop").len(), 3);
    }
}
