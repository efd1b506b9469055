//! Numbers in little endian at fixed places.

use crate::Fault;

/// Returns the bytes of a message that has exactly `N`.
pub(crate) fn exactly<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Fault> {
    bytes.try_into().map_err(|_| Fault::Length)
}

/// Returns the `LEN` bytes at a place, which lie inside the message, as the compiler checks.
pub(crate) const fn at<const PLACE: usize, const LEN: usize, const N: usize>(
    bytes: &[u8; N],
) -> [u8; LEN] {
    const { assert!(PLACE + LEN <= N) };
    let mut field = [0; LEN];
    let mut index = 0;
    while index < LEN {
        field[index] = bytes[PLACE + index];
        index += 1;
    }
    field
}

/// Writes the `LEN` bytes at a place, which lie inside the message, as the compiler checks.
pub(crate) fn put<const PLACE: usize, const LEN: usize, const N: usize>(
    bytes: &mut [u8; N],
    field: [u8; LEN],
) {
    const { assert!(PLACE + LEN <= N) };
    bytes[PLACE..PLACE + LEN].copy_from_slice(&field);
}
