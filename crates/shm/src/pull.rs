//! Long messages: their receiver copies them from the sender's memory, and the sender helps, docs/protocol/shm.md
//! "Pulling".
//!
//! The receiver copies chunks from the front of the message; it also tells the sender's link where they go, which
//! copies chunks from the back whenever it is polled. Both claim chunks from one word, so none is copied twice. The
//! receiver never waits for help, only for a chunk that the sender has claimed and is copying.
//!
//! Help is safe because the receiver lends its buffer until every claimed chunk is done, and the sender its message
//! until the receiver says Fin.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use oxifabric_engine::{RemoteIov, RxToken};
use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_types::Errno;
use oxifabric_wire::shm::cell::{Body, Cell};

use crate::region::Side;
use crate::sys;
use crate::sys::memory::Mapping;
use crate::sys::process::{self, Piece};

/// The kind of link frame that asks for help.
pub(crate) const ASSIST: u8 = 1;

/// Tables of claims lie behind the doorbells' words; both sides have one.
const TABLE_WORD: usize = 64;
/// Messages that one side may be helped with at a time.
const SLOTS: usize = 8;
/// Words of a slot: two lines for the claims, two for the helper's count of done chunks.
const SLOT_WORDS: usize = 32;
const DONE_WORD: usize = 16;
/// Messages shorter than this are over before help comes.
const ASSIST_MIN: usize = 96 * 1024;
/// Bytes of a chunk; longer where a message would have too many.
const CHUNK: usize = 64 * 1024;
/// How often a sender in the middle of a chunk is given the processor before its pair is given up.
const ABANDON_TURNS: usize = 10_000;
/// Most chunks that a claims word counts.
const MAX_CHUNKS: u64 = (1 << 20) - 1;

/// The long messages of one pair.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) pulls: VecDeque<Pull>,
    pub(crate) assists: VecDeque<Assist>,
    head: Arc<Mapping>,
    side: Side,
    used: [bool; SLOTS],
    /// Tells each use of a slot from the one before.
    turn: u32,
}

/// A message that this side receives.
#[derive(Debug)]
pub(crate) struct Pull {
    pub(crate) token: RxToken,
    remote: RemoteIov,
    into: Iov,
    /// Bytes copied from the front, unless it is shared.
    done: usize,
    sharing: Sharing,
    /// A part could not be copied: the rest is not tried.
    failed: Option<Errno>,
}

/// Whether the sender helps with a pull.
#[derive(Clone, Copy, Debug)]
enum Sharing {
    /// It could, if it were asked.
    Possible,
    /// It was asked.
    Shared(Shared),
    /// It cannot, or it is too late.
    Alone,
}

/// How a pull is shared with its sender.
#[derive(Clone, Copy, Debug)]
struct Shared {
    slot: usize,
    turn: u32,
    chunk: usize,
    chunks: u64,
}

/// A message that this side sends, and helps to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assist {
    slot: usize,
    turn: u32,
    chunk: u64,
    len: u64,
    source: u64,
    target: u64,
}

/// What both sides have claimed: chunks from the front and from the back, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claims {
    turn: u32,
    front: u64,
    back: u64,
}

impl Desk {
    pub(crate) fn new(head: Arc<Mapping>, side: Side) -> Self {
        Self {
            pulls: VecDeque::new(),
            assists: VecDeque::new(),
            head,
            side,
            used: [false; SLOTS],
            turn: 0,
        }
    }

