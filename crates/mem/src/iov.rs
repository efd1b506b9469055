//! Memory of the application or of the library, in one segment or several.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::ptr;

use crate::copy::{SHORT, copy_in, copy_long, copy_out};
use crate::heap::{Heap, Hold};
use crate::registered::RegisteredPieces;
use crate::{MemoryKind, RegionId, Registration};

/// How many segments an operation may name (`iov_limit`).
pub const MAX_SEGMENTS: usize = 4;

/// A segment: one contiguous piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IovSegment {
    base: *mut u8,
    len: usize,
}

impl IovSegment {
    /// Describes `len` bytes at `base`; making one touches no memory.
    pub const fn new(base: *mut u8, len: usize) -> Self {
        Self { base, len }
    }

    /// Returns where the segment starts; null is allowed when its length is zero.
    pub const fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns how many bytes the segment has.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the segment has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the part that starts at `offset` and has at most `len` bytes; one without an address if there are none.
    #[inline]
    fn part(self, offset: usize, len: usize) -> Self {
        match self.len.checked_sub(offset) {
            Some(rest) if rest > 0 && len > 0 => {
                Self::new(self.base.wrapping_add(offset), rest.min(len))
            }
            _ => Self::new(ptr::null_mut(), 0),
        }
    }
}

/// Memory of the application, lent to an operation until its completion: one segment or a few.
///
/// Cloning copies the description, not the memory. Reads and writes move each byte by itself (`copy`): what other
/// threads of the application do to the memory meanwhile decides which bytes they find, as fi_msg(3) says, and nothing else.
///
/// A piece may be known to be registered ([`Iov::registration`]). What is not memory of the host ([`Iov::is_host`]) is not touched
/// here: reads and writes of it move nothing. A device that was given its registration moves it.
#[derive(Clone, Debug)]
pub struct Iov {
    len: usize,
    /// Dropped by `release`, so that the common case, which has nothing to drop, is one look in the caller.
    pieces: ManuallyDrop<Pieces>,
}

#[derive(Clone, Debug)]
enum Pieces {
    One(IovSegment),
    Many(Box<[IovSegment]>),
    /// Memory of our own, alive while anything describes it.
    Owned(Arc<Heap>),
    /// One segment whose registration is known; in the room that the other variants leave.
    Registered {
        piece: IovSegment,
        region: RegionId,
        kind: MemoryKind,
    },
    /// Several segments, some of whose registrations are known.
    ManyRegistered(Box<RegisteredPieces>),
}

impl Pieces {
    /// Returns the segments of registered memory; apart, so that other memory pays nothing for them.
    #[cold]
    #[inline(never)]
    fn registered_segments(&self) -> &[IovSegment] {
        match self {
            Self::Registered { piece, .. } => core::slice::from_ref(piece),
            Self::ManyRegistered(many) => many.segments(),
            _ => &[],
        }
    }
}

// SAFETY: an Iov is a description of memory that its maker promised to keep valid and to leave to the
// operation; it may be used from whichever thread drives progress. Owned memory is counted atomically, and
// copies to and from it exclude each other.
unsafe impl Send for Iov {}

impl Iov {
    /// Returns whether dropping it releases nothing: it describes one segment of memory of the application.
    #[inline]
    pub fn owns_nothing(&self) -> bool {
        matches!(*self.pieces, Pieces::One(_))
    }

    /// Returns whether it is memory of our own, or no memory: the application may do with its own what it likes.
    pub fn is_own(&self) -> bool {
        self.len == 0 || matches!(*self.pieces, Pieces::Owned(_))
    }

    /// Lends `len` bytes at `base`.
    ///
    /// # Safety
    /// Until the operation that takes it completes, the memory must be valid for reads (of a send) or for reads and
    /// writes (of a receive), and nothing else may write it (or, of a receive, read it).
    pub const unsafe fn contiguous(base: *mut u8, len: usize) -> Self {
        Self {
            len,
            pieces: ManuallyDrop::new(Pieces::One(IovSegment::new(base, len))),
        }
    }

