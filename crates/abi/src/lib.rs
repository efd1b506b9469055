//! The C ABI of libfabric 2.7: repr(C) mirror of `rdma/*.h`.
//!
//! - One module per C header: structures, operation tables, constants, under their C names.
//! - [`calls`]: the inline functions of the headers, which go through the operation tables of an object.
//! - [`compat`]: structures as applications that were built against older ABI versions lay them out.
//!
//! Everything but `compat` is re-exported here, so `oxifabric_abi::fi_info` is the C name with a crate in front. The
//! meaning of a field is in the man page that its structure names. C enumerations are plain `u32`, because the other
//! side may store any value in them; C `NULL` functions are `None`.
#![no_std]
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    reason = "names are those of C, and the man pages that each structure names document its fields"
)]
#![allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "signatures are those of C"
)]

#[macro_use]
mod macros;

mod atomic;
pub mod calls;
mod cm;
mod collective;
pub mod compat;
mod domain;
mod endpoint;
mod eq;
mod errno;
mod ext;
mod fabric;
mod log;
mod peer;
mod profile;
mod prov;
mod rma;
mod system;
mod tagged;
mod trigger;
mod xpu;

pub use atomic::*;
pub use calls::*;
pub use cm::*;
pub use collective::*;
pub use domain::*;
pub use endpoint::*;
pub use eq::*;
pub use errno::*;
pub use ext::*;
pub use fabric::*;
pub use log::*;
pub use peer::*;
pub use profile::*;
pub use prov::*;
pub use rma::*;
pub use system::iovec;
pub use tagged::*;
pub use trigger::*;
pub use xpu::*;
