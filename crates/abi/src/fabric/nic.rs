//! The network interface behind an offer. Source: fi_nic(3).

use super::fid;
use super::kinds::*;
use core::ffi::{c_char, c_void};

/// The network interface behind an offer. Source: fi_nic(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut fi_device_attr,
    pub bus_attr: *mut fi_bus_attr,
    pub link_attr: *mut fi_link_attr,
    pub prov_attr: *mut c_void,
}

/// Names of the network device. Source: fi_nic(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_device_attr {
    pub name: *mut c_char,
    pub device_id: *mut c_char,
    pub device_version: *mut c_char,
    pub vendor_id: *mut c_char,
    pub driver: *mut c_char,
    pub firmware: *mut c_char,
}

/// Bus on which the device sits. Source: fi_nic(3).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_bus_attr {
    pub bus_type: fi_bus_type,
    pub attr: fi_bus_attr_union,
}

/// Address on the bus, by `bus_type`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_bus_attr_union {
    pub pci: fi_pci_attr,
}

/// Address of the device on the PCI bus. Source: fi_nic(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_pci_attr {
    pub domain_id: u16,
    pub bus_id: u8,
    pub device_id: u8,
    pub function_id: u8,
}

/// Address, speed and state of the link. Source: fi_nic(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_link_attr {
    pub address: *mut c_char,
    pub mtu: usize,
    pub speed: usize,
    pub state: fi_link_state,
    pub network_type: *mut c_char,
}

zeroed!(
    fid_nic,
    fi_device_attr,
    fi_bus_attr,
    fi_pci_attr,
    fi_link_attr
);
