//! Several segments of memory, some of whose registrations are known.

use core::ptr;

use crate::iov::{IovSegment, MAX_SEGMENTS};
use crate::{MemoryKind, Registration};

/// Several segments, each with its registration if that is known.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredPieces {
    segments: [IovSegment; MAX_SEGMENTS],
    registrations: [Option<Registration>; MAX_SEGMENTS],
    count: usize,
}

impl RegisteredPieces {
    const NONE: Self = Self {
        segments: [IovSegment::new(ptr::null_mut(), 0); MAX_SEGMENTS],
        registrations: [None; MAX_SEGMENTS],
        count: 0,
    };

    /// Joins segments in order; `None` when there are more than [`MAX_SEGMENTS`].
    pub(crate) fn new(pieces: &[(IovSegment, Option<Registration>)]) -> Option<Self> {
        if pieces.len() > MAX_SEGMENTS {
            return None;
        }
        let mut all = Self::NONE;
        pieces
            .iter()
            .for_each(|&(piece, known)| all.push(piece, known));
        Some(all)
    }

    fn push(&mut self, piece: IovSegment, registration: Option<Registration>) {
        self.segments[self.count] = piece;
        self.registrations[self.count] = registration;
        self.count += 1;
    }

    /// Returns the segments in order; an empty one where there is none.
    pub(crate) fn segments(&self) -> &[IovSegment] {
        &self.segments[..self.count.max(1)]
    }

    /// Returns the registration of a segment, if it is known.
    pub(crate) fn registration(&self, at: usize) -> Option<Registration> {
        self.registrations.get(at).copied().flatten()
    }

    /// Returns how many bytes all segments have together; `None` when that overflows.
    pub(crate) fn len(&self) -> Option<usize> {
        let add = |sum: usize, piece: &IovSegment| sum.checked_add(piece.len());
        self.segments.iter().try_fold(0, add)
    }

    /// Returns whether all of it is memory of the host.
    pub(crate) fn is_host(&self) -> bool {
        let mut known = self.registrations.iter().flatten();
        known.all(|registration| registration.kind == MemoryKind::Host)
    }

    /// Returns the part that starts at `offset` and has at most `len` bytes.
    pub(crate) fn slice(&self, mut offset: usize, mut len: usize) -> Self {
        let mut part = Self::NONE;
        for (at, piece) in self.segments[..self.count].iter().enumerate() {
            if offset >= piece.len() {
                offset -= piece.len();
                continue;
            }
            let some = len.min(piece.len() - offset);
            if some == 0 {
                break;
            }
            let base = piece.base().wrapping_add(offset);
            part.push(IovSegment::new(base, some), self.registrations[at]);
            offset = 0;
            len -= some;
        }
        part
    }
}
