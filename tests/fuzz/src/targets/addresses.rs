//! Addresses as applications and files have them. What is accepted comes back from its own bytes.

use oxifabric_abi::{
    FI_ADDR_EFA, FI_ADDR_STR, FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6,
    FI_SOCKADDR_IP,
};
use oxifabric_core::info::{address_from_c, address_to_c};
use oxifabric_types::EfaAddress;

const FORMATS: [u32; 7] = [
    FI_FORMAT_UNSPEC,
    FI_SOCKADDR,
    FI_SOCKADDR_IP,
    FI_SOCKADDR_IN,
    FI_SOCKADDR_IN6,
    FI_ADDR_STR,
    FI_ADDR_EFA,
];

/// The first byte is the format, the second an index of a context.
pub(super) fn run(bytes: &[u8]) {
    let &[format, context, ref bytes @ ..] = bytes else {
        return;
    };
    let format = FORMATS
        .get(usize::from(format))
        .copied()
        .unwrap_or(format.into());
    // A copy of exactly this length, so that reading beyond it is noticed.
    let bytes: Box<[u8]> = bytes.into();
    // SAFETY: `bytes` has this length.
    let read = unsafe { address_from_c(bytes.as_ptr().cast(), bytes.len(), format) };
    let Ok(Some(address)) = read else {
        return;
    };
    let (again, its_format) = address_to_c(&address);
    // SAFETY: `again` has this length.
    let reread = unsafe { address_from_c(again.as_ptr().cast(), again.len(), its_format) };
    assert_eq!(reread, Ok(Some(address.clone())));
    assert!(!address.to_string().is_empty());
    let context = usize::from(context);
    if let Some(there) = address.context(context) {
        let back = there.of_context(context);
        assert!(back.is_none_or(|back| back == address));
    }
    let _ = address.of_context(context);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut v4 = vec![3, 1, 2, 0, 0x1f, 0x90, 127, 0, 0, 1];
    v4.resize(2 + 16, 0);
    let mut v6 = vec![4, 2, 10, 0, 0x1f, 0x90];
    v6.resize(2 + 28, 0);
    let mut efa = vec![6, 3];
    efa.extend_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 8, 0xe7, 0, 0, 0, 0, 0, 1]);
    efa.extend_from_slice(&[0x34, 0x12, 0, 0, 4, 3, 2, 1]);
    efa.resize(2 + EfaAddress::SIZE, 0);
    let name = |format: u8, text: &str| [&[format, 3], text.as_bytes()].concat();
    vec![
        v4,
        v6,
        efa,
        name(5, "fi_shm://123\0"),
        name(5, "fi_shm://123#3"),
        name(0, "name"),
    ]
}
