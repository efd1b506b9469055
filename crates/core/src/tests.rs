//! The objects, driven through their tables as C programs drive them.

mod access;
mod adapter;
mod atomics;
mod auto;
mod collective;
mod descriptors;
mod hardware;
mod late;
mod lifecycle;
#[cfg(target_arch = "x86_64")]
mod long_double;
mod memory;
mod mock;
mod nic;
mod profile;
mod regions;
mod rounds;
mod scalable;
mod sets;
mod shared;
mod shared_vector;
mod sources;
mod transfer;
mod trigger;
mod vector;
mod waiting;
mod world;
