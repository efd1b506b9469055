//! Long messages: their receiver copies them from the sender's memory, and the sender helps, docs/protocol/shm.md
//! "Pulling".
//!
//! The receiver copies chunks from the front of the message; it also tells the sender's link where they go, which
//! copies chunks from the back whenever it is polled. Both claim chunks from one word, so none is copied twice. The
//! receiver never waits for help, only for a chunk that the sender has claimed and is copying.
//!
//! Help is safe because the receiver lends its buffer until every claimed chunk is done, and the sender its message
//! until the receiver says Fin. It reads nothing for a peer that it has not offered to that peer.

mod assist;
mod claims;
mod offers;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use oxifabric_engine::{RemoteIov, RxToken};
use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_types::Errno;
use oxifabric_wire::shm::cell::{Body, Cell};

use crate::region::Side;
use crate::sys;
use crate::sys::memory::Mapping;
use crate::sys::process::{self, Piece};

pub(crate) use assist::Assist;
use assist::Outcome;
use claims::{Claims, End, Help, MAX_CHUNKS, SLOTS, Slot, Split};
use offers::Offers;

/// The kind of link frame that asks for help.
pub(crate) const ASSIST: u8 = 1;

/// The longest chunk, in bytes; longer where a message would have too many. A shorter message is two chunks: each side's caches
/// then hold the same half of every message in a buffer.
const CHUNK: usize = 128 * 1024;
/// Chunks are whole pages, so that no two processes write one line.
pub(crate) const CHUNK_ALIGN: usize = 4096;

/// The long messages of one pair.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) pulls: VecDeque<Pull>,
    pub(crate) assists: VecDeque<Assist>,
    /// What the peer may be helped with.
    offers: Offers,
    head: Arc<Mapping>,
    side: Side,
    used: [bool; SLOTS],
    /// Messages shorter than this are over before help comes.
    assist_size: usize,
    /// This side cannot help.
    helpless: bool,
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
    /// The slot that it has taken.
    slot: Option<usize>,
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
    stage: Stage,
}

/// How many stages there are.
const STAGES: usize = 3;

/// How far the chunks of a shared pull are claimed.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The first one, by this side, which has not copied it yet.
    Begun,
    /// Some are nobody's.
    Open,
    /// All of them, so many by the sender.
    Split(u64),
}

