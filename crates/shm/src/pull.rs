//! Long messages (rendezvous): their receiver copies them from the sender's memory, and the sender copies a part,
//! docs/protocol/shm.md "Pulling".
//!
//! The receiver copies chunks from the front of the message; it also tells the sender's link where they go, which
//! copies chunks from the back whenever it is polled. Both claim chunks from one word, so none is copied twice. The
//! receiver never waits for the sender to begin, only for a chunk that the sender has claimed and is copying.
//!
//! The sender's copy is safe because the receiver lends its buffer until every claimed chunk is done, and the sender
//! its message until the receiver sends Fin. The sender copies for a peer only memory that it has exposed to that peer.

mod claims;
mod crossing;
mod exposed;
mod sender_copy;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use oxifabric_engine::{RemoteIov, RxToken};
use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_types::Errno;
use oxifabric_wire::shm::cell::{Body, Cell};

use crate::region::Side;
use crate::rndv_threshold::{Path, RndvThreshold};
use crate::sys;
use crate::sys::memory::Mapping;
use crate::sys::process::{self, Piece};

use claims::{Claims, End, MAX_CHUNKS, SLOTS, SenderProgress, Slot, Split};
use crossing::Crossing;
use exposed::ExposedMessages;
use sender_copy::Outcome;
pub(crate) use sender_copy::SenderCopy;

/// The kind of link frame that asks for a sender's copy.
pub(crate) const SENDER_COPY: u8 = 1;

/// The longest chunk, in bytes; longer where a message would have too many. A shorter message is two chunks: each side's caches
/// then hold the same half of every message in a buffer.
const CHUNK: usize = 128 * 1024;
/// Chunks are whole pages, so that no two processes write one line.
pub(crate) const CHUNK_ALIGN: usize = 4096;

/// The CMA queue of one connection: long messages that either side copies.
#[derive(Debug)]
pub(crate) struct CmaQueue {
    pub(crate) pulls: VecDeque<Pull>,
    pub(crate) copies: VecDeque<SenderCopy>,
    /// Memory that the peer may ask this side to copy from.
    exposed: ExposedMessages,
    crossing: Crossing,
    head: Arc<Mapping>,
    side: Side,
    used: [bool; SLOTS],
    /// Length below which a message is over before its sender would begin to copy.
    assist_size: usize,
    /// How many bytes of this connection's messages are copied in one poll in which they arrive.
    pull_chunk: usize,
    /// How many of them are left in this poll, once it is known that the peer's process runs.
    left: Option<usize>,
    /// How many messages were announced since the last one was to be copied, but for those that were copied as they came: a guess at whether the next one is
    /// alone, since announced messages may be dropped, or asked for otherwise.
    announced: u32,
    /// Which messages are pulled.
    pub(crate) threshold: RndvThreshold,
    /// Whether this side failed to write the peer's memory, and no longer tries.
    cannot_write: bool,
    /// Number that tells each use of a slot from the one before.
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

/// Whether the sender copies a part of a pull.
#[derive(Clone, Copy, Debug)]
enum Sharing {
    /// The sender could, if this side asks it.
    Possible,
    /// This side has asked the sender.
    Shared(Shared),
    /// The sender cannot, or it is too late.
    Alone,
}

/// How a pull is shared with its sender.
#[derive(Clone, Copy, Debug)]
struct Shared {
    slot: usize,
    turn: u32,
    chunk: usize,
    chunks: u64,
    state: ClaimState,
}

/// Number of claim states.
const CLAIM_STATES: usize = 3;

/// How far the chunks of a shared pull are claimed.
#[derive(Clone, Copy, Debug)]
enum ClaimState {
    /// This side has claimed the first chunk and has not copied it yet.
    Begun,
    /// Some chunks are not claimed.
    Open,
    /// All chunks are claimed, this many by the sender.
    Split(u64),
}

impl CmaQueue {
    /// Returns the queue of a new connection. The two lengths are those of [`Params::assist_size`] and [`Params::pull_chunk`].
    ///
    /// [`Params::assist_size`]: crate::Params::assist_size
    /// [`Params::pull_chunk`]: crate::Params::pull_chunk
    pub(crate) fn new(
        head: Arc<Mapping>,
        side: Side,
        (assist_size, pull_chunk): (usize, usize),
        threshold: RndvThreshold,
    ) -> Self {
        Self {
            threshold,
            pull_chunk,
            left: None,
            announced: 0,
            pulls: VecDeque::new(),
            copies: VecDeque::new(),
            exposed: ExposedMessages::default(),
            crossing: Crossing::default(),
            head,
            side,
            used: [false; SLOTS],
            assist_size,
            cannot_write: false,
            turn: 0,
        }
    }

