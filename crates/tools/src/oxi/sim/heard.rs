//! What a node has received, and whether it was in order.
//!
//! Receives take the messages of a node in the order in which these were sent. They may end in another order where the pieces of long
//! messages overtake each other; so it is the order of the receives that counts.

use std::collections::HashMap;

/// The messages that a node has received.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// For each sender, the number of the next message, and the receive that took the one before it.
    next: HashMap<u32, (u32, u32)>,
    /// Messages that ended before an earlier one: the sender, the number, the receive.
    ahead: Vec<(u32, u32, u32)>,
}

impl Heard {
    /// Lists the nodes from which messages came.
    pub(super) fn senders(&self) -> impl Iterator<Item = &u32> {
        self.next.keys()
    }

    /// Notes a message that a receive took, receives being numbered as they were posted; returns whether it comes once, and in its turn.
    pub(super) fn note(&mut self, from: u32, number: u32, receive: u32) -> bool {
        let (next, last) = self.next.entry(from).or_default();
        let ahead = || self.ahead.iter().filter(|known| known.0 == from);
        let is_new = number >= *next && ahead().all(|known| known.1 != number);
        let follows = *next == 0 || receive > *last;
        let agrees = |known: &(u32, u32, u32)| (known.1 < number) == (known.2 < receive);
        let in_turn = is_new && follows && ahead().all(agrees);
        if number > *next {
            self.ahead.push((from, number, receive));
            return in_turn;
        }
        (*next, *last) = (*next + 1, receive);
        while let Some(at) = self
            .ahead
            .iter()
            .position(|known| (known.0, known.1) == (from, *next))
        {
            (*next, *last) = (*next + 1, self.ahead.swap_remove(at).2);
        }
        in_turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes messages of one node, each as its number and its receive; returns which of them came once and in their turn.
    fn notes(messages: &[(u32, u32)]) -> Vec<bool> {
        let mut heard = Heard::default();
        let note = |&(number, receive): &(u32, u32)| heard.note(7, number, receive);
        messages.iter().map(note).collect()
    }

    #[test]
    fn messages_come_in_the_order_of_the_receives() {
        assert_eq!(notes(&[(0, 0), (1, 1), (2, 5)]), [true; 3]);
        assert_eq!(
            notes(&[(2, 5), (0, 0), (1, 1), (3, 6)]),
            [true; 4],
            "ended in another order"
        );
        assert_eq!(notes(&[(0, 1), (1, 0)]), [true, false]);
        assert_eq!(notes(&[(1, 0), (0, 1)]), [true, false]);
        assert_eq!(notes(&[(2, 3), (1, 4), (0, 0)]), [true, false, true]);
    }

    #[test]
    fn messages_come_once() {
        assert_eq!(notes(&[(0, 0), (0, 1)]), [true, false]);
        assert_eq!(notes(&[(1, 1), (1, 2)]), [true, false]);
        let mut heard = Heard::default();
        assert!(heard.note(1, 0, 0) && heard.note(2, 0, 1));
        assert_eq!(heard.senders().count(), 2);
    }
}
