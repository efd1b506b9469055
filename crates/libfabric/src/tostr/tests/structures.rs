//! Structures with a value in every member, as the recorded texts have them.

use super::super::*;
use super::spell;
use core::ptr;
use libc::{AF_INET, in_addr, sockaddr_in};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A pointer that is only printed.
fn at<T>(address: usize) -> *mut T {
    ptr::without_provenance_mut(address)
}

fn text(text: &'static core::ffi::CStr) -> *mut c_char {
    text.as_ptr().cast_mut()
}

pub(super) fn inet_addr() -> sockaddr_in {
    sockaddr_in {
        sin_family: AF_INET as u16,
        sin_port: 4711_u16.to_be(),
        sin_addr: in_addr {
            s_addr: u32::from(Ipv4Addr::new(192, 168, 1, 2)).to_be(),
        },
        sin_zero: [0; 8],
    }
}

fn tx_attr() -> fi_tx_attr {
    fi_tx_attr {
        caps: FI_MSG | FI_TAGGED | FI_SEND,
        mode: FI_CONTEXT | FI_CONTEXT2,
        op_flags: FI_COMPLETION | FI_INJECT,
        msg_order: FI_ORDER_SAS | FI_ORDER_RMA_WAW,
        comp_order: 5,
        inject_size: 64,
        size: 1024,
        iov_limit: 4,
        rma_iov_limit: 3,
        tclass: 0x201,
    }
}

fn rx_attr() -> fi_rx_attr {
    fi_rx_attr {
        caps: FI_MSG | FI_RECV | FI_MULTI_RECV | FI_SOURCE,
        mode: FI_RX_CQ_DATA,
        op_flags: FI_MULTI_RECV,
        msg_order: FI_ORDER_SAS,
        comp_order: 6,
        total_buffered_recv: 77,
        size: 2048,
        iov_limit: 5,
    }
}

fn ep_attr() -> fi_ep_attr {
    fi_ep_attr {
        type_: FI_EP_RDM,
        protocol: FI_PROTO_XNET,
        protocol_version: 3,
        max_msg_size: usize::MAX,
        msg_prefix_size: 8,
        max_order_raw_size: 1,
        max_order_war_size: 2,
        max_order_waw_size: 3,
        mem_tag_format: 0x0aaa_aaaa_aaaa_aaaa,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: FI_SHARED_CONTEXT,
        auth_key_size: 16,
        auth_key: ptr::null_mut(),
        xpu_ctx: at(0x2500),
    }
}

fn domain_attr() -> fi_domain_attr {
    fi_domain_attr {
        domain: at(0x1000),
        name: text(c"eth0"),
        threading: FI_THREAD_SAFE,
        control_progress: FI_PROGRESS_AUTO,
        data_progress: FI_PROGRESS_MANUAL,
        resource_mgmt: FI_RM_ENABLED,
        av_type: FI_AV_TABLE,
        mr_mode: FI_MR_LOCAL | FI_MR_PROV_KEY,
        mr_key_size: 8,
        cq_data_size: 4,
        cq_cnt: 256,
        ep_cnt: 8192,
        tx_ctx_cnt: 11,
        rx_ctx_cnt: 12,
        max_ep_tx_ctx: 13,
        max_ep_rx_ctx: 14,
        max_ep_stx_ctx: 15,
        max_ep_srx_ctx: 16,
        cntr_cnt: 17,
        mr_iov_limit: 18,
        caps: FI_LOCAL_COMM | FI_REMOTE_COMM,
        mode: FI_ASYNC_IOV,
        auth_key: ptr::null_mut(),
        auth_key_size: 19,
        max_err_data: 20,
        mr_cnt: 21,
        tclass: 0,
        max_ep_auth_key: 22,
        max_group_id: 23,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: 24,
        max_xpu_ctx_cnt: 25,
    }
}

fn fabric_attr() -> fi_fabric_attr {
    fi_fabric_attr {
        fabric: at(0x2000),
        name: text(c"127.0.0.0/8"),
        prov_name: text(c"tcp;ofi_rxm"),
        prov_version: FI_VERSION(206, 0),
        api_version: FI_VERSION(1, 17),
    }
}

fn spell_info() -> String {
    let (mut tx, mut rx, mut ep) = (tx_attr(), rx_attr(), ep_attr());
    let (mut domain, mut fabric) = (domain_attr(), fabric_attr());
    let mut addr = inet_addr();
    let info = fi_info {
        caps: FI_MSG | FI_RMA | FI_TAGGED | FI_HMEM,
        mode: FI_MSG_PREFIX,
        addr_format: FI_SOCKADDR_IN,
        src_addrlen: 16,
        src_addr: (&raw mut addr).cast(),
        tx_attr: &mut tx,
        rx_attr: &mut rx,
        ep_attr: &mut ep,
        domain_attr: &mut domain,
        fabric_attr: &mut fabric,
        ..fi_info::ZERO
    };
    spell(&info, FI_TYPE_INFO)
}

