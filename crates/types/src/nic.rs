//! The network interface behind an offer: the owned Rust form of `struct fid_nic`, fi_nic(3).

use alloc::string::String;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// The operating system's name of it.
    pub name: String,
    /// Which device of its vendor it is.
    pub device_id: String,
    /// The version of the device, or of the interface to its driver.
    pub device_version: String,
    /// Its vendor.
    pub vendor_id: String,
    /// The name of its driver.
    pub driver: String,
    /// The version of its firmware.
    pub firmware: String,
    /// Where it is on the PCI bus, if it is there.
    pub pci: Option<PciAddress>,
    /// Its link.
    pub link: LinkAttr,
}

/// A place on a PCI bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciAddress {
    /// The domain.
    pub domain: u16,
    /// The bus.
    pub bus: u8,
    /// The device.
    pub device: u8,
    /// The function.
    pub function: u8,
}

impl PciAddress {
    /// Reads a place as the kernel writes it: `0000:4f:00.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, function) = text.rsplit_once('.')?;
        let mut parts = rest.split(':');
        let mut part = || {
            parts
                .next()
                .and_then(|part| u16::from_str_radix(part, 16).ok())
        };
        let (domain, bus, device) = (part()?, part()?, part()?);
        Some(Self {
            domain,
            bus: bus.try_into().ok()?,
            device: device.try_into().ok()?,
            function: u8::from_str_radix(function, 16).ok()?,
        })
    }
}

/// The link of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkAttr {
    /// Its address, as text.
    pub address: String,
    /// The longest packet, in bytes.
    pub mtu: usize,
    /// Bits a second.
    pub speed: usize,
    /// Whether it carries packets, if that is known.
    pub is_up: Option<bool>,
    /// What kind of network it is.
    pub network_type: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_a_bus_are_read_as_the_kernel_writes_them() {
        let at = PciAddress {
            domain: 0x10,
            bus: 0x4f,
            device: 0x1c,
            function: 3,
        };
        assert_eq!(PciAddress::parse("0010:4f:1c.3"), Some(at));
        for text in ["", "efa_0", "0000:4f.0", "0000:14f:00.0", "0000:4f:00.x"] {
            assert_eq!(PciAddress::parse(text), None, "{text}");
        }
    }
}
