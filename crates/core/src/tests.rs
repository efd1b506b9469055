//! The objects, driven through their tables as C programs drive them.

mod access;
mod lifecycle;
mod memory;
mod mock;
mod scalable;
mod transfer;
mod vector;
mod waiting;
mod world;
