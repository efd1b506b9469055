//! The programs of oxifabric, as functions: each program in `src/bin` only calls its own, and `oxi`, by the name of a link to it, any ([`by_name`]).
//!
//! - [`fi_info`], [`fi_strerror`], [`fi_pingpong`] take the options of the programs of libfabric and print in their formats, so
//!   that scripts work with either;
//! - [`fi_mon_sampler`] reads what programs count under FI_HOOK=monitor, as the program of libfabric does;
//! - [`oxi`] is the project's own: it plays ping-pong over every provider of this machine and shows what it measured.
//!
//! `output` has what they print alike; `exit_codes` the meaning of how they end. All are written on the safe interface alone. The variable `OXIFABRIC_LIBRARY` makes them use another libfabric.so.1.
#![forbid(unsafe_code)]

pub mod by_name;
mod exit_codes;
pub mod fi_info;
pub mod fi_mon_sampler;
pub mod fi_pingpong;
pub mod fi_strerror;
mod output;
pub mod oxi;
