//! The preloaded half of softnic: a device with scalable reliable datagrams (SRD) below unmodified libibverbs and libefa.
//!
//! `exports` owns the few C functions by which libibverbs reaches `/dev/infiniband/uverbsN`; `uverbs` decodes what is written there, `commands`
//! carries it out on the `objects` of the `adapter`, whose thread sends (`requester`) and receives (`responder`) over the socket to the switch of
//! `softnic run`. The crate imports nothing of oxifabric: it must not agree with the provider by construction.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(dead_code, reason = "only the C functions reach it"))]

mod adapter;
mod commands;
mod event;
// In the tests' own processes, open and the like stay the C library's.
#[cfg(not(test))]
mod exports;
mod files;
mod io;
#[allow(
    unsafe_code,
    reason = "mappings, and memory that the application registered"
)]
mod memory;
mod objects;
mod process;
mod requester;
mod responder;
mod slab;
#[allow(
    dead_code,
    unsafe_code,
    reason = "system calls; the switch uses the other half"
)]
mod sys;
mod uverbs;
#[allow(dead_code, reason = "the switch uses the other half")]
mod wire;
