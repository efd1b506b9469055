//! An owned [`Info`] as a C program gets it.

use core::borrow::Borrow;
use core::ptr;

use oxifabric_abi::{fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr};
use oxifabric_types::{Address, DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr};

use super::address::address_to_c;
use super::memory::{self, copy_bytes, text};
use super::nic;

/// Builds one entry for a C program, which releases it by fi_freeinfo(3); null when memory is out.
pub fn to_c(info: &Info) -> *mut fi_info {
    let raw = memory::alloc();
    // SAFETY: `alloc` returns null or an entry of our own with all attributes.
    unsafe {
        let Some(entry) = raw.as_mut() else {
            return raw;
        };
        if fill(entry, info).is_none() {
            memory::free(raw);
            return ptr::null_mut();
        }
        raw
    }
}

/// Builds a list in the order of `infos`; null when there is none or memory is out.
pub fn to_c_list(infos: &[impl Borrow<Info>]) -> *mut fi_info {
    let mut head: *mut fi_info = ptr::null_mut();
    for info in infos.iter().rev() {
        let entry = to_c(info.borrow());
        // SAFETY: `to_c` returns null or an entry of our own; `head` is a list of ours.
        unsafe {
            let Some(filled) = entry.as_mut() else {
                memory::free(head);
                return ptr::null_mut();
            };
            filled.next = head;
        }
        head = entry;
    }
    head
}

/// Fills an empty entry; `None` when memory is out.
///
/// # Safety
/// All five attributes of `entry` are there.
unsafe fn fill(entry: &mut fi_info, info: &Info) -> Option<()> {
    entry.caps = info.caps.bits();
    entry.mode = info.mode;
    entry.addr_format = info.addr_format;
    (entry.src_addr, entry.src_addrlen) = address(info.src.as_ref())?;
    (entry.dest_addr, entry.dest_addrlen) = address(info.dest.as_ref())?;
    // SAFETY: the attributes are there; the strings of the two attributes that have some are set by their functions.
    unsafe {
        entry.tx_attr.write(tx_attr(&info.tx));
        entry.rx_attr.write(rx_attr(&info.rx));
        entry.ep_attr.write(ep_attr(&info.ep));
        domain(&mut *entry.domain_attr, &info.domain)?;
        fabric(&mut *entry.fabric_attr, &info.fabric)?;
    }
    if let Some(described) = &info.nic {
        entry.nic = nic::to_c(described)?;
    }
    Some(())
}

fn address(address: Option<&Address>) -> Option<(*mut core::ffi::c_void, usize)> {
    let Some(address) = address else {
        return Some((ptr::null_mut(), 0));
    };
    let (bytes, _) = address_to_c(address);
    // SAFETY: `bytes` is a vector of that length.
    let copy = unsafe { copy_bytes(bytes.as_ptr().cast(), bytes.len()) }?;
    Some((copy, bytes.len()))
}

/// Returns the transmit attributes as C has them.
pub fn tx_attr(attr: &TxAttr) -> fi_tx_attr {
    fi_tx_attr {
        caps: attr.caps.bits(),
        mode: attr.mode,
        op_flags: attr.op_flags.bits(),
        msg_order: attr.msg_order.bits(),
        comp_order: attr.comp_order.bits(),
        inject_size: attr.inject_size,
        size: attr.size,
        iov_limit: attr.iov_limit,
        rma_iov_limit: attr.rma_iov_limit,
        tclass: attr.tclass,
    }
}

/// Returns the receive attributes as C has them.
pub fn rx_attr(attr: &RxAttr) -> fi_rx_attr {
    fi_rx_attr {
        caps: attr.caps.bits(),
        mode: attr.mode,
        op_flags: attr.op_flags.bits(),
        msg_order: attr.msg_order.bits(),
        comp_order: attr.comp_order.bits(),
        total_buffered_recv: attr.total_buffered_recv,
        size: attr.size,
        iov_limit: attr.iov_limit,
    }
}

/// Returns the attributes of an endpoint as C has them, without a key.
pub fn ep_attr(attr: &EpAttr) -> fi_ep_attr {
    fi_ep_attr {
        type_: attr.kind.raw(),
        protocol: attr.protocol,
        protocol_version: attr.protocol_version,
        max_msg_size: attr.max_msg_size,
        msg_prefix_size: attr.msg_prefix_size,
        max_order_raw_size: attr.max_order_raw_size,
        max_order_war_size: attr.max_order_war_size,
        max_order_waw_size: attr.max_order_waw_size,
        mem_tag_format: attr.mem_tag_format,
        tx_ctx_cnt: attr.tx_ctx_cnt,
        rx_ctx_cnt: attr.rx_ctx_cnt,
        auth_key_size: 0,
        auth_key: ptr::null_mut(),
        xpu_ctx: ptr::null_mut(),
    }
}

fn domain(to: &mut fi_domain_attr, attr: &DomainAttr) -> Option<()> {
    *to = domain_attr(attr);
    to.name = text(&attr.name)?;
    Some(())
}

/// Returns the attributes of a domain as C has them, without its name and a key.
pub fn domain_attr(attr: &DomainAttr) -> fi_domain_attr {
    fi_domain_attr {
        threading: attr.threading.raw(),
        control_progress: attr.control_progress.raw(),
        data_progress: attr.data_progress.raw(),
        resource_mgmt: attr.resource_mgmt.raw(),
        av_type: attr.av_type.raw(),
        mr_mode: attr.mr_mode.bits(),
        mr_key_size: attr.mr_key_size,
        cq_data_size: attr.cq_data_size,
        cq_cnt: attr.cq_cnt,
        ep_cnt: attr.ep_cnt,
        tx_ctx_cnt: attr.tx_ctx_cnt,
        rx_ctx_cnt: attr.rx_ctx_cnt,
        max_ep_tx_ctx: attr.max_ep_tx_ctx,
        max_ep_rx_ctx: attr.max_ep_rx_ctx,
        max_ep_stx_ctx: attr.max_ep_stx_ctx,
        max_ep_srx_ctx: attr.max_ep_srx_ctx,
        cntr_cnt: attr.cntr_cnt,
        mr_iov_limit: attr.mr_iov_limit,
        caps: attr.caps.bits(),
        mode: attr.mode,
        max_err_data: attr.max_err_data,
        mr_cnt: attr.mr_cnt,
        tclass: attr.tclass,
        max_ep_auth_key: attr.max_ep_auth_key,
        max_group_id: attr.max_group_id,
        max_cntr_value: attr.max_cntr_value,
        max_err_cntr_value: attr.max_err_cntr_value,
        ..fi_domain_attr::ZERO
    }
}

fn fabric(to: &mut fi_fabric_attr, attr: &FabricAttr) -> Option<()> {
    to.prov_version = attr.prov_version;
    to.api_version = attr.api_version;
    to.name = text(&attr.name)?;
    to.prov_name = text(&attr.prov_name)?;
    Some(())
}
