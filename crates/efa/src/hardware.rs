//! The EFA devices of this machine, as they were when this process first listed them.
//!
//! On machines without RDMA devices no library is loaded: the kernel's list of devices is read first.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fmt, fs};

use oxifabric_ibv::{
    Absence, Context, Device, DeviceAttributes, EfaAttributes, EfaCaps, Gid, Port, Verbs,
};
use oxifabric_provider::environment;
use oxifabric_types::{EfaAddress, Errno, LinkAttr, Nic, PciAddress};

use crate::params::Params;

/// The port that is used; no EFA device has another one.
pub(crate) const PORT: u8 = 1;

/// An EFA device, and what it says of itself.
#[derive(Debug)]
pub(crate) struct Hardware {
    pub(crate) device: Device,
    pub(crate) gid: Gid,
    pub(crate) mtu: usize,
    pub(crate) efa: EfaAttributes,
    pub(crate) attributes: DeviceAttributes,
    pub(crate) nic: Nic,
}

/// Why there is no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The kernel lists no RDMA device in this folder.
    NoRdma(PathBuf),
    /// A library is missing.
    Library(Absence),
    /// Memory cannot be kept out of child processes, as FI_EFA_FORK_SAFE asks.
    ForkSafety(Errno),
    /// libibverbs cannot list the devices.
    Unlisted(Errno),
    /// None of these devices is an EFA that this process may open.
    NoEfa(Vec<String>),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRdma(folder) => {
                let folder = folder.display();
                write!(f, "this machine has no RDMA device: {folder} lists none")
            }
            Self::Library(absence) => absence.fmt(f),
            Self::ForkSafety(errno) => write!(
                f,
                "libibverbs cannot keep registered memory from child processes, as FI_EFA_FORK_SAFE asks: {errno}"
            ),
            Self::Unlisted(errno) => write!(f, "libibverbs cannot list devices: {errno}"),
            Self::NoEfa(others) if others.is_empty() => {
                f.write_str("libibverbs has no driver for the RDMA devices of this machine (Debian: ibverbs-providers)")
            }
            Self::NoEfa(others) => {
                let others = others.join(", ");
                write!(f, "no device is an EFA that this process may open: {others}")
            }
        }
    }
}

impl Hardware {
    /// Returns the address of the device's endpoints, without the number of a queue pair.
    pub(crate) fn place(&self) -> EfaAddress {
        EfaAddress {
            gid: self.gid,
            qpn: 0,
            connid: 0,
        }
    }

    /// Returns whether the device has these capabilities.
    pub(crate) fn can(&self, caps: EfaCaps) -> bool {
        self.efa.caps.contains(caps)
    }

    /// Returns whether the device reads and writes memory of peers. One that only reads is offered without either, as in the C library.
    pub(crate) fn has_rma(&self) -> bool {
        self.can(EfaCaps::RDMA_READ | EfaCaps::RDMA_WRITE)
    }

    fn open(device: Device) -> Result<Self, Errno> {
        let context = device.open()?;
        let efa = context.efa()?;
        let gid = context.gid(PORT, 0)?;
        let port = context.port(PORT)?;
        let attributes = context.attributes()?;
        Ok(Self {
            nic: nic(&device, &attributes, port, &gid),
            device,
            gid,
            mtu: port.max_msg_len as usize,
            efa,
            attributes,
        })
    }
}

/// Returns the devices in the order of libibverbs, at least one.
///
/// # Errors
/// Why there is none.
pub(crate) fn found() -> Result<&'static [Hardware], &'static Missing> {
    static FOUND: OnceLock<Result<Vec<Hardware>, Missing>> = OnceLock::new();
    let found = FOUND.get_or_init(look);
    found.as_deref()
}

fn look() -> Result<Vec<Hardware>, Missing> {
    let folder = sysfs().join("class/infiniband_verbs");
    let has_any = fs::read_dir(&folder).is_ok_and(|entries| {
        let mut names = entries.flatten().map(|entry| entry.file_name());
        names.any(|name| name.to_string_lossy().starts_with("uverbs"))
    });
    if !has_any {
        return Err(Missing::NoRdma(folder));
    }
    let verbs = Verbs::get().map_err(|absence| Missing::Library(absence.clone()))?;
    if let Some(absence) = verbs.efa_absence() {
        return Err(Missing::Library(absence.clone()));
    }
    if Params::read().is_fork_safe {
        verbs
            .keep_memory_from_children()
            .map_err(Missing::ForkSafety)?;
    }
    let devices = Device::list(verbs).map_err(Missing::Unlisted)?;
    let mut others = Vec::new();
    let mut found = Vec::new();
    for device in devices {
        let name = device.name();
        match Hardware::open(device) {
            Ok(hardware) => found.push(hardware),
            Err(errno) => others.push(format!("{name} ({errno})")),
        }
    }
    match found.is_empty() {
        true => Err(Missing::NoEfa(others)),
        false => Ok(found),
    }
}

/// Opens a device by its name.
///
/// # Errors
/// `NODEV` if there is none, and what the device says.
pub(crate) fn open(name: &str) -> Result<(&'static Hardware, std::sync::Arc<Context>), Errno> {
    let found = found().map_err(|_| Errno::NODEV)?;
    let hardware = found.iter().find(|at| at.nic.name == name);
    let hardware = hardware.ok_or(Errno::NODEV)?;
    Ok((hardware, hardware.device.open()?))
}

/// Returns the folder in which the kernel describes devices: /sys, or that of the variable SYSFS_PATH, as in libibverbs.
fn sysfs() -> PathBuf {
    environment::variable("SYSFS_PATH").map_or_else(|| PathBuf::from("/sys"), PathBuf::from)
}

/// Describes a device as fi_nic(3) does. What the kernel does not tell is left out.
fn nic(device: &Device, attributes: &DeviceAttributes, port: Port, gid: &Gid) -> Nic {
    let folder = PathBuf::from(device.sysfs_path());
    let version = fs::read_to_string(sysfs().join("class/infiniband_verbs/abi_version"));
    let gid = std::net::Ipv6Addr::from(*gid);
    Nic {
        name: device.name(),
        device_id: format!("{:#x}", attributes.part),
        device_version: version.unwrap_or_default().trim().to_owned(),
        vendor_id: format!("{:#x}", attributes.vendor),
        driver: target(&folder.join("device/driver")).unwrap_or_default(),
        firmware: attributes.firmware.clone(),
        pci: target(&folder.join("device")).and_then(|name| PciAddress::parse(&name)),
        link: LinkAttr {
            address: format!("EFA-{gid}"),
            mtu: port.max_msg_len as usize,
            speed: usize::try_from(port.speed).unwrap_or(usize::MAX),
            is_up: Some(port.is_active),
            network_type: "Ethernet".to_owned(),
        },
    }
}

/// Returns the last name of what a symbolic link leads to.
fn target(link: &Path) -> Option<String> {
    let target = fs::canonicalize(link).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let missing = Missing::NoRdma("/sys/class/infiniband_verbs".into());
        assert_eq!(
            missing.to_string(),
            "this machine has no RDMA device: /sys/class/infiniband_verbs lists none"
        );
        let other = Missing::NoEfa(vec!["mlx5_0 (Operation not supported)".to_owned()]);
        assert!(
            other
                .to_string()
                .ends_with("mlx5_0 (Operation not supported)")
        );
        assert!(
            Missing::NoEfa(Vec::new())
                .to_string()
                .contains("ibverbs-providers")
        );
    }
}