impl Desk {
    pub(crate) fn new(head: Arc<Mapping>, side: Side, assist_size: usize) -> Self {
        Self {
            pulls: VecDeque::new(),
            assists: VecDeque::new(),
            offers: Offers::default(),
            head,
            side,
            used: [false; SLOTS],
            assist_size,
            helpless: false,
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
            sharing: if simple && into.len() >= self.assist_size {
                Sharing::Possible
            } else {
                Sharing::Alone
            },
            into,
            done: 0,
            failed: None,
            slot: None,
        });
    }

    /// Returns the cell that asks the sender to help with the next message that is worth it, if there is one. A sender that
    /// copies messages of ours has no time for its own.
    pub(crate) fn next_request(&mut self) -> Option<Cell> {
        if !self.offers.is_empty() {
            return None;
        }
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
        let chunk = chunk_of(len);
        self.turn = self.turn.wrapping_add(1) & Claims::TURN_MASK;
        pull.sharing = Sharing::Shared(Shared {
            slot,
            turn: self.turn,
            chunk,
            chunks: len.div_ceil(chunk) as u64,
            stage: Stage::Begun,
        });
        pull.slot = Some(slot);
        self.used[slot] = true;
        Slot::new(&self.head, self.side, slot).begin(self.turn);
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

    /// Copies the next part of the oldest pull that has one; calls `ended` for pulls that are over. Takes what it copies
    /// from `left`. Returns how many events there were: copying is one.
    pub(crate) fn advance(
        &mut self,
        pid: i32,
        left: &mut usize,
        mut ended: impl FnMut(RxToken, Result<(), Errno>),
    ) -> usize {
        let (before, mut events, mut index) = (*left, 0, 0);
        while let Some(pull) = self.pulls.get_mut(index)
            && *left == before
        {
            match pull.advance(pid, &self.head, self.side, left) {
                Some(result) => {
                    events += 1;
                    self.end(index, result, &mut ended);
                }
                // The sender is copying the rest, or there is more to copy.
                None => index += 1,
            }
        }
        events + usize::from(*left < before)
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
        if let Some(slot) = pull.slot {
            self.used[slot] = false;
        }
        ended(pull.token, result);
    }

    /// Copies no more of any message; pulls end with this error as soon as their senders have done what they claimed.
    pub(crate) fn give_up(&mut self, why: Errno) {
        self.assists.clear();
        for pull in &mut self.pulls {
            pull.failed.get_or_insert(why);
        }
    }

    /// Gives up all pulls; returns the tokens of those into whose buffers no sender writes any more. The others have a chunk that
    /// the sender has claimed and may be copying.
    pub(crate) fn stop(&mut self) -> Vec<RxToken> {
        self.give_up(Errno::CANCELED);
        let mut tokens = Vec::new();
        // From one stage to the next, and in the last round whatever has ended in the one before.
        for _ in 0..=STAGES {
            let mut left = usize::MAX;
            while self.advance(0, &mut left, |token, _| tokens.push(token)) > 0 {}
        }
        tokens
    }

    /// Ends all pulls, also those that their sender may still be copying; returns their tokens. The sender must be gone, or have been
    /// waited for.
    pub(crate) fn abandon(&mut self) -> Vec<RxToken> {
        let mut tokens = self.stop();
        tokens.extend(self.pulls.drain(..).map(|pull| pull.token));
        tokens
    }

    /// Helps with one chunk of the oldest message that needs it, and takes what it copies from `left`. Returns whether there was
    /// one.
    pub(crate) fn assist(&mut self, pid: i32, left: &mut usize) -> bool {
        while let Some(assist) = self.assists.front() {
            let slot = Slot::new(&self.head, self.side.other(), assist.slot);
            match assist.copy_chunk(pid, slot) {
                Outcome::Copied(len) => {
                    *left = left.saturating_sub(len);
                    return true;
                }
                Outcome::Over => self.assists.pop_front(),
                Outcome::Failed => {
                    // It would fail again; the receiver does without.
                    self.helpless = true;
                    self.assists.clear();
                    return true;
                }
            };
        }
        false
    }

    /// Takes a request for help. One for memory that was not offered comes from a peer that wants to see what it may not:
    /// it gets none.
    pub(crate) fn take_request(&mut self, assist: Assist) {
        // Whoever uses a slot again has no use for the help that it asked for before.
        self.assists.retain(|other| other.slot != assist.slot);
        if !self.helpless && self.offers.contain(&assist) {
            self.assists.push_back(assist);
        }
    }

    /// Remembers that the peer may read this message.
    pub(crate) fn offer(&mut self, id: u32, address: u64, len: u64) {
        if len >= self.assist_size as u64 {
            self.offers.add(id, address, len);
        }
    }

    /// The peer has answered an offer: from now on the memory may be the application's again.
    pub(crate) fn answered(&mut self, id: u32) {
        if self.offers.end(id) {
            let offers = &self.offers;
            self.assists.retain(|assist| offers.contain(assist));
        }
    }
}

impl Pull {
    /// Copies the next bytes; returns the result when all are there.
    #[inline]
    fn advance(
        &mut self,
        pid: i32,
        head: &Mapping,
        side: Side,
        left: &mut usize,
    ) -> Option<Result<(), Errno>> {
        match self.sharing {
            Sharing::Shared(shared) => {
                let slot = Slot::new(head, side, shared.slot);
                self.copy_shared(pid, slot, shared, left)
            }
            _ => self.copy(pid, left),
        }
    }

    /// The same where the sender does not help.
    fn copy(&mut self, pid: i32, left: &mut usize) -> Option<Result<(), Errno>> {
        let len = (self.into.len() - self.done).min(*left);
        if self.failed.is_none() {
            self.copy_part(pid, self.done, len);
        }
        self.done += len;
        *left -= len;
        let over = self.failed.is_some() || self.done == self.into.len();
        over.then(|| self.result())
    }

    /// Copies one chunk that the sender has not claimed; returns the result when all are done.
    fn copy_shared(
        &mut self,
        pid: i32,
        slot: Slot<'_>,
        mut shared: Shared,
        left: &mut usize,
    ) -> Option<Result<(), Errno>> {
        match shared.stage {
            Stage::Begun => self.copy_chunk(pid, &shared, 0, left),
            Stage::Open => self.copy_claimed(pid, slot, &shared, left),
            Stage::Split(_) => {}
        }
        if !matches!(shared.stage, Stage::Split(_)) {
            shared.stage = match slot.split(shared.turn, shared.chunks) {
                Split::Open => Stage::Open,
                Split::Whole(taken) => Stage::Split(taken),
                Split::Broken => return Some(Err(Errno::PROTO)),
            };
            self.sharing = Sharing::Shared(shared);
        }
        let Stage::Split(taken) = shared.stage else {
            return None;
        };
        match slot.help() {
            Help::Done(done) if done == taken => Some(self.result()),
            Help::Done(_) => None,
            // The sender has stopped: what it claimed is copied without it.
            Help::Failed => {
                let ours = (shared.chunks - taken) as usize * shared.chunk;
                self.sharing = Sharing::Alone;
                self.done = ours.min(self.into.len());
                self.copy(pid, left)
            }
        }
    }

