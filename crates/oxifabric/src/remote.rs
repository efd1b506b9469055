//! Memory of peers: typed pointers that are checked before anything is sent. Source: fi_rma(3), fi_mr(3).

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Bound, RangeBounds};

use crate::raw::{Place, Plain};
use crate::{Access, Error};

/// The description of a [`Region`](crate::Region) that its owner sends to peers: address, key, length, and granted access.
///
/// It travels as [`RemoteRegion::to_bytes`]. A process that has the key can use it, so send it only to processes that may.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteRegion {
    pub(crate) base: u64,
    pub(crate) key: u64,
    pub(crate) len: u64,
    pub(crate) access: Access,
}

/// A pointer into the memory of a peer: to one `T`, or to a run of them, `Remote<[T]>`.
///
/// It is made from a [`RemoteRegion`], lies within it, and has its granted access.
pub struct Remote<T: ?Sized> {
    addr: u64,
    key: u64,
    count: usize,
    access: Access,
    of: PhantomData<fn() -> *const T>,
}

impl RemoteRegion {
    /// The length of what [`RemoteRegion::to_bytes`] returns, in bytes.
    pub const ENCODED_LEN: usize = 32;

    /// Returns the bytes to be sent to a peer, the same on all machines.
    pub fn to_bytes(self) -> [u8; Self::ENCODED_LEN] {
        let words = [self.base, self.key, self.len, self.access.bits()];
        let mut bytes = [0; Self::ENCODED_LEN];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Reads what a peer sent; `None` if the bytes are no region.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::ENCODED_LEN] = bytes.try_into().ok()?;
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word: [u8; 8] = word.try_into().unwrap_or_default();
            u64::from_be_bytes(word)
        });
        let region = Self {
            base: words.next()?,
            key: words.next()?,
            len: words.next()?,
            access: Access::from_bits(words.next()?)?,
        };
        let fits = region.base.checked_add(region.len).is_some();
        (fits && usize::try_from(region.len).is_ok()).then_some(region)
    }

    /// Returns its length in bytes.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Returns whether its length is zero.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the access that its owner granted.
    pub fn access(self) -> Access {
        self.access
    }

    /// Returns a pointer to all of its bytes.
    pub fn bytes(self) -> Remote<[u8]> {
        self.pointer(0, self.len())
    }

    /// Returns a pointer to the element at an offset in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the element ends beyond the region.
    pub fn at<T: Plain>(self, offset: usize) -> Result<Remote<T>, Error> {
        self.check(offset, size_of::<T>())?;
        Ok(self.pointer(offset, 1))
    }

    /// Returns a pointer to the `count` elements that begin at an offset in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the elements end beyond the region.
    pub fn slice<T: Plain>(self, offset: usize, count: usize) -> Result<Remote<[T]>, Error> {
        self.check(offset, count.saturating_mul(size_of::<T>()))?;
        Ok(self.pointer(offset, count))
    }

    fn check(self, offset: usize, len: usize) -> Result<(), Error> {
        within(offset, len, self.len())
    }

    fn pointer<T: ?Sized>(self, offset: usize, count: usize) -> Remote<T> {
        Remote {
            addr: self.base + offset as u64,
            key: self.key,
            count,
            access: self.access,
            of: PhantomData,
        }
    }
}

/// Checks that a part ends within `size` bytes.
pub(crate) fn within(offset: usize, len: usize, size: usize) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::OutOfBounds { offset, len, size }),
    }
}

impl<T: Plain> Remote<T> {
    /// Returns the element as a run of one.
    pub fn as_slice(self) -> Remote<[T]> {
        self.cast(0, 1)
    }
}

impl<T: Plain> Remote<[T]> {
    /// Returns the number of elements.
    pub fn len(self) -> usize {
        self.count
    }

    /// Returns whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Returns a pointer to the element with this index.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if there is no such element.
    pub fn at(self, index: usize) -> Result<Remote<T>, Error> {
        let size = size_of::<T>();
        within(index.saturating_mul(size), size, self.count * size)?;
        Ok(self.cast(index, 1))
    }

