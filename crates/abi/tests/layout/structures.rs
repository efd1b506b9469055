//! Every structure of the headers with its members, each named once.

use oxifabric_abi::compat::*;
use oxifabric_abi::*;

/// Where a member lies, or how large a structure is if `field` is [`WHOLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) structure: &'static str,
    pub(crate) field: &'static str,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// The field of the row that gives the size of a structure.
pub(crate) const WHOLE: &str = "-";

/// Lists the places of structures. Members of a nested base are written with their path and listed by their last name,
/// which is what C calls them; `type_` is `type` in C.
macro_rules! places {
    ($($name:ident { $($($path:ident).+),* $(,)? })*) => {
        vec![$(
            Place { structure: stringify!($name), field: WHOLE, offset: 0, size: size_of::<$name>() },
            $( Place {
                structure: stringify!($name),
                field: c_name(stringify!($($path).+)),
                offset: core::mem::offset_of!($name, $($path).+),
                size: size_of_member(|s: &$name| &raw const s.$($path).+),
            }, )*
        )*]
    };
}

fn c_name(path: &'static str) -> &'static str {
    let last = path.rsplit('.').next().unwrap_or(path).trim();
    if last == "type_" { "type" } else { last }
}

fn size_of_member<T, M>(_: impl Fn(&T) -> *const M) -> usize {
    size_of::<M>()
}

/// The structures of the 2.7 headers.
pub(crate) fn current() -> Vec<Place> {
    places! {
        // rdma/fabric.h
        fi_ioc { addr, count }
        fi_tx_attr {
            caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit,
            rma_iov_limit, tclass,
        }
        fi_rx_attr {
            caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit,
        }
        fi_ep_attr {
            type_, protocol, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size,
            max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt,
            auth_key_size, auth_key, xpu_ctx,
        }
        fi_domain_attr {
            domain, name, threading, control_progress, data_progress, resource_mgmt, av_type,
            mr_mode, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt,
            max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit,
            caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt, tclass, max_ep_auth_key,
            max_group_id, max_cntr_value, max_err_cntr_value, max_xpu_ctx_cnt,
        }
        fi_fabric_attr { fabric, name, prov_name, prov_version, api_version }
        fi_info {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic,
        }
        fi_device_attr { name, device_id, device_version, vendor_id, driver, firmware }
        fi_pci_attr { domain_id, bus_id, device_id, function_id }
        fi_bus_attr { bus_type, attr }
        fi_link_attr { address, mtu, speed, state, network_type }
        fi_ops { size, close, bind, control, ops_open, tostr, ops_set }
        fid { fclass, context, ops }
        fi_ops_fabric { size, domain, passive_ep, eq_open, wait_open, trywait, domain2 }
        fid_fabric { fid, ops, api_version }
        fid_nic { fid, device_attr, bus_attr, link_attr, prov_attr }
        fi_alias { fid, flags }
        fi_fid_var { name, val }
        fi_mr_raw_attr { flags, base_addr, raw_key, key_size }
        fi_mr_map_raw { flags, base_addr, raw_key, key_size, key }
        fi_param { name, type_, help_string, value }
        fi_context { internal }
        fi_context2 { internal }
        fi_recv_context { ep, context }

        // rdma/fi_domain.h
        fi_av_attr { type_, rx_ctx_bits, count, ep_per_node, name, map_addr, flags }
        fi_av_set_attr { count, start_addr, end_addr, stride, comm_key_size, comm_key, flags }
        fi_ops_av {
            size, insert, insertsvc, insertsym, remove, lookup, straddr, av_set, insert_auth_key,
            lookup_auth_key, set_user_id, lookup2,
        }
        fid_av { fid, ops }
        fid_mr { fid, mem_desc, key }
        fi_mr_dmabuf { fd, offset, len, base_addr }
        fi_mr_auth_key { av, src_addr }
        fi_mr_attr {
            mr_iov, iov_count, access, offset, requested_key, context, auth_key_size, auth_key,
            iface, device, hmem_data, page_size, base_mr, sub_mr_cnt,
        }
        fi_mr_modify { flags, attr }
        fi_hmem_override_ops { size, copy_from_hmem_iov, copy_to_hmem_iov }
        fi_ops_domain {
            size, av_open, cq_open, endpoint, scalable_ep, cntr_open, poll_open, stx_ctx, srx_ctx,
            query_atomic, query_collective, endpoint2, xpu_ctx,
        }
        fi_ops_mr { size, reg, regv, regattr }
        fid_domain { fid, ops, mr }

        // rdma/fi_endpoint.h
        fi_msg { msg_iov, desc, iov_count, addr, context, data }
        fi_ops_ep { size, cancel, getopt, setopt, tx_ctx, rx_ctx, rx_size_left, tx_size_left, export_xpu }
        fi_ops_msg {
            size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata,
        }
        fid_ep { fid, ops, cm, msg, rma, tagged, atomic, collective }
        fid_pep { fid, ops, cm }
        fid_stx { fid, ops }

        // rdma/fi_cm.h
        fid_mc { fid, fi_addr }
        fi_ops_cm {
            size, setname, getname, getpeer, connect, listen, accept, reject, shutdown, join,
        }

        // rdma/fi_eq.h
        fi_wait_attr { wait_obj, flags }
        fi_ops_wait { size, wait }
        fid_wait { fid, ops }
        fi_mutex_cond { mutex, cond }
        fi_wait_pollfd { change_index, nfds, fd }
        fi_poll_attr { flags }
        fi_ops_poll { size, poll, poll_add, poll_del }
        fid_poll { fid, ops }
        fi_eq_attr { size, flags, wait_obj, signaling_vector, wait_set }
        fi_eq_entry { fid, context, data }
        fi_eq_err_entry { fid, context, data, err, prov_errno, err_data, err_data_size }
        fi_eq_cm_entry { fid, info, data }
        fi_ops_eq { size, read, readerr, write, sread, strerror }
        fid_eq { fid, ops }
        fi_cq_entry { op_context }
        fi_cq_msg_entry { op_context, flags, len }
        fi_cq_data_entry { op_context, flags, len, buf, data }
        fi_cq_tagged_entry { op_context, flags, len, buf, data, tag }
        fi_cq_err_entry {
            op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size,
            src_addr,
        }
        fi_cq_attr { size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set, xpu_ctx }
        fi_ops_cq { size, read, readfrom, readerr, sread, sreadfrom, signal, strerror, export_xpu }
        fid_cq { fid, ops }
        fi_cntr_attr { events, wait_obj, wait_set, flags, xpu_ctx }
        fi_ops_cntr { size, read, readerr, add, set, wait, adderr, seterr, export_xpu }
        fid_cntr { fid, ops }

        // rdma/fi_rma.h
        fi_rma_iov { addr, len, key }
        fi_rma_ioc { addr, count, key }
        fi_msg_rma { msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, context, data }
        fi_ops_rma {
            size, read, readv, readmsg, write, writev, writemsg, inject, writedata, injectdata,
        }

        // rdma/fi_tagged.h
        fi_msg_tagged { msg_iov, desc, iov_count, addr, tag, ignore, context, data }
        fi_ops_tagged {
            size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata,
        }

        // rdma/fi_atomic.h
        fi_atomic_attr { count, size }
        fi_msg_atomic {
            msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, datatype, op, context, data,
        }
        fi_msg_fetch { msg_iov, desc, iov_count }
        fi_msg_compare { msg_iov, desc, iov_count }
        fi_ops_atomic {
            size, write, writev, writemsg, inject, readwrite, readwritev, readwritemsg, compwrite,
            compwritev, compwritemsg, writevalid, readwritevalid, compwritevalid,
        }

        // rdma/fi_collective.h
        fi_ops_av_set { size, set_union, intersect, diff, insert, remove, addr }
        fid_av_set { fid, ops }
        fi_collective_attr { op, datatype, datatype_attr, max_members, mode }
        fi_collective_addr { set, coll_addr }
        fi_msg_collective {
            msg_iov, desc, iov_count, coll_addr, root_addr, coll, datatype, op, context,
        }
        fi_ops_collective {
            size, barrier, broadcast, alltoall, allreduce, allgather, reduce_scatter, reduce,
            scatter, gather, msg, barrier2,
        }

        // rdma/fi_trigger.h
        fi_trigger_threshold { cntr, threshold }
        fi_trigger_var { datatype, count, addr, value }
        fi_trigger_xpu { count, iface, device, var }
        fi_op_msg { ep, msg, flags }
        fi_op_tagged { ep, msg, flags }
        fi_op_rma { ep, msg, flags }
        fi_op_atomic { ep, msg, flags }
        fi_op_fetch_atomic { ep, msg, fetch, flags }
        fi_op_compare_atomic { ep, msg, fetch, compare, flags }
        fi_op_cntr { cntr, value }
        fi_triggered_context { event_type, trigger }
        fi_triggered_context2 { event_type, trigger }
        fi_deferred_work { context, threshold, triggering_cntr, completion_cntr, op_type, op }

        // rdma/fi_ext.h
        fi_fid_export { fid, flags, context }
        fi_ops_mem_monitor { size, start, stop, subscribe, unsubscribe, valid }
        fi_ops_mem_notify { size, notify }
        fid_mem_monitor { fid, export_ops, import_ops }
        fi_ops_log { size, enabled, ready, log }
        fid_logging { fid, ops }

        // rdma/fi_profile.h
        fi_profile_desc { id, datatype_sel, datatype, flags, size, name, desc }
        fi_profile_ops {
            size, reset, query_vars, query_events, read_var, reg_callback, start_reads, end_reads,
        }
        fid_profile { fid, ops }

        // rdma/fi_xpu.h
        fi_mr_xpu_desc { buf, len, flags, ctx }
        fi_xpu_ops { size, alloc, import, free }
        fi_xpu_attr { iface, device, ops }
        fi_xpu_ctx_attr { caps, av_addr_size, mr_desc_size }
        fi_ops_xpu_ctx { size, query }
        fid_xpu_ctx { fid, ops }
        fid_xpu { fclass, prov_id, prov_ctx }
        fid_xpu_ep { fid }
        fid_xpu_cq { fid }
        fid_xpu_cntr { fid }

        // rdma/providers/fi_peer.h
        fi_ops_av_owner { size, query, ep_addr }
        fid_peer_av { fid, owner_ops }
        fi_peer_av_context { size, av }
        fi_ops_av_set_owner { size, members }
        fid_peer_av_set { fid, owner_ops }
        fi_peer_av_set_context { size, av_set }
        fi_ops_cq_owner { size, write, writeerr }
        fid_peer_cq { fid, owner_ops }
        fi_peer_cq_context { size, cq }
        fi_ops_cntr_owner { size, inc, incerr }
        fid_peer_cntr { fid, owner_ops }
        fi_peer_cntr_context { size, cntr }
        fi_peer_domain_context { size, domain }
        fi_peer_eq_context { size, eq }
        fi_peer_rx_entry {
            srx, addr, msg_size, tag, cq_data, flags, context, count, desc, peer_context,
            owner_context, iov,
        }
        fi_peer_match_attr { addr, msg_size, tag }
        fi_ops_srx_owner {
            size, get_msg, get_tag, queue_msg, queue_tag, foreach_unspec_addr, free_entry,
        }
        fi_ops_srx_peer { size, start_msg, start_tag, discard_msg, discard_tag }
        fid_peer_srx { ep_fid, owner_ops, peer_ops }
        fi_peer_srx_context { size, srx }
        fi_ops_transfer_peer { size, complete, comperr }
        fi_peer_transfer_context { size, info, ep, peer_ops }

        // rdma/providers/fi_prov.h
        fi_provider { version, fi_version, context, name, getinfo, fabric, cleanup }
    }
}

/// The structures of older ABI versions.
pub(crate) fn older() -> Vec<Place> {
    places! {
        fi_fabric_attr_1_0 { fabric, name, prov_name, prov_version }
        fi_domain_attr_1_0 {
            domain, name, threading, control_progress, data_progress, resource_mgmt, av_type,
            mr_mode, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt,
            max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx,
        }
        fi_ep_attr_1_0 {
            type_, protocol, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size,
            max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt,
        }
        fi_tx_attr_1_0 {
            caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit,
            rma_iov_limit,
        }
        fi_info_1_0 {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr,
        }
        fi_domain_attr_1_1 {
            base.domain, base.name, base.threading, base.control_progress, base.data_progress,
            base.resource_mgmt, base.av_type, base.mr_mode, base.mr_key_size, base.cq_data_size,
            base.cq_cnt, base.ep_cnt, base.tx_ctx_cnt, base.rx_ctx_cnt, base.max_ep_tx_ctx,
            base.max_ep_rx_ctx, base.max_ep_stx_ctx, base.max_ep_srx_ctx, cntr_cnt, mr_iov_limit,
            caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt,
        }
        fi_info_1_1 {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr,
        }
        fi_info_1_2 {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic,
        }
        fi_domain_attr_1_3 {
            base.base.domain, base.base.name, base.base.threading, base.base.control_progress,
            base.base.data_progress, base.base.resource_mgmt, base.base.av_type, base.base.mr_mode,
            base.base.mr_key_size, base.base.cq_data_size, base.base.cq_cnt, base.base.ep_cnt,
            base.base.tx_ctx_cnt, base.base.rx_ctx_cnt, base.base.max_ep_tx_ctx,
            base.base.max_ep_rx_ctx, base.base.max_ep_stx_ctx, base.base.max_ep_srx_ctx,
            base.cntr_cnt, base.mr_iov_limit, base.caps, base.mode, base.auth_key,
            base.auth_key_size, base.max_err_data, base.mr_cnt, tclass,
        }
        fi_info_1_3 {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic,
        }
        fi_domain_attr_1_7 {
            base.base.base.domain, base.base.base.name, base.base.base.threading,
            base.base.base.control_progress, base.base.base.data_progress,
            base.base.base.resource_mgmt, base.base.base.av_type, base.base.base.mr_mode,
            base.base.base.mr_key_size, base.base.base.cq_data_size, base.base.base.cq_cnt,
            base.base.base.ep_cnt, base.base.base.tx_ctx_cnt, base.base.base.rx_ctx_cnt,
            base.base.base.max_ep_tx_ctx, base.base.base.max_ep_rx_ctx,
            base.base.base.max_ep_stx_ctx, base.base.base.max_ep_srx_ctx, base.base.cntr_cnt,
            base.base.mr_iov_limit, base.base.caps, base.base.mode, base.base.auth_key,
            base.base.auth_key_size, base.base.max_err_data, base.base.mr_cnt, base.tclass,
            max_ep_auth_key,
        }
        fi_info_1_7 {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic,
        }
        fi_domain_attr_1_8 {
            base.base.base.base.domain, base.base.base.base.name, base.base.base.base.threading,
            base.base.base.base.control_progress, base.base.base.base.data_progress,
            base.base.base.base.resource_mgmt, base.base.base.base.av_type,
            base.base.base.base.mr_mode, base.base.base.base.mr_key_size,
            base.base.base.base.cq_data_size, base.base.base.base.cq_cnt,
            base.base.base.base.ep_cnt, base.base.base.base.tx_ctx_cnt,
            base.base.base.base.rx_ctx_cnt, base.base.base.base.max_ep_tx_ctx,
            base.base.base.base.max_ep_rx_ctx, base.base.base.base.max_ep_stx_ctx,
            base.base.base.base.max_ep_srx_ctx, base.base.base.cntr_cnt,
            base.base.base.mr_iov_limit, base.base.base.caps, base.base.base.mode,
            base.base.base.auth_key, base.base.base.auth_key_size, base.base.base.max_err_data,
            base.base.base.mr_cnt, base.base.tclass, base.max_ep_auth_key, max_group_id,
        }
        fi_info_1_8 {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic,
        }
        fi_domain_attr_1_9 {
            base.base.base.base.base.domain, base.base.base.base.base.name,
            base.base.base.base.base.threading, base.base.base.base.base.control_progress,
            base.base.base.base.base.data_progress, base.base.base.base.base.resource_mgmt,
            base.base.base.base.base.av_type, base.base.base.base.base.mr_mode,
            base.base.base.base.base.mr_key_size, base.base.base.base.base.cq_data_size,
            base.base.base.base.base.cq_cnt, base.base.base.base.base.ep_cnt,
            base.base.base.base.base.tx_ctx_cnt, base.base.base.base.base.rx_ctx_cnt,
            base.base.base.base.base.max_ep_tx_ctx, base.base.base.base.base.max_ep_rx_ctx,
            base.base.base.base.base.max_ep_stx_ctx, base.base.base.base.base.max_ep_srx_ctx,
            base.base.base.base.cntr_cnt, base.base.base.base.mr_iov_limit,
            base.base.base.base.caps, base.base.base.base.mode, base.base.base.base.auth_key,
            base.base.base.base.auth_key_size, base.base.base.base.max_err_data,
            base.base.base.base.mr_cnt, base.base.base.tclass, base.base.max_ep_auth_key,
            base.max_group_id, max_cntr_value, max_err_cntr_value,
        }
        fi_ep_attr_1_1 {
            base.type_, base.protocol, base.protocol_version, base.max_msg_size,
            base.msg_prefix_size, base.max_order_raw_size, base.max_order_war_size,
            base.max_order_waw_size, base.mem_tag_format, base.tx_ctx_cnt, base.rx_ctx_cnt,
            auth_key_size, auth_key,
        }
        fi_info_1_9 {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic,
        }
        fi_cq_attr_1_9 {
            size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set,
        }
        fi_cntr_attr_1_9 { events, wait_obj, wait_set, flags }
        fi_cq_err_entry_1_0 {
            op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data,
        }
        fi_cq_err_entry_1_1 {
            base.op_context, base.flags, base.len, base.buf, base.data, base.tag, base.olen,
            base.err, base.prov_errno, base.err_data, err_data_size,
        }
    }
}
