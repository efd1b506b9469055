//! Structures as applications that were built against older ABI versions lay them out.
//!
//! The number in a name is that of the symbol version (`FABRIC_1.0` and so on) under which `fi_getinfo`, `fi_freeinfo`
//! and `fi_dupinfo` take them. Every older structure is a prefix of the newer one: members were only added at the end.
//!
//! | version | released with | what grew |
//! |---|---|---|
//! | 1.0 | 1.0 | |
//! | 1.1 | 1.5 | `fi_fabric_attr.api_version`; `fi_domain_attr` from `cntr_cnt` to `mr_cnt`; keys of `fi_ep_attr` |
//! | 1.2 | 1.7 | `fi_info.nic` |
//! | 1.3 | 1.8 | `tclass` of `fi_tx_attr` and `fi_domain_attr` |
//! | 1.7 | 1.20 | `fi_domain_attr.max_ep_auth_key` |
//! | 1.8 | 2.0 | `fi_domain_attr.max_group_id` |
//! | 1.9 | 2.5 | `fi_domain_attr.max_cntr_value` and `max_err_cntr_value` |
//! | 1.10 | 2.7 | `fi_ep_attr.xpu_ctx`, `fi_domain_attr.max_xpu_ctx_cnt`: the layout of this crate |
//!
//! The attributes of completion queues and of counters grew in 2.7 without a version. This library cannot tell
//! which layout a caller has, so it reads their last member only if the flag `FI_XPU` says that it is there.

use crate::*;
use core::ffi::{c_char, c_int, c_void};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_fabric_attr_1_0 {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_domain_attr_1_0 {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: fi_threading,
    pub control_progress: fi_progress,
    pub data_progress: fi_progress,
    pub resource_mgmt: fi_resource_mgmt,
    pub av_type: fi_av_type,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_domain_attr_1_1 {
    pub base: fi_domain_attr_1_0,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_domain_attr_1_3 {
    pub base: fi_domain_attr_1_1,
    pub tclass: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_domain_attr_1_7 {
    pub base: fi_domain_attr_1_3,
    pub max_ep_auth_key: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_domain_attr_1_8 {
    pub base: fi_domain_attr_1_7,
    pub max_group_id: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_domain_attr_1_9 {
    pub base: fi_domain_attr_1_8,
    pub max_cntr_value: u64,
    pub max_err_cntr_value: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_ep_attr_1_0 {
    pub type_: fi_ep_type,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_ep_attr_1_1 {
    pub base: fi_ep_attr_1_0,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_tx_attr_1_0 {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
}

/// `fi_info` without `nic`, over the attributes of its version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_info_before_nic<Tx, Ep, Domain, Fabric> {
    pub next: *mut Self,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: fid_t,
    pub tx_attr: *mut Tx,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut Ep,
    pub domain_attr: *mut Domain,
    pub fabric_attr: *mut Fabric,
}

/// `fi_info` with `nic`, over the attributes of its version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_info_with_nic<Tx, Ep, Domain> {
    pub next: *mut Self,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: fid_t,
    pub tx_attr: *mut Tx,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut Ep,
    pub domain_attr: *mut Domain,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut fid_nic,
}

pub type fi_info_1_0 =
    fi_info_before_nic<fi_tx_attr_1_0, fi_ep_attr_1_0, fi_domain_attr_1_0, fi_fabric_attr_1_0>;
pub type fi_info_1_1 =
    fi_info_before_nic<fi_tx_attr_1_0, fi_ep_attr_1_1, fi_domain_attr_1_1, fi_fabric_attr>;
pub type fi_info_1_2 = fi_info_with_nic<fi_tx_attr_1_0, fi_ep_attr_1_1, fi_domain_attr_1_1>;
pub type fi_info_1_3 = fi_info_with_nic<fi_tx_attr, fi_ep_attr_1_1, fi_domain_attr_1_3>;
pub type fi_info_1_7 = fi_info_with_nic<fi_tx_attr, fi_ep_attr_1_1, fi_domain_attr_1_7>;
pub type fi_info_1_8 = fi_info_with_nic<fi_tx_attr, fi_ep_attr_1_1, fi_domain_attr_1_8>;
pub type fi_info_1_9 = fi_info_with_nic<fi_tx_attr, fi_ep_attr_1_1, fi_domain_attr_1_9>;

/// The attributes of a completion queue, as applications built before 2.7 lay them out. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_attr_1_9 {
    pub size: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: c_int,
    pub wait_cond: fi_cq_wait_cond,
    pub wait_set: *mut fid_wait,
}

/// The attributes of a counter, as applications built before 2.7 lay them out. Source: fi_cntr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cntr_attr_1_9 {
    pub events: fi_cntr_events,
    pub wait_obj: fi_wait_obj,
    pub wait_set: *mut fid_wait,
    pub flags: u64,
}

zeroed!(fi_cq_attr_1_9, fi_cntr_attr_1_9);

/// The error entry of a completion queue for applications that asked for an API before 1.5. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_err_entry_1_0 {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
}

/// The error entry of a completion queue for applications that asked for an API from 1.5 to 1.19. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_err_entry_1_1 {
    pub base: fi_cq_err_entry_1_0,
    pub err_data_size: usize,
}