    /// Returns a pointer to the elements of a range of indices.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the range ends beyond the last element.
    pub fn range(self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let start = match range.start_bound() {
            Bound::Included(at) => *at,
            Bound::Excluded(at) => at.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(at) => at.saturating_add(1),
            Bound::Excluded(at) => *at,
            Bound::Unbounded => self.count,
        };
        let (count, size) = (end.saturating_sub(start), size_of::<T>());
        within(
            start.saturating_mul(size),
            count.saturating_mul(size),
            self.count * size,
        )?;
        Ok(self.cast(start, count))
    }

    /// Returns the address and key of the first `len` bytes, if the pointer has that many and the access is granted.
    pub(crate) fn place(self, len: usize, needed: Access) -> Result<Place, Error> {
        within(0, len, self.count * size_of::<T>())?;
        if !self.access.contains(needed) {
            return Err(Error::NotGranted { needed });
        }
        Ok(Place {
            addr: self.addr,
            key: self.key,
        })
    }
}

impl<T: ?Sized> Remote<T> {
    /// Returns a pointer that begins `index` `U`s further; the caller has checked that they are within bounds.
    fn cast<U: ?Sized + Elements>(self, index: usize, count: usize) -> Remote<U> {
        Remote {
            addr: self.addr + (index * U::SIZE) as u64,
            key: self.key,
            count,
            access: self.access,
            of: PhantomData,
        }
    }
}

/// The pointee of a pointer, and the size of one of its elements.
trait Elements {
    const SIZE: usize;
}

impl<T: Plain> Elements for T {
    const SIZE: usize = size_of::<T>();
}

impl<T: Plain> Elements for [T] {
    const SIZE: usize = size_of::<T>();
}

impl<T: ?Sized> Clone for Remote<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Remote<T> {}

impl<T: ?Sized> fmt::Debug for Remote<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret of the processes that share the memory.
        write!(f, "Remote({:#x}, {} elements)", self.addr, self.count)
    }
}

impl fmt::Debug for RemoteRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteRegion({} bytes, {:?})", self.len, self.access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: RemoteRegion = RemoteRegion {
        base: 0x1000,
        key: 7,
        len: 64,
        access: Access::READ,
    };

    #[test]
    fn a_region_survives_its_encoding() {
        assert_eq!(RemoteRegion::from_bytes(&REGION.to_bytes()), Some(REGION));
        assert_eq!(RemoteRegion::from_bytes(&[0; 31]), None);
        let mut bytes = REGION.to_bytes();
        bytes[0] = 0xff;
        bytes[16] = 0xff;
        assert_eq!(RemoteRegion::from_bytes(&bytes), None);
    }

    #[test]
    fn pointers_stay_within_their_region() {
        assert!(REGION.at::<u64>(56).is_ok());
        assert!(matches!(
            REGION.at::<u64>(57),
            Err(Error::OutOfBounds {
                offset: 57,
                len: 8,
                size: 64
            })
        ));
        assert!(REGION.slice::<u64>(0, usize::MAX).is_err());
        let words = REGION.slice::<u32>(16, 12).unwrap();
        assert_eq!(words.at(11).unwrap().addr, 0x1000 + 16 + 44);
        assert!(words.at(12).is_err());
        assert!(words.at(usize::MAX).is_err());
        assert_eq!(words.range(2..).unwrap().len(), 10);
        assert_eq!(words.range(2..=3).unwrap().addr, 0x1000 + 16 + 8);
        assert!(words.range(..13).is_err());
        assert!(words.range(usize::MAX..).is_err());
    }

    #[test]
    fn access_is_checked_before_anything_is_sent() {
        let bytes = REGION.bytes();
        assert!(bytes.place(64, Access::READ).is_ok());
        assert!(bytes.place(65, Access::READ).is_err());
        assert!(matches!(
            bytes.place(1, Access::WRITE),
            Err(Error::NotGranted { .. })
        ));
    }
}