    /// Returns whether there is nothing to do.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pulls.is_empty() && self.copies.is_empty()
    }

    /// Takes note that a poll begins.
    #[inline]
    pub(crate) fn begin_poll(&mut self) {
        self.left = None;
    }

    /// Returns whether a message of this length may be copied before the next poll: its sender would not copy a part of it, and no other pull is
    /// under way. One that comes alone may be somewhat longer.
    #[inline]
    pub(crate) fn may_copy_now(&self, len: u64, is_alone: impl FnOnce() -> bool) -> bool {
        let shared = self.assist_size as u64;
        self.pulls.is_empty() && (len < shared || (len < shared / 3 * 5 && is_alone()))
    }

    /// Returns whether a message of this length that arrives may be copied in the same poll: as [`CmaQueue::may_copy_now`], or a longer one of which its sender is
    /// not asked to copy a part. [`CmaQueue::copy_now`], whose receive comes after the message, leaves the longer ones to the next poll: its caller may be about to
    /// post what crosses them.
    #[inline]
    pub(crate) fn may_copy_on_arrival(&self, len: u64, is_alone: impl FnOnce() -> bool) -> bool {
        self.may_copy_now(len, is_alone) || (self.pulls.is_empty() && self.must_copy_alone())
    }

    /// Returns whether so many more bytes may be copied in this poll: the peer's process runs, which is asked once in each poll.
    #[inline]
    pub(crate) fn has_left(&mut self, len: u64, runs: impl FnOnce() -> bool) -> bool {
        let all = self.pull_chunk;
        let left = *self
            .left
            .get_or_insert_with(|| if runs() { all } else { 0 });
        len <= left as u64
    }

    /// Takes so many bytes from what may be copied in this poll: they were copied, or it was tried.
    pub(crate) fn charge(&mut self, len: usize) {
        self.left = self.left.map(|left| left.saturating_sub(len));
    }

    /// Takes note of a message that was announced and is not copied yet.
    pub(crate) fn note_announced(&mut self) {
        self.announced = self.announced.saturating_add(1);
    }

    /// Returns whether the message that is to be copied now seems to be the only one: it is, of those that were announced since the last one.
    pub(crate) fn came_alone(&mut self) -> bool {
        std::mem::take(&mut self.announced) == 1
    }

    /// Copies a message of which its sender would not copy a part, if no other pull is under way. Returns whether it is complete; if not, the
    /// caller gives it to [`CmaQueue::begin`], which reports why.
    pub(crate) fn copy_now(
        &mut self,
        pid: i32,
        remote: &RemoteIov,
        into: &Iov,
        is_alone: bool,
    ) -> bool {
        if !self.may_copy_now(into.len() as u64, || is_alone) {
            return false;
        }
        let is_copied = copy_part(pid, remote, into, 0, into.len()).is_ok();
        if is_copied {
            let len = into.len();
            self.note_received(len);
            self.threshold.note(len as u64, len, Path::Pull);
        }
        is_copied
    }

    /// Takes a message to be pulled.
    pub(crate) fn begin(&mut self, remote: &RemoteIov, into: Iov, token: RxToken) {
        let simple = remote.pieces().len() == 1 && into.segments().len() == 1;
        let shared = simple && self.is_shared(into.len()) && !self.must_copy_alone();
        let sharing = match shared {
            true => Sharing::Possible,
            false => Sharing::Alone,
        };
        self.note_received(into.len());
        self.pulls.push_back(Pull {
            token,
            remote: *remote,
            sharing,
            into,
            done: 0,
            failed: None,
            slot: None,
        });
    }

    /// Takes note of a message of this length that this side has copied, or begins to copy.
    pub(crate) fn note_received(&mut self, len: usize) {
        match (self.is_shared(len), self.exposed.is_empty()) {
            (true, true) => self.crossing.note_alone(),
            (true, false) => self.crossing.note_crossed(),
            (false, _) => {}
        }
    }

    /// Returns whether long messages cross, or did lately: their sender is not asked to copy a part.
    fn must_copy_alone(&self) -> bool {
        !self.exposed.is_empty() || self.crossing.is_recent()
    }