    /// Lends several segments, in order. Returns `None` when there are more than [`MAX_SEGMENTS`] or their
    /// lengths overflow.
    ///
    /// # Safety
    /// As for [`Iov::contiguous`], for every segment.
    pub unsafe fn scattered(pieces: &[IovSegment]) -> Option<Self> {
        if pieces.len() > MAX_SEGMENTS {
            return None;
        }
        let mut len = 0usize;
        for piece in pieces {
            len = len.checked_add(piece.len)?;
        }
        let pieces = match pieces {
            [] => Pieces::One(IovSegment::new(ptr::null_mut(), 0)),
            [one] => Pieces::One(*one),
            many => Pieces::Many(many.into()),
        };
        Some(Self::of(len, pieces))
    }

    /// Lends `len` bytes at `base`, which are part of this registration.
    ///
    /// # Safety
    /// As for [`Iov::contiguous`], if the memory is the host's; otherwise for the devices that have it.
    pub const unsafe fn registered(base: *mut u8, len: usize, registration: Registration) -> Self {
        let pieces = Pieces::Registered {
            piece: IovSegment::new(base, len),
            region: registration.region,
            kind: registration.kind,
        };
        Self::of(len, pieces)
    }

    /// Lends several segments, in order, each with its registration if that is known. `None` as for [`Iov::scattered`].
    ///
    /// # Safety
    /// As for [`Iov::registered`], for every segment.
    pub unsafe fn scattered_registered(
        pieces: &[(IovSegment, Option<Registration>)],
    ) -> Option<Self> {
        match pieces {
            // SAFETY: the caller's contract.
            [(piece, Some(registration))] => unsafe {
                Some(Self::registered(piece.base, piece.len, *registration))
            },
            // SAFETY: the caller's contract.
            [(piece, None)] => unsafe { Some(Self::contiguous(piece.base, piece.len)) },
            [] => Some(Self::empty()),
            many => {
                let pieces = RegisteredPieces::new(many)?;
                let len = pieces.len()?;
                Some(Self::of(len, Pieces::ManyRegistered(Box::new(pieces))))
            }
        }
    }

    /// Describes no memory, for operations without any.
    pub const fn empty() -> Self {
        Self {
            len: 0,
            pieces: ManuallyDrop::new(Pieces::One(IovSegment::new(ptr::null_mut(), 0))),
        }
    }

