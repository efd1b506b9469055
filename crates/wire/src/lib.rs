//! Codecs of what travels between endpoints, one file a header.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod tcp;
