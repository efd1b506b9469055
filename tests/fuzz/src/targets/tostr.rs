//! fi_tostr(3) of any value into a buffer of any length: the text ends within the buffer.

use core::ffi::{CStr, c_void};
use core::ptr;

use arbitrary::Unstructured;
use oxifabric_abi::{
    FI_TYPE_DOMAIN_ATTR, FI_TYPE_EP_ATTR, FI_TYPE_FABRIC_ATTR, FI_TYPE_INFO, FI_TYPE_RX_ATTR,
    FI_TYPE_TX_ATTR, fi_type,
};
use oxifabric_libfabric::builtin;

use crate::hints::Hints;

/// Types whose values are structures, which any bytes are not.
fn is_structure(kind: fi_type) -> bool {
    oxifabric_abi_structures().contains(&kind)
}

fn oxifabric_abi_structures() -> Vec<fi_type> {
    use oxifabric_abi as abi;
    vec![
        FI_TYPE_INFO,
        FI_TYPE_TX_ATTR,
        FI_TYPE_RX_ATTR,
        FI_TYPE_EP_ATTR,
        FI_TYPE_DOMAIN_ATTR,
        FI_TYPE_FABRIC_ATTR,
        abi::FI_TYPE_AV_ATTR,
        abi::FI_TYPE_CQ_ATTR,
        abi::FI_TYPE_MR_ATTR,
        abi::FI_TYPE_CNTR_ATTR,
        abi::FI_TYPE_CQ_ERR_ENTRY,
        abi::FI_TYPE_FID,
    ]
}

pub(super) fn run(bytes: &[u8]) {
    let _ = spell(&mut Unstructured::new(bytes));
}

fn spell(input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let len = usize::from(input.arbitrary::<u16>()?) % 9000;
    if input.arbitrary()? {
        let kind: u8 = input.arbitrary()?;
        let value: u64 = input.arbitrary()?;
        let kind = fi_type::from(kind);
        if !is_structure(kind) {
            into_buffer(len, (&raw const value).cast(), kind);
        }
        return Ok(());
    }
    let mut hints = Hints::read(input)?;
    let entry = hints.entry();
    // Addresses have to be as long as their format says, which those of hints need not be.
    let info = oxifabric_abi::fi_info {
        src_addr: ptr::null_mut(),
        dest_addr: ptr::null_mut(),
        ..entry
    };
    into_buffer(len, (&raw const info).cast(), FI_TYPE_INFO);
    for (attr, kind) in [
        (info.tx_attr.cast::<c_void>(), FI_TYPE_TX_ATTR),
        (info.rx_attr.cast(), FI_TYPE_RX_ATTR),
        (info.ep_attr.cast(), FI_TYPE_EP_ATTR),
        (info.domain_attr.cast(), FI_TYPE_DOMAIN_ATTR),
        (info.fabric_attr.cast(), FI_TYPE_FABRIC_ATTR),
    ] {
        if !attr.is_null() {
            into_buffer(len, attr, kind);
        }
    }
    Ok(())
}

fn into_buffer(len: usize, data: *const c_void, kind: fi_type) {
    let mut text = vec![0xff_u8; len].into_boxed_slice();
    // SAFETY: the buffer has that length, and the data is of that type.
    let spelled = unsafe { (builtin().tostr_r)(text.as_mut_ptr().cast(), len, data, kind) };
    assert_eq!(spelled.is_null(), len == 0);
    assert!(len == 0 || CStr::from_bytes_until_nul(&text).is_ok());
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let fill = |len: usize, step: usize| (0..len).map(|at| (at * step) as u8).collect();
    vec![vec![1; 16], fill(128, 1), fill(256, 3), fill(512, 29)]
}