    /// Allocates memory of our own, filled with zeros and freed with its last description; `None` when there
    /// is not enough memory.
    pub fn zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Self::empty());
        }
        let pieces = Pieces::Owned(Arc::new(Heap::zeroed(len)?));
        Some(Self::of(len, pieces))
    }

    /// Copies the bytes into memory of our own; `None` when there is not enough memory, or they are not the host's.
    pub fn duplicate(&self) -> Option<Self> {
        if !self.is_host() {
            return None;
        }
        let copy = Self::zeroed(self.len)?;
        copy.copy_from(0, self);
        Some(copy)
    }

    const fn of(len: usize, pieces: Pieces) -> Self {
        Self {
            len,
            pieces: ManuallyDrop::new(pieces),
        }
    }

    /// Returns how many bytes all segments have together.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the segments in order.
    #[inline]
    pub fn segments(&self) -> &[IovSegment] {
        match &*self.pieces {
            Pieces::One(one) => core::slice::from_ref(one),
            Pieces::Many(many) => many,
            Pieces::Owned(heap) => core::slice::from_ref(heap.piece()),
            registered => registered.registered_segments(),
        }
    }

    /// Returns the segment and its registration, if there is one only, and its registration is known.
    #[inline]
    pub fn one_registered(&self) -> Option<(IovSegment, RegionId)> {
        match &*self.pieces {
            &Pieces::Registered { piece, region, .. } => Some((piece, region)),
            Pieces::ManyRegistered(many) => match (many.segments(), many.registration(0)) {
                (&[piece], Some(registration)) => Some((piece, registration.region)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the registration of a segment, if it is known.
    #[inline]
    pub fn registration(&self, segment: usize) -> Option<Registration> {
        match &*self.pieces {
            &Pieces::Registered { region, kind, .. } if segment == 0 => {
                Some(Registration { region, kind })
            }
            Pieces::ManyRegistered(many) => many.registration(segment),
            _ => None,
        }
    }

    /// Returns whether every segment that has bytes is known to be registered.
    #[inline]
    pub fn is_registered(&self) -> bool {
        matches!(&*self.pieces, Pieces::Registered { .. }) || self.are_others_registered()
    }

    #[inline(never)]
    fn are_others_registered(&self) -> bool {
        let mut segments = self.segments().iter().enumerate();
        segments.all(|(at, piece)| piece.is_empty() || self.registration(at).is_some())
    }

    /// Returns whether all of it is memory of the host.
    #[inline]
    pub fn is_host(&self) -> bool {
        match &*self.pieces {
            Pieces::One(_) | Pieces::Owned(_) => true,
            Pieces::Registered { kind, .. } => *kind == MemoryKind::Host,
            Pieces::ManyRegistered(many) => many.is_host(),
            _ => true,
        }
    }

    /// Copies `from` into the memory at `offset`; returns how many bytes fitted.
    #[inline(always)]
    pub fn write(&self, offset: usize, from: &[u8]) -> usize {
        match self.short(offset, from.len()) {
            Some(to) => {
                // SAFETY: `short` found that many bytes of the lent memory there, whose validity the maker promised.
                unsafe { copy_in(from.as_ptr(), to, from.len()) };
                from.len()
            }
            None => self.write_long(offset, from),
        }
    }

    fn write_long(&self, offset: usize, from: &[u8]) -> usize {
        if let Some(to) = self.within_one(offset, from.len()) {
            // SAFETY: `within_one` found that many bytes of the lent memory there, whose validity the maker promised.
            unsafe {
                match from.len() {
                    ..=SHORT => copy_in(from.as_ptr(), to, from.len()),
                    len => copy_long(from.as_ptr(), to, len),
                }
            }
            return from.len();
        }
        let Ok(_hold) = self.hold() else { return 0 };
        let mut done = 0;
        self.each(offset, from.len(), |base, len| {
            // SAFETY: `each` yields sub-ranges of the lent memory, whose validity the maker promised, and
            // their lengths add up to at most `from.len()`.
            unsafe { copy_long(from.as_ptr().add(done), base, len) };
            done += len;
        });
        done
    }

    /// Copies the memory at `offset` into `to`; returns how many bytes there were.
    #[inline(always)]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> usize {
        match self.short(offset, to.len()) {
            Some(from) => {
                // SAFETY: as in `write`, with the direction turned round.
                unsafe { copy_out(from, to.as_mut_ptr(), to.len()) };
                to.len()
            }
            None => self.read_long(offset, to),
        }
    }

    #[inline]
    fn read_long(&self, offset: usize, to: &mut [u8]) -> usize {
        if let Some(from) = self.within_one(offset, to.len()) {
            // SAFETY: as in `write_long`, with the direction turned round.
            unsafe {
                match to.len() {
                    ..=SHORT => copy_out(from, to.as_mut_ptr(), to.len()),
                    len => copy_long(from, to.as_mut_ptr(), len),
                }
            }
            return to.len();
        }
        let Ok(_hold) = self.hold() else { return 0 };
        let (mut done, want) = (0, to.len());
        self.each(offset, want, |base, len| {
            // SAFETY: as in `write`, with the direction turned round.
            unsafe { copy_long(base.cast_const(), to.as_mut_ptr().add(done), len) };
            done += len;
        });
        done
    }

    /// Copies from another operation's memory, from its start at `offset` on; returns how many bytes fitted.
    ///
    /// Copies nothing when both describe the same owned memory.
    pub fn copy_from(&self, offset: usize, from: &Iov) -> usize {
        if let (Some(base), Some(to)) = (
            from.within_one(0, from.len),
            self.within_one(offset, from.len),
        ) {
            // SAFETY: both ranges lie inside lent memory; `copy_long` allows them to overlap.
            unsafe { copy_long(base, to, from.len) };
            return from.len;
        }
        let (Ok(_into), Ok(_from)) = (self.hold(), from.hold()) else {
            return 0;
        };
        let mut done = 0;
        from.each(0, from.len, |base, len| {
            let mut taken = 0;
            self.each(offset.saturating_add(done), len, |to, part| {
                // SAFETY: both ranges lie inside lent memory; `copy_long` allows them to overlap.
                unsafe { copy_long(base.add(taken), to, part) };
                taken += part;
            });
            done += taken;
        });
        done
    }

    /// Describes the part of the memory that starts at `offset` and has at most `len` bytes.
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        match *self.pieces {
            Pieces::One(piece) => {
                let part = piece.part(offset, len);
                return Self::of(part.len, Pieces::One(part));
            }
            Pieces::Registered {
                piece,
                region,
                kind,
            } => {
                let piece = piece.part(offset, len);
                let part = Pieces::Registered {
                    piece,
                    region,
                    kind,
                };
                return Self::of(piece.len, part);
            }
            _ => {}
        }
        let mut parts = [IovSegment::new(ptr::null_mut(), 0); MAX_SEGMENTS];
        let (mut count, mut total) = (0, 0);
        self.each(offset, len, |base, len| {
            parts[count] = IovSegment::new(base, len);
            count += 1;
            total += len;
        });
        let pieces = match (&*self.pieces, count) {
            (Pieces::ManyRegistered(many), _) => {
                Pieces::ManyRegistered(Box::new(many.slice(offset, len)))
            }
            (Pieces::Owned(heap), 1) => Pieces::Owned(Arc::new(Heap::part(heap, parts[0]))),
            (_, ..=1) => Pieces::One(parts[0]),
            _ => Pieces::Many(parts[..count].into()),
        };
        Self::of(total, pieces)
    }

    /// Returns the address of the first byte, for completions that name it.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        match &*self.pieces {
            Pieces::One(one) => one.base,
            _ => self.base_of_others(),
        }
    }

    /// Returns the address of the first byte of what is not one plain segment; apart, so that the common case is one look.
    #[inline(never)]
    fn base_of_others(&self) -> *mut u8 {
        match &*self.pieces {
            Pieces::Registered { piece, .. } => piece.base,
            _ => self.segments()[0].base,
        }
    }

    /// Returns the address of the byte at `offset`, for completions that name it; past the end, that of the
    /// end of the last segment.
    pub fn address(&self, mut offset: usize) -> usize {
        let mut end = 0;
        for piece in self.segments() {
            if offset < piece.len {
                return piece.base as usize + offset;
            }
            offset -= piece.len;
            end = piece.base as usize + piece.len;
        }
        end
    }

    /// Finds `len` bytes at `offset` if they are few, and lie in one segment of the application's memory.
    #[inline(always)]
    fn short(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let Pieces::One(piece) = &*self.pieces else {
            return None;
        };
        if len > SHORT || offset > piece.len || len > piece.len - offset {
            return None;
        }
        // SAFETY: offset <= piece.len, so the result lies inside the piece or at its end.
        Some(unsafe { piece.base.add(offset) })
    }

    /// Finds `len` bytes at `offset` if they lie in one segment of the application's memory, which is all that this describes.
    #[inline]
    fn within_one(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let piece = match &*self.pieces {
            Pieces::One(piece) => piece,
            Pieces::Registered {
                piece,
                kind: MemoryKind::Host,
                ..
            } => piece,
            _ => return None,
        };
        if offset > piece.len || len > piece.len - offset {
            return None;
        }
        // SAFETY: offset <= piece.len, so the result lies inside the piece or at its end.
        Some(unsafe { piece.base.add(offset) })
    }

    /// Keeps other copies away from owned memory; memory of the application needs no lock. Memory of devices cannot be copied.
    #[inline]
    fn hold(&self) -> Result<Option<Hold<'_>>, Unavailable> {
        match &*self.pieces {
            Pieces::One(_) => Ok(None),
            Pieces::Owned(heap) => heap.hold().map(Some).ok_or(Unavailable),
            _ => self.hold_registered(),
        }
    }

    #[cold]
    #[inline(never)]
    fn hold_registered(&self) -> Result<Option<Hold<'_>>, Unavailable> {
        self.is_host().then_some(None).ok_or(Unavailable)
    }

    /// Calls `visit` with every non-empty sub-range of `offset..offset + len`, in order.
    #[inline]
    fn each(&self, offset: usize, len: usize, mut visit: impl FnMut(*mut u8, usize)) {
        if let Pieces::One(piece) = &*self.pieces {
            if offset < piece.len && len > 0 {
                // SAFETY: offset < piece.len, so the result lies inside the piece.
                visit(
                    unsafe { piece.base.add(offset) },
                    len.min(piece.len - offset),
                );
            }
        } else {
            self.each_of_many(offset, len, &mut visit);
        }
    }

    fn each_of_many(
        &self,
        mut offset: usize,
        mut len: usize,
        visit: &mut impl FnMut(*mut u8, usize),
    ) {
        for piece in self.segments() {
            if len == 0 {
                return;
            }
            if offset >= piece.len {
                offset -= piece.len;
                continue;
            }
            let part = len.min(piece.len - offset);
            // SAFETY: offset < piece.len, so the result lies inside the piece.
            visit(unsafe { piece.base.add(offset) }, part);
            offset = 0;
            len -= part;
        }
    }
}