    /// Tells whether there is nothing to do.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pulls.is_empty() && self.assists.is_empty()
    }

    /// Takes a message to be pulled.
    pub(crate) fn begin(&mut self, remote: &RemoteIov, into: Iov, token: RxToken) {
        let simple = remote.pieces().len() == 1 && into.segments().len() == 1;
        self.pulls.push_back(Pull {
            token,
            remote: *remote,
            sharing: if simple && into.len() >= ASSIST_MIN {
                Sharing::Possible
            } else {
                Sharing::Alone
            },
            into,
            done: 0,
            failed: None,
        });
    }

    /// Returns the cell that asks the sender to help with the next message that is worth it, if there is one.
    pub(crate) fn next_request(&mut self) -> Option<Cell> {
        let slot = self.used.iter().position(|used| !used)?;
        let pull = self
            .pulls
            .iter_mut()
            .take(SLOTS)
            .find(|pull| matches!(pull.sharing, Sharing::Possible) && pull.done == 0)?;
        let (&[(source, _)], [target]) = (pull.remote.pieces(), pull.into.segments()) else {
            return None;
        };
        let len = pull.into.len();
        let chunk = CHUNK.max(len.div_ceil(MAX_CHUNKS as usize));
        self.turn = self.turn.wrapping_add(1) & Claims::TURN_MASK;
        pull.sharing = Sharing::Shared(Shared {
            slot,
            turn: self.turn,
            chunk,
            chunks: len.div_ceil(chunk) as u64,
        });
        self.used[slot] = true;
        let at = word(self.side, slot);
        self.head.word(at + DONE_WORD).store(0, Ordering::Relaxed);
        // The cell that tells of the slot is published later, with release.
        self.head
            .word(at)
            .store(Claims::fresh(self.turn).pack(), Ordering::Relaxed);
        Some(Cell {
            kind: ASSIST,
            flags: 0,
            id: slot as u32,
            tag: source,
            data: target.base() as u64,
            len: len as u64,
            body: Body::Link {
                words: [u64::from(self.turn), chunk as u64],
            },
        })
    }

    /// Copies about `budget` bytes of the oldest pulls at most; calls `ended` for each that is over.
    pub(crate) fn advance(
        &mut self,
        pid: i32,
        budget: usize,
        mut ended: impl FnMut(RxToken, Result<(), Errno>),
    ) -> usize {
        let (mut left, mut events, mut index) = (budget, 0, 0);
        while let Some(pull) = self.pulls.get_mut(index) {
            let result = match pull.sharing {
                Sharing::Shared(shared) => {
                    pull.copy_shared(pid, &self.head, self.side, shared, &mut left)
                }
                _ => pull.copy(pid, &mut left),
            };
            match result {
                Some(result) => {
                    events += 1;
                    self.end(index, result, &mut ended);
                }
                // The sender is copying the rest, or it is enough for now.
                None if left > 0 => index += 1,
                None => break,
            }
        }
        events
    }

    fn end(
        &mut self,
        index: usize,
        result: Result<(), Errno>,
        ended: &mut impl FnMut(RxToken, Result<(), Errno>),
    ) {
        let Some(pull) = self.pulls.remove(index) else {
            return;
        };
        if let Sharing::Shared(shared) = pull.sharing {
            self.used[shared.slot] = false;
        }
        ended(pull.token, result);
    }

    /// Stops all pulls: afterwards no sender writes into their buffers any more. Returns their tokens.
    ///
    /// A sender that has claimed a chunk is waited for, because it is in the middle of copying it; one that was killed
    /// or stopped there has ended its copying, so that the wait may be bounded.
    pub(crate) fn abandon(&mut self) -> Vec<RxToken> {
        self.assists.clear();
        for pull in &mut self.pulls {
            pull.failed = Some(Errno::CANCELED);
        }
        let mut tokens = Vec::new();
        for _ in 0..ABANDON_TURNS {
            self.advance(0, usize::MAX, |token, _| tokens.push(token));
            if self.pulls.is_empty() {
                break;
            }
            thread::yield_now();
        }
        tokens.extend(self.pulls.drain(..).map(|pull| pull.token));
        tokens
    }

    /// Helps with one chunk of the oldest message that needs it; returns whether there was one.
    pub(crate) fn assist(&mut self, pid: i32) -> bool {
        while let Some(assist) = self.assists.front() {
            let at = word(self.side.other(), assist.slot);
            if assist.copy_chunk(pid, &self.head, at) {
                return true;
            }
            self.assists.pop_front();
        }
        false
    }
}

impl Pull {
    /// Copies the next bytes; returns the result when that was all.
    fn copy(&mut self, pid: i32, left: &mut usize) -> Option<Result<(), Errno>> {
        let len = (self.into.len() - self.done).min(*left);
        if self.failed.is_none() {
            self.copy_part(pid, self.done, len);
        }
        self.done += len;
        *left -= len;
        let over = self.failed.is_some() || self.done == self.into.len();
        over.then(|| self.failed.map_or(Ok(()), Err))
    }

