//! What the endpoints of a domain share: the device, and the memory that peers reach by keys of the device.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::fmt;

use oxifabric_kernel_objects::{ProviderDomain, level};
use oxifabric_kernel_sync::Mutex;
use oxifabric_mem::{Iov, IovSegment};
use oxifabric_types::{Errno, Flags};

use crate::ledger::{Held, Pieces};
use crate::parts::{DeviceFacts, MOST_PIECES, Piece};
use crate::system::{self, RawDomain, RawRegion};

/// A protection domain of a device.
pub struct VerbsDomain {
    /// Before the domain that they are of.
    regions: Mutex<BTreeMap<u64, RawRegion>>,
    raw: RawDomain,
    facts: Box<DeviceFacts>,
}

impl fmt::Debug for VerbsDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerbsDomain")
    }
}

impl VerbsDomain {
    /// Opens the domain of a device.
    pub(crate) fn open(name: &str) -> Result<Self, Errno> {
        let mut devices = system::devices();
        let at = devices.iter().position(|device| device.name() == name);
        let facts = Box::new(devices.swap_remove(at.ok_or(Errno::NODEV)?));
        Ok(Self {
            regions: Mutex::new(level::TABLE, BTreeMap::new()).ok_or(Errno::NOMEM)?,
            raw: RawDomain::open(name)?,
            facts,
        })
    }

    pub(crate) const fn raw(&self) -> &RawDomain {
        &self.raw
    }

    pub(crate) fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Maps the memory of an operation, or a copy of it, for the device.
    ///
    /// # Errors
    /// `MSGSIZE` when it has more pieces than the device takes, where memory that is not contiguous for the device has a piece for each
    /// page; `INVAL` for what is no memory of the kernel.
    ///
    /// # Safety
    /// The memory stays valid until [`VerbsDomain::unmap`], unless it is to be copied.
    pub(crate) unsafe fn map(
        &self,
        body: &Iov,
        is_written: bool,
        is_copied: bool,
        limit: u32,
    ) -> Result<Held, Errno> {
        if let ([segment], false) = (body.segments(), is_copied)
            && limit > 0
            && !segment.is_empty()
        {
            let mut piece = [Piece::default()];
            // SAFETY: the caller's contract.
            let mapped = unsafe {
                self.raw
                    .map(segment.base(), segment.len(), is_written, &mut piece)
            };
            if mapped == Ok(1) {
                return Ok(Held {
                    pieces: Pieces::One(piece),
                    is_written,
                    _copy: None,
                });
            }
        }
        // SAFETY: the caller's contract.
        unsafe { self.map_pieces(body, is_written, is_copied, limit) }
    }

    /// As [`VerbsDomain::map`], of which the frequent case needs no list.
    ///
    /// # Errors
    /// As [`VerbsDomain::map`].
    ///
    /// # Safety
    /// As [`VerbsDomain::map`].
    #[inline(never)]
    unsafe fn map_pieces(
        &self,
        body: &Iov,
        is_written: bool,
        is_copied: bool,
        limit: u32,
    ) -> Result<Held, Errno> {
        let mut list = [Piece::default(); MOST_PIECES];
        let limit = MOST_PIECES.min(limit as usize);
        let mut copy = is_copied.then(|| alloc::vec![0; body.len()].into_boxed_slice());
        let own;
        let segments = match &mut copy {
            Some(copy) => {
                body.read(0, copy);
                own = [IovSegment::new(copy.as_mut_ptr(), copy.len())];
                &own[..]
            }
            None => body.segments(),
        };
        let mut count = 0;
        for segment in segments.iter().filter(|segment| !segment.is_empty()) {
            let space = list.get_mut(count..limit).unwrap_or(&mut []);
            // SAFETY: the caller's contract, or the copy, which is kept with the pieces.
            match unsafe {
                self.raw
                    .map(segment.base(), segment.len(), is_written, space)
            } {
                Ok(more) => count += more,
                Err(errno) => {
                    self.raw.unmap(is_written, &list[..count]);
                    return Err(errno);
                }
            }
        }
        let pieces = match list[..count] {
            [piece] => Pieces::One([piece]),
            _ => Pieces::Several(list[..count].into()),
        };
        Ok(Held {
            pieces,
            is_written,
            _copy: copy,
        })
    }

    /// Takes memory from the device, which has ended its work with it.
    pub(crate) fn unmap(&self, held: Held) {
        self.raw.unmap(held.is_written, held.pieces.list());
    }
}

impl ProviderDomain for VerbsDomain {
    unsafe fn register(&self, memory: &Iov, access: Flags) -> Result<Option<u64>, Errno> {
        let [piece] = memory.segments() else {
            return Err(Errno::INVAL);
        };
        let (is_read, is_written) = (
            access.contains(Flags::REMOTE_READ),
            access.contains(Flags::REMOTE_WRITE),
        );
        // SAFETY: the caller's contract.
        let (region, key) =
            unsafe { RawRegion::new(&self.raw, piece.base(), piece.len(), is_read, is_written) }?;
        let key = u64::from(key);
        self.regions.lock().insert(key, region);
        Ok(Some(key))
    }

    fn deregister(&self, key: u64) {
        let region = self.regions.lock().remove(&key);
        drop(region);
    }
}
