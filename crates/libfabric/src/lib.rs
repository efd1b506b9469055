//! libfabric.so.1: exported symbols, their versions, and the registry of providers.
//!
//! - [`registry`]: the providers of this library, in the order in which C programs see their endpoints;
//! - [`builtin`]: the functions of the library for Rust callers, as [`EntryPoints`];
//! - [`refusals`]: why endpoints are not returned, of the providers here and of external ones;
//! - `calls`, `params`, `logging`, `tostr`: the functions, in the newest layout of their structures;
//! - `external`: providers in files of their own; `listing`: one list of all endpoints; `order`: which of them are first;
//! - `hook`: what FI_HOOK names sees every call;
//! - `defect`: the report that is printed when the library panics;
//! - `plugin`: our providers as an external one of another libfabric. It exists only with the feature `plugin`.
//! - `exports`: the C symbols with their versions. They exist only with the feature `export`, so that a Rust program that
//!   links this crate does not define the symbols of another libfabric that it may load too.

mod calls;
#[cfg(any(feature = "export", feature = "plugin", test))]
#[cfg_attr(
    not(any(feature = "export", feature = "plugin")),
    expect(dead_code, reason = "only the libraries for C have the hook")
)]
mod defect;
mod entry_points;
#[cfg(feature = "export")]
mod exports;
mod external;
mod hook;
mod listing;
#[cfg(feature = "export")]
mod logging;
mod order;
mod params;
#[cfg(any(feature = "plugin", test))]
mod plugin;
mod providers;
#[cfg_attr(
    not(any(feature = "export", test)),
    expect(dead_code, reason = "only C programs call fi_tostr")
)]
mod tostr;

pub use entry_points::{EntryPoints, builtin};
pub use listing::refusals;
pub use providers::registry;