    /// Returns the place of the next message that is worth a request.
    pub(crate) fn next_to_share(&self) -> Option<usize> {
        if self.must_copy_alone() {
            return None;
        }
        let mut first = self.pulls.iter().take(SLOTS);
        first.position(|pull| matches!(pull.sharing, Sharing::Possible) && pull.done == 0)
    }

    /// Returns the cell that asks the sender to copy a part of the message in a place, if as many can be asked for.
    pub(crate) fn request(&mut self, at: usize) -> Option<Cell> {
        let slot = self.used.iter().position(|used| !used)?;
        let pull = self.pulls.get_mut(at)?;
        let ([source], [target]) = (pull.remote.pieces(), pull.into.segments()) else {
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
            state: ClaimState::Begun,
        });
        pull.slot = Some(slot);
        self.used[slot] = true;
        Slot::new(&self.head, self.side, slot).begin(self.turn);
        Some(Cell {
            kind: SENDER_COPY,
            flags: 0,
            id: slot as u32,
            tag: source.addr,
            data: target.base() as u64,
            len: len as u64,
            body: Body::Link {
                words: [u64::from(self.turn), chunk as u64],
            },
        })
    }

    /// Copies the next part of the oldest pull that has one; calls `ended` for pulls that are over. Takes what it
    /// copies from `left`. Returns how many events there were: copying is one.
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
        if result.is_ok() {
            let len = pull.into.len();
            self.threshold.note(len as u64, len, Path::Pull);
        }
        ended(pull.token, result);
    }

    /// Stops copying; pulls end with this error as soon as their senders have copied the chunks that they claimed.
    pub(crate) fn give_up(&mut self, why: Errno) {
        self.copies.clear();
        for pull in &mut self.pulls {
            pull.failed.get_or_insert(why);
        }
    }

    /// Gives up all pulls; returns the tokens of those into whose buffers no sender writes any more. The others have a chunk that
    /// the sender has claimed and may be copying.
    pub(crate) fn stop(&mut self) -> Vec<RxToken> {
        self.give_up(Errno::CANCELED);
        let mut tokens = Vec::new();
        // From one state to the next, and in the last round whatever has ended in the one before.
        for _ in 0..=CLAIM_STATES {
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

    /// Copies one chunk of the oldest message whose receiver asked for that, and takes its length from `left`. Returns
    /// whether there was one.
    pub(crate) fn copy_for_peer(&mut self, pid: i32, left: &mut usize) -> bool {
        while let Some(copy) = self.copies.front() {
            let slot = Slot::new(&self.head, self.side.other(), copy.slot);
            match copy.copy_chunk(pid, slot) {
                Outcome::Copied(len) => {
                    *left = left.saturating_sub(len);
                    return true;
                }
                Outcome::Over => self.copies.pop_front(),
                Outcome::Failed => {
                    // Another try would fail again; the receiver copies by itself.
                    self.cannot_write = true;
                    self.copies.clear();
                    return true;
                }
            };
        }
        false
    }

    /// Adds a request for a sender's copy. A request for memory that was not exposed is dropped: it comes from a peer
    /// that wants to read what it may not.
    pub(crate) fn add_request(&mut self, copy: SenderCopy) {
        // A request for a slot that is used again replaces the one before.
        self.copies.retain(|other| other.slot != copy.slot);
        if !self.cannot_write && self.exposed.contain(&copy) {
            self.copies.push_back(copy);
        }
    }

    /// Returns whether both sides copy a message of this length.
    pub(crate) fn is_shared(&self, len: usize) -> bool {
        len >= self.assist_size
    }

    /// Exposes a message to the peer, which may read it from now on.
    pub(crate) fn expose(&mut self, id: u32, address: u64, len: u64) {
        if len >= self.assist_size as u64 {
            self.exposed.add(id, address, len);
            if self
                .pulls
                .iter()
                .any(|pull| self.is_shared(pull.into.len()))
            {
                self.crossing.note_crossed();
            }
        }
    }

    /// Takes back the exposure of a message that the peer has answered: the memory may be the application's again.
    pub(crate) fn answered(&mut self, id: u32) {
        if self.exposed.end(id) {
            let exposed = &self.exposed;
            self.copies.retain(|copy| exposed.contain(copy));
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

    /// Copies the next bytes of a pull that the sender has no part in.
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
        match shared.state {
            ClaimState::Begun => self.copy_chunk(pid, &shared, 0, left),
            ClaimState::Open => self.copy_claimed(pid, slot, &shared, left),
            ClaimState::Split(_) => {}
        }
        if !matches!(shared.state, ClaimState::Split(_)) {
            shared.state = match slot.split(shared.turn, shared.chunks) {
                Split::Open => ClaimState::Open,
                Split::Whole(taken) => ClaimState::Split(taken),
                Split::Broken => return Some(Err(Errno::PROTO)),
            };
            self.sharing = Sharing::Shared(shared);
        }
        let ClaimState::Split(taken) = shared.state else {
            return None;
        };
        match slot.sender_progress() {
            SenderProgress::Done(done) if done == taken => Some(self.result()),
            SenderProgress::Done(_) => None,
            // The sender has stopped: what it claimed is copied without it.
            SenderProgress::Failed => {
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
        if let Err(error) = copy_part(pid, &self.remote, &self.into, offset, len) {
            self.failed = Some(sys::errno(&error));
        }
    }
}

/// Copies `len` bytes from `offset` on of a message in a process's memory to where it goes.
fn copy_part(
    pid: i32,
    remote: &RemoteIov,
    into: &Iov,
    offset: usize,
    len: usize,
) -> io::Result<()> {
    process::copy_whole(len, |done| {
        let into = into.slice(offset + done, len - done);
        let (pieces, count) = remote_part(remote, offset + done, len - done);
        process::read_memory(pid, &pieces[..count], &into)
    })
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
    for piece in remote.pieces() {
        let size_here = usize::try_from(piece.len).unwrap_or(usize::MAX);
        if offset >= size_here {
            offset -= size_here;
            continue;
        }
        if len == 0 {
            break;
        }
        let take = len.min(size_here - offset);
        part[count] = (piece.addr.wrapping_add(offset as u64), take as u64);
        count += 1;
        len -= take;
        offset = 0;
    }
    (part, count)
}

#[cfg(test)]
mod tests {
    use oxifabric_engine::Target;

    use super::crossing::ALONE_BEFORE_SHARED;
    use super::*;

    #[test]
    fn parts_of_remote_memory_follow_its_pieces() {
        let remote = RemoteIov::new(
            &[(100, 10), (200, 0), (300, 10)].map(|(at, len)| Target::unkeyed(at, len)),
        )
        .expect("few pieces");
        let (part, count) = remote_part(&remote, 4, 10);
        assert_eq!(part[..count], [(104, 6), (300, 4)]);
        let (part, count) = remote_part(&remote, 12, 100);
        assert_eq!(part[..count], [(302, 8)]);
        assert_eq!(remote_part(&remote, 20, 5).1, 0);
    }

    fn queue(head: Arc<Mapping>, assist_size: usize) -> CmaQueue {
        let threshold = RndvThreshold::fixed(Arc::clone(&head), Side::Initiator, 0);
        CmaQueue::new(head, Side::Initiator, (assist_size, 1 << 20), threshold)
    }

    /// Returns a queue with a message of this process that it pulls from itself.
    fn queue_with_pull(source: &[u8], target: &mut [u8]) -> (CmaQueue, Cell) {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut cma = queue(head, 24 * 1024);
        begin(&mut cma, source, target, 1);
        let cell = next_request(&mut cma).expect("a long message");
        (cma, cell)
    }

    /// Returns the cell that asks for a copy of the next message that is worth it.
    fn next_request(cma: &mut CmaQueue) -> Option<Cell> {
        let at = cma.next_to_share()?;
        cma.request(at)
    }

    fn run(cma: &mut CmaQueue) -> Vec<Result<(), Errno>> {
        let mut ended = Vec::new();
        let (pid, mut left) = (std::process::id() as i32, usize::MAX);
        while cma.advance(pid, &mut left, |_, result| ended.push(result)) > 0 {}
        ended
    }

    #[test]
    fn a_claimed_chunk_is_waited_for_and_copied_again_if_the_sender_fails() {
        let source: Vec<u8> = (0..300_000u32).map(|at| (at * 7) as u8).collect();
        let mut target = vec![0; source.len()];
        let (mut cma, cell) = queue_with_pull(&source, &mut target);
        let head = Arc::clone(&cma.head);
        let slot = Slot::new(&head, Side::Initiator, cell.id as usize);
        assert_eq!(slot.claim(1, 3, End::Back), Some(0));
        assert_eq!(run(&mut cma), [], "the sender is at the last chunk");
        slot.sender_copied(false);
        let ended = run(&mut cma);
        if ended == [Err(Errno::PERM)] || ended == [Err(Errno::NOSYS)] {
            return println!("SKIP: process_vm_readv is forbidden here");
        }
        assert_eq!(ended, [Ok(())]);
        assert!(target == source);
    }

    /// Begins to pull a message from memory of this process.
    fn begin(cma: &mut CmaQueue, source: &[u8], target: &mut [u8], token: u32) {
        let piece = Target::unkeyed(source.as_ptr() as u64, source.len() as u64);
        let remote = RemoteIov::new(&[piece]).expect("one piece");
        // SAFETY: the target outlives the queue.
        let into = unsafe { Iov::contiguous(target.as_mut_ptr(), target.len()) };
        cma.begin(&remote, into, RxToken(token));
    }

    /// Begins to pull messages from memory of this process, and returns for how many their sender is asked to copy a part.
    fn begin_and_request(cma: &mut CmaQueue, source: &[u8], target: &mut [u8], count: u32) -> u32 {
        (0..count)
            .map(|number| {
                begin(cma, source, target, number);
                let is_asked = next_request(cma).is_some();
                cma.abandon();
                u32::from(is_asked)
            })
            .sum()
    }

    #[test]
    fn a_sender_that_copies_our_messages_is_not_asked_until_some_more_have_come_alone() {
        let (source, mut target) = (vec![1; 300_000], vec![0; 300_000]);
        let mut cma = queue(
            Arc::new(Mapping::private(8192).expect("two pages")),
            24 * 1024,
        );
        let ours = (source.as_ptr() as u64, source.len() as u64);
        let mut asked = |cma: &mut _, count| begin_and_request(cma, &source, &mut target, count);
        assert_eq!(asked(&mut cma, 3), 3);
        cma.expose(5, ours.0, ours.1);
        assert_eq!(asked(&mut cma, 1), 0, "it copies ours");
        cma.answered(5);
        assert_eq!(asked(&mut cma, ALONE_BEFORE_SHARED), 0);
        assert_eq!(asked(&mut cma, 2), 2);
    }

    #[test]
    fn a_message_that_is_posted_while_one_is_received_crosses_it() {
        let (source, mut target) = (vec![1; 300_000], vec![0; 300_000]);
        let (mut cma, _) = queue_with_pull(&source, &mut target);
        cma.expose(5, source.as_ptr() as u64, source.len() as u64);
        cma.answered(5);
        cma.abandon();
        let mut asked = |cma: &mut _, count| begin_and_request(cma, &source, &mut target, count);
        assert_eq!(asked(&mut cma, ALONE_BEFORE_SHARED), 0);
        assert_eq!(asked(&mut cma, 1), 1);
    }

    #[test]
    fn a_message_that_is_posted_while_a_short_one_is_received_crosses_none() {
        let (source, mut target) = (vec![1; 300_000], vec![0; 300_000]);
        let (mut cma, _) = queue_with_pull(&source, &mut target);
        cma.abandon();
        assert_eq!(
            begin_and_request(&mut cma, &source[..20_000], &mut target[..20_000], 1),
            0,
            "too short"
        );
        begin(&mut cma, &source[..20_000], &mut target[..20_000], 2);
        cma.expose(5, source.as_ptr() as u64, source.len() as u64);
        cma.answered(5);
        cma.abandon();
        assert_eq!(begin_and_request(&mut cma, &source, &mut target, 1), 1);
    }

    #[test]
    fn a_long_message_that_crosses_ours_is_copied_as_it_arrives() {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut cma = queue(head, 24 * 1024);
        let message = vec![1; 300_000];
        let (address, len) = (message.as_ptr() as u64, message.len() as u64);
        assert!(!cma.may_copy_on_arrival(len, || true));
        cma.expose(5, address, len);
        assert!(cma.may_copy_on_arrival(len, || true));
        assert!(
            !cma.may_copy_now(len, || true),
            "its receive is posted: what crosses it may be posted next"
        );
        cma.note_received(message.len());
        cma.answered(5);
        for left in (0..ALONE_BEFORE_SHARED).rev() {
            assert!(cma.may_copy_on_arrival(len, || true), "{left} more");
            cma.note_received(20_000);
            cma.note_received(message.len());
        }
        assert!(!cma.may_copy_on_arrival(len, || true));
    }

    #[test]
    fn messages_below_the_threshold_are_neither_shared_nor_exposed() {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut cma = queue(head, 100_000);
        let (source, mut target) = (vec![1; 100_000], vec![0; 100_000]);
        for (number, len) in [99_999, 100_000].into_iter().enumerate() {
            begin(&mut cma, &source[..len], &mut target[..len], number as u32);
        }
        let cell = next_request(&mut cma).expect("the longer one is shared");
        assert_eq!(cell.len, 100_000);
        assert!(next_request(&mut cma).is_none());
        cma.expose(5, source.as_ptr() as u64, 99_999);
        assert!(cma.exposed.is_empty());
        cma.expose(5, source.as_ptr() as u64, 100_000);
        assert!(!cma.exposed.is_empty());
    }

    #[test]
    fn copying_a_part_is_an_event() {
        let source = vec![7; 1 << 20];
        let mut target = vec![0; source.len()];
        let (mut cma, _) = queue_with_pull(&source, &mut target);
        let mut ended = None;
        let mut turns = 0;
        while ended.is_none() {
            let pid = std::process::id() as i32;
            let events = cma.advance(pid, &mut 1, |_, result| ended = Some(result));
            assert!(events > 0, "turn {turns}");
            turns += 1;
        }
        if matches!(ended, Some(Err(Errno::PERM | Errno::NOSYS))) {
            return println!("SKIP: process_vm_readv is forbidden here");
        }
        assert!(turns > 1);
        assert!(target == source);
    }

    /// Returns a request of the other side for a whole message, in that slot.
    fn request(cma: &CmaQueue, slot: usize, source: &[u8], target: &mut [u8]) -> SenderCopy {
        Slot::new(&cma.head, cma.side.other(), slot).begin(1);
        let cell = Cell {
            kind: SENDER_COPY,
            flags: 0,
            id: slot as u32,
            tag: source.as_ptr() as u64,
            data: target.as_mut_ptr() as u64,
            len: source.len() as u64,
            body: Body::Bare,
        };
        SenderCopy::asked(&cell, [1, CHUNK as u64]).expect("a request that makes sense")
    }

    #[test]
    fn memory_that_was_not_exposed_is_not_copied_to_a_peer() {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut cma = queue(head, 24 * 1024);
        let (pid, mut left) = (std::process::id() as i32, usize::MAX);
        let memory = vec![7; 400_000];
        let (secret, message) = memory.split_at(100_000);
        let mut target = vec![0; memory.len()];
        let at = message.as_ptr() as u64;
        cma.expose(5, at, message.len() as u64);
        for source in [secret, &memory[99_999..300_000], &memory[..]] {
            let copy = request(&cma, 0, source, &mut target);
            cma.add_request(copy);
            assert!(!cma.copy_for_peer(pid, &mut left));
        }
        let copy = request(&cma, 0, message, &mut target);
        cma.add_request(copy);
        assert!(
            cma.copy_for_peer(pid, &mut left),
            "what was exposed is copied, or tried to be"
        );
        cma.answered(5);
        assert!(!cma.copy_for_peer(pid, &mut left), "the message is over");
        assert!(target.iter().filter(|&&byte| byte == 7).count() <= CHUNK);
    }

    #[test]
    fn requests_do_not_pile_up() {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        let mut cma = queue(head, 24 * 1024);
        let message = vec![7; 200_000];
        let mut target = vec![0; message.len()];
        cma.expose(5, message.as_ptr() as u64, message.len() as u64);
        for number in 0..100 {
            let copy = request(&cma, number % SLOTS, &message, &mut target);
            cma.add_request(copy);
        }
        assert_eq!(cma.copies.len(), SLOTS);
    }

    #[test]
    fn chunks_that_a_peer_gives_back_again_and_again_end_a_pull() {
        let source = vec![1; 300_000];
        let mut target = vec![0; source.len()];
        let (mut cma, cell) = queue_with_pull(&source, &mut target);
        let head = Arc::clone(&cma.head);
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slot = Slot::new(&head, Side::Initiator, cell.id as usize);
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    slot.begin(1);
                }
            });
            // Each call returns, whatever the other side does.
            for pull in &mut cma.pulls {
                pull.failed = Some(Errno::CANCELED);
            }
            for _ in 0..100 {
                run(&mut cma);
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn an_abandoned_pull_leaves_no_chunk_to_claim() {
        let source = vec![1; 300_000];
        let mut target = vec![0; source.len()];
        let (mut cma, cell) = queue_with_pull(&source, &mut target);
        assert_eq!(cma.abandon(), [RxToken(1)]);
        let slot = Slot::new(&cma.head, Side::Initiator, cell.id as usize);
        assert_eq!(slot.claim(1, 3, End::Back), None);
    }
}
