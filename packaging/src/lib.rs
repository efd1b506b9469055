//! `cargo xtask dist` and `cargo xtask deb`: what is laid out for programs, and the Debian packages of it.
//!
//! - [`layout`]: the folders of a prefix; `linker` makes the libraries, `symbols` takes the binaries apart.
//! - [`deb`]: Debian packages, from the files in `packaging/debian`.
//! - [`cargo`]: cargo in this repository.
#![forbid(unsafe_code)]

pub mod cargo;
pub mod deb;
pub mod layout;
mod linker;
mod symbols;
