//! The sim provider: reliable endpoints of one process over a simulated network, docs/sim.md.
//!
//! The endpoints are those of every link that carries packets (`oxifabric_reliable`); what carries the packets is a
//! network that exists in this process only.
//!
//! - [`Network`]: its endpoints, the packets under way, and what happens to them; without a clock. [`plan`] describes it.
//! - [`World`]: a network that threads share, and how time passes in it.
//! - `station`: the place of one endpoint; `name` is how it is called. [`SimPort`]: its port for packets.
//! - `info`, `params`: the provider's fi_info, and its parameters of the environment. `ops`: what programs ask that know of the simulation.
#![deny(unsafe_code)]

mod info;
mod name;
mod network;
mod nic;
mod ops;
mod params;
mod pipe;
pub mod plan;
mod port;
mod random;
mod station;
#[allow(unsafe_code)]
mod sys;
mod world;

use std::ffi::CStr;
use std::ptr::NonNull;

pub use network::{Count, Network, Packet, Place, Stats};
pub use nic::{SimDevice, SimDomain, SimNic};
pub use plan::Plan;
pub use port::SimPort;
pub use world::World;

use oxifabric_provider::device::{Provider, Unresolved};
use oxifabric_provider::params::Parameter;
use oxifabric_types::{Address, Errno, Info};

/// The provider's name.
const NAME: &str = "sim";

/// The sim provider.
#[derive(Clone, Copy, Debug)]
pub enum Sim {}

impl Provider for Sim {
    const NAME: &'static str = NAME;
    const BY_NAME_ONLY: bool = true;
    type Device = SimDevice;

    fn parameters() -> &'static [Parameter] {
        &params::TABLE
    }

    fn infos() -> Vec<Info> {
        vec![info::info()]
    }

    fn obstacle() -> Option<String> {
        params::plan().err().map(str::to_owned)
    }

    fn resolve(
        node: Option<&str>,
        service: Option<&str>,
        _source: bool,
        _numeric: bool,
        addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        if addr_format != 0 && addr_format != info::ADDR_STR {
            return Err(Unresolved {
                errno: Errno::NODATA,
                why: "sim has addresses of the format FI_ADDR_STR only".into(),
            });
        }
        let name = name::of(node, service);
        match name::node(&name) {
            Some(_) => Ok(vec![Address::Name(name.into())]),
            None => Err(Unresolved {
                errno: Errno::NODATA,
                why: format!("{name:?} names no node"),
            }),
        }
    }

    fn fresh_name() -> Option<Address> {
        Some(Address::Name(name::PREFIX.into()))
    }

    fn ops(name: &CStr) -> Option<NonNull<core::ffi::c_void>> {
        ops::named(name)
    }
}
