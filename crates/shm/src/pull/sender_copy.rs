//! The sender's part of a pull: it copies chunks from the back into the receiver's memory.

use oxifabric_wire::shm::cell::Cell;

use super::claims::{End, MAX_CHUNKS, SLOTS, Slot};
use crate::sys::process;

/// A message that this side sends, and copies a part of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderCopy {
    pub(super) slot: usize,
    turn: u32,
    chunk: u64,
    pub(super) len: u64,
    pub(super) source: u64,
    target: u64,
}

/// Result of copying a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The chunk was copied: this many bytes.
    Copied(usize),
    /// No chunk is left.
    Over,
    /// This process may not write, or the other one is gone.
    Failed,
}

impl SenderCopy {
    /// Reads a request; `None` if it breaks the protocol.
    pub(crate) fn asked(cell: &Cell, words: [u64; 2]) -> Option<Self> {
        let copy = Self {
            slot: cell.id as usize,
            turn: words[0] as u32,
            chunk: words[1],
            len: cell.len,
            source: cell.tag,
            target: cell.data,
        };
        let whole = copy.slot < SLOTS
            && copy.chunk > 0
            && copy.len.div_ceil(copy.chunk) <= MAX_CHUNKS
            && copy.source.checked_add(copy.len).is_some()
            && copy.target.checked_add(copy.len).is_some();
        whole.then_some(copy)
    }

    /// Claims and copies the next chunk from the back.
    pub(super) fn copy_chunk(&self, pid: i32, slot: Slot<'_>) -> Outcome {
        let chunks = self.len.div_ceil(self.chunk);
        let Some(index) = slot.claim(self.turn, chunks, End::Back) else {
            return Outcome::Over;
        };
        let offset = (chunks - 1 - index) * self.chunk;
        let len = self.chunk.min(self.len.saturating_sub(offset));
        let written = self.write(pid, offset, len);
        slot.sender_copied(written);
        if written {
            Outcome::Copied(len as usize)
        } else {
            Outcome::Failed
        }
    }

    fn write(&self, pid: i32, offset: u64, len: u64) -> bool {
        let copied = process::copy_whole(len as usize, |done| {
            let done = done as u64;
            let (from, to) = (self.source + offset + done, self.target + offset + done);
            process::send_memory(pid, (to, len - done), (from, len - done))
        });
        copied.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pull::SENDER_COPY;
    use oxifabric_wire::shm::cell::Body;

    #[test]
    fn requests_that_make_no_sense_are_none() {
        let cell = |id, len| Cell {
            kind: SENDER_COPY,
            flags: 0,
            id,
            tag: 1 << 20,
            data: 1 << 20,
            len,
            body: Body::Bare,
        };
        assert!(SenderCopy::asked(&cell(0, 1 << 20), [1, 1 << 16]).is_some());
        assert!(SenderCopy::asked(&cell(SLOTS as u32, 1), [1, 1 << 16]).is_none());
        assert!(SenderCopy::asked(&cell(0, 1), [1, 0]).is_none());
        assert!(SenderCopy::asked(&cell(0, u64::MAX), [1, 1 << 16]).is_none());
        assert!(SenderCopy::asked(&cell(0, 1 << 30), [1, 1]).is_none());
    }
}
