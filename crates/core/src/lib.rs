//! Objects of the fabric interface and the tables that C programs call.
//!
//! - [`device`]: what a provider implements under an endpoint; [`connection`]: what it implements for connected ones;
//!   [`packets`]: what it implements instead where packets may be lost.
//! - [`inet`]: IP addresses, for the providers that have some; [`clock`], [`timer`], [`secret`] numbers, [`syscall`]s, for all.
//! - [`info`]: `struct fi_info` and its owned form.
//! - [`log`], [`params`]: what the environment asks of the library.
//! - [`simulation`]: what a simulated network tells programs that know of it.
//! - [`provider`]: a provider without its type, as the registry keeps it.
//! - [`registry`]: fi_getinfo, with a reason for every refusal.
//! - Objects, one module each, with the table that C programs call: `fabric` opens `domain`, `eq`, `wait_set` and `passive`; a
//!   domain opens `cq`, `cntr`, `av`, `mr`, `poll_set` and `endpoint`. Only the endpoints are generic over the provider.
//! - `progress`, what a domain does by itself: `work` that waits for counters, and automatic progress.
//! - `atomic`: which atomics there are, and what keeps them apart.
//! - `collective` groups, which endpoints join by an `av_set`; `multicast` groups.
//! - `stats`: what `oxi top` reads.
//! - Under them: `handle` (casts and counted references), `endpoint_list` (which endpoints a queue drives), `wait`
//!   (what a thread sleeps on), `sockaddr`, `text`, and `absent` for the calls that an object does not have.

mod absent;
mod atomic;
mod av;
mod av_set;
mod budget;
pub mod clock;
mod cntr;
mod collective;
pub mod connection;
mod cq;
pub mod descriptors;
pub mod device;
mod domain;
mod endpoint;
mod endpoint_list;
mod eq;
mod fabric;
pub mod faults;
mod handle;
pub mod inet;
pub mod info;
pub mod log;
mod mr;
mod multicast;
pub mod packets;
pub mod params;
mod passive;
mod poll_set;
mod progress;
pub mod provider;
pub mod quiet_thread;
pub mod registry;
pub mod secret;
pub mod simulation;
mod sockaddr;
mod stats;
pub mod syscall;
#[cfg(test)]
mod tests;
mod text;
pub mod timer;
mod wait;
mod wait_set;
mod work;

/// How many contexts of each kind a scalable endpoint may have.
pub const MAX_CONTEXTS: usize = 16;