impl Drop for Iov {
    #[inline(always)]
    fn drop(&mut self) {
        if !matches!(*self.pieces, Pieces::One(_)) {
            // SAFETY: this is the only place that takes them, once, and they are not used afterwards.
            release(unsafe { ManuallyDrop::take(&mut self.pieces) });
        }
    }
}

/// Frees a description that is not one segment. It is handed over as a value: a pointer to it would keep every [`Iov`] in
/// memory.
#[cold]
#[inline(never)]
fn release(pieces: Pieces) {
    drop(pieces);
}

/// The error of memory that cannot be copied: another copy to or from the same owned memory is under way, or it is memory of a device.
struct Unavailable;

#[cfg(test)]
mod tests {
    use super::*;

    fn lend(bytes: &mut [u8]) -> IovSegment {
        IovSegment::new(bytes.as_mut_ptr(), bytes.len())
    }

    #[test]
    fn writes_across_pieces_and_stops_at_the_end() {
        let (mut a, mut b) = ([0u8; 3], [0u8; 4]);
        let pieces = [lend(&mut a), lend(&mut b)];
        // SAFETY: both arrays outlive the Iov.
        let iov = unsafe { Iov::scattered(&pieces) }.expect("two pieces are allowed");
        assert_eq!(iov.write(2, b"abcdefgh"), 5);
        assert_eq!((a, b), ([0, 0, b'a'], *b"bcde"));
    }

