//! The objects, driven through their tables as C programs drive them.

mod access;
mod auto;
mod lifecycle;
mod memory;
mod mock;
mod scalable;
mod sets;
mod transfer;
mod trigger;
mod vector;
mod waiting;
mod world;
