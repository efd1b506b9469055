//! `fi_tostr`: structures, enumerations and flags as text. Source: fi_fabric(3).
//!
//! Programs print and compare these texts, so they are those of libfabric 2.7 to the byte: a structure is a YAML mapping
//! under its name, flags are a list of their names, an enumeration is the bare name of its value.
//!
//! - `writer`: text that ends with the caller's buffer, and the rows of a mapping.
//! - `names`: which flags and values have a name, in the order in which they are printed.
//! - `attr`, `info`, `address`: the structures.

mod address;
mod attr;
mod info;
mod names;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use writer::Writer;

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_void};
use core::ptr;
use oxifabric_abi::*;
use std::fmt::Write as _;

/// Bytes of the buffer behind [`fi_tostr`]; what does not fit is cut off, as in C.
const STATIC_LEN: usize = 8192;

thread_local! {
    /// The text of the last [`fi_tostr`] of this thread.
    static TEXT: UnsafeCell<[u8; STATIC_LEN]> = const { UnsafeCell::new([0; STATIC_LEN]) };
}

/// Spells `data` in a buffer of the library, which the next call of the same thread overwrites.
///
/// Returns null if `data` is null. The text ends with the thread that asked for it. Source: fi_fabric(3).
///
/// # Safety
///
/// As for [`fi_tostr_r`].
pub(crate) unsafe extern "C" fn fi_tostr(data: *const c_void, datatype: fi_type) -> *mut c_char {
    let buf = TEXT.with(|text| text.get()).cast();
    // SAFETY: the buffer is this thread's own, as long as said, and nothing else writes to it during the call.
    unsafe { fi_tostr_r(buf, STATIC_LEN, data, datatype) }
}

/// Spells `data` in the caller's buffer and returns the buffer; text that does not fit is cut off.
///
/// Returns null if a pointer is null or `len` is 0. Source: fi_fabric(3).
///
/// # Safety
///
/// `buf` must have room for `len` bytes. `data` must point to a value of the type that `datatype` stands for, laid out as
/// in 2.7, and everything that it points to must be valid too.
pub(crate) unsafe extern "C" fn fi_tostr_r(
    buf: *mut c_char,
    len: usize,
    data: *const c_void,
    datatype: fi_type,
) -> *mut c_char {
    if buf.is_null() || len == 0 || data.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's buffer has room for `len` bytes, and `Writer` initializes what it uses.
    let mut out = unsafe { Writer::new(buf, len) };
    // SAFETY: the caller's contract, passed on.
    unsafe { tostr(&mut out, data, datatype) };
    buf
}

/// Appends the text of `data` to `out`.
///
/// # Safety
///
/// `data` must point to a value of the type that `datatype` stands for, and everything that it points to must be valid.
pub(crate) unsafe fn tostr(out: &mut Writer<'_>, data: *const c_void, datatype: fi_type) {
    if datatype == FI_TYPE_MR_MODE {
        // SAFETY: these flags are an `int`.
        return out.flags(names::MR_MODE, unsafe { data.cast::<u32>().read() }.into());
    }
    if let Some(flags) = names::flags_of(datatype) {
        // SAFETY: all other flags are 64 bits wide.
        return out.flags(flags, unsafe { data.cast::<u64>().read() });
    }
    if let Some(values) = names::values_of(datatype) {
        // SAFETY: single values are enumerations of C or 32 bits wide.
        return out.name(values, unsafe { data.cast::<u32>().read() });
    }
    // SAFETY: the caller's contract, passed on.
    unsafe { structure(out, data, datatype) }
}

/// Appends the text of a structure.
///
/// # Safety
///
/// As for [`tostr`].
unsafe fn structure(out: &mut Writer<'_>, data: *const c_void, datatype: fi_type) {
    // SAFETY: each cast is to the type that `datatype` stands for.
    unsafe {
        match datatype {
            FI_TYPE_INFO => info::info(out, &*data.cast()),
            FI_TYPE_TX_ATTR => attr::tx_attr(out, "", data.cast()),
            FI_TYPE_RX_ATTR => attr::rx_attr(out, "", data.cast()),
            FI_TYPE_EP_ATTR => attr::ep_attr(out, "", data.cast()),
            FI_TYPE_DOMAIN_ATTR => attr::domain_attr(out, "", data.cast()),
            FI_TYPE_FABRIC_ATTR => attr::fabric_attr(out, "", data.cast()),
            FI_TYPE_AV_ATTR => attr::av_attr(out, &*data.cast()),
            FI_TYPE_CQ_ATTR => attr::cq_attr(out, data.cast()),
            FI_TYPE_MR_ATTR => attr::mr_attr(out, &*data.cast()),
            FI_TYPE_CNTR_ATTR => attr::cntr_attr(out, data.cast()),
            FI_TYPE_CQ_ERR_ENTRY => attr::cq_err_entry(out, &*data.cast()),
            FI_TYPE_FID => info::object(out, "fid: ", data.cast()),
            FI_TYPE_VERSION => version(out),
            _ => out.text("Unknown type"),
        }
    }
}

fn version(out: &mut Writer<'_>) {
    let _ = write!(
        out,
        "{FI_MAJOR_VERSION}.{FI_MINOR_VERSION}.{FI_REVISION_VERSION}"
    );
}