    /// Copies chunks that the sender has not claimed; returns the result when all are done.
    fn copy_shared(
        &mut self,
        pid: i32,
        head: &Mapping,
        side: Side,
        shared: Shared,
        left: &mut usize,
    ) -> Option<Result<(), Errno>> {
        let at = word(side, shared.slot);
        while *left > 0 {
            let Some(index) = claim(head, at, shared.turn, shared.chunks, End::Front) else {
                break;
            };
            let offset = index as usize * shared.chunk;
            let len = shared.chunk.min(self.into.len() - offset);
            if self.failed.is_none() {
                self.copy_part(pid, offset, len);
                *left = left.saturating_sub(len);
            }
        }
        let claims = Claims::unpack(head.word(at).load(Ordering::Relaxed));
        if claims.turn != shared.turn || claims.front + claims.back > shared.chunks {
            return Some(Err(Errno::PROTO));
        }
        if claims.front + claims.back < shared.chunks {
            return None;
        }
        // What the sender wrote is complete once its count says so.
        match head.word(at + DONE_WORD).load(Ordering::Acquire) {
            FAILED => Some(Err(self.failed.unwrap_or(Errno::FAULT))),
            done => (done == claims.back).then(|| self.failed.map_or(Ok(()), Err)),
        }
    }

    /// Copies a part, or notes why that failed.
    fn copy_part(&mut self, pid: i32, offset: usize, len: usize) {
        if let Err(error) = self.try_part(pid, offset, len) {
            self.failed = Some(sys::errno(&error));
        }
    }

    fn try_part(&self, pid: i32, offset: usize, len: usize) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let into = self.into.slice(offset + done, len - done);
            let (pieces, count) = remote_part(&self.remote, offset + done, len - done);
            match process::read_memory(pid, &pieces[..count], &into)? {
                0 => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
                some => done += some,
            }
        }
        Ok(())
    }
}

/// The helper could not write a chunk that it had claimed.
const FAILED: u64 = u64::MAX;

impl Assist {
    /// Reads a request for help; `None` if it is none.
    pub(crate) fn asked(cell: &Cell, words: [u64; 2]) -> Option<Self> {
        let assist = Self {
            slot: cell.id as usize,
            turn: words[0] as u32,
            chunk: words[1],
            len: cell.len,
            source: cell.tag,
            target: cell.data,
        };
        let whole = assist.slot < SLOTS
            && assist.chunk > 0
            && assist.len.div_ceil(assist.chunk) <= MAX_CHUNKS
            && assist.source.checked_add(assist.len).is_some()
            && assist.target.checked_add(assist.len).is_some();
        whole.then_some(assist)
    }

    /// Claims and copies the next chunk from the back; returns false when none is left.
    fn copy_chunk(&self, pid: i32, head: &Mapping, at: usize) -> bool {
        let chunks = self.len.div_ceil(self.chunk);
        let Some(index) = claim(head, at, self.turn, chunks, End::Back) else {
            return false;
        };
        let offset = (chunks - 1 - index) * self.chunk;
        let len = self.chunk.min(self.len - offset);
        let written = self.write(pid, offset, len);
        let done = head.word(at + DONE_WORD);
        let count = done.load(Ordering::Relaxed);
        let value = if written {
            count.wrapping_add(1)
        } else {
            FAILED
        };
        done.store(value, Ordering::Release);
        written
    }

    fn write(&self, pid: i32, offset: u64, len: u64) -> bool {
        let mut done = 0;
        while done < len {
            let (from, to) = (self.source + offset + done, self.target + offset + done);
            match process::send_memory(pid, (to, len - done), (from, len - done)) {
                Ok(0) | Err(_) => return false,
                Ok(some) => done += some as u64,
            }
        }
        true
    }
}

