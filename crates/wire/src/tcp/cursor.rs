//! Reads and writes numbers one after the other, never beyond the end of a slice.

use super::ByteOrder;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*head)
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn u16(&mut self) -> Option<u16> {
        let bytes = self.take()?;
        Some(match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.take()?;
        Some(match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.take()?;
        Some(match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        })
    }
}

pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
    order: ByteOrder,
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut [u8], order: ByteOrder) -> Self {
        Self {
            bytes,
            at: 0,
            order,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn put(&mut self, from: &[u8]) -> Option<()> {
        let end = self.at.checked_add(from.len())?;
        self.bytes.get_mut(self.at..end)?.copy_from_slice(from);
        self.at = end;
        Some(())
    }

    #[inline]
    pub(super) fn u16(&mut self, value: u16) -> Option<()> {
        match self.order {
            ByteOrder::Little => self.put(&value.to_le_bytes()),
            ByteOrder::Big => self.put(&value.to_be_bytes()),
        }
    }

    #[inline]
    pub(super) fn u32(&mut self, value: u32) -> Option<()> {
        match self.order {
            ByteOrder::Little => self.put(&value.to_le_bytes()),
            ByteOrder::Big => self.put(&value.to_be_bytes()),
        }
    }

    #[inline]
    pub(super) fn u64(&mut self, value: u64) -> Option<()> {
        match self.order {
            ByteOrder::Little => self.put(&value.to_le_bytes()),
            ByteOrder::Big => self.put(&value.to_be_bytes()),
        }
    }
}
