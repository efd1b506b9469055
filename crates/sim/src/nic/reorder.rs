//! Frames of one generation that have arrived, until the engine takes them. An adapter that delivers in any order needs this for messages,
//! as efa's protocol does.
//!
//! Numbers lie within [`WINDOW`] behind the lowest frame that is not taken, so that a peer makes this no longer than that.

use std::collections::BTreeMap;

use super::WINDOW;
use super::head::Load;

/// A frame that waits to be taken.
#[derive(Debug)]
pub(super) struct Waiting {
    after: Option<u64>,
    pub(super) load: Load,
    pub(super) bytes: Vec<u8>,
}

/// Frames by number.
#[derive(Debug, Default)]
pub(super) struct Reorder {
    waiting: BTreeMap<u64, Waiting>,
    /// All frames below were taken.
    low: u64,
    /// A bit for each frame from `low` on that was taken.
    taken: u64,
}

/// What became of a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It waits to be taken.
    Waits,
    /// It was here before.
    Again,
    /// Its number is not within the window.
    Beyond,
}

impl Reorder {
    /// Keeps a frame.
    pub(super) fn keep(
        &mut self,
        number: u64,
        after: Option<u64>,
        load: Load,
        bytes: Vec<u8>,
    ) -> Kept {
        if number >= self.low.saturating_add(WINDOW) {
            return Kept::Beyond;
        }
        if self.was_taken(number) || self.waiting.contains_key(&number) {
            return Kept::Again;
        }
        self.waiting.insert(number, Waiting { after, load, bytes });
        Kept::Waits
    }

    /// Returns the first frame that may be taken now, since the one before it was.
    pub(super) fn ready(&self) -> Option<u64> {
        let may_go = |waiting: &Waiting| waiting.after.is_none_or(|after| self.was_taken(after));
        let mut waiting = self.waiting.iter();
        waiting
            .find(|(_, frame)| may_go(frame))
            .map(|(number, _)| *number)
    }

    /// Returns a frame that waits.
    pub(super) fn get(&self, number: u64) -> Option<&Waiting> {
        self.waiting.get(&number)
    }

    /// Notes that a frame was taken.
    pub(super) fn take(&mut self, number: u64) {
        self.waiting.remove(&number);
        if let Some(bit) = number.checked_sub(self.low).filter(|bit| *bit < WINDOW) {
            self.taken |= 1 << bit;
        }
        let done = self.taken.trailing_ones();
        self.taken = self.taken.checked_shr(done).unwrap_or(0);
        self.low += u64::from(done);
    }

    /// Returns whether no frame waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn was_taken(&self, number: u64) -> bool {
        match number.checked_sub(self.low) {
            None => true,
            Some(bit) => bit < WINDOW && self.taken >> bit & 1 == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use oxifabric_engine::RemoteWrite;

    use super::*;

    fn keep(reorder: &mut Reorder, number: u64, after: Option<u64>) -> Kept {
        let write = RemoteWrite {
            data: number,
            len: 0,
            key: 0,
        };
        reorder.keep(number, after, Load::Written(write), Vec::new())
    }

    /// Takes all that may be taken, in order.
    fn taken(reorder: &mut Reorder) -> Vec<u64> {
        let next = || {
            let number = reorder.ready()?;
            reorder.take(number);
            Some(number)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn frames_follow_the_one_they_name_and_no_other() {
        let mut reorder = Reorder::default();
        assert_eq!(keep(&mut reorder, 3, Some(1)), Kept::Waits);
        assert_eq!(keep(&mut reorder, 2, None), Kept::Waits);
        assert_eq!(taken(&mut reorder), [2]);
        assert_eq!(keep(&mut reorder, 1, Some(0)), Kept::Waits);
        assert!(taken(&mut reorder).is_empty());
        assert_eq!(keep(&mut reorder, 0, None), Kept::Waits);
        assert_eq!(taken(&mut reorder), [0, 1, 3]);
        assert!(reorder.is_empty());
        assert_eq!(keep(&mut reorder, 4, Some(1)), Kept::Waits);
        assert_eq!(taken(&mut reorder), [4]);
    }

    #[test]
    fn frames_come_once() {
        let mut reorder = Reorder::default();
        for number in [0, 5] {
            assert_eq!(keep(&mut reorder, number, None), Kept::Waits);
            assert_eq!(keep(&mut reorder, number, None), Kept::Again);
            assert_eq!(taken(&mut reorder), [number]);
            assert_eq!(keep(&mut reorder, number, None), Kept::Again);
        }
    }

    #[test]
    fn no_more_frames_wait_than_the_window_has() {
        let mut reorder = Reorder::default();
        for number in 1..WINDOW {
            assert_eq!(keep(&mut reorder, number, Some(number - 1)), Kept::Waits);
        }
        for beyond in [WINDOW, u64::MAX] {
            assert_eq!(keep(&mut reorder, beyond, None), Kept::Beyond);
        }
        assert!(taken(&mut reorder).is_empty());
        assert_eq!(keep(&mut reorder, 0, None), Kept::Waits);
        assert_eq!(taken(&mut reorder), (0..WINDOW).collect::<Vec<_>>());
        assert_eq!(keep(&mut reorder, 2 * WINDOW - 1, None), Kept::Waits);
        assert_eq!(keep(&mut reorder, 2 * WINDOW, None), Kept::Beyond);
    }
}
