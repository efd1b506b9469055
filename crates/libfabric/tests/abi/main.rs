//! libfabric.so.1 as the dynamic loader and C programs see it.
//!
//! The library is the one in `lib/` of the folder that `OXI_DIST` names, or else `cargo xtask dist` builds one.

mod calls;
mod import;
mod library;
mod programs;
mod releases;
mod symbols;
