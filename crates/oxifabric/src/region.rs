//! Memory that is registered for devices and for access by peers. Source: fi_mr(3).

use core::fmt;
use core::marker::PhantomData;
use core::ops::{BitOr, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use oxifabric_abi::{FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE};

use crate::raw::{Memory, RegionObject};
use crate::remote::within;
use crate::threading::Marker;
use crate::{Buffer, Domain, Error, Refused, RemoteRegion, Shared, Threading};

/// The access that a region grants to peers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access(u64);

impl Access {
    /// No access: only local operations use the region.
    pub const NONE: Self = Self(0);
    /// Peers may read.
    pub const READ: Self = Self(1);
    /// Peers may write.
    pub const WRITE: Self = Self(2);
    /// Peers may read and write; atomic operations need both.
    pub const READ_WRITE: Self = Self(3);

    /// Returns whether every access in `other` is granted.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        if bits <= Self::READ_WRITE.0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Returns the `access` argument of `fi_mr_reg`: local access is always included.
    pub(crate) fn flags(self) -> u64 {
        let grant = |access, flag| if self.contains(access) { flag } else { 0 };
        LOCAL | grant(Self::READ, FI_REMOTE_READ) | grant(Self::WRITE, FI_REMOTE_WRITE)
    }
}

/// Access by local operations.
const LOCAL: u64 = FI_SEND | FI_RECV | FI_READ | FI_WRITE;

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NONE => "Access::NONE",
            Self::READ => "Access::READ",
            Self::WRITE => "Access::WRITE",
            _ => "Access::READ_WRITE",
        })
    }
}

/// Registered memory, which peers reach by [`Region::remote`] as far as access was granted.
///
/// Peers may read and write it at any time, so the application gets no reference to the bytes: it copies in and out, uses atomic words,
/// or posts operations on parts of it ([`Region::slice`]). Clones are the same region; it is closed when the last clone and all its
/// parts are dropped, or by [`Region::into_buffer`].
pub struct Region<T: Threading = Shared> {
    object: Arc<RegionObject>,
    access: Access,
    threading: Marker<T>,
}

/// A part of a region as the memory of an operation. The operation reads and writes the region itself.
pub struct RegionSlice<T: Threading = Shared> {
    memory: Memory,
    threading: Marker<T>,
}

impl<T: Threading> Region<T> {
    /// Registers a buffer.
    ///
    /// # Errors
    ///
    /// What `fi_mr_reg` returned, together with the buffer.
    pub fn register(domain: &Domain<T>, buffer: Buffer, access: Access) -> Result<Self, Refused> {
        let object = RegionObject::register(domain.object().clone(), buffer, access.flags())
            .map_err(|(errno, buffer)| Refused {
                error: Error::call("fi_mr_reg")(errno),
                buffer,
            })?;
        Ok(Self::of(object, access))
    }

    pub(crate) fn of(object: RegionObject, access: Access) -> Self {
        Self {
            object: Arc::new(object),
            access,
            threading: PhantomData,
        }
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.object.len()
    }

    /// Returns whether its length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what a peer needs to reach the region.
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion {
            base: self.object.base(),
            key: self.object.key(),
            len: self.len() as u64,
            access: self.access,
        }
    }

    /// Returns a part of it as the memory of an operation.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the range ends beyond the region.
    pub fn slice(&self, range: Range<usize>) -> Result<RegionSlice<T>, Error> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let memory = self.object.part(offset, len);
        Ok(RegionSlice {
            memory: memory.ok_or_else(|| self.beyond(offset, len))?,
            threading: PhantomData,
        })
    }

    /// Copies bytes out of the region. While peers write them, some may be old and some new.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the bytes end beyond the region.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        let len = to.len();
        let copied = self.object.copy_out(offset, to);
        copied.then_some(()).ok_or_else(|| self.beyond(offset, len))
    }

    /// Copies bytes into the region. Peers that read them meanwhile get some old and some new.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the bytes end beyond the region.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        let copied = self.object.copy_in(offset, from);
        copied
            .then_some(())
            .ok_or_else(|| self.beyond(offset, from.len()))
    }

    /// Returns a word of the region, for counters and flags that peers write: `region.word(0)?.load(Ordering::Acquire)`.
    ///
    /// Whether atomic operations of the processor and of peers are atomic with respect to each other depends on the provider; plain
    /// loads and stores always are.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], also for an offset that is not a multiple of 8.
    pub fn word(&self, offset: usize) -> Result<&AtomicU64, Error> {
        let word = self.object.word(offset);
        word.ok_or_else(|| self.beyond(offset, size_of::<u64>()))
    }

    /// Closes the region and returns its memory.
    ///
    /// # Errors
    ///
    /// The region itself, if clones of it exist or parts are still in use.
    pub fn into_buffer(self) -> Result<Buffer, Self> {
        let (access, threading) = (self.access, self.threading);
        match Arc::try_unwrap(self.object) {
            Ok(object) => Ok(object.close().unwrap_or_default()),
            Err(object) => Err(Self {
                object,
                access,
                threading,
            }),
        }
    }

    fn beyond(&self, offset: usize, len: usize) -> Error {
        match within(offset, len, self.len()) {
            Err(error) => error,
            // It fits but is not aligned.
            Ok(()) => Error::OutOfBounds {
                offset,
                len,
                size: self.len(),
            },
        }
    }
}

impl Buffer {
    /// Makes a registered buffer of `len` zero bytes, for operations on endpoints of the same domain.
    ///
    /// Offers with `FI_MR_LOCAL` accept only such buffers; with others it saves the provider a look-up.
    ///
    /// # Errors
    ///
    /// What `fi_mr_reg` returned.
    pub fn registered(domain: &Domain<Shared>, len: usize) -> Result<Self, Error> {
        let memory = Self::zeroed(len);
        let region = RegionObject::register(domain.object().clone(), memory, LOCAL);
        let region = region.map_err(|(errno, _)| Error::call("fi_mr_reg")(errno))?;
        Ok(Self::of_registration(region))
    }
}

/// The memory of an operation: a [`Buffer`], which the completion gives back, or a part of a [`Region`].
#[derive(Debug)]
pub struct Payload<T: Threading = Shared> {
    memory: Memory,
    threading: Marker<T>,
}

impl<T: Threading> Payload<T> {
    #[inline]
    pub(crate) fn of(memory: Memory) -> Self {
        Self {
            memory,
            threading: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn into_memory(self) -> Memory {
        self.memory
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns whether its length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Threading> From<Buffer> for Payload<T> {
    #[inline]
    fn from(buffer: Buffer) -> Self {
        Self::of(buffer.into())
    }
}

impl<T: Threading> From<RegionSlice<T>> for Payload<T> {
    fn from(slice: RegionSlice<T>) -> Self {
        Self::of(slice.memory)
    }
}

impl<T: Threading> Clone for Region<T> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            access: self.access,
            threading: PhantomData,
        }
    }
}

impl<T: Threading> fmt::Debug for Region<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes, {:?})", self.len(), self.access)
    }
}

impl<T: Threading> fmt::Debug for RegionSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionSlice({} bytes)", self.memory.len())
    }
}
