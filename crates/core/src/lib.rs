//! Objects of the fabric interface and the tables that C programs call.
//!
//! - [`params`]: the parameters of the library itself, and of providers outside it.
//! - [`provider_entry`]: a provider ([`oxifabric_provider`]) without its type, as the registry keeps it.
//! - [`registry`]: fi_getinfo, with a reason for every refusal.
//! - Objects, one module each, with the table that C programs call: `fabric` opens `domain`, `eq`, `wait_set` and `passive`; a
//!   domain opens `cq`, `cntr`, `av`, `mr`, `poll_set` and `endpoint`. Only the endpoints are generic over the provider.
//! - `progress`, what a domain does by itself: `work` that waits for counters, and automatic progress.
//! - `atomic`: which atomics there are, and what keeps them apart.
//! - `collective` groups, which endpoints join by an `av_set`; `multicast` groups.
//! - `stats`: what `oxi top` reads.
//! - Under them: `handle` (casts and counted references), `drive` (what a queue asks of an endpoint), `endpoint_list` and
//!   `queue_endpoints` (which endpoints a domain and a queue drive), `wait` (what a thread sleeps on), `sockaddr`, `text`, `lock`,
//!   `absent` for the calls that an object does not have, and `misuse` for what the log says of calls that an application makes wrongly.

mod absent;
mod atomic;
mod av;
mod av_set;
mod budget;
mod cntr;
mod collective;
mod cq;
mod domain;
mod drive;
mod endpoint;
mod endpoint_list;
mod eq;
mod fabric;
mod handle;
mod lock;
mod misuse;
mod mr;
mod multicast;
mod named_ops;
pub mod params;
mod passive;
mod patience;
mod poll_set;
mod progress;
pub mod provider_entry;
mod queue_endpoints;
pub mod registry;
mod sockaddr;
mod stats;
#[cfg(test)]
mod tests;
mod text;
mod wait;
mod wait_set;
mod work;

pub use oxifabric_info as info;
