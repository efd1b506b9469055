//! Structures of `infiniband/verbs.h` and `infiniband/efadv.h` of rdma-core 44, with C's names. Later versions only append to those that say how long they are.
//! `layout` holds them against the headers.

#![allow(non_camel_case_types, reason = "C's names")]
#![allow(dead_code, reason = "members that only the layout needs")]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A pointer in a table that this crate does not call.
pub(super) type Unused = Option<unsafe extern "C" fn()>;

#[repr(C)]
pub(super) struct ibv_device {
    pub(super) _ops: [Unused; 2],
    pub(super) node_type: c_int,
    pub(super) transport_type: c_int,
    pub(super) name: [c_char; 64],
    pub(super) dev_name: [c_char; 64],
    pub(super) dev_path: [c_char; 256],
    pub(super) ibdev_path: [c_char; 256],
}

#[repr(C)]
pub(super) struct ibv_context_ops {
    pub(super) before_poll_cq: [Unused; 11],
    pub(super) poll_cq: Unused,
    pub(super) req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub(super) before_post_srq_recv: [Unused; 7],
    pub(super) post_srq_recv: Unused,
    pub(super) before_post_send: [Unused; 4],
    pub(super) post_send: Unused,
    pub(super) post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub(super) behind: [Unused; 5],
}

#[repr(C)]
pub(super) struct ibv_context {
    pub(super) device: *mut ibv_device,
    pub(super) ops: ibv_context_ops,
    pub(super) cmd_fd: c_int,
    pub(super) async_fd: c_int,
    pub(super) num_comp_vectors: c_int,
    pub(super) mutex: libc::pthread_mutex_t,
    pub(super) abi_compat: *mut c_void,
}

/// What stands before a context; it grows at its beginning, so only its end is described.
#[repr(C)]
pub(super) struct verbs_context_end {
    pub(super) create_qp_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    pub(super) get_srq_num: Unused,
    pub(super) create_srq_ex: Unused,
    pub(super) open_xrcd: Unused,
    pub(super) close_xrcd: Unused,
    pub(super) abi_placeholder3: u64,
    pub(super) sz: usize,
    pub(super) context: ibv_context,
}

#[repr(C)]
pub(super) struct ibv_device_attr {
    pub(super) fw_ver: [c_char; 64],
    pub(super) node_guid: u64,
    pub(super) sys_image_guid: u64,
    pub(super) max_mr_size: u64,
    pub(super) page_size_cap: u64,
    pub(super) vendor_id: u32,
    pub(super) vendor_part_id: u32,
    pub(super) hw_ver: u32,
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    pub(super) device_cap_flags: c_uint,
    pub(super) max_sge: c_int,
    pub(super) max_sge_rd: c_int,
    pub(super) max_cq: c_int,
    pub(super) max_cqe: c_int,
    pub(super) max_mr: c_int,
    pub(super) max_pd: c_int,
    pub(super) before_max_ah: [c_int; 14],
    pub(super) max_ah: c_int,
    pub(super) behind_max_ah: [c_int; 5],
    pub(super) max_pkeys: u16,
    pub(super) local_ca_ack_delay: u8,
    pub(super) phys_port_cnt: u8,
}

#[repr(C)]
pub(super) struct ibv_port_attr {
    pub(super) state: c_int,
    pub(super) max_mtu: c_int,
    pub(super) active_mtu: c_int,
    pub(super) gid_tbl_len: c_int,
    pub(super) port_cap_flags: u32,
    pub(super) max_msg_sz: u32,
    pub(super) bad_pkey_cntr: u32,
    pub(super) qkey_viol_cntr: u32,
    pub(super) pkey_tbl_len: u16,
    pub(super) lid: u16,
    pub(super) sm_lid: u16,
    pub(super) lmc: u8,
    pub(super) max_vl_num: u8,
    pub(super) sm_sl: u8,
    pub(super) subnet_timeout: u8,
    pub(super) init_type_reply: u8,
    pub(super) active_width: u8,
    pub(super) active_speed: u8,
    pub(super) phys_state: u8,
    pub(super) link_layer: u8,
    pub(super) flags: u8,
    pub(super) port_cap_flags2: u16,
}

#[repr(C)]
pub(super) struct ibv_pd {
    pub(super) context: *mut ibv_context,
    pub(super) handle: u32,
}

