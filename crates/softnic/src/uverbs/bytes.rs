//! Numbers in commands and answers.

use std::ffi::c_int;

/// Bytes in the machine's order, from the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    /// Takes the next bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], c_int> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(libc::EINVAL)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Leaves bytes out.
    pub(super) fn skip(&mut self, len: usize) -> Result<(), c_int> {
        self.0 = self.0.get(len..).ok_or(libc::EINVAL)?;
        Ok(())
    }

    /// Takes a byte.
    pub(super) fn u8(&mut self) -> Result<u8, c_int> {
        self.bytes().map(u8::from_ne_bytes)
    }

    /// Takes two bytes.
    pub(super) fn u16(&mut self) -> Result<u16, c_int> {
        self.bytes().map(u16::from_ne_bytes)
    }

    /// Takes four bytes.
    pub(super) fn u32(&mut self) -> Result<u32, c_int> {
        self.bytes().map(u32::from_ne_bytes)
    }

    /// Takes eight bytes.
    pub(super) fn u64(&mut self) -> Result<u64, c_int> {
        self.bytes().map(u64::from_ne_bytes)
    }
}

/// Bytes of an answer.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Adds numbers of four bytes.
    pub(crate) fn u32s(&mut self, numbers: impl IntoIterator<Item = u32>) -> &mut Self {
        self.0
            .extend(numbers.into_iter().flat_map(u32::to_ne_bytes));
        self
    }

    /// Adds numbers of eight bytes.
    pub(crate) fn u64s(&mut self, numbers: impl IntoIterator<Item = u64>) -> &mut Self {
        self.0
            .extend(numbers.into_iter().flat_map(u64::to_ne_bytes));
        self
    }

    /// Adds numbers of two bytes.
    pub(crate) fn u16s(&mut self, numbers: impl IntoIterator<Item = u16>) -> &mut Self {
        self.0
            .extend(numbers.into_iter().flat_map(u16::to_ne_bytes));
        self
    }

    /// Adds bytes.
    pub(crate) fn u8s(&mut self, bytes: impl IntoIterator<Item = u8>) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    /// Adds zeroes up to a length.
    pub(crate) fn pad(&mut self, len: usize) -> &mut Self {
        self.0.resize(len.max(self.0.len()), 0);
        self
    }
}
