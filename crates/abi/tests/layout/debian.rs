//! Comparison with the libfabric headers installed on this machine, compiled with its C compiler.
//!
//! Debian 12 installs 1.17. What later releases added or changed is listed here; everything else must be there and equal.

use crate::compiled::{self, HEADERS, expect_equal};
use crate::constants;
use crate::structures::{self, Place, WHOLE};

pub(crate) const HEADER: &str = "/usr/include/rdma/fabric.h";

/// The oldest minor release of 1.x whose headers have everything that is not listed as newer.
const OLDEST_MINOR: u32 = 17;

/// Headers that came after 1.17.
const NEWER_HEADERS: [&str; 4] = ["fi_profile", "fi_xpu", "fi_xpu_device", "providers/fi_peer"];

/// Structures that came after 1.17.
const NEWER_STRUCTURES: [&str; 15] = [
    "fi_mr_dmabuf",
    "fi_mr_auth_key",
    "fi_profile_desc",
    "fi_profile_ops",
    "fid_profile",
    "fi_mr_xpu_desc",
    "fi_xpu_ops",
    "fi_xpu_attr",
    "fi_xpu_ctx_attr",
    "fi_ops_xpu_ctx",
    "fid_xpu_ctx",
    "fid_xpu",
    "fid_xpu_ep",
    "fid_xpu_cq",
    "fid_xpu_cntr",
];

/// Members that came after 1.17, by structure; the size of such a structure is not compared.
#[rustfmt::skip]
const NEWER_MEMBERS: [(&str, &[&str]); 12] = [
    ("fi_domain_attr", &["max_ep_auth_key", "max_group_id", "max_cntr_value", "max_err_cntr_value", "max_xpu_ctx_cnt"]),
    ("fi_ep_attr", &["xpu_ctx"]),
    ("fi_ops_domain", &["xpu_ctx"]),
    ("fi_ops_ep", &["export_xpu"]),
    ("fi_cq_attr", &["xpu_ctx"]),
    ("fi_ops_cq", &["export_xpu"]),
    ("fi_cntr_attr", &["xpu_ctx"]),
    ("fi_ops_cntr", &["export_xpu"]),
    ("fi_ops_av", &["insert_auth_key", "lookup_auth_key", "set_user_id", "lookup2"]),
    ("fi_mr_attr", &["hmem_data", "page_size", "base_mr", "sub_mr_cnt"]),
    ("fi_mr_modify", &[]),
    ("fi_cq_err_entry", &["src_addr"]),
];

/// Constants that change with the release.
const CHANGED: [&str; 3] = ["FI_MAJOR_VERSION", "FI_MINOR_VERSION", "FI_ERRNO_MAX"];

