//! Sends whose end the device does not report: it ends sends in their order, so that the report of a later one says that they have ended.

use alloc::collections::VecDeque;

use oxifabric_types::Errno;

/// Of so many injected sends in a row the device reports one. Fewer places of its queue may still be taken by sends that have ended.
pub(crate) const MOST_IN_A_ROW: usize = 16;

/// The numbers of sends that the device does not report, in their order.
#[derive(Debug)]
pub(crate) struct Unsignaled {
    numbers: VecDeque<u64>,
    /// How many there ever were.
    posted: u64,
    /// How many there were since the last send that is reported.
    in_a_row: usize,
}

impl Unsignaled {
    /// Makes a list with room for as many sends as the queue has.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(crate) fn new(depth: usize) -> Result<Self, Errno> {
        let mut numbers = VecDeque::new();
        numbers.try_reserve_exact(depth).map_err(|_| Errno::NOMEM)?;
        Ok(Self {
            numbers,
            posted: 0,
            in_a_row: 0,
        })
    }

    /// Returns whether the next send may go unreported.
    pub(crate) const fn takes_one(&self) -> bool {
        self.in_a_row + 1 < MOST_IN_A_ROW
    }

    /// Returns how many there were so far: a send that is posted now, and is reported, says that they have ended.
    pub(crate) const fn posted(&self) -> u64 {
        self.posted
    }

    /// Returns how many are in the queue.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Notes a send that was posted, and is reported or not.
    pub(crate) fn note(&mut self, number: u64, is_signaled: bool) {
        if is_signaled {
            self.in_a_row = 0;
            return;
        }
        self.numbers.push_back(number);
        self.posted += 1;
        self.in_a_row += 1;
    }

    /// Takes out the number of the first one, if it was among the first `posted`.
    pub(crate) fn take_before(&mut self, posted: u64) -> Option<u64> {
        let first = self.posted - self.numbers.len() as u64;
        if first < posted {
            self.numbers.pop_front()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_reported_says_that_those_before_it_have_ended() {
        let mut sends = Unsignaled::new(8).unwrap();
        sends.note(1, false);
        sends.note(2, false);
        let before = sends.posted();
        sends.note(3, true);
        sends.note(4, false);
        assert_eq!(sends.take_before(before), Some(1));
        assert_eq!(sends.take_before(before), Some(2));
        assert_eq!(sends.take_before(before), None, "the fourth came later");
        assert_eq!(sends.take_before(sends.posted()), Some(4));
        assert_eq!(sends.take_before(sends.posted()), None);
    }

    #[test]
    fn one_of_some_in_a_row_is_reported() {
        let mut sends = Unsignaled::new(64).unwrap();
        for round in 1..=3 * MOST_IN_A_ROW {
            let is_signaled = !sends.takes_one();
            assert_eq!(is_signaled, round % MOST_IN_A_ROW == 0);
            sends.note(round as u64, is_signaled);
        }
    }
}
