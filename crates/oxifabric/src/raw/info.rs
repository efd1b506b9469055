//! Offers of the library (`struct fi_info`).

use core::ffi::{CStr, c_char, c_void};
use core::ptr::{self, NonNull};

use oxifabric_abi::{
    FI_TYPE_EP_TYPE, FI_TYPE_INFO, FI_TYPE_PROTOCOL, fi_fabric_attr, fi_info, fid_t,
};

use super::Library;

/// Reads one field of an attribute structure, which an older library may have allocated shorter than its mirror.
macro_rules! field {
    ($self:ident.$attr:ident, $field:ident, $absent:expr) => {{
        let attr = $self.base().$attr;
        if attr.is_null() {
            $absent
        } else {
            // SAFETY: the attributes belong to the offer, and every layout that is asked for has the field.
            unsafe { (*attr).$field }
        }
    }};
}

/// A copy of one element of what `fi_getinfo` returned.
///
/// An older library fills only the beginning of `fi_domain_attr`, so nothing beyond `tclass` may be read from it.
pub(crate) struct InfoHandle {
    info: NonNull<fi_info>,
    library: &'static Library,
}

// SAFETY: an offer is plain memory that only its owner changes.
unsafe impl Send for InfoHandle {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for InfoHandle {}

impl InfoHandle {
    /// Copies one element of a list; `None` when memory is short.
    ///
    /// # Safety
    ///
    /// `from` must be an offer of this library.
    pub(super) unsafe fn copy_of(library: &'static Library, from: *const fi_info) -> Option<Self> {
        // SAFETY: the caller vouches for the element.
        let copy = unsafe { (library.functions.dupinfo)(from) };
        NonNull::new(copy).map(|info| Self { info, library })
    }

    /// Takes ownership of an offer that an event brought; `None` for null.
    ///
    /// # Safety
    ///
    /// `info` must be null or an offer of this library that nothing else frees.
    pub(super) unsafe fn adopt(library: &'static Library, info: *mut fi_info) -> Option<Self> {
        NonNull::new(info).map(|info| Self { info, library })
    }

    /// Returns the handle of the connection request that the offer came with.
    pub(super) fn request(&self) -> fid_t {
        self.base().handle
    }

    pub(crate) fn library(&self) -> &'static Library {
        self.library
    }

    /// Returns the structure, for calls that take it without keeping it.
    pub(super) fn as_ptr(&self) -> *mut fi_info {
        self.info.as_ptr()
    }

    fn base(&self) -> &fi_info {
        // SAFETY: the structure belongs to `self`; its size has never changed but for `nic` at its end.
        unsafe { self.info.as_ref() }
    }

    pub(crate) fn caps(&self) -> u64 {
        self.base().caps
    }

    pub(crate) fn mode(&self) -> u64 {
        self.base().mode
    }

    pub(crate) fn addr_format(&self) -> u32 {
        self.base().addr_format
    }

    pub(crate) fn source(&self) -> &[u8] {
        // SAFETY: the library gave both.
        unsafe { bytes(self.base().src_addr, self.base().src_addrlen) }
    }

    pub(crate) fn destination(&self) -> &[u8] {
        // SAFETY: the library gave both.
        unsafe { bytes(self.base().dest_addr, self.base().dest_addrlen) }
    }

    pub(crate) fn fabric_name(&self) -> &str {
        let name = field!(self.fabric_attr, name, ptr::null_mut());
        // SAFETY: the string belongs to the offer.
        unsafe { text(name) }
    }

    pub(crate) fn provider(&self) -> &str {
        let name = field!(self.fabric_attr, prov_name, ptr::null_mut());
        // SAFETY: the string belongs to the offer.
        unsafe { text(name) }
    }

    pub(crate) fn provider_version(&self) -> u32 {
        field!(self.fabric_attr, prov_version, 0)
    }

