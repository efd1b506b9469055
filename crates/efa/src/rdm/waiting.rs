//! The peers to which the engine waits to post, in turn, and the message among them that takes several buffers. Path class: warm.

use std::collections::VecDeque;

use oxifabric_types::PeerId;

/// The peers that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    peers: VecDeque<PeerId>,
    /// A message that takes several buffers: once its peer is the first that waits, nothing else takes any from the next round on until there are enough.
    kept: Option<Kept>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    peer: PeerId,
    /// How many buffers it takes.
    packets: usize,
    /// It is its turn.
    is_first: bool,
    /// The engine was told that there are so many.
    was_told: bool,
}

impl Waiting {
    /// Adds a peer behind all others; it is there once at most.
    pub(super) fn push(&mut self, peer: PeerId) {
        self.peers.push_back(peer);
    }

    /// Notes that a message to a peer, which waits from now on, takes so many buffers. Only one is noted at a time; others are when they had their turn.
    pub(super) fn keep(&mut self, peer: PeerId, packets: usize) {
        self.kept.get_or_insert(Kept {
            peer,
            packets,
            is_first: false,
            was_told: false,
        });
    }

    /// Returns whether the buffers are for a message to another peer.
    pub(super) fn keeps_from(&self, peer: PeerId) -> bool {
        self.kept
            .is_some_and(|kept| kept.is_first && kept.peer != peer)
    }

    /// Begins a round: if the engine was told of room for a message in the last one and has not used it, it has dropped the message.
    pub(super) fn begin(&mut self) {
        if let Some(kept) = self.kept.filter(|kept| kept.was_told) {
            self.let_go_of(kept.peer);
        }
        if let Some(kept) = &mut self.kept {
            kept.is_first = self.peers.front() == Some(&kept.peer);
        }
    }

    /// Returns the next peer that may be posted to while so many buffers are idle; `None` when there is none in this round.
    pub(super) fn next(&mut self, room: usize) -> Option<PeerId> {
        let peer = *self.peers.front()?;
        let Some(kept) = self.kept.as_mut().filter(|kept| kept.peer == peer) else {
            return self.peers.pop_front();
        };
        // Those that were told of room in this round take theirs first.
        let is_told = kept.is_first && !kept.was_told && room >= kept.packets;
        kept.was_told |= is_told;
        is_told.then_some(peer)
    }

    /// Ends the turn of a peer whose message took several buffers: it was posted, or will not be.
    pub(super) fn let_go_of(&mut self, peer: PeerId) {
        if self.kept.take_if(|kept| kept.peer == peer).is_some() {
            self.peers.pop_front_if(|first| *first == peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: PeerId = PeerId(1);
    const SHORT: PeerId = PeerId(2);

    /// Messages to one peer take eight buffers, to the other one; both have more of them always, and the device gives few buffers back at a time.
    #[test]
    fn long_and_short_messages_have_their_turns() {
        for freed in 1..=20 {
            let (mut waiting, mut room) = (Waiting::default(), 0_usize);
            let (mut sent, mut is_blocked) = ([0; 2], [false; 2]);
            for _ in 0..1000 {
                room += freed;
                waiting.begin();
                while room > 0
                    && let Some(peer) = waiting.next(room)
                {
                    is_blocked[peer.index() - 1] = false;
                }
                // The short ones come first wherever they may.
                for (peer, packets) in [(SHORT, 1), (LONG, 8), (SHORT, 1)] {
                    let at = peer.index() - 1;
                    while !is_blocked[at] {
                        is_blocked[at] = room < packets || waiting.keeps_from(peer);
                        if !is_blocked[at] {
                            room -= packets;
                            sent[at] += 1;
                            waiting.let_go_of(peer);
                        } else {
                            if packets > 1 && !waiting.keeps_from(peer) {
                                waiting.keep(peer, packets);
                            }
                            waiting.push(peer);
                        }
                    }
                }
            }
            let [long, short] = sent;
            assert!(long > 5 * freed && short > 5 * freed, "{sent:?} by {freed}");
        }
    }

    #[test]
    fn a_message_that_is_dropped_keeps_nothing() {
        let mut waiting = Waiting::default();
        waiting.keep(LONG, 8);
        waiting.push(LONG);
        waiting.push(SHORT);
        assert_eq!(waiting.next(8), None);
        waiting.begin();
        assert!(waiting.keeps_from(SHORT) && !waiting.keeps_from(LONG));
        assert_eq!((waiting.next(7), waiting.next(8)), (None, Some(LONG)));
        assert_eq!(waiting.next(8), None, "it may post now");
        waiting.begin();
        assert!(!waiting.keeps_from(SHORT));
        assert_eq!((waiting.next(1), waiting.next(1)), (Some(SHORT), None));
        waiting.keep(LONG, 8);
        waiting.push(LONG);
        waiting.let_go_of(LONG);
        assert_eq!(waiting.next(100), None);
    }
}
