//! Objects of the fabric interface and the tables that C programs call.
//!
//! - [`device`]: what a provider implements under a reliable datagram endpoint.
//! - [`info`]: `struct fi_info` and its owned form.
//! - [`log`], [`params`]: what the environment asks of the library.
//! - [`provider`]: a provider without its type, as the registry keeps it.
//! - [`registry`]: fi_getinfo, with a reason for every refusal.

mod absent;
mod av;
mod clock;
mod cntr;
mod cq;
pub mod device;
mod domain;
mod endpoint;
mod eq;
mod fabric;
mod handle;
pub mod info;
pub mod log;
mod members;
mod mr;
pub mod params;
pub mod provider;
pub mod registry;
mod sockaddr;
#[cfg(test)]
mod tests;
mod text;
mod wait;
