//! Holds the structures against the headers of the package libibverbs-dev, by a C program.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use super::pd;
use super::structures::*;

/// Lists places of members, named as in C; what has no name there is left out.
macro_rules! places {
    ($($name:ident { $($($member:ident).+),* $(,)? })*) => {
        vec![$(
            (concat!("sizeof(struct ", stringify!($name), ")"), size_of::<$name>()),
            $((
                concat!("offsetof(struct ", stringify!($name), ", ", stringify!($($member).+), ")"),
                std::mem::offset_of!($name, $($member).+),
            ),)*
        )*]
    };
}

#[test]
fn structures_lie_in_memory_as_in_c() {
    if !Path::new("/usr/include/infiniband/efadv.h").exists() {
        println!("SKIP: libibverbs-dev or ibverbs-providers is not installed");
        return;
    }
    let mut places = places! {
        ibv_device { node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        ibv_context_ops { poll_cq, req_notify_cq, post_srq_recv, post_send, post_recv }
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
        ibv_device_attr {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr,
            device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_ah, max_pkeys, local_ca_ack_delay,
            phys_port_cnt,
        }
        ibv_port_attr {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid,
            sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer,
            flags, port_cap_flags2,
        }
        ibv_pd { context, handle }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq {
            context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed, async_events_completed,
        }
        ibv_poll_cq_attr { comp_mask }
        ibv_cq_ex {
            comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode, read_vendor_err, read_byte_len,
            read_imm_data, read_qp_num, read_src_qp, read_wc_flags, read_slid,
        }
        ibv_cq_init_attr_ex {
            cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags, parent_domain,
        }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_rx_hash_conf { rx_hash_function, rx_hash_key_len, rx_hash_key, rx_hash_fields_mask }
        ibv_qp_init_attr_ex {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags, max_tso_header,
            rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags,
        }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_ah { context, pd, handle }
        ibv_qp_attr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr,
            alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic,
            min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit,
        }
        ibv_sge { addr, length, lkey }
        ibv_recv_wr { wr_id, next, sg_list, num_sge }
        ibv_qp {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond, events_completed,
        }
        ibv_qp_ex {
            qp_base, comp_mask, wr_id, wr_flags, wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm,
            wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data, wr_set_inline_data_list, wr_set_sge, wr_set_sge_list,
            wr_start, wr_complete, wr_abort, wr_atomic_write,
        }
        efadv_device_attr {
            comp_mask, max_sq_wr, max_rq_wr, max_sq_sge, max_rq_sge, inline_buf_size, device_caps, max_rdma_size,
        }
        efadv_ah_attr { comp_mask, ahn }
        efadv_qp_init_attr { comp_mask, driver_qp_type }
        efadv_cq { comp_mask, wc_read_sgid }
        efadv_cq_init_attr { comp_mask, wc_flags }
    };
    // The structure before a context is described from its end.
    for (member, offset) in [
        (
            "create_qp_ex",
            std::mem::offset_of!(verbs_context_end, create_qp_ex),
        ),
        ("sz", std::mem::offset_of!(verbs_context_end, sz)),
    ] {
        let from_end = size_of::<verbs_context_end>() - offset;
        let text =
            format!("sizeof(struct verbs_context) - offsetof(struct verbs_context, {member})");
        places.push((text.leak(), from_end));
    }
    compare(&places);
}

#[test]
fn numbers_are_those_of_the_headers() {
    if !Path::new("/usr/include/infiniband/efadv.h").exists() {
        println!("SKIP: libibverbs-dev or ibverbs-providers is not installed");
        return;
    }
    use crate::{Access, EfaCaps, QpState, SendOps, Status};
    compare(&[
        ("IBV_ACCESS_LOCAL_WRITE", Access::LOCAL_WRITE.0 as usize),
        ("IBV_ACCESS_REMOTE_WRITE", Access::REMOTE_WRITE.0 as usize),
        ("IBV_ACCESS_REMOTE_READ", Access::REMOTE_READ.0 as usize),
        ("IBV_QP_EX_WITH_RDMA_WRITE", SendOps::RDMA_WRITE.0 as usize),
        (
            "IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM",
            SendOps::RDMA_WRITE_WITH_IMM.0 as usize,
        ),
        ("IBV_QP_EX_WITH_SEND", SendOps::SEND.0 as usize),
        (
            "IBV_QP_EX_WITH_SEND_WITH_IMM",
            SendOps::SEND_WITH_IMM.0 as usize,
        ),
        ("IBV_QP_EX_WITH_RDMA_READ", SendOps::RDMA_READ.0 as usize),
        ("IBV_QPS_INIT", QpState::Init as usize),
        ("IBV_QPS_RTR", QpState::Rtr as usize),
        ("IBV_QPS_RTS", QpState::Rts as usize),
        ("IBV_QPS_ERR", QpState::Err as usize),
        ("IBV_QPT_UD", 4),
        ("IBV_QPT_DRIVER", 0xff),
        ("IBV_QP_INIT_ATTR_PD", 1),
        ("IBV_QP_INIT_ATTR_SEND_OPS_FLAGS", 1 << 6),
        ("IBV_QP_RNR_RETRY", 1 << 11),
        ("IBV_QP_SQ_PSN", 1 << 16),
        ("IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY", 0x70),
        ("IBV_WC_STANDARD_FLAGS", 0x7f),
        ("IBV_WC_WITH_IMM", 2),
        ("IBV_SEND_SIGNALED", 2),
        ("IBV_WC_RECV", 128),
        ("IBV_WC_RECV_RDMA_WITH_IMM", 129),
        ("IBV_WC_RDMA_WRITE", 1),
        ("IBV_WC_RDMA_READ", 2),
        ("IBV_WC_LOC_LEN_ERR", Status::LOC_LEN_ERR.0 as usize),
        ("IBV_WC_LOC_PROT_ERR", Status::LOC_PROT_ERR.0 as usize),
        ("IBV_WC_WR_FLUSH_ERR", Status::WR_FLUSH_ERR.0 as usize),
        ("IBV_WC_REM_INV_REQ_ERR", Status::REM_INV_REQ_ERR.0 as usize),
        (
            "IBV_WC_RNR_RETRY_EXC_ERR",
            Status::RNR_RETRY_EXC_ERR.0 as usize,
        ),
        (
            "IBV_WC_REM_INV_RD_REQ_ERR",
            Status::REM_INV_RD_REQ_ERR.0 as usize,
        ),
        ("IBV_WC_REM_ABORT_ERR", Status::REM_ABORT_ERR.0 as usize),
        (
            "IBV_WC_RESP_TIMEOUT_ERR",
            Status::RESP_TIMEOUT_ERR.0 as usize,
        ),
        ("IBV_WC_GENERAL_ERR", Status::GENERAL_ERR.0 as usize),
        (
            "EFADV_DEVICE_ATTR_CAPS_RDMA_READ",
            EfaCaps::RDMA_READ.0 as usize,
        ),
        (
            "EFADV_DEVICE_ATTR_CAPS_RNR_RETRY",
            EfaCaps::RNR_RETRY.0 as usize,
        ),
        (
            "EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID",
            EfaCaps::CQ_WITH_SGID.0 as usize,
        ),
        ("EFADV_QP_DRIVER_TYPE_SRD", 0),
        ("EFADV_WC_EX_WITH_SGID", 1),
    ]);
}