    #[test]
    fn short_and_long_copies_move_what_was_asked_for() {
        let from: [u8; 300] = core::array::from_fn(|at| (at % 251) as u8 + 1);
        for len in 0..=from.len() {
            let mut memory = [0u8; 302];
            // SAFETY: the array outlives the Iov.
            let iov = unsafe { Iov::contiguous(memory.as_mut_ptr(), memory.len()) };
            assert_eq!(iov.write(1, &from[..len]), len);
            let mut back = [0u8; 300];
            assert_eq!(iov.read(1, &mut back[..len]), len);
            assert_eq!(
                (&back[..len], back[len..].iter().sum()),
                (&from[..len], 0u8)
            );
            assert_eq!(
                memory.iter().map(|&byte| u32::from(byte)).sum::<u32>(),
                from[..len].iter().map(|&byte| u32::from(byte)).sum::<u32>()
            );
        }
    }

    #[test]
    fn slices_keep_order_and_clip() {
        let (mut a, mut b) = (*b"abc", *b"defg");
        let pieces = [lend(&mut a), lend(&mut b)];
        // SAFETY: both arrays outlive the Iov.
        let iov = unsafe { Iov::scattered(&pieces) }.expect("two pieces are allowed");
        let part = iov.slice(2, 100);
        assert_eq!(part.len(), 5);
        let mut out = [0u8; 8];
        assert_eq!(part.read(0, &mut out), 5);
        assert_eq!(&out[..5], b"cdefg");
        assert_eq!(iov.slice(7, 1).len(), 0);
    }

