//! The provider `kofi_verbs`: connected endpoints of a kernel over RDMA devices, by the kernel's ib_core and rdma_cm.
//!
//! An endpoint is a reliable queue pair of the device, without an engine: a message is one SEND, as it is for the C library's provider verbs.
//!
//! - [`Verbs`]: what it offers, a domain for each device.
//! - `domain`: the protection domain, and memory that peers reach.
//! - `device`: an endpoint and its connection; `queues`: its work; `ledger` has the operations that the device has not ended, and `unsignaled` names those
//!   whose end it does not report.
//! - `stage`: how an endpoint comes to its connection and loses it; `private`: the data that goes with it.
//! - `listener`: connections that others ask for.
//! - `parts`: what the two sides of `system` have in common: that of the kernel (`kernel`) and, for tests, of user space (`hosted`).
#![no_std]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

mod device;
mod domain;
#[cfg(not(target_os = "none"))]
mod hosted;
#[cfg(target_os = "none")]
mod kernel;
mod ledger;
mod listener;
mod offer;
mod parts;
mod private;
mod queues;
mod stage;
#[cfg(test)]
mod tests;
mod unsignaled;

#[cfg(not(target_os = "none"))]
use hosted as system;
#[cfg(target_os = "none")]
use kernel as system;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use oxifabric_kernel_objects::Provider;
use oxifabric_kernel_sync::Work;
use oxifabric_types::{Address, Errno, Info};

pub use crate::device::VerbsDevice;
pub use crate::domain::VerbsDomain;
pub use crate::listener::{VerbsArrival, VerbsListener};

/// The provider.
#[derive(Debug)]
pub struct Verbs;

impl Provider for Verbs {
    const NAME: &'static str = "kofi_verbs";
    const CM_DATA: usize = private::LONGEST;
    type Domain = VerbsDomain;
    type Device = VerbsDevice;
    type Listener = VerbsListener;

    fn offers() -> Vec<Info> {
        offer::all(&system::devices())
    }

    fn is_at(offer: &Info) -> bool {
        offer::is_at(offer, &system::devices())
    }

    fn resolve(node: Option<&str>, service: i32) -> Result<Address, Errno> {
        let port = u16::try_from(service).map_err(|_| Errno::INVAL)?;
        let host = match node {
            Some(node) => node.parse().map_err(|_| Errno::INVAL)?,
            None => {
                let devices = system::devices();
                Ipv4Addr::from_bits(devices.first().ok_or(Errno::NODEV)?.host)
            }
        };
        Ok(address(SocketAddrV4::new(host, port)))
    }

    fn domain(info: &Info) -> Result<VerbsDomain, Errno> {
        VerbsDomain::open(&info.domain.name)
    }

    fn device(
        info: &Info,
        domain: &Arc<VerbsDomain>,
        work: &Arc<Work>,
    ) -> Result<VerbsDevice, Errno> {
        VerbsDevice::new(info, domain, work)
    }

    fn listener(info: &Info, work: &Arc<Work>) -> Result<VerbsListener, Errno> {
        VerbsListener::new(info, work)
    }
}

/// Queues a task of an endpoint or a listener, which its connection names.
///
/// # Safety
/// The work is that of an owner which is not dropped.
pub unsafe fn wake(owner: *const c_void) {
    // SAFETY: the caller's contract.
    unsafe { (*owner.cast::<Work>()).queue() }
}

fn address(at: SocketAddrV4) -> Address {
    Address::Inet(SocketAddr::V4(at))
}

/// Reads an address that an application chose.
fn place(address: &Address) -> Result<SocketAddrV4, Errno> {
    match address {
        Address::Inet(SocketAddr::V4(at)) => Ok(*at),
        _ => Err(Errno::INVAL),
    }
}
