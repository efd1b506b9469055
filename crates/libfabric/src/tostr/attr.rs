//! The attributes of objects, and the error entry of a completion queue.

use super::names;
use super::writer::{Rows, Writer};
use oxifabric_abi::compat::{fi_cntr_attr_1_9, fi_cq_attr_1_9};
use oxifabric_abi::*;

/// Writes the transmit attributes.
///
/// # Safety
///
/// `attr` must be null or valid.
pub(super) unsafe fn tx_attr(out: &mut Writer<'_>, outer: &'static str, attr: *const fi_tx_attr) {
    // SAFETY: the caller's contract, passed on.
    let Some((mut rows, attr)) = (unsafe { Rows::of(out, outer, "fi_tx_attr", attr) }) else {
        return;
    };
    rows.flags("caps", names::CAPS, attr.caps);
    rows.flags("mode", names::MODE, attr.mode);
    rows.flags("op_flags", names::OP_FLAGS, attr.op_flags);
    rows.flags("msg_order", names::MSG_ORDER, attr.msg_order);
    rows.value("inject_size", attr.inject_size);
    rows.value("size", attr.size);
    rows.value("iov_limit", attr.iov_limit);
    rows.value("rma_iov_limit", attr.rma_iov_limit);
    rows.hex("tclass", attr.tclass.into());
}

/// Writes the receive attributes.
///
/// # Safety
///
/// `attr` must be null or valid.
pub(super) unsafe fn rx_attr(out: &mut Writer<'_>, outer: &'static str, attr: *const fi_rx_attr) {
    // SAFETY: the caller's contract, passed on.
    let Some((mut rows, attr)) = (unsafe { Rows::of(out, outer, "fi_rx_attr", attr) }) else {
        return;
    };
    rows.flags("caps", names::CAPS, attr.caps);
    rows.flags("mode", names::MODE, attr.mode);
    rows.flags("op_flags", names::OP_FLAGS, attr.op_flags);
    rows.flags("msg_order", names::MSG_ORDER, attr.msg_order);
    rows.value("size", attr.size);
    rows.value("iov_limit", attr.iov_limit);
}

/// Writes the attributes of an endpoint.
///
/// # Safety
///
/// `attr` must be null or valid.
pub(super) unsafe fn ep_attr(out: &mut Writer<'_>, outer: &'static str, attr: *const fi_ep_attr) {
    // SAFETY: the caller's contract, passed on.
    let Some((mut rows, attr)) = (unsafe { Rows::of(out, outer, "fi_ep_attr", attr) }) else {
        return;
    };
    rows.name("type", names::EP_TYPE, attr.type_);
    rows.name("protocol", names::PROTOCOL, attr.protocol);
    // C prints this unsigned number as a signed one.
    rows.value("protocol_version", attr.protocol_version as i32);
    rows.value("max_msg_size", attr.max_msg_size);
    rows.value("msg_prefix_size", attr.msg_prefix_size);
    rows.value("max_order_raw_size", attr.max_order_raw_size);
    rows.value("max_order_war_size", attr.max_order_war_size);
    rows.value("max_order_waw_size", attr.max_order_waw_size);
    rows.value(
        "mem_tag_format",
        format_args!("{:#018x}", attr.mem_tag_format),
    );
    context_count(&mut rows, "tx_ctx_cnt", attr.tx_ctx_cnt);
    context_count(&mut rows, "rx_ctx_cnt", attr.rx_ctx_cnt);
    rows.value("auth_key_size", attr.auth_key_size);
    rows.pointer("xpu_ctx", attr.xpu_ctx);
}

fn context_count(rows: &mut Rows<'_, '_>, key: &str, count: usize) {
    if count == FI_SHARED_CONTEXT {
        rows.value(key, "FI_SHARED_CONTEXT");
    } else {
        rows.value(key, count);
    }
}