    pub(crate) fn domain_name(&self) -> &str {
        let name = field!(self.domain_attr, name, ptr::null_mut());
        // SAFETY: the string belongs to the offer.
        unsafe { text(name) }
    }

    pub(crate) fn ep_type(&self) -> u32 {
        field!(self.ep_attr, type_, 0)
    }

    pub(crate) fn max_message_size(&self) -> usize {
        field!(self.ep_attr, max_msg_size, 0)
    }

    pub(crate) fn inject_size(&self) -> usize {
        field!(self.tx_attr, inject_size, 0)
    }

    pub(crate) fn tx_size(&self) -> usize {
        field!(self.tx_attr, size, 0)
    }

    pub(crate) fn rx_size(&self) -> usize {
        field!(self.rx_attr, size, 0)
    }

    pub(crate) fn tx_order(&self) -> u64 {
        field!(self.tx_attr, msg_order, 0)
    }

    pub(crate) fn rx_order(&self) -> u64 {
        field!(self.rx_attr, msg_order, 0)
    }

    pub(crate) fn data_progress(&self) -> u32 {
        field!(self.domain_attr, data_progress, 0)
    }

    pub(crate) fn resource_mgmt(&self) -> u32 {
        field!(self.domain_attr, resource_mgmt, 0)
    }

    /// Returns modes of the transmit and receive sides beside those of the offer.
    pub(crate) fn side_modes(&self) -> u64 {
        field!(self.tx_attr, mode, 0) | field!(self.rx_attr, mode, 0)
    }

    pub(crate) fn cq_data_size(&self) -> usize {
        field!(self.domain_attr, cq_data_size, 0)
    }

    pub(crate) fn threading(&self) -> u32 {
        field!(self.domain_attr, threading, 0)
    }

    pub(crate) fn mr_mode(&self) -> i32 {
        field!(self.domain_attr, mr_mode, 0)
    }

    pub(crate) fn mr_key_size(&self) -> usize {
        field!(self.domain_attr, mr_key_size, 0)
    }

    pub(crate) fn domain_caps(&self) -> u64 {
        field!(self.domain_attr, caps, 0)
    }

    pub(crate) fn av_type(&self) -> u32 {
        field!(self.domain_attr, av_type, 0)
    }

    /// Returns the attributes that open a fabric.
    pub(super) fn fabric_attr(&self) -> *mut fi_fabric_attr {
        self.base().fabric_attr
    }

    /// Returns the library's text for the endpoint type.
    pub(crate) fn ep_type_text(&self) -> String {
        let value = self.ep_type();
        // SAFETY: the value is of the kind that is named.
        unsafe {
            self.library
                .print((&raw const value).cast(), FI_TYPE_EP_TYPE)
        }
    }

    /// Returns the library's text for the protocol.
    pub(crate) fn protocol_text(&self) -> String {
        let value: u32 = field!(self.ep_attr, protocol, 0);
        // SAFETY: the value is of the kind that is named.
        unsafe {
            self.library
                .print((&raw const value).cast(), FI_TYPE_PROTOCOL)
        }
    }

    /// Returns the library's text for the whole offer.
    pub(crate) fn text(&self) -> String {
        // SAFETY: the value is of the kind that is named.
        unsafe {
            self.library
                .print(self.info.as_ptr().cast_const().cast(), FI_TYPE_INFO)
        }
    }
}

impl Drop for InfoHandle {
    fn drop(&mut self) {
        // SAFETY: the copy is ours.
        unsafe { (self.library.functions.freeinfo)(self.info.as_ptr()) };
    }
}

/// Returns a C string of an entry; an empty one for null, or if it is not UTF-8.
///
/// # Safety
///
/// `text` must be null or a string that lives as long as the result.
unsafe fn text<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller vouches for the string.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
}

/// Returns bytes that an entry points to; none for null.
///
/// # Safety
///
/// `start` must be null or have `len` bytes that live as long as the result.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { core::slice::from_raw_parts(start.cast(), len) }
}
