//! Memory of peers: typed pointers that are checked before anything is sent. Source: fi_rma(3), fi_mr(3).

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Bound, RangeBounds};

use crate::raw::{Place, Plain};
use crate::{Access, Error};

/// What the owner of a [`Region`](crate::Region) tells its peers about it: where it is, its key, its length, and what they may do.
///
/// It travels as [`RemoteRegion::to_bytes`]. Who knows the key may use it, so tell it only to those who shall.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteRegion {
    pub(crate) base: u64,
    pub(crate) key: u64,
    pub(crate) len: u64,
    pub(crate) access: Access,
}

/// A pointer into the memory of a peer: to one `T`, or to a run of them, `Remote<[T]>`.
///
/// It comes from a [`RemoteRegion`], lies within it, and knows what its owner granted.
pub struct Remote<T: ?Sized> {
    addr: u64,
    key: u64,
    count: usize,
    access: Access,
    of: PhantomData<fn() -> *const T>,
}

impl RemoteRegion {
    /// How many bytes [`RemoteRegion::to_bytes`] gives.
    pub const ENCODED_LEN: usize = 32;

    /// The bytes to be sent to a peer, the same on all machines.
    pub fn to_bytes(self) -> [u8; Self::ENCODED_LEN] {
        let words = [self.base, self.key, self.len, self.access.bits()];
        let mut bytes = [0; Self::ENCODED_LEN];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// What a peer sent; `None` if that is no region.
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

    /// How many bytes it has.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// What its owner granted.
    pub fn access(self) -> Access {
        self.access
    }

    /// All of its bytes.
    pub fn bytes(self) -> Remote<[u8]> {
        self.pointer(0, self.len())
    }

    /// The element at an offset in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`].
    pub fn at<T: Plain>(self, offset: usize) -> Result<Remote<T>, Error> {
        self.check(offset, size_of::<T>())?;
        Ok(self.pointer(offset, 1))
    }

    /// The `count` elements that begin at an offset in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`].
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

/// An error if a part reaches beyond the end.
pub(crate) fn within(offset: usize, len: usize, size: usize) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::OutOfBounds { offset, len, size }),
    }
}

impl<T: Plain> Remote<T> {
    /// The element as a run of one.
    pub fn as_slice(self) -> Remote<[T]> {
        self.cast(0, 1)
    }
}

impl<T: Plain> Remote<[T]> {
    /// How many elements there are.
    pub fn len(self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The element with this index.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`].
    pub fn at(self, index: usize) -> Result<Remote<T>, Error> {
        let size = size_of::<T>();
        within(index.saturating_mul(size), size, self.count * size)?;
        Ok(self.cast(index, 1))
    }

    /// The elements of a range of indices.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`].
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

    /// The place of the first `len` bytes, if there are so many and the access is granted.
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
    /// A pointer to what begins so many `U`s further; the caller has checked that it is there.
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

/// What a pointer points to, and the size of one element of it.
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
        // The key is a secret of those who share the memory.
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