/// From where one claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// Claims the next chunk of a message; returns how many were claimed from that end before.
fn claim(head: &Mapping, at: usize, turn: u32, chunks: u64, end: End) -> Option<u64> {
    let word = head.word(at);
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let mut claims = Claims::unpack(seen);
        if claims.turn != turn || claims.front + claims.back >= chunks {
            return None;
        }
        let field = match end {
            End::Front => &mut claims.front,
            End::Back => &mut claims.back,
        };
        let index = *field;
        *field += 1;
        match word.compare_exchange(seen, claims.pack(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(index),
            Err(now) => seen = now,
        }
    }
}

impl Claims {
    const fn fresh(turn: u32) -> Self {
        Self {
            turn,
            front: 0,
            back: 0,
        }
    }

    const TURN_MASK: u32 = (1 << 24) - 1;

    const fn pack(self) -> u64 {
        (self.turn as u64) << 40 | self.front << 20 | self.back
    }

    const fn unpack(word: u64) -> Self {
        Self {
            turn: (word >> 40) as u32,
            front: word >> 20 & MAX_CHUNKS,
            back: word & MAX_CHUNKS,
        }
    }
}

/// Returns the index of a slot's claims in the table of the side that receives.
const fn word(receiver: Side, slot: usize) -> usize {
    let table = match receiver {
        Side::Caller => 0,
        Side::Callee => SLOTS,
    };
    TABLE_WORD + (table + slot % SLOTS) * SLOT_WORDS
}

/// Returns the pieces of a part of remote memory, and how many.
fn remote_part(
    remote: &RemoteIov,
    mut offset: usize,
    mut len: usize,
) -> ([Piece; MAX_SEGMENTS], usize) {
    let mut part = [(0, 0); MAX_SEGMENTS];
    let mut count = 0;
    for &(address, size) in remote.pieces() {
        let size_here = usize::try_from(size).unwrap_or(usize::MAX);
        if offset >= size_here {
            offset -= size_here;
            continue;
        }
        if len == 0 {
            break;
        }
        let take = len.min(size_here - offset);
        part[count] = (address.wrapping_add(offset as u64), take as u64);
        count += 1;
        len -= take;
        offset = 0;
    }
    (part, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_survive_packing() {
        let claims = Claims {
            turn: 0xabcdef,
            front: MAX_CHUNKS,
            back: 5,
        };
        assert_eq!(Claims::unpack(claims.pack()), claims);
    }

    #[test]
    fn parts_of_remote_memory_follow_its_pieces() {
        let remote = RemoteIov::new(&[(100, 10), (200, 0), (300, 10)]).expect("few pieces");
        let (part, count) = remote_part(&remote, 4, 10);
        assert_eq!(part[..count], [(104, 6), (300, 4)]);
        let (part, count) = remote_part(&remote, 12, 100);
        assert_eq!(part[..count], [(302, 8)]);
        assert_eq!(remote_part(&remote, 20, 5).1, 0);
    }

    #[test]
    fn both_ends_share_all_chunks_and_no_chunk_twice() {
        let head = Mapping::private(4096).expect("a page");
        head.word(TABLE_WORD)
            .store(Claims::fresh(3).pack(), Ordering::Relaxed);
        let next = |turn, end| claim(&head, TABLE_WORD, turn, 3, end);
        assert_eq!(next(2, End::Front), None, "another use of the slot");
        assert_eq!(next(3, End::Front), Some(0));
        assert_eq!(next(3, End::Back), Some(0));
        assert_eq!(next(3, End::Front), Some(1));
        assert_eq!(next(3, End::Back), None);
        assert_eq!(next(3, End::Front), None);
    }

    #[test]
    fn requests_that_make_no_sense_are_none() {
        let cell = |id, len| Cell {
            kind: ASSIST,
            flags: 0,
            id,
            tag: 1 << 20,
            data: 1 << 20,
            len,
            body: Body::Bare,
        };
        assert!(Assist::asked(&cell(0, 1 << 20), [1, 1 << 16]).is_some());
        assert!(Assist::asked(&cell(SLOTS as u32, 1), [1, 1 << 16]).is_none());
        assert!(Assist::asked(&cell(0, 1), [1, 0]).is_none());
        assert!(Assist::asked(&cell(0, u64::MAX), [1, 1 << 16]).is_none());
        assert!(Assist::asked(&cell(0, 1 << 30), [1, 1]).is_none());
    }
}
