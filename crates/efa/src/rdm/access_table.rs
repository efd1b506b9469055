//! The reads and writes that the device carries out, and the pieces that it is asked for: where memory ends, at either end, and as much as it does at
//! once. Path class: hot.

use std::collections::VecDeque;

use oxifabric_engine::{RemoteIov, RxToken, Sink, Target, TxToken};
use oxifabric_ibv::{Mr, Piece};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};

use super::tx::{AccessPiece, AccessRequest};

/// How many accesses are under way at most; further ones wait in the engine.
const ACCESSES_MAX: usize = 256;

/// How many buffers accesses that wait leave to packets; and packets to them, when they were passed over.
const RESERVE: usize = 32;

/// The accesses of an endpoint, by number.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    rows: Vec<Option<Access>>,
    free: Vec<u32>,
    /// Accesses of which more is to be posted.
    pub(super) ready: VecDeque<u32>,
    /// The last poll had buffers for none of them.
    is_passed_over: bool,
}

/// An access that is under way.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) peer: PeerId,
    pub(super) tell: Tell,
    pub(super) body: Iov,
    pub(super) remote: RemoteIov,
    /// Completion data for the peer, as it is on the wire.
    pub(super) data: Option<u32>,
    /// How the device reaches the body.
    pub(super) memory: Memory,
    /// How many bytes of it the device was asked for.
    pub(super) posted: usize,
    /// The device was asked for all of it.
    pub(super) is_posted: bool,
    pub(super) pending: u32,
    pub(super) failure: Option<Errno>,
}

/// How the device reaches the memory of this end that an access is about.
#[derive(Debug)]
pub(super) enum Memory {
    /// Not by itself: the access goes through buffers.
    Buffered,
    /// By the application's registration of it.
    Described(Piece),
    /// By registrations of the segments, which last as long as the access.
    Registered(Vec<Mr>),
}

/// What the engine is told of the end of an access.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tell {
    /// A write.
    Written(TxToken),
    /// A read that the application asked for.
    Read(TxToken),
    /// A read of what a peer announced.
    Pulled(RxToken),
}

impl Tell {
    pub(super) const fn is_read(self) -> bool {
        matches!(self, Self::Read(_) | Self::Pulled(_))
    }

    pub(super) fn tell(self, result: Result<(), Errno>, sink: &mut impl Sink) {
        match self {
            Self::Written(token) | Self::Read(token) => sink.sent(token, result),
            Self::Pulled(token) => sink.pulled(token, result),
        }
    }
}

impl Accesses {
    /// Keeps an access; `None` when there are too many.
    pub(super) fn insert(&mut self, access: Access) -> Option<u32> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.rows.len() >= ACCESSES_MAX => return None,
            None => {
                self.rows.push(None);
                self.rows.len() as u32 - 1
            }
        };
        *self.rows.get_mut(at as usize)? = Some(access);
        Some(at)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Access> {
        self.rows.get_mut(id as usize)?.as_mut()
    }

    /// Takes an access out of which nothing is with the device any more, if it is over.
    pub(super) fn take_over(&mut self, id: u32) -> Option<Access> {
        let row = self.rows.get_mut(id as usize)?;
        let over = row.take_if(|access| access.is_over())?;
        self.free.push(id);
        self.ready.retain(|ready| *ready != id);
        Some(over)
    }

    /// Returns whether an access that waits may take a buffer, when so many are idle.
    pub(super) const fn may_go_on(room: usize) -> bool {
        room > RESERVE
    }

    /// Returns whether anything else may take a buffer, when so many are idle: while an access waits that was passed over, the others are left to it.
    pub(super) const fn leaves_room(&self, room: usize) -> bool {
        match self.is_passed_over {
            true => room > RESERVE,
            false => room > 0,
        }
    }

    /// Returns whether none waits, so that none was passed over.
    #[inline]
    pub(super) fn is_none_ready(&mut self) -> bool {
        let is_none = self.ready.is_empty();
        self.is_passed_over &= !is_none;
        is_none
    }

    /// Notes whether something of the accesses that wait was posted in this poll.
    pub(super) fn had_turn(&mut self, has_posted: bool) {
        self.is_passed_over = !has_posted && !self.ready.is_empty();
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.rows.len() < ACCESSES_MAX
    }

    /// Returns the numbers of those with a peer.
    pub(super) fn numbers_with(&self, peer: PeerId) -> Vec<u32> {
        let rows = (0..).zip(&self.rows);
        let with_peer = rows.filter(|(_, row)| row.as_ref().is_some_and(|row| row.peer == peer));
        with_peer.map(|(id, _)| id).collect()
    }

    /// Gives all accesses up as far as the device does not have them.
    pub(super) fn give_up(&mut self, why: Errno) {
        for id in 0..self.rows.len() as u32 {
            if let Some(access) = self.get_mut(id) {
                access.failure.get_or_insert(why);
            }
            self.take_over(id);
        }
    }

    /// Returns whether one with this peer is under way.
    pub(super) fn any_with(&self, peer: PeerId) -> bool {
        let mut all = self.rows.iter().flatten();
        all.any(|access| access.peer == peer)
    }
}

