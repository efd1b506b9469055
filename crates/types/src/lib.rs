//! The vocabulary of libfabric: error numbers, capabilities, flags, addresses, endpoint descriptions.
//!
//! Every other crate imports this one and it imports none of them. It is `no_std` (+ `alloc`), so that the
//! kernel-side API can use the same words.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
pub mod conf;
mod errno;
mod flags;
mod info;
mod matching;
mod near;
mod nic;
pub mod stats;
mod time;
pub mod words;

pub use address::{Address, EfaAddress, FiAddr, PeerId};
pub use errno::{Errno, strerror, strerror_c};
pub use flags::{Caps, Flags, MrMode, Order};
pub use info::{
    AvType, DomainAttr, EpAttr, EpType, FabricAttr, Info, Progress, ResourceMgmt, RxAttr,
    Threading, TxAttr,
};
pub use matching::{
    Reason, format_name, format_of_name, match_boxed, match_info, provider_is_named, stack_has_all,
};
pub use near::nearest;
pub use nic::{LinkAttr, Nic, PciAddress};
pub use time::Instant;