/// Writes the attributes of a domain.
///
/// # Safety
///
/// `attr` must be null or valid.
pub(super) unsafe fn domain_attr(
    out: &mut Writer<'_>,
    outer: &'static str,
    attr: *const fi_domain_attr,
) {
    // SAFETY: the caller's contract, passed on.
    let Some((mut rows, attr)) = (unsafe { Rows::of(out, outer, "fi_domain_attr", attr) }) else {
        return;
    };
    rows.pointer("domain", attr.domain);
    // SAFETY: the name of valid attributes is null or a valid string.
    unsafe { rows.c_text("name", attr.name) };
    rows.name("threading", names::THREADING, attr.threading);
    rows.name("progress", names::PROGRESS, attr.data_progress);
    rows.name("resource_mgmt", names::RESOURCE_MGMT, attr.resource_mgmt);
    rows.name("av_type", names::AV_TYPE, attr.av_type);
    rows.flags("mr_mode", names::MR_MODE, attr.mr_mode as u64);
    domain_limits(&mut rows, attr);
    rows.flags("caps", names::CAPS, attr.caps);
    rows.flags("mode", names::MODE, attr.mode);
    rows.value("auth_key_size", attr.auth_key_size);
    rows.value("max_err_data", attr.max_err_data);
    rows.value("mr_cnt", attr.mr_cnt);
    rows.hex("tclass", attr.tclass.into());
    rows.value("max_ep_auth_key", attr.max_ep_auth_key);
    rows.value("max_group_id", attr.max_group_id);
    rows.value("max_cntr_value", attr.max_cntr_value);
    rows.value("max_err_cntr_value", attr.max_err_cntr_value);
    rows.value("max_xpu_ctx_cnt", attr.max_xpu_ctx_cnt);
}

fn domain_limits(rows: &mut Rows<'_, '_>, attr: &fi_domain_attr) {
    rows.value("mr_key_size", attr.mr_key_size);
    rows.value("cq_data_size", attr.cq_data_size);
    rows.value("cq_cnt", attr.cq_cnt);
    rows.value("ep_cnt", attr.ep_cnt);
    rows.value("tx_ctx_cnt", attr.tx_ctx_cnt);
    rows.value("rx_ctx_cnt", attr.rx_ctx_cnt);
    rows.value("max_ep_tx_ctx", attr.max_ep_tx_ctx);
    rows.value("max_ep_rx_ctx", attr.max_ep_rx_ctx);
    rows.value("max_ep_stx_ctx", attr.max_ep_stx_ctx);
    rows.value("max_ep_srx_ctx", attr.max_ep_srx_ctx);
    rows.value("cntr_cnt", attr.cntr_cnt);
    rows.value("mr_iov_limit", attr.mr_iov_limit);
}

/// Writes the attributes of a fabric.
///
/// # Safety
///
/// `attr` must be null or valid.
pub(super) unsafe fn fabric_attr(
    out: &mut Writer<'_>,
    outer: &'static str,
    attr: *const fi_fabric_attr,
) {
    // SAFETY: the caller's contract, passed on.
    let Some((mut rows, attr)) = (unsafe { Rows::of(out, outer, "fi_fabric_attr", attr) }) else {
        return;
    };
    // SAFETY: the names of valid attributes are null or valid strings.
    unsafe {
        rows.c_text("name", attr.name);
        rows.c_text("prov_name", attr.prov_name);
    }
    version(&mut rows, "prov_version", attr.prov_version);
    version(&mut rows, "api_version", attr.api_version);
}

fn version(rows: &mut Rows<'_, '_>, key: &str, version: u32) {
    rows.value(
        key,
        format_args!("{}.{}", FI_MAJOR(version), FI_MINOR(version)),
    );
}