#[repr(C)]
pub(super) struct ibv_mr {
    pub(super) context: *mut ibv_context,
    pub(super) pd: *mut ibv_pd,
    pub(super) addr: *mut c_void,
    pub(super) length: usize,
    pub(super) handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

#[repr(C)]
pub(super) struct ibv_comp_channel {
    pub(super) context: *mut ibv_context,
    pub(super) fd: c_int,
    pub(super) refcnt: c_int,
}

#[repr(C)]
pub(super) struct ibv_cq {
    pub(super) context: *mut ibv_context,
    pub(super) channel: *mut ibv_comp_channel,
    pub(super) cq_context: *mut c_void,
    pub(super) handle: u32,
    pub(super) cqe: c_int,
    pub(super) mutex: libc::pthread_mutex_t,
    pub(super) cond: libc::pthread_cond_t,
    pub(super) comp_events_completed: u32,
    pub(super) async_events_completed: u32,
}

#[repr(C)]
pub(super) struct ibv_poll_cq_attr {
    pub(super) comp_mask: u32,
}

type Read<T> = Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> T>;

#[repr(C)]
pub(super) struct ibv_cq_ex {
    pub(super) base: ibv_cq,
    pub(super) comp_mask: u32,
    pub(super) status: c_uint,
    pub(super) wr_id: u64,
    pub(super) start_poll:
        Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
    pub(super) next_poll: Read<c_int>,
    pub(super) end_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
    pub(super) read_opcode: Read<c_uint>,
    pub(super) read_vendor_err: Read<u32>,
    pub(super) read_byte_len: Read<u32>,
    pub(super) read_imm_data: Read<u32>,
    pub(super) read_qp_num: Read<u32>,
    pub(super) read_src_qp: Read<u32>,
    pub(super) read_wc_flags: Read<c_uint>,
    pub(super) read_slid: Read<u32>,
    pub(super) behind: [Unused; 7],
}

#[repr(C)]
pub(super) struct ibv_cq_init_attr_ex {
    pub(super) cqe: u32,
    pub(super) cq_context: *mut c_void,
    pub(super) channel: *mut ibv_comp_channel,
    pub(super) comp_vector: u32,
    pub(super) wc_flags: u64,
    pub(super) comp_mask: u32,
    pub(super) flags: u32,
    pub(super) parent_domain: *mut ibv_pd,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_qp_cap {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

#[repr(C)]
pub(super) struct ibv_rx_hash_conf {
    pub(super) rx_hash_function: u8,
    pub(super) rx_hash_key_len: u8,
    pub(super) rx_hash_key: *mut u8,
    pub(super) rx_hash_fields_mask: u64,
}

#[repr(C)]
pub(super) struct ibv_qp_init_attr_ex {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut ibv_cq,
    pub(super) recv_cq: *mut ibv_cq,
    pub(super) srq: *mut c_void,
    pub(super) cap: ibv_qp_cap,
    pub(super) qp_type: c_uint,
    pub(super) sq_sig_all: c_int,
    pub(super) comp_mask: u32,
    pub(super) pd: *mut ibv_pd,
    pub(super) xrcd: *mut c_void,
    pub(super) create_flags: u32,
    pub(super) max_tso_header: u16,
    pub(super) rwq_ind_tbl: *mut c_void,
    pub(super) rx_hash_conf: ibv_rx_hash_conf,
    pub(super) source_qpn: u32,
    pub(super) send_ops_flags: u64,
}

#[repr(C)]
pub(super) struct ibv_global_route {
    pub(super) dgid: [u8; 16],
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    /// `union ibv_gid` is aligned as the numbers in it are.
    pub(super) align: [u64; 0],
}

#[repr(C)]
pub(super) struct ibv_ah_attr {
    pub(super) grh: ibv_global_route,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}

#[repr(C)]
pub(super) struct ibv_ah {
    pub(super) context: *mut ibv_context,
    pub(super) pd: *mut ibv_pd,
    pub(super) handle: u32,
}

#[repr(C)]
pub(super) struct ibv_qp_attr {
    pub(super) qp_state: c_uint,
    pub(super) cur_qp_state: c_uint,
    pub(super) path_mtu: c_uint,
    pub(super) path_mig_state: c_uint,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) qp_access_flags: c_uint,
    pub(super) cap: ibv_qp_cap,
    pub(super) ah_attr: ibv_ah_attr,
    pub(super) alt_ah_attr: ibv_ah_attr,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

#[repr(C)]
pub(super) struct ibv_recv_wr {
    pub(super) wr_id: u64,
    pub(super) next: *mut ibv_recv_wr,
    pub(super) sg_list: *mut ibv_sge,
    pub(super) num_sge: c_int,
}

#[repr(C)]
pub(super) struct ibv_qp {
    pub(super) context: *mut ibv_context,
    pub(super) qp_context: *mut c_void,
    pub(super) pd: *mut ibv_pd,
    pub(super) send_cq: *mut ibv_cq,
    pub(super) recv_cq: *mut ibv_cq,
    pub(super) srq: *mut c_void,
    pub(super) handle: u32,
    pub(super) qp_num: u32,
    pub(super) state: c_uint,
    pub(super) qp_type: c_uint,
    pub(super) mutex: libc::pthread_mutex_t,
    pub(super) cond: libc::pthread_cond_t,
    pub(super) events_completed: u32,
}

type Remote = Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64)>;

#[repr(C)]
pub(super) struct ibv_qp_ex {
    pub(super) qp_base: ibv_qp,
    pub(super) comp_mask: u64,
    pub(super) wr_id: u64,
    pub(super) wr_flags: c_uint,
    pub(super) before_wr_rdma_read: [Unused; 4],
    pub(super) wr_rdma_read: Remote,
    pub(super) wr_rdma_write: Remote,
    pub(super) wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32)>,
    pub(super) wr_send: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
    pub(super) wr_send_imm: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>,
    pub(super) before_wr_set_ud_addr: [Unused; 2],
    pub(super) wr_set_ud_addr: Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_ah, u32, u32)>,
    pub(super) wr_set_xrc_srqn: Unused,
    pub(super) wr_set_inline_data: Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, usize)>,
    pub(super) wr_set_inline_data_list: Unused,
    pub(super) wr_set_sge: Unused,
    pub(super) wr_set_sge_list: Option<unsafe extern "C" fn(*mut ibv_qp_ex, usize, *const ibv_sge)>,
    pub(super) wr_start: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
    pub(super) wr_complete: Option<unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int>,
    pub(super) wr_abort: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
    pub(super) wr_atomic_write: Unused,
}

