//! The udp provider: datagram endpoints over UDP sockets.
//!
//! The wire carries nothing but messages (docs/protocol/udp.md), so that endpoints talk with those of the C library and
//! with plain sockets.
//!
//! - [`UdpPort`]: the device of one endpoint; `link` is how its datagrams move.
//! - [`Packets`]: the port of a reliable endpoint ([`Rxd`]); the crate reliable makes channels of its datagrams.
//! - `rx_queue`, `tx_queue`: datagrams received and not delivered; datagrams held back to be coalesced.
//! - `peer`: addresses and their numbers. `group`: multicast groups that the endpoint listens to.
//! - `info`, `params`: the provider's fi_info, and its parameters of the environment.
//! - `sys`: all system calls; the only unsafe code.
#![deny(unsafe_code)]

mod cutting;
mod group;
mod info;
mod link;
mod packets;
mod params;
mod peer;
mod port;
mod rx_queue;
#[allow(unsafe_code)]
mod sys;
mod tx_queue;

pub use packets::Packets;
pub use port::UdpPort;

use oxifabric_provider::device::{Provider, Unresolved};
use oxifabric_provider::inet;
use oxifabric_provider::params::Parameter;
use oxifabric_reliable::ReliableLink;
use oxifabric_types::{Address, Info};

use crate::params::Params;

/// The udp provider.
#[derive(Clone, Copy, Debug)]
pub enum Udp {}

impl Provider for Udp {
    const NAME: &'static str = "udp";
    type Device = UdpPort;

    fn parameters() -> &'static [Parameter] {
        &params::TABLE
    }

    fn infos() -> Vec<Info> {
        info::infos(Params::read())
    }

    fn resolve(
        node: Option<&str>,
        service: Option<&str>,
        source: bool,
        numeric: bool,
        addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        inet::resolve(node, service, source, numeric, addr_format)
    }

    fn source_for(dest: &Address) -> Option<Address> {
        inet::source_for(dest)
    }
}

/// Reliable datagram endpoints over UDP, under the name that applications know: the C library's RxD over its udp.
#[derive(Clone, Copy, Debug)]
pub enum Rxd {}

impl Provider for Rxd {
    const NAME: &'static str = "udp;ofi_rxd";
    const REQUIRES_AUTO_PROGRESS: bool = true;
    type Device = ReliableLink<Packets>;

    fn parameters() -> &'static [Parameter] {
        &params::RELIABLE
    }

    fn infos() -> Vec<Info> {
        info::reliable(Params::read())
    }

    fn resolve(
        node: Option<&str>,
        service: Option<&str>,
        source: bool,
        numeric: bool,
        addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        inet::resolve(node, service, source, numeric, addr_format)
    }

    fn source_for(dest: &Address) -> Option<Address> {
        inet::source_for(dest)
    }
}