/// Writes the attributes of an address vector.
///
/// # Safety
///
/// What `attr` points to must be valid.
pub(super) unsafe fn av_attr(out: &mut Writer<'_>, attr: &fi_av_attr) {
    let mut rows = Rows::begin(out, "", "fi_av_attr");
    rows.name("type", names::AV_TYPE, attr.type_);
    rows.value("count", attr.count);
    rows.value("ep_per_node", attr.ep_per_node);
    // SAFETY: the name of valid attributes is null or a valid string.
    unsafe { rows.c_text("name", attr.name) };
    rows.flags("flags", names::AV_FLAGS, attr.flags);
}

/// Writes the attributes of a completion queue.
///
/// # Safety
///
/// `attr` must be valid; only under the flag `FI_XPU` it need reach to its last member.
pub(super) unsafe fn cq_attr(out: &mut Writer<'_>, whole: *const fi_cq_attr) {
    // SAFETY: the structures of applications of every version have this much.
    let attr = unsafe { &*whole.cast::<fi_cq_attr_1_9>() };
    let mut rows = Rows::begin(out, "", "fi_cq_attr");
    rows.value("size", attr.size);
    rows.flags("flags", names::CQ_FLAGS, attr.flags);
    rows.name("format", names::CQ_FORMAT, attr.format);
    rows.name("wait_obj", names::WAIT_OBJ, attr.wait_obj);
    rows.value("signaling_vector", attr.signaling_vector);
    rows.name("wait_cond", names::CQ_WAIT_COND, attr.wait_cond);
    // SAFETY: the flags say that the member is there.
    let ctx = (attr.flags & FI_XPU != 0).then(|| unsafe { (*whole).xpu_ctx });
    rows.pointer("xpu_ctx", ctx.unwrap_or_default());
}

pub(super) fn mr_attr(out: &mut Writer<'_>, attr: &fi_mr_attr) {
    let mut rows = Rows::begin(out, "", "fi_mr_attr");
    rows.pointer("mr_iov", attr.mr_iov);
    rows.value("iov_count", attr.iov_count);
    rows.flags("access", names::MR_ACCESS, attr.access);
    rows.hex("offset", attr.offset);
    rows.hex("requested_key", attr.requested_key);
    rows.pointer("context", attr.context);
    rows.value("auth_key_size", attr.auth_key_size);
    rows.name("iface", names::HMEM_IFACE, attr.iface);
}

/// Writes the attributes of a counter.
///
/// # Safety
///
/// `attr` must be valid; only under the flag `FI_XPU` it need reach to its last member.
pub(super) unsafe fn cntr_attr(out: &mut Writer<'_>, whole: *const fi_cntr_attr) {
    // SAFETY: the structures of applications of every version have this much.
    let attr = unsafe { &*whole.cast::<fi_cntr_attr_1_9>() };
    let mut rows = Rows::begin(out, "", "fi_cntr_attr");
    rows.name("events", names::CNTR_EVENTS, attr.events);
    rows.name("wait_obj", names::WAIT_OBJ, attr.wait_obj);
    rows.hex("flags", attr.flags);
    // SAFETY: the flags say that the member is there.
    let ctx = (attr.flags & FI_XPU != 0).then(|| unsafe { (*whole).xpu_ctx });
    rows.pointer("xpu_ctx", ctx.unwrap_or_default());
}

pub(super) fn cq_err_entry(out: &mut Writer<'_>, entry: &fi_cq_err_entry) {
    let mut rows = Rows::begin(out, "", "fi_cq_err_entry");
    rows.pointer("op_context", entry.op_context);
    rows.hex("flags", entry.flags);
    rows.value("len", entry.len);
    rows.pointer("buf", entry.buf);
    rows.value("data", entry.data);
    rows.hex("tag", entry.tag);
    rows.value("olen", entry.olen);
    rows.value("err", entry.err);
    // The C library prints `err` in this row too, and the text is to be the same.
    rows.value("prov_errno", entry.err);
    rows.pointer("err_data", entry.err_data);
    rows.value("err_data_size", entry.err_data_size);
}