/// Constants that came after 1.17.
#[rustfmt::skip]
const NEWER_CONSTANTS: [&str; 89] = [
    "FI_RESCAN", "FI_FIREWALL_ADDR", "FI_TAGGED_DIRECTED_RECV", "FI_TAGGED_MULTI_RECV",
    "FI_EXACT_DIRECTED_RECV", "FI_AUTH_KEY", "FI_AV_AUTH_KEY", "FI_ADDR_UCX", "FI_SOCKADDR_IP",
    "FI_PROGRESS_CONTROL_UNIFIED", "FI_PROTO_COLL", "FI_PROTO_UCX", "FI_PROTO_SM2",
    "FI_PROTO_CXI_RNR", "FI_PROTO_LPP", "FI_PROTO_LNX", "FI_TAG_BITS", "FI_TAG_MPI", "FI_TAG_CCL",
    "FI_TAG_MAX_FORMAT", "FI_CLASS_PEER_CNTR", "FI_CLASS_PROFILE", "FI_GET_FD", "FI_TYPE_AV_ATTR",
    "FI_TYPE_CQ_ATTR", "FI_TYPE_MR_ATTR", "FI_TYPE_CNTR_ATTR", "FI_TYPE_CQ_ERR_ENTRY",
    "FI_TYPE_CQ_WAIT_COND", "FI_TYPE_WAIT_OBJ", "FI_MR_DMABUF", "FI_MR_SINGLE_USE", "FI_FLOAT16",
    "FI_BFLOAT16", "FI_FLOAT8_E4M3", "FI_FLOAT8_E5M2", "FI_DIFF", "FI_OPT_CUDA_API_PERMITTED",
    "FI_OPT_SHARED_MEMORY_PERMITTED", "FI_OPT_MAX_MSG_SIZE", "FI_OPT_MAX_TAGGED_SIZE",
    "FI_OPT_MAX_RMA_SIZE", "FI_OPT_MAX_ATOMIC_SIZE", "FI_OPT_INJECT_MSG_SIZE",
    "FI_OPT_INJECT_TAGGED_SIZE", "FI_OPT_INJECT_RMA_SIZE", "FI_OPT_INJECT_ATOMIC_SIZE",
    "FI_OPT_FIREWALL_ADDR", "FI_CNTR_EVENTS_BYTES", "FI_MPI_IGNORE_TAG", "FI_MPI_IGNORE_PAYLOAD",
    "FI_OPT_EFA_EMULATED_READ", "FI_OPT_EFA_EMULATED_WRITE", "FI_OPT_EFA_EMULATED_ATOMICS",
    "FI_OPT_EFA_USE_DEVICE_RDMA", "FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES",
    "FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES", "FI_OPT_EFA_HOMOGENEOUS_PEERS",
    "FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV", "FI_VAR_UNEXP_MSG_CNT", "FI_VAR_UNEXP_MSG_QUEUE",
    "FI_VAR_MSG_QUEUE_CNT", "FI_VAR_CONNECTION_CNT", "FI_VAR_CONN_REQUEST", "FI_VAR_CONN_ACCEPT",
    "FI_VAR_CONN_REJECT", "FI_VAR_OFI_MEM", "FI_EVENT_UNEXP_MSG_RECVD",
    "FI_EVENT_UNEXP_MSG_MATCHED", "fi_primitive_type", "fi_defined_type", "FI_EPROTO", "FI_ENOMR",
    "FI_EFIREWALLADDR", "FI_XPU", "FI_MR_XPU_DESC", "FI_CLASS_XPU_CTX", "FI_GET_MR_XPU_DESC",
    "FI_XPU_WORK_ITEM", "FI_XPU_SUBGROUP", "FI_XPU_WORK_GROUP", "FI_XPU_DEVICE", "FI_XPU_ALLOC_DMABUF",
    "FI_XPU_IMPORT_IOMEMORY", "FI_XPU_IMPORT_DEVICEMAP", "FI_XPU_CAP_EP", "FI_XPU_CAP_CQ", "FI_XPU_CAP_CNTR",
    "FI_XPU_PROV_EFA",
];

#[test]
fn structures_and_constants_are_those_of_the_installed_headers() {
    if let Err(reason) = headers_are_usable() {
        println!("SKIP: comparison with the installed C headers: {reason}");
        return;
    }
    let headers: Vec<&str> = HEADERS
        .into_iter()
        .filter(|header| !NEWER_HEADERS.contains(header))
        .collect();
    expect_equal(&[], &headers, &comparable_places(), &comparable_constants());
}

pub(crate) fn headers_are_usable() -> Result<(), String> {
    let header = std::fs::read_to_string(HEADER).map_err(|e| format!("{HEADER}: {e}"))?;
    let version = |name: &str| -> Option<u32> {
        let line = header.lines().find(|line| line.contains(name))?;
        line.split_whitespace().last()?.parse().ok()
    };
    let major = version("define FI_MAJOR_VERSION");
    let minor = version("define FI_MINOR_VERSION");
    if major == Some(1) && minor < Some(OLDEST_MINOR) {
        return Err(format!("{HEADER} is older than 1.{OLDEST_MINOR}"));
    }
    compiled::has_compiler("cc")
}

fn comparable_places() -> Vec<Place> {
    let newer = |place: &Place| {
        NEWER_STRUCTURES.contains(&place.structure)
            || is_of_peers(place.structure)
            || NEWER_MEMBERS.iter().any(|(structure, members)| {
                *structure == place.structure
                    && (place.field == WHOLE || members.contains(&place.field))
            })
            // The member that holds a structure which has grown.
            || (place.structure, place.field) == ("fi_mr_modify", "attr")
    };
    let mut places = structures::current();
    places.retain(|place| !newer(place));
    places
}

/// Whether a structure is one of fi_peer.h: 1.17 had some of these in fi_ext.h, in another layout.
fn is_of_peers(structure: &str) -> bool {
    structure.contains("peer") || structure.ends_with("_owner")
}

fn comparable_constants() -> Vec<(&'static str, i64)> {
    let mut constants = constants::current();
    constants.retain(|(name, _)| !CHANGED.contains(name) && !NEWER_CONSTANTS.contains(name));
    constants
}