    #[test]
    fn one_segment_is_known_with_its_registration() {
        let mut bytes = *b"abc";
        let piece = lend(&mut bytes);
        let registration = Registration {
            region: RegionId(core::num::NonZeroU32::MIN),
            kind: MemoryKind::Host,
        };
        let known = Some((piece, registration.region));
        // SAFETY: the array outlives all of them.
        let (plain, registered, two) = unsafe {
            let two = [(piece, Some(registration)); 2];
            (
                Iov::scattered(&[piece]).expect("one piece"),
                Iov::registered(piece.base(), piece.len(), registration),
                Iov::scattered_registered(&two).expect("few pieces"),
            )
        };
        assert_eq!(
            (plain.one_registered(), plain.is_registered()),
            (None, false)
        );
        assert_eq!(
            (registered.one_registered(), registered.is_registered()),
            (known, true)
        );
        assert_eq!((two.one_registered(), two.is_registered()), (None, true));
        assert_eq!(
            two.slice(0, 3).one_registered(),
            known,
            "one of them is left"
        );
        assert_eq!(registered.base(), piece.base());
    }

    #[test]
    fn copies_between_differently_split_memory() {
        let (mut a, mut b) = (*b"abc", *b"defg");
        let mut to = [0u8; 6];
        let pieces = [lend(&mut a), lend(&mut b)];
        // SAFETY: the arrays outlive both Iovs.
        let (from, to_iov) =
            unsafe { (Iov::scattered(&pieces), Iov::contiguous(to.as_mut_ptr(), 6)) };
        assert_eq!(
            to_iov.copy_from(1, &from.expect("two pieces are allowed")),
            5
        );
        assert_eq!(&to, b"\0abcde");
    }

    #[test]
    fn owned_memory_outlives_the_description_it_was_cut_from() {
        let whole = Iov::zeroed(8).expect("eight bytes are there");
        let part = whole.slice(2, 4);
        assert_eq!(part.write(0, b"abcdef"), 4);
        let mut out = [1u8; 8];
        assert_eq!(whole.read(0, &mut out), 8);
        assert_eq!(&out, b"\0\0abcd\0\0");
        drop(whole);
        assert_eq!(part.duplicate().expect("four bytes are there").len(), 4);
        assert_eq!(part.copy_from(0, &part.slice(1, 2)), 0);
    }

    #[test]
    fn a_registration_takes_no_room() {
        assert_eq!(size_of::<Iov>(), 4 * size_of::<usize>());
    }

    fn registration(number: u32, kind: MemoryKind) -> Registration {
        let region = RegionId(number.try_into().expect("no test has number 0"));
        Registration { region, kind }
    }