impl Access {
    /// Copies the memory that is lent for a call only, if more of it is to be posted: `copy` does. Where that fails the access does, and the memory is
    /// not used any more.
    pub(super) fn own_body(&mut self, copy: impl FnOnce(&Iov) -> Option<Iov>) {
        if self.is_posted || self.failure.is_some() {
            return;
        }
        match copy(&self.body) {
            Some(body) => self.body = body,
            None => {
                self.failure = Some(Errno::NOMEM);
                self.body = Iov::empty();
            }
        }
    }

    /// Returns whether nothing of it is under way, or will be.
    pub(super) fn is_over(&self) -> bool {
        self.pending == 0 && (self.is_posted || self.failure.is_some())
    }

    /// Returns the next piece, of at most `most` bytes, or `buffer` bytes if it goes through a buffer; `None` when the device was asked for all, or has
    /// to carry out the others first: completion data goes with the last piece.
    pub(super) fn next(&self, most: usize, buffer: usize) -> Option<(AccessPiece, AccessRequest)> {
        if self.is_posted || self.failure.is_some() {
            return None;
        }
        let rest = self.body.len() - self.posted;
        let (target, skipped) = place(self.remote.pieces(), self.posted);
        let most = most.min(self.memory.room(self.posted, rest, buffer)?);
        let len = usize::try_from(target.len - skipped).map_or(rest, |there| there.min(rest));
        let len = len.min(most);
        let is_last = len == rest;
        if is_last && self.data.is_some() && self.pending > 0 {
            return None;
        }
        let piece = AccessPiece {
            access: 0,
            offset: self.posted,
            len,
            is_buffered: matches!(self.memory, Memory::Buffered),
        };
        let local = match self.memory {
            Memory::Buffered => None,
            _ => Some(self.memory.piece(self.posted, len)?),
        };
        let request = AccessRequest {
            is_read: self.tell.is_read(),
            local,
            addr: target.addr.wrapping_add(skipped),
            key: u32::try_from(target.key).ok()?,
            len,
            data: self.data.filter(|_| is_last),
        };
        Some((piece, request))
    }
}

impl Memory {
    /// Returns how many bytes from an offset on a request can name at most, where `rest` are wanted and a buffer has `buffer`; `None` if there are none.
    fn room(&self, offset: usize, rest: usize, buffer: usize) -> Option<usize> {
        match self {
            Self::Buffered => Some(buffer),
            Self::Described(_) => Some(rest),
            Self::Registered(regions) => {
                find(regions, offset).map(|(region, start)| region.len() - start)
            }
        }
    }

    /// Describes bytes of the memory as requests name them; `None` where they are not in one region.
    fn piece(&self, offset: usize, len: usize) -> Option<Piece> {
        match self {
            Self::Buffered => None,
            Self::Described(piece) => piece.part(offset, len),
            Self::Registered(regions) => {
                find(regions, offset).and_then(|(region, start)| region.piece(start, len))
            }
        }
    }
}

/// Finds the region of the segment that has the byte at an offset, and where in it that is.
fn find(regions: &[Mr], mut offset: usize) -> Option<(&Mr, usize)> {
    for region in regions {
        if offset < region.len() {
            return Some((region, offset));
        }
        offset -= region.len();
    }
    None
}

