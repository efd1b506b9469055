//! The provider `kofi_loop`: endpoints of one kernel that talk in memory.
//!
//! - [`Loop`]: what it offers.
//! - `ports`: the names under which endpoints are reached.
//! - `device`: the links of an endpoint, one to each peer.
//! - `listener`: requests for connections.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod device;
mod listener;
mod offer;
mod ports;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use oxifabric_kernel_objects::Provider;
use oxifabric_kernel_sync::Work;
use oxifabric_types::{Address, Errno, Info};

use crate::device::LoopDevice;
use crate::listener::LoopListener;

/// Prefix of the addresses.
pub const PREFIX: &str = "kofi_loop://";

/// The provider.
#[derive(Debug)]
pub struct Loop;

/// Prepares the provider and its objects; returns false when there is not enough memory.
pub fn init() -> bool {
    oxifabric_kernel_objects::init() && ports::init()
}

/// Undoes [`init`].
///
/// # Safety
/// No object of the provider is open any more.
pub unsafe fn exit() {
    // SAFETY: the caller's contract.
    unsafe {
        ports::exit();
        oxifabric_kernel_objects::exit();
    }
}

impl Provider for Loop {
    const NAME: &'static str = "kofi_loop";
    type Domain = ();
    type Device = LoopDevice;
    type Listener = LoopListener;

    fn offers() -> Vec<Info> {
        offer::all()
    }

    fn resolve(node: Option<&str>, service: i32) -> Result<Address, Errno> {
        let name = match (node, service) {
            (Some(node), _) if node.starts_with(PREFIX) => node.into(),
            (Some(node), 0) => format!("{PREFIX}{node}"),
            (Some(node), service) => format!("{PREFIX}{node}:{service}"),
            (None, service) => format!("{PREFIX}:{service}"),
        };
        Ok(Address::Name(name.into()))
    }

    fn domain(_info: &Info) -> Result<(), Errno> {
        Ok(())
    }

    fn device(info: &Info, _: &Arc<()>, work: &Arc<Work>) -> Result<LoopDevice, Errno> {
        LoopDevice::new(info, work)
    }

    fn listener(info: &Info, work: &Arc<Work>) -> Result<LoopListener, Errno> {
        LoopListener::new(info, work)
    }
}