/// Of rdma-core 50.
#[repr(C)]
#[derive(Default)]
pub(super) struct efadv_mr_attr {
    pub(super) comp_mask: u64,
    pub(super) ic_id_validity: u16,
    pub(super) recv_ic_id: u16,
    pub(super) rdma_read_ic_id: u16,
    pub(super) rdma_recv_ic_id: u16,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct efadv_device_attr {
    pub(super) comp_mask: u64,
    pub(super) max_sq_wr: u32,
    pub(super) max_rq_wr: u32,
    pub(super) max_sq_sge: u16,
    pub(super) max_rq_sge: u16,
    pub(super) inline_buf_size: u16,
    pub(super) reserved: [u8; 2],
    pub(super) device_caps: u32,
    pub(super) max_rdma_size: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct efadv_ah_attr {
    pub(super) comp_mask: u64,
    pub(super) ahn: u16,
    pub(super) reserved: [u8; 6],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct efadv_qp_init_attr {
    pub(super) comp_mask: u64,
    pub(super) driver_qp_type: u32,
    /// Reserved before rdma-core 49, and then refused unless it is zero.
    pub(super) flags: u16,
    pub(super) reserved: [u8; 2],
}

#[repr(C)]
pub(super) struct efadv_cq {
    pub(super) comp_mask: u64,
    pub(super) wc_read_sgid: Option<unsafe extern "C" fn(*mut efadv_cq, *mut [u8; 16]) -> c_int>,
}

/// The same since rdma-core 51, in queues that were made to tell of unsolicited writes.
#[repr(C)]
pub(super) struct efadv_cq_51 {
    pub(super) base: efadv_cq,
    pub(super) wc_is_unsolicited: Option<unsafe extern "C" fn(*mut efadv_cq) -> bool>,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct efadv_cq_init_attr {
    pub(super) comp_mask: u64,
    pub(super) wc_flags: u64,
}