/// Returns the piece of memory that has the byte at an offset, and how much of it is before that. Of memory without bytes it is the first one.
fn place(pieces: &[Target], offset: usize) -> (Target, u64) {
    let mut rest = offset as u64;
    for piece in pieces {
        if rest < piece.len {
            return (*piece, rest);
        }
        rest -= piece.len;
    }
    (pieces.first().copied().unwrap_or_default(), 0)
}

/// Returns whether a device can name pieces of memory, whose lengths together are this one, or more if `may_exceed`.
pub(super) fn is_nameable(pieces: &[Target], len: usize, may_exceed: bool) -> bool {
    let mut lengths = pieces.iter().map(|piece| piece.len);
    let total = lengths.try_fold(0_u64, u64::checked_add);
    let fits = total.is_some_and(|total| match may_exceed {
        true => total >= len as u64,
        false => total == len as u64,
    });
    fits && pieces.iter().all(|piece| u32::try_from(piece.key).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: usize = 100;

    fn target(addr: u64, len: u64) -> Target {
        Target { addr, len, key: 7 }
    }

    fn access(len: usize, targets: &[Target], data: Option<u32>) -> Access {
        Access {
            peer: PeerId(1),
            tell: Tell::Written(TxToken(0)),
            body: Iov::zeroed(len).expect("memory"),
            remote: RemoteIov::new(targets).expect("few pieces"),
            data,
            memory: Memory::Buffered,
            posted: 0,
            is_posted: false,
            pending: 0,
            failure: None,
        }
    }

    /// Posts all pieces that may be posted, and returns where they are at the peer, their lengths, and whether they bring data.
    fn post_all(access: &mut Access, most: usize) -> Vec<(u64, usize, bool)> {
        let mut all = Vec::new();
        while let Some((piece, request)) = access.next(most, BUFFER) {
            assert_eq!((piece.offset, piece.len), (access.posted, request.len));
            all.push((request.addr, request.len, request.data.is_some()));
            access.posted += piece.len;
            access.pending += 1;
            access.is_posted = access.posted == access.body.len();
        }
        all
    }

    #[test]
    fn accesses_are_given_up_as_far_as_the_device_does_not_have_them() {
        let mut accesses = Accesses::default();
        for pending in [0, 1] {
            let half = Access {
                posted: 5,
                pending,
                ..access(10, &[target(0, 10)], None)
            };
            let id = accesses.insert(half).expect("room");
            accesses.ready.push_back(id);
        }
        accesses.give_up(Errno::CANCELED);
        assert!(accesses.get_mut(0).is_none() && !accesses.ready.contains(&0));
        let begun = accesses.get_mut(1).expect("the device has a piece of it");
        assert_eq!(begun.failure, Some(Errno::CANCELED));
        assert!(begun.next(100, BUFFER).is_none(), "no further piece");
    }

    #[test]
    fn an_access_is_cut_where_memory_ends_and_by_what_the_device_takes() {
        let targets = [target(1000, 130), target(0, 0), target(5000, 70)];
        let mut long = access(200, &targets, None);
        let pieces = [(1000, 100, false), (1100, 30, false), (5000, 70, false)];
        assert_eq!(post_all(&mut long, 1 << 30), pieces);
        assert!(!long.is_over());
        long.pending = 0;
        assert!(long.is_over());
        let mut short_steps = access(100, &[target(1000, 100)], None);
        assert_eq!(post_all(&mut short_steps, 40).len(), 3);
    }

    #[test]
    fn pieces_of_any_access_follow_each_other_and_are_all_of_it() {
        let mut drawn = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |below: u64| {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            drawn % below
        };
        for _ in 0..2000 {
            let lens: Vec<u64> = (0..1 + draw(4)).map(|_| draw(400)).collect();
            let mut addr = 1000;
            let targets: Vec<Target> = lens
                .iter()
                .map(|&len| {
                    addr += 1000;
                    target(addr, len)
                })
                .collect();
            let len: u64 = lens.iter().sum();
            let mut any = access(len as usize, &targets, None);
            let most = 1 + draw(300) as usize;
            let bytes = post_all(&mut any, most)
                .into_iter()
                .flat_map(|(addr, len, _)| {
                    assert!(len <= most.min(BUFFER));
                    addr..addr + len as u64
                });
            let named = targets
                .iter()
                .flat_map(|target| target.addr..target.addr + target.len);
            assert!(bytes.eq(named), "{targets:?} by {most}");
            assert!(any.is_posted);
        }
    }

    #[test]
    fn an_access_without_bytes_is_one_piece() {
        for targets in [&[target(1000, 0)][..], &[]] {
            let mut empty = access(0, targets, Some(5));
            assert_eq!(post_all(&mut empty, 40).len(), 1);
        }
    }

    #[test]
    fn completion_data_goes_with_the_last_piece_behind_all_others() {
        let mut with_data = access(150, &[target(1000, 150)], Some(5));
        assert_eq!(
            post_all(&mut with_data, 60),
            [(1000, 60, false), (1060, 60, false)]
        );
        with_data.pending = 0;
        assert_eq!(post_all(&mut with_data, 60), [(1120, 30, true)]);
    }

    #[test]
    fn what_was_lent_and_cannot_be_copied_is_not_used_again() {
        let mut lent = access(150, &[target(1000, 150)], Some(5));
        assert_eq!(post_all(&mut lent, 60).len(), 2);
        lent.own_body(|_| None);
        assert_eq!((lent.failure, lent.body.len()), (Some(Errno::NOMEM), 0));
        assert!(lent.next(60, BUFFER).is_none() && !lent.is_over());
        lent.pending = 0;
        assert!(lent.is_over() && lent.next(60, BUFFER).is_none());

        let mut copied = access(150, &[target(1000, 150)], Some(5));
        post_all(&mut copied, 60);
        copied.own_body(Iov::duplicate);
        copied.pending = 0;
        assert_eq!(post_all(&mut copied, 60), [(1120, 30, true)]);
        copied.own_body(|_| unreachable!("all of it is posted"));
    }

    /// Packets take each buffer that they may, and the device gives few back at a time.
    #[test]
    fn an_access_that_waits_has_its_turn_beside_packets_and_they_have_theirs() {
        for freed in 1..=2 * RESERVE {
            let (mut accesses, mut room) = (Accesses::default(), 0_usize);
            let (mut pieces, mut packets) = (100, 0);
            accesses.ready.push_back(0);
            for _ in 0..200 * RESERVE {
                room += freed;
                let before = pieces;
                while pieces > 0 && Accesses::may_go_on(room) {
                    (room, pieces) = (room - 1, pieces - 1);
                }
                if pieces == 0 {
                    accesses.ready.clear();
                }
                accesses.had_turn(before > pieces);
                while accesses.leaves_room(room) {
                    (room, packets) = (room - 1, packets + 1);
                }
            }
            assert_eq!(pieces, 0, "packets took all, {freed} at a time");
            assert!(packets > 100, "{packets} packets, {freed} at a time");
        }
    }

    #[test]
    fn what_a_device_cannot_name_is_refused() {
        assert!(is_nameable(&[target(1, 5), target(9, 3)], 8, false));
        assert!(!is_nameable(&[target(1, 9)], 8, false) && is_nameable(&[target(1, 9)], 8, true));
        assert!(!is_nameable(&[target(1, 7)], 8, true));
        let endless = [target(0, u64::MAX), target(0, 9)];
        assert!(!is_nameable(&endless, 8, true));
        let long_key = Target {
            key: 1 << 32,
            ..target(1, 8)
        };
        assert!(!is_nameable(&[long_key], 8, false));
    }

    #[test]
    fn accesses_are_bounded_and_their_places_used_again() {
        let mut accesses = Accesses::default();
        for _ in 0..ACCESSES_MAX {
            assert!(accesses.insert(access(1, &[target(0, 1)], None)).is_some());
        }
        assert!(!accesses.has_room() && accesses.any_with(PeerId(1)));
        assert!(accesses.insert(access(1, &[target(0, 1)], None)).is_none());
        assert!(accesses.take_over(3).is_none(), "it is not over");
        accesses.get_mut(3).expect("it is there").failure = Some(Errno::IO);
        assert!(accesses.take_over(3).is_some() && accesses.has_room());
        assert_eq!(accesses.insert(access(1, &[target(0, 1)], None)), Some(3));
    }
}
