//! `fi_info` and objects.

use super::writer::{INDENT, Rows, Writer};
use super::{address, attr, names};
use core::ffi::c_void;
use core::mem::offset_of;
use oxifabric_abi::*;

/// Writes an entry of fi_getinfo(3).
///
/// # Safety
///
/// Everything that `info` points to must be valid or null.
pub(super) unsafe fn info(out: &mut Writer<'_>, info: &fi_info) {
    let mut rows = Rows::begin(out, "", "fi_info");
    rows.flags("caps", names::CAPS, info.caps);
    rows.flags("mode", names::MODE, info.mode);
    rows.name("addr_format", names::ADDR_FORMAT, info.addr_format);
    rows.value("src_addrlen", info.src_addrlen);
    rows.value("dest_addrlen", info.dest_addrlen);
    // SAFETY: the addresses of a valid `fi_info` are of its format, the objects are open, the attributes valid.
    unsafe {
        endpoint_address(&mut rows, "src_addr", info.addr_format, info.src_addr);
        endpoint_address(&mut rows, "dest_addr", info.addr_format, info.dest_addr);
        object(out, "    handle: ", info.handle);
        attr::tx_attr(out, INDENT, info.tx_attr);
        attr::rx_attr(out, INDENT, info.rx_attr);
        attr::ep_attr(out, INDENT, info.ep_attr);
        attr::domain_attr(out, INDENT, info.domain_attr);
        attr::fabric_attr(out, INDENT, info.fabric_attr);
        object(out, "    nic: ", info.nic.cast());
    }
}

/// Writes the address of an endpoint, or that there is none.
///
/// # Safety
///
/// `addr` must be null or an address of the format.
unsafe fn endpoint_address(rows: &mut Rows<'_, '_>, key: &str, format: u32, addr: *const c_void) {
    rows.row(key, |out| {
        if addr.is_null() {
            return out.text("(null)");
        }
        // SAFETY: not null, so an address of the format.
        out.with_last_byte(|out| unsafe { address::write(out, format, addr) });
    });
}

/// Lets an object spell itself, or spells where it lies.
///
/// # Safety
///
/// `fid` must be null or an open object.
pub(super) unsafe fn object(out: &mut Writer<'_>, label: &str, fid: *const fid) {
    // SAFETY: an open object points to its operations; `size` says whether this one is among them.
    let tostr = unsafe {
        let ops = fid.as_ref().and_then(|fid| fid.ops.as_ref());
        ops.filter(|ops| ops.size > offset_of!(fi_ops, tostr))
            .and_then(|ops| ops.tostr)
    };
    match tostr {
        // SAFETY: the operation writes a string to the buffer that it is lent; its result says nothing more.
        Some(tostr) => out.lend(|buf, len| unsafe {
            tostr(fid, buf, len);
        }),
        None => {
            out.text(label);
            out.pointer(fid.cast());
            out.text("\n");
        }
    }
}
