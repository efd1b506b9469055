//! The provider `kofi_tcp`: endpoints of a kernel over TCP, whose bytes are those of user space's tcp (docs/protocol/tcp.md).
//!
//! - [`Tcp`]: what it offers.
//! - `device`: an endpoint with its connections; `link` moves their frames, `connection` is what differs for connected endpoints.
//! - `peers`: the peers of an endpoint; `conn`: the connection with one.
//! - `acceptor`, `listener`: connections that others ask for.
//! - `socket`: sockets and timers, those of the kernel (`kernel`) or, for tests, of user space (`hosted`). What is said over them is in [`oxifabric_tcp_stream`].
#![no_std]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

mod acceptor;
mod conn;
mod connection;
mod device;
#[cfg(not(target_os = "none"))]
mod hosted;
#[cfg(target_os = "none")]
mod kernel;
mod link;
mod listener;
mod offer;
mod peers;
mod socket;

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

pub use crate::device::TcpDevice;
pub use crate::listener::{TcpArrival, TcpListener};

/// The provider.
#[derive(Debug)]
pub struct Tcp;

impl Provider for Tcp {
    const NAME: &'static str = "kofi_tcp";
    type Domain = ();
    type Device = TcpDevice;
    type Listener = TcpListener;

    fn offers() -> Vec<Info> {
        offer::all(host())
    }

    fn resolve(node: Option<&str>, service: i32) -> Result<Address, Errno> {
        let port = u16::try_from(service).map_err(|_| Errno::INVAL)?;
        let host = match node {
            Some(node) => node.parse().map_err(|_| Errno::INVAL)?,
            None => host(),
        };
        Ok(address(SocketAddrV4::new(host, port)))
    }

    fn domain(_info: &Info) -> Result<(), Errno> {
        Ok(())
    }

    fn device(info: &Info, _: &Arc<()>, work: &Arc<Work>) -> Result<TcpDevice, Errno> {
        TcpDevice::new(info, work)
    }

    fn listener(info: &Info, work: &Arc<Work>) -> Result<TcpListener, Errno> {
        TcpListener::new(info, work)
    }
}

/// Queues a task of an endpoint or a listener, which its socket or timer names.
///
/// # Safety
/// The work is that of an owner which is not dropped.
pub unsafe fn wake(owner: *const c_void) {
    // SAFETY: the caller's contract.
    unsafe { (*owner.cast::<Work>()).queue() }
}

/// Returns an address of this host.
fn host() -> Ipv4Addr {
    system::host().unwrap_or(Ipv4Addr::LOCALHOST)
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

/// Returns the address that an endpoint is opened at.
fn source(info: &Info) -> Result<SocketAddrV4, Errno> {
    match (&info.src, &info.dest) {
        (Some(source), _) => place(source),
        (None, Some(dest)) if place(dest)?.ip().is_loopback() => {
            Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))
        }
        (None, _) => Ok(SocketAddrV4::new(host(), 0)),
    }
}