fn spell_av_attr() -> String {
    let attr = fi_av_attr {
        type_: FI_AV_MAP,
        rx_ctx_bits: 3,
        count: 100,
        ep_per_node: 2,
        name: text(c"shared"),
        map_addr: at(1),
        flags: FI_EVENT | FI_SYMMETRIC,
    };
    spell(&attr, FI_TYPE_AV_ATTR)
}

fn spell_cq_attr() -> String {
    let attr = fi_cq_attr {
        size: 500,
        flags: FI_AFFINITY,
        format: FI_CQ_FORMAT_TAGGED,
        wait_obj: FI_WAIT_FD,
        signaling_vector: -3,
        wait_cond: FI_CQ_COND_THRESHOLD,
        wait_set: ptr::null_mut(),
        // Not looked at: the flags do not say that the structure has it.
        xpu_ctx: at(0x2600),
    };
    spell(&attr, FI_TYPE_CQ_ATTR)
}

fn spell_mr_attr() -> String {
    let attr = fi_mr_attr {
        mr_iov: at(0x3000),
        iov_count: 2,
        access: FI_SEND | FI_RECV | FI_REMOTE_WRITE,
        offset: 0x10,
        requested_key: 0xabc,
        context: at(0x4000),
        auth_key_size: 5,
        iface: FI_HMEM_CUDA,
        ..fi_mr_attr::ZERO
    };
    spell(&attr, FI_TYPE_MR_ATTR)
}

fn spell_cntr_attr() -> String {
    let attr = fi_cntr_attr {
        events: FI_CNTR_EVENTS_BYTES,
        wait_obj: FI_WAIT_UNSPEC,
        wait_set: ptr::null_mut(),
        flags: 0x30,
        xpu_ctx: at(0x2700),
    };
    spell(&attr, FI_TYPE_CNTR_ATTR)
}

fn spell_cq_err_entry() -> String {
    let entry = fi_cq_err_entry {
        op_context: at(0x5000),
        flags: 0x88,
        len: 1,
        buf: at(0x6000),
        data: 2,
        tag: 0x99,
        olen: 3,
        err: 265,
        prov_errno: -5,
        err_data: ptr::null_mut(),
        err_data_size: 6,
        src_addr: 9,
    };
    spell(&entry, FI_TYPE_CQ_ERR_ENTRY)
}

fn spelled() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("tx_attr", spell(&tx_attr(), FI_TYPE_TX_ATTR)),
        ("rx_attr", spell(&rx_attr(), FI_TYPE_RX_ATTR)),
        ("ep_attr", spell(&ep_attr(), FI_TYPE_EP_ATTR)),
        ("domain_attr", spell(&domain_attr(), FI_TYPE_DOMAIN_ATTR)),
        ("fabric_attr", spell(&fabric_attr(), FI_TYPE_FABRIC_ATTR)),
        (
            "tx_attr of zeros",
            spell(&fi_tx_attr::ZERO, FI_TYPE_TX_ATTR),
        ),
        (
            "rx_attr of zeros",
            spell(&fi_rx_attr::ZERO, FI_TYPE_RX_ATTR),
        ),
        (
            "ep_attr of zeros",
            spell(&fi_ep_attr::ZERO, FI_TYPE_EP_ATTR),
        ),
        (
            "domain_attr of zeros",
            spell(&fi_domain_attr::ZERO, FI_TYPE_DOMAIN_ATTR),
        ),
        (
            "fabric_attr of zeros",
            spell(&fi_fabric_attr::ZERO, FI_TYPE_FABRIC_ATTR),
        ),
        ("info of zeros", spell(&fi_info::ZERO, FI_TYPE_INFO)),
        ("info", spell_info()),
        ("av_attr", spell_av_attr()),
        ("cq_attr", spell_cq_attr()),
        ("mr_attr", spell_mr_attr()),
        ("cntr_attr", spell_cntr_attr()),
        ("cq_err_entry", spell_cq_err_entry()),
    ])
}

#[test]
fn structures_have_their_texts() {
    let expected = include_str!("../expected/structures.txt");
    let expected: BTreeMap<&str, String> = expected
        .split("== ")
        .skip(1)
        .map(|case| {
            let (name, text) = case.split_once('\n').expect("a name and a text");
            let text = text.strip_suffix('\n').expect("a last line");
            (name, text.to_owned())
        })
        .collect();
    assert_eq!(spelled(), expected);
}
