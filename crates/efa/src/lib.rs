//! The efa provider: endpoints over Amazon's Elastic Fabric Adapter, by libibverbs and libefa.
//!
//! Its endpoints are queue pairs of the device: scalable reliable datagrams (fabric `efa-direct`), which arrive once and in no order, or
//! datagrams that may be lost. A message is what the device sends, without a header of ours. Those of the fabric `efa` have an engine above the
//! reliable datagrams, and the protocol of the C library (docs/protocol/efa.md).
//!
//! - [`QueuePair`]: the device of one endpoint; `post` and `poll` are its queues, `peers` where it sends.
//! - [`EfaRdm`]: the device and link of one endpoint with an engine; all of it is in `rdm`.
//! - [`EfaDomain`]: what the endpoints of a domain share: the open device, registrations, address handles.
//! - `hardware`: the devices of this machine; `info`: what is offered on them; `params`: parameters of the environment; `options`: those of endpoints.
//! - `status`: the statuses of a device for work that failed, and their errors.
//! - `sys`: the only unsafe code.
#![deny(unsafe_code)]

mod domain;
mod hardware;
mod info;
mod options;
mod params;
mod peers;
mod poll;
mod post;
mod queue_pair;
mod rdm;
mod status;
#[allow(
    unsafe_code,
    reason = "registered memory is described by the application"
)]
mod sys;

pub use domain::EfaDomain;
pub use queue_pair::QueuePair;
pub use rdm::EfaRdm;

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use oxifabric_provider::device::{EngineProvider, Provider, Unresolved};
use oxifabric_provider::params::Parameter;
use oxifabric_types::{Address, EfaAddress, Errno, Info};

use crate::params::Params;

/// The efa provider.
#[derive(Clone, Copy, Debug)]
pub enum Efa {}

impl Provider for Efa {
    const NAME: &'static str = "efa";
    type Device = QueuePair;

    fn parameters() -> &'static [Parameter] {
        &params::TABLE
    }

    fn infos() -> Vec<Info> {
        let found = hardware::found().unwrap_or_default();
        info::infos(found, Params::read())
    }

    fn obstacle() -> Option<String> {
        match hardware::found() {
            Err(absence) => Some(absence.to_string()),
            Ok(found) if !found.iter().any(|at| Params::read().admits_device(at)) => {
                let names: Vec<&str> = found.iter().map(|at| at.nic.name.as_str()).collect();
                let names = names.join(", ");
                let admitted = found.iter().any(|at| Params::read().admits(&at.nic.name));
                Some(match admitted {
                    false => format!("FI_EFA_IFACE leaves out every device: {names}"),
                    true => format!(
                        "FI_EFA_USE_DEVICE_RDMA=1 leaves out devices that do not read memory of peers: {names}"
                    ),
                })
            }
            Ok(_) => None,
        }
    }

    fn settle(info: &mut Info, asked: Option<&Info>) {
        info::settle(info, asked);
    }

    fn fabric_ops(name: &CStr) -> Option<NonNull<c_void>> {
        sys::named_ops::of_fabric(name)
    }

    fn resolve(
        node: Option<&str>,
        service: Option<&str>,
        source: bool,
        _numeric: bool,
        _addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        if source && node.is_none() {
            // Devices number their queue pairs themselves: a service of the local side says nothing.
            return Ok(Vec::new());
        }
        resolve(node, service).map(|address| vec![Address::Efa(address)])
    }
}

impl EngineProvider for Efa {
    type WithEngine = EfaRdm;

    fn has_engine(info: &Info) -> bool {
        info::has_engine(info)
    }
}

/// Reads the address of a port, and the number of a queue pair as service.
fn resolve(node: Option<&str>, service: Option<&str>) -> Result<EfaAddress, Unresolved> {
    let refuse = |why: String| Unresolved {
        errno: Errno::NODATA,
        why,
    };
    let Some(node) = node else {
        return Err(refuse("efa has no services without a node".to_owned()));
    };
    let gid: std::net::Ipv6Addr = node
        .parse()
        .map_err(|_| refuse(format!("{node:?} is no address of a port, such as fe80::1")))?;
    let qpn = match service {
        None => 0,
        Some(service) => service.parse().map_err(|_| {
            refuse(format!(
                "the service {service:?} is no number of a queue pair"
            ))
        })?,
    };
    Ok(EfaAddress {
        gid: gid.octets(),
        qpn,
        connid: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_says_nothing_of_the_local_side() {
        let found = Efa::resolve(None, Some("9228"), true, false, 0);
        assert!(found.is_ok_and(|found| found.is_empty()));
        assert!(Efa::resolve(None, Some("9228"), false, false, 0).is_err());
    }

    #[test]
    fn a_node_is_the_address_of_a_port_and_a_service_a_queue_pair() {
        let at = resolve(Some("fe80::1:2"), Some("7")).expect("an address");
        assert_eq!(at.to_string(), "fi_addr_efa://[fe80::1:2]:7:0");
        assert_eq!(resolve(Some("fe80::1"), None).expect("an address").qpn, 0);
        for (node, service) in [
            (None, Some("7")),
            (Some("localhost"), None),
            (Some("10.0.0.1"), None),
            (Some("fe80::1"), Some("65536")),
        ] {
            let refused = resolve(node, service).expect_err("no address");
            assert_eq!(refused.errno, Errno::NODATA, "{node:?} {service:?}");
        }
    }
}
