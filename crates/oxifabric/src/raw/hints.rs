//! A request as C lays it out.

use core::ffi::{c_char, c_void};
use core::ptr;
use std::ffi::CString;

use oxifabric_abi::{fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr};

/// What `fi_getinfo` is asked for: plain values, laid out for C only during the call.
#[derive(Clone, Debug, Default)]
pub(crate) struct HintsImage {
    /// Whether there are hints at all; without them the library offers what it likes.
    pub(crate) any: bool,
    /// Whether an address was asked for that is none, which nothing can meet.
    pub(crate) malformed: bool,
    pub(crate) node: Option<CString>,
    pub(crate) service: Option<CString>,
    pub(crate) flags: u64,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) domain_mode: u64,
    pub(crate) mr_mode: i32,
    pub(crate) addr_format: u32,
    pub(crate) ep_type: u32,
    pub(crate) threading: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) provider: Option<CString>,
    pub(crate) fabric: Option<CString>,
    pub(crate) domain: Option<CString>,
    /// Addresses, whole in the format, because a provider may look at all of it.
    pub(crate) source: Vec<u8>,
    pub(crate) destination: Vec<u8>,
}

impl HintsImage {
    /// Calls `use_it` with the request, or with null if there are no hints.
    pub(super) fn with_c<T>(&self, use_it: impl FnOnce(*const fi_info) -> T) -> T {
        if !self.any {
            return use_it(ptr::null());
        }
        let (mut tx, mut rx) = (fi_tx_attr::ZERO, fi_rx_attr::ZERO);
        let mut ep = fi_ep_attr {
            type_: self.ep_type,
            max_msg_size: self.max_msg_size,
            ..fi_ep_attr::ZERO
        };
        let mut domain = fi_domain_attr {
            name: text(&self.domain),
            threading: self.threading,
            mode: self.domain_mode,
            mr_mode: self.mr_mode,
            ..fi_domain_attr::ZERO
        };
        let mut fabric = fi_fabric_attr {
            name: text(&self.fabric),
            prov_name: text(&self.provider),
            ..fi_fabric_attr::ZERO
        };
        let image = fi_info {
            caps: self.caps,
            mode: self.mode,
            addr_format: self.addr_format,
            src_addrlen: self.source.len(),
            src_addr: bytes(&self.source),
            dest_addrlen: self.destination.len(),
            dest_addr: bytes(&self.destination),
            tx_attr: &mut tx,
            rx_attr: &mut rx,
            ep_attr: &mut ep,
            domain_attr: &mut domain,
            fabric_attr: &mut fabric,
            ..fi_info::ZERO
        };
        use_it(&image)
    }
}

/// The string for C, which does not write to it; null if there is none.
fn text(text: &Option<CString>) -> *mut c_char {
    text.as_ref()
        .map_or(ptr::null_mut(), |text| text.as_ptr().cast_mut())
}

/// The bytes for C, which does not write to them; null if there are none.
fn bytes(bytes: &[u8]) -> *mut c_void {
    if bytes.is_empty() {
        ptr::null_mut()
    } else {
        bytes.as_ptr().cast_mut().cast()
    }
}