/// Headers before rdma-core 50 do not have it.
#[test]
fn what_is_told_of_a_region_is_as_in_the_header() {
    let header = std::fs::read_to_string("/usr/include/infiniband/efadv.h").unwrap_or_default();
    if !header.contains("struct efadv_mr_attr") {
        println!("SKIP: no header of rdma-core 50 or newer is installed");
        return;
    }
    compare(&[
        ("sizeof(struct efadv_mr_attr)", size_of::<efadv_mr_attr>()),
        (
            "offsetof(struct efadv_mr_attr, ic_id_validity)",
            offset_of!(efadv_mr_attr, ic_id_validity),
        ),
        (
            "offsetof(struct efadv_mr_attr, rdma_recv_ic_id)",
            offset_of!(efadv_mr_attr, rdma_recv_ic_id),
        ),
        ("EFADV_MR_ATTR_VALIDITY_RECV_IC_ID", pd::RECV_IC_ID.into()),
        (
            "EFADV_MR_ATTR_VALIDITY_RDMA_READ_IC_ID",
            pd::RDMA_READ_IC_ID.into(),
        ),
        (
            "EFADV_MR_ATTR_VALIDITY_RDMA_RECV_IC_ID",
            pd::RDMA_RECV_IC_ID.into(),
        ),
    ]);
}

/// The sizes of what later versions append to; the library makes it, or is told how long the caller's is.
const GROWING: [&str; 7] = [
    "sizeof(struct ibv_port_attr)",
    "sizeof(struct ibv_qp_ex)",
    "sizeof(struct ibv_cq_ex)",
    "sizeof(struct efadv_cq)",
    "sizeof(struct efadv_device_attr)",
    "sizeof(struct efadv_qp_init_attr)",
    "sizeof(struct efadv_cq_init_attr)",
];

/// Compares values of expressions in C with those here.
fn compare(expressions: &[(&str, usize)]) {
    let mut text = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/verbs.h>\n#include <infiniband/efadv.h>\nint main(void) {\n",
    );
    for (expression, _) in expressions {
        let _ = writeln!(text, r#"printf("%zu\n", (size_t)({expression}));"#);
    }
    text += "return 0; }\n";
    let folder = std::env::temp_dir().join(format!(
        "oxifabric-ibv-layout.{}.{}",
        std::process::id(),
        expressions.len()
    ));
    std::fs::create_dir_all(&folder).expect("a folder");
    let [source, program] = ["layout.c", "layout"].map(|name| folder.join(name));
    std::fs::write(&source, text).expect("a file");
    let compiled = Command::new("cc")
        .arg("-o")
        .args([&program, &source])
        .output();
    let compiled = compiled.expect("a C compiler, which the tests need anyway");
    let ran = Command::new(&program).output();
    std::fs::remove_dir_all(&folder).expect("the folder is there");
    let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(compiled.status.success(), "{said}");
    let theirs = String::from_utf8(ran.expect("the program was compiled").stdout);
    let theirs = theirs.expect("numbers");
    let mut count = 0;
    for ((expression, ours), theirs) in expressions.iter().zip(theirs.lines()) {
        let theirs: usize = theirs.parse().expect("a number");
        let may_grow = GROWING.iter().any(|name| expression.contains(name));
        assert!(
            *ours == theirs || may_grow && *ours < theirs,
            "{expression} is {theirs}, not {ours}"
        );
        count += 1;
    }
    assert_eq!(count, expressions.len());
}
