//! Codecs of what travels between endpoints, one file a header.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod efa;
pub mod reliable;
pub mod shm;
pub mod tcp;
