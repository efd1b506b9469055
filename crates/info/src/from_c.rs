//! Conversion of the `fi_info` that a C program passes, as hints or to open an object, to an owned [`Info`].

use alloc::boxed::Box;
use alloc::string::String;
use core::ffi::{CStr, c_char};

use oxifabric_abi::{fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr};
use oxifabric_types::{
    AvType, Caps, DomainAttr, EpAttr, EpType, Errno, FabricAttr, Flags, Info, MrMode, Order,
    Progress, ResourceMgmt, RxAttr, Threading, TxAttr,
};

use super::address::address_from_c;
use super::compat::{Abi, widened};

/// Reads one entry; attributes that are null become those of "no preference".
///
/// # Errors
/// `INVAL` for an enumeration value that does not exist or bytes that are no address.
///
/// # Safety
/// `info` is an entry in the newest layout whose pointers are null or valid.
pub unsafe fn from_c(info: *const fi_info) -> Result<Info, Errno> {
    // SAFETY: the caller vouches for the entry and everything it points to.
    unsafe {
        let info = info.as_ref().ok_or(Errno::INVAL)?;
        let format = info.addr_format;
        Ok(Info {
            caps: Caps::from_bits_retain(info.caps),
            mode: info.mode,
            addr_format: format,
            src: address_from_c(info.src_addr, info.src_addrlen, format)?,
            dest: address_from_c(info.dest_addr, info.dest_addrlen, format)?,
            tx: info.tx_attr.as_ref().map(tx).unwrap_or_default(),
            rx: info.rx_attr.as_ref().map(rx).unwrap_or_default(),
            ep: info.ep_attr.as_ref().map_or(Ok(EpAttr::default()), ep)?,
            domain: match info.domain_attr.as_ref() {
                Some(attr) => domain(attr, text(attr.name))?,
                None => DomainAttr::default(),
            },
            fabric: match info.fabric_attr.as_ref() {
                Some(attr) => fabric(attr, text(attr.name), text(attr.prov_name)),
                None => FabricAttr::default(),
            },
            // The `nic` of hints selects nothing: it is not read.
            nic: None,
        })
    }
}

/// As [`from_c`], onto the heap: a kernel's stack is short, and the frame in which an entry is read is gone when this returns.
///
/// # Errors
/// As [`from_c`].
///
/// # Safety
/// As [`from_c`].
#[inline(never)]
pub unsafe fn boxed_from_c(info: *const fi_info) -> Result<Box<Info>, Errno> {
    // SAFETY: the caller's contract.
    unsafe { from_c(info) }.map(Box::new)
}

/// Reads the info that an application of this API version passes when it opens an object.
///
/// # Errors
/// `INVAL` without an info, and as [`from_c`].
///
/// # Safety
/// `info` is null or comes from fi_getinfo(3).
pub unsafe fn from_application(info: *const fi_info, api_version: u32) -> Result<Info, Errno> {
    if info.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's contract; the application's structures are those of the API version that it asked for.
    let mut read = unsafe {
        match Abi::of_release(api_version) {
            Some(abi) => widened(info.cast(), &abi, |info| from_c(info)),
            None => from_c(info),
        }
    }?;
    read.fabric.api_version = api_version;
    Ok(read)
}

fn tx(attr: &fi_tx_attr) -> TxAttr {
    TxAttr {
        caps: Caps::from_bits_retain(attr.caps),
        mode: attr.mode,
        op_flags: Flags::from_bits_retain(attr.op_flags),
        msg_order: Order::from_bits_retain(attr.msg_order),
        comp_order: Order::from_bits_retain(attr.comp_order),
        inject_size: attr.inject_size,
        size: attr.size,
        max_size: 0,
        iov_limit: attr.iov_limit,
        rma_iov_limit: attr.rma_iov_limit,
        tclass: attr.tclass,
    }
}

fn rx(attr: &fi_rx_attr) -> RxAttr {
    RxAttr {
        caps: Caps::from_bits_retain(attr.caps),
        mode: attr.mode,
        op_flags: Flags::from_bits_retain(attr.op_flags),
        msg_order: Order::from_bits_retain(attr.msg_order),
        comp_order: Order::from_bits_retain(attr.comp_order),
        total_buffered_recv: attr.total_buffered_recv,
        size: attr.size,
        max_size: 0,
        iov_limit: attr.iov_limit,
    }
}

fn ep(attr: &fi_ep_attr) -> Result<EpAttr, Errno> {
    Ok(EpAttr {
        kind: EpType::from_raw(attr.type_).ok_or(Errno::INVAL)?,
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
        auth_key_size: attr.auth_key_size,
    })
}

fn domain(attr: &fi_domain_attr, name: String) -> Result<DomainAttr, Errno> {
    Ok(DomainAttr {
        name,
        threading: Threading::from_raw(attr.threading).ok_or(Errno::INVAL)?,
        control_progress: Progress::from_raw(attr.control_progress).ok_or(Errno::INVAL)?,
        data_progress: Progress::from_raw(attr.data_progress).ok_or(Errno::INVAL)?,
        resource_mgmt: ResourceMgmt::from_raw(attr.resource_mgmt).ok_or(Errno::INVAL)?,
        av_type: AvType::from_raw(attr.av_type).ok_or(Errno::INVAL)?,
        mr_mode: MrMode::from_bits_retain(attr.mr_mode),
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
        caps: Caps::from_bits_retain(attr.caps),
        mode: attr.mode,
        max_err_data: attr.max_err_data,
        mr_cnt: attr.mr_cnt,
        tclass: attr.tclass,
        auth_key_size: attr.auth_key_size,
        max_ep_auth_key: attr.max_ep_auth_key,
        max_group_id: attr.max_group_id,
        max_cntr_value: attr.max_cntr_value,
        max_err_cntr_value: attr.max_err_cntr_value,
    })
}

fn fabric(attr: &fi_fabric_attr, name: String, prov_name: String) -> FabricAttr {
    FabricAttr {
        name,
        prov_name,
        prov_version: attr.prov_version,
        api_version: attr.api_version,
    }
}

/// Copies a C string; empty for null. Bytes that are not UTF-8 are replaced, so they match no name of ours.
///
/// # Safety
/// `text` is null or a string that ends.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for the string.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}
