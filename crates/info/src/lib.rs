//! `struct fi_info` and the owned [`Info`](oxifabric_types::Info): conversions, duplicates, release.
//!
//! Every piece of a C list comes from the allocator of libc on its own, strings included, because C programs free and
//! replace pieces themselves (`free(info->src_addr)` before they assign their own). Path class: setup.

#![no_std]

extern crate alloc;

mod address;
mod compat;
mod from_c;
mod memory;
mod nic;
mod system;
#[cfg(test)]
mod tests;
mod to_c;

pub use address::{address_from_bytes, address_from_c, address_to_c};
pub use compat::{Abi, widened};
pub use from_c::{boxed_from_c, from_application, from_c};
pub use memory::{alloc, dup, free};
pub use to_c::{domain_attr, ep_attr, rx_attr, to_c, to_c_list, tx_attr};