    /// Claims a chunk and copies it; where nothing is copied any more, claims all there are.
    fn copy_claimed(&mut self, pid: i32, slot: Slot<'_>, shared: &Shared, left: &mut usize) {
        // The peer writes the claims too: chunks that it gives back are not claimed for ever.
        for _ in 0..shared.chunks {
            let Some(index) = slot.claim(shared.turn, shared.chunks, End::Front) else {
                return;
            };
            if self.failed.is_none() {
                return self.copy_chunk(pid, shared, index, left);
            }
        }
    }

    fn copy_chunk(&mut self, pid: i32, shared: &Shared, index: u64, left: &mut usize) {
        if self.failed.is_none() {
            let offset = (index as usize * shared.chunk).min(self.into.len());
            let len = shared.chunk.min(self.into.len() - offset);
            self.copy_part(pid, offset, len);
            *left = left.saturating_sub(len);
        }
    }

    fn result(&self) -> Result<(), Errno> {
        self.failed.map_or(Ok(()), Err)
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

/// Returns how long the chunks of a message are.
fn chunk_of(len: usize) -> usize {
    let half = len.div_ceil(2).next_multiple_of(CHUNK_ALIGN);
    half.min(CHUNK).max(len.div_ceil(MAX_CHUNKS as usize))
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
    fn parts_of_remote_memory_follow_its_pieces() {
        let remote = RemoteIov::new(&[(100, 10), (200, 0), (300, 10)]).expect("few pieces");
        let (part, count) = remote_part(&remote, 4, 10);
        assert_eq!(part[..count], [(104, 6), (300, 4)]);
        let (part, count) = remote_part(&remote, 12, 100);
        assert_eq!(part[..count], [(302, 8)]);
        assert_eq!(remote_part(&remote, 20, 5).1, 0);
    }

    /// A message of this process that it pulls from itself.
    fn desk_with_pull(source: &[u8], target: &mut [u8]) -> (Desk, Cell) {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut desk = Desk::new(head, Side::Caller, 24 * 1024);
        let remote = RemoteIov::new(&[(source.as_ptr() as u64, source.len() as u64)]);
        // SAFETY: the target outlives the desk.
        let into = unsafe { Iov::contiguous(target.as_mut_ptr(), target.len()) };
        desk.begin(&remote.expect("one piece"), into, RxToken(1));
        let cell = desk.next_request().expect("a long message");
        (desk, cell)
    }

    fn run(desk: &mut Desk) -> Vec<Result<(), Errno>> {
        let mut ended = Vec::new();
        let (pid, mut left) = (std::process::id() as i32, usize::MAX);
        while desk.advance(pid, &mut left, |_, result| ended.push(result)) > 0 {}
        ended
    }

    #[test]
    fn a_claimed_chunk_is_waited_for_and_copied_again_if_the_helper_fails() {
        let source: Vec<u8> = (0..300_000u32).map(|at| (at * 7) as u8).collect();
        let mut target = vec![0; source.len()];
        let (mut desk, cell) = desk_with_pull(&source, &mut target);
        let head = Arc::clone(&desk.head);
        let slot = Slot::new(&head, Side::Caller, cell.id as usize);
        assert_eq!(slot.claim(1, 3, End::Back), Some(0));
        assert_eq!(run(&mut desk), [], "the helper is at the last chunk");
        slot.helped(false);
        let ended = run(&mut desk);
        if ended == [Err(Errno::PERM)] || ended == [Err(Errno::NOSYS)] {
            return println!("SKIP: process_vm_readv is forbidden here");
        }
        assert_eq!(ended, [Ok(())]);
        assert!(target == source);
    }

    #[test]
    fn a_sender_that_copies_our_messages_is_not_asked() {
        let (source, mut target) = (vec![1; 300_000], vec![0; 300_000]);
        let (mut desk, _) = desk_with_pull(&source, &mut target);
        let remote = RemoteIov::new(&[(source.as_ptr() as u64, source.len() as u64)]);
        // SAFETY: the target outlives the desk.
        let into = unsafe { Iov::contiguous(target.as_mut_ptr(), target.len()) };
        desk.begin(&remote.expect("one piece"), into, RxToken(2));
        desk.offer(5, source.as_ptr() as u64, source.len() as u64);
        assert!(desk.next_request().is_none());
        desk.answered(5);
        assert!(desk.next_request().is_some());
    }

    #[test]
    fn messages_below_the_threshold_are_neither_shared_nor_offered() {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut desk = Desk::new(head, Side::Caller, 100_000);
        let (source, mut target) = (vec![1; 100_000], vec![0; 100_000]);
        for (number, len) in [99_999, 100_000].into_iter().enumerate() {
            let remote = RemoteIov::new(&[(source.as_ptr() as u64, len as u64)]);
            // SAFETY: the target outlives the desk.
            let into = unsafe { Iov::contiguous(target.as_mut_ptr(), len) };
            desk.begin(&remote.expect("one piece"), into, RxToken(number as u32));
        }
        let cell = desk.next_request().expect("the longer one is shared");
        assert_eq!(cell.len, 100_000);
        assert!(desk.next_request().is_none());
        desk.offer(5, source.as_ptr() as u64, 99_999);
        assert!(desk.offers.is_empty());
        desk.offer(5, source.as_ptr() as u64, 100_000);
        assert!(!desk.offers.is_empty());
    }

    #[test]
    fn copying_a_part_is_an_event() {
        let source = vec![7; 1 << 20];
        let mut target = vec![0; source.len()];
        let (mut desk, _) = desk_with_pull(&source, &mut target);
        let mut ended = None;
        let mut turns = 0;
        while ended.is_none() {
            let pid = std::process::id() as i32;
            let events = desk.advance(pid, &mut 1, |_, result| ended = Some(result));
            assert!(events > 0, "turn {turns}");
            turns += 1;
        }
        if matches!(ended, Some(Err(Errno::PERM | Errno::NOSYS))) {
            return println!("SKIP: process_vm_readv is forbidden here");
        }
        assert!(turns > 1);
        assert!(target == source);
    }

    /// A request of the other side for a whole message, in that slot.
    fn request(desk: &Desk, slot: usize, source: &[u8], target: &mut [u8]) -> Assist {
        Slot::new(&desk.head, desk.side.other(), slot).begin(1);
        let cell = Cell {
            kind: ASSIST,
            flags: 0,
            id: slot as u32,
            tag: source.as_ptr() as u64,
            data: target.as_mut_ptr() as u64,
            len: source.len() as u64,
            body: Body::Bare,
        };
        Assist::asked(&cell, [1, CHUNK as u64]).expect("a request that makes sense")
    }

    #[test]
    fn nobody_is_helped_to_memory_that_was_not_offered() {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut desk = Desk::new(head, Side::Caller, 24 * 1024);
        let (pid, mut left) = (std::process::id() as i32, usize::MAX);
        let memory = vec![7; 400_000];
        let (secret, message) = memory.split_at(100_000);
        let mut target = vec![0; memory.len()];
        let at = message.as_ptr() as u64;
        desk.offer(5, at, message.len() as u64);
        for source in [secret, &memory[99_999..300_000], &memory[..]] {
            let assist = request(&desk, 0, source, &mut target);
            desk.take_request(assist);
            assert!(!desk.assist(pid, &mut left));
        }
        let assist = request(&desk, 0, message, &mut target);
        desk.take_request(assist);
        assert!(
            desk.assist(pid, &mut left),
            "what was offered is copied, or tried to be"
        );
        desk.answered(5);
        assert!(!desk.assist(pid, &mut left), "the message is over");
        assert!(target.iter().filter(|&&byte| byte == 7).count() <= CHUNK);
    }

    #[test]
    fn requests_do_not_pile_up() {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut desk = Desk::new(head, Side::Caller, 24 * 1024);
        let message = vec![7; 200_000];
        let mut target = vec![0; message.len()];
        desk.offer(5, message.as_ptr() as u64, message.len() as u64);
        for number in 0..100 {
            let assist = request(&desk, number % SLOTS, &message, &mut target);
            desk.take_request(assist);
        }
        assert_eq!(desk.assists.len(), SLOTS);
    }

    #[test]
    fn chunks_that_a_peer_gives_back_again_and_again_end_a_pull() {
        let source = vec![1; 300_000];
        let mut target = vec![0; source.len()];
        let (mut desk, cell) = desk_with_pull(&source, &mut target);
        let head = Arc::clone(&desk.head);
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slot = Slot::new(&head, Side::Caller, cell.id as usize);
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    slot.begin(1);
                }
            });
            // Each call returns, whatever the other side does.
            for pull in &mut desk.pulls {
                pull.failed = Some(Errno::CANCELED);
            }
            for _ in 0..100 {
                run(&mut desk);
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn an_abandoned_pull_leaves_no_chunk_to_claim() {
        let source = vec![1; 300_000];
        let mut target = vec![0; source.len()];
        let (mut desk, cell) = desk_with_pull(&source, &mut target);
        assert_eq!(desk.abandon(), [RxToken(1)]);
        let slot = Slot::new(&desk.head, Side::Caller, cell.id as usize);
        assert_eq!(slot.claim(1, 3, End::Back), None);
    }
}