    #[test]
    fn registrations_go_with_their_pieces() {
        let (mut a, mut b, mut c) = (*b"abc", *b"defg", *b"hi");
        let (one, two) = (
            registration(1, MemoryKind::Host),
            registration(2, MemoryKind::Host),
        );
        let pieces = [
            (lend(&mut a), Some(one)),
            (lend(&mut b), None),
            (lend(&mut c), Some(two)),
        ];
        // SAFETY: the arrays outlive the Iov.
        let all = unsafe { Iov::scattered_registered(&pieces) }.expect("three pieces are allowed");
        let known = |iov: &Iov| {
            (0..4)
                .map(|at| iov.registration(at))
                .collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(known(&all), [Some(one), None, Some(two), None]);
        assert_eq!(
            (all.len(), all.is_registered(), all.is_host()),
            (9, false, true)
        );
        let rest = all.slice(5, 10);
        assert_eq!(known(&rest), [None, Some(two), None, None]);
        let last = all.slice(8, 1);
        assert_eq!(known(&last), [Some(two), None, None, None]);
        assert!(last.is_registered() && all.slice(9, 1).is_registered());
        let mut out = [0; 9];
        assert_eq!((all.read(0, &mut out), &out), (9, b"abcdefghi"));
        // SAFETY: as above.
        let single = unsafe { Iov::scattered_registered(&pieces[..1]) }.expect("one is allowed");
        assert_eq!(known(&single.slice(1, 1)), [Some(one), None, None, None]);
        assert_eq!((single.clone().write(2, b"xy"), a), (1, *b"abx"));
    }

    #[test]
    fn memory_of_devices_is_not_touched() {
        let there = ptr::without_provenance_mut(8);
        let device = registration(1, MemoryKind::Cuda);
        // SAFETY: no device is asked for it.
        let iov = unsafe { Iov::registered(there, 64, device) };
        let mut bytes = [7; 8];
        assert_eq!((iov.read(0, &mut bytes), iov.write(0, &bytes)), (0, 0));
        let own = Iov::zeroed(64).expect("64 bytes are there");
        assert_eq!((own.copy_from(0, &iov), iov.copy_from(0, &own)), (0, 0));
        assert!(iov.duplicate().is_none() && iov.slice(8, 8).duplicate().is_none());
        let host = (lend(&mut bytes), None);
        let pieces = [host, (IovSegment::new(there, 8), Some(device))];
        // SAFETY: as above; the array outlives the Iov.
        let both = unsafe { Iov::scattered_registered(&pieces) }.expect("two are allowed");
        assert!(!both.is_host() && both.slice(0, 8).is_host());
        assert_eq!(both.write(0, b"x"), 0);
    }

    #[test]
    fn addresses_follow_the_pieces() {
        let (mut a, mut b) = ([0u8; 3], [0u8; 4]);
        let pieces = [lend(&mut a), lend(&mut b)];
        // SAFETY: both arrays outlive the Iov.
        let iov = unsafe { Iov::scattered(&pieces) }.expect("two pieces are allowed");
        assert_eq!(iov.address(2), a.as_ptr() as usize + 2);
        assert_eq!(iov.address(3), b.as_ptr() as usize);
        assert_eq!(iov.address(7), b.as_ptr() as usize + 4);
    }

    #[test]
    fn refuses_too_many_or_too_long() {
        let piece = IovSegment::new(ptr::dangling_mut(), usize::MAX);
        // SAFETY: no memory is touched: construction only describes it, and these fail.
        unsafe {
            assert!(Iov::scattered(&[piece, piece]).is_none());
            assert!(Iov::scattered(&[IovSegment::new(ptr::null_mut(), 0); 5]).is_none());
            assert!(Iov::scattered_registered(&[(piece, None); 2]).is_none());
            assert!(
                Iov::scattered_registered(&[(IovSegment::new(ptr::null_mut(), 0), None); 5])
                    .is_none()
            );
        }
    }
}
