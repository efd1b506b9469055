//! What a provider implements, and what it uses of the library. No C objects, and no tables that C programs call.
//!
//! - [`device`]: what a provider implements under an endpoint; [`connection`]: what it implements for connected ones;
//!   [`packets`]: what it implements instead where packets may be lost; [`peer_table`]: the numbers of its peers;
//!   [`domain`]: what endpoints of a domain share; [`handles`]: what the handles of a C program stand for.
//! - [`inet`]: IP addresses, for the providers that have some; [`clock`], [`timer`], [`secret`] numbers, [`syscall`]s,
//!   [`descriptors`] and [`quiet_thread`]s, for all.
//! - [`log`], [`params`], [`environment`]: what the environment asks of the library; [`faults`]: which faults are injected.
//! - [`simulation`]: what a simulated network tells programs that know of it.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod clock;
pub mod connection;
#[allow(unsafe_code)]
pub mod descriptors;
pub mod device;
pub mod domain;
#[allow(unsafe_code)]
pub mod environment;
pub mod faults;
pub mod handles;
#[allow(unsafe_code)]
pub mod inet;
pub mod log;
pub mod operations;
pub mod packets;
pub mod params;
pub mod peer_directory;
pub mod peer_table;
pub mod queues;
#[allow(unsafe_code)]
pub mod quiet_thread;
#[allow(unsafe_code)]
pub mod secret;
pub mod simulation;
#[allow(unsafe_code)]
pub mod syscall;
#[allow(unsafe_code)]
pub mod timer;

use oxifabric_abi::FI_VERSION;

/// How many contexts of each kind a scalable endpoint may have.
pub const MAX_CONTEXTS: usize = 16;

/// The version that our providers report (`fabric_attr.prov_version`): that of the interface they implement.
pub const PROVIDER_VERSION: u32 = FI_VERSION(206, 0);
