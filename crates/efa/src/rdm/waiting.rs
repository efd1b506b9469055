//! The peers to which the engine waits to post, in turn, and the message among them that takes several buffers. Path class: warm.

use std::collections::VecDeque;
use std::time::Duration;

use oxifabric_types::{Instant, PeerId};

/// How long a message that takes several buffers keeps those that come back from others, if there are not enough: all may be with a peer that is not ready.
const TURN_MAX: Duration = Duration::from_millis(5);

/// The peers that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    peers: VecDeque<PeerId>,
    /// A message that takes several buffers: once its peer is the first that waits, nothing else takes any from the next round on until there are enough, or
    /// its turn is over.
    kept: Option<Kept>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    peer: PeerId,
    /// How many buffers it takes.
    packets: usize,
    /// When its turn is over, once that has begun.
    turn_ends: Option<Instant>,
    /// The engine was told that there are so many.
    was_told: bool,
}

impl Waiting {
    /// Adds a peer behind all others, unless it has its turn still; it is there once at most. Returns when the turn ends whose end it waits for, if it
    /// does.
    #[must_use = "a thread that sleeps has to be woken then"]
    pub(super) fn push(&mut self, peer: PeerId) -> Option<Instant> {
        let is_first = |kept: Kept| kept.turn_ends.is_some() && !kept.was_told;
        if self.kept_for(peer).is_some_and(is_first) {
            return None;
        }
        self.peers.push_back(peer);
        self.turn_ends().filter(|_| self.keeps_from(peer))
    }

    /// Notes that a message to a peer, which waits from now on, takes so many buffers. Only one peer has one noted at a time; others have when they had their turn.
    pub(super) fn keep(&mut self, peer: PeerId, packets: usize) {
        match &mut self.kept {
            // Another message than the one for which there was room: the turn is that of the peer.
            Some(kept) if kept.peer == peer => {
                (kept.packets, kept.was_told) = (packets, false);
            }
            Some(_) => {}
            None => {
                self.kept = Some(Kept {
                    peer,
                    packets,
                    turn_ends: None,
                    was_told: false,
                });
            }
        }
    }

    fn kept_for(&self, peer: PeerId) -> Option<Kept> {
        self.kept.filter(|kept| kept.peer == peer)
    }

    /// Returns whether the buffers are for a message to another peer.
    pub(super) fn keeps_from(&self, peer: PeerId) -> bool {
        self.kept
            .is_some_and(|kept| kept.turn_ends.is_some() && kept.peer != peer)
    }

    /// Returns whether no peer waits, and nothing is kept for one.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty() && self.kept.is_none()
    }

    /// Begins a round: if the engine was told of room for a message in the last one and has not used it, it has dropped the message. A message whose turn
    /// is over, without as many buffers idle as it takes, waits behind all others.
    pub(super) fn begin(&mut self, now: Instant, room: usize) {
        if let Some(kept) = self.kept {
            let is_over = kept.turn_ends.is_some_and(|end| end <= now) && room < kept.packets;
            if kept.was_told || is_over {
                self.let_go_of(kept.peer);
            }
            if is_over && !kept.was_told {
                self.peers.push_back(kept.peer);
            }
        }
        if let Some(kept) = &mut self.kept
            && self.peers.front() == Some(&kept.peer)
        {
            kept.turn_ends.get_or_insert(now.after(TURN_MAX));
        }
    }

    /// Returns whether another round lets a peer post while so many buffers are idle, though nothing else has changed: that of a message that is the first by now, or those
    /// behind one that was dropped. All others wait for something that is told: a buffer, or a packet of their peer.
    pub(super) fn may_go_on(&self, room: usize) -> bool {
        let first = self.peers.front().and_then(|first| self.kept_for(*first));
        first.is_some_and(|kept| kept.was_told || room >= kept.packets)
    }

    /// Returns when others have their turn, if they wait for that.
    pub(super) fn turn_ends(&self) -> Option<Instant> {
        self.kept.filter(|_| self.peers.len() > 1)?.turn_ends
    }

    /// Returns the next peer that may be posted to while so many buffers are idle; `None` when there is none in this round.
    pub(super) fn next(&mut self, room: usize) -> Option<PeerId> {
        let peer = *self.peers.front()?;
        let Some(kept) = self.kept.as_mut().filter(|kept| kept.peer == peer) else {
            return self.peers.pop_front();
        };
        // Those that were told of room in this round take theirs first.
        let is_told = kept.turn_ends.is_some() && !kept.was_told && room >= kept.packets;
        kept.was_told |= is_told;
        is_told.then_some(peer)
    }

    /// Ends the turn of a peer whose message took several buffers: it was posted, or will not be.
    pub(super) fn let_go_of(&mut self, peer: PeerId) {
        if self.kept.take_if(|kept| kept.peer == peer).is_some() {
            self.peers.pop_front_if(|first| *first == peer);
        }
    }

    /// Returns the peers that wait.
    pub(super) fn all(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.peers.iter().copied()
    }

    /// Forgets a peer, wherever it waits.
    pub(super) fn remove(&mut self, peer: PeerId) {
        self.kept.take_if(|kept| kept.peer == peer);
        self.peers.retain(|waiting| *waiting != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: PeerId = PeerId(1);
    const SHORT: PeerId = PeerId(2);
    const NOW: Instant = Instant::from_nanos(1);

    /// Messages to one peer take eight buffers, to the other one; both have more of them always, and the device gives few buffers back at a time.
    #[test]
    fn long_and_short_messages_have_their_turns() {
        for freed in 1..=20 {
            let (mut waiting, mut room) = (Waiting::default(), 0_usize);
            let (mut sent, mut is_blocked) = ([0; 2], [false; 2]);
            for _ in 0..1000 {
                room += freed;
                waiting.begin(NOW, room);
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
                            let _ = waiting.push(peer);
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
        let _ = waiting.push(LONG);
        let _ = waiting.push(SHORT);
        assert_eq!(waiting.next(8), None);
        waiting.begin(NOW, 0);
        assert!(waiting.keeps_from(SHORT) && !waiting.keeps_from(LONG));
        assert_eq!((waiting.next(7), waiting.next(8)), (None, Some(LONG)));
        assert_eq!(waiting.next(8), None, "it may post now");
        waiting.begin(NOW, 0);
        assert!(!waiting.keeps_from(SHORT));
        assert_eq!((waiting.next(1), waiting.next(1)), (Some(SHORT), None));
        waiting.keep(LONG, 8);
        let _ = waiting.push(LONG);
        waiting.let_go_of(LONG);
        assert_eq!(waiting.next(100), None);
    }

    #[test]
    fn another_message_of_the_same_peer_has_its_turn() {
        let mut waiting = Waiting::default();
        waiting.keep(LONG, 8);
        let _ = waiting.push(LONG);
        let _ = waiting.push(SHORT);
        waiting.begin(NOW, 0);
        assert_eq!(waiting.next(8), Some(LONG));
        // What is posted now takes more than the message of which the engine has told.
        waiting.keep(LONG, 12);
        let _ = waiting.push(LONG);
        waiting.begin(NOW, 0);
        assert!(waiting.keeps_from(SHORT));
        assert_eq!((waiting.next(11), waiting.next(12)), (None, Some(LONG)));
        waiting.let_go_of(LONG);
        assert_eq!((waiting.next(1), waiting.next(1)), (Some(SHORT), None));
    }

    #[test]
    fn others_have_their_turn_though_a_message_never_finds_enough() {
        let mut waiting = Waiting::default();
        waiting.keep(LONG, 8);
        let _ = waiting.push(LONG);
        let mut now = NOW;
        for _ in 0..3 {
            waiting.begin(now, 3);
            assert!(waiting.keeps_from(SHORT) && waiting.turn_ends().is_none());
            let _ = waiting.push(SHORT);
            assert_eq!(waiting.next(3), None);
            now = waiting.turn_ends().expect("others wait");
            waiting.begin(now, 3);
            assert!(!waiting.keeps_from(SHORT));
            assert_eq!(
                (waiting.next(3), waiting.next(3)),
                (Some(SHORT), Some(LONG))
            );
            waiting.keep(LONG, 8);
            let _ = waiting.push(LONG);
        }
    }

    /// A thread that went to sleep when nothing else waited knows of no end of the turn.
    #[test]
    fn what_has_to_wait_for_the_end_of_a_turn_says_so() {
        let mut waiting = Waiting::default();
        waiting.keep(LONG, 8);
        assert_eq!(waiting.push(LONG), None, "its turn has not begun");
        waiting.begin(NOW, 3);
        assert_eq!(waiting.turn_ends(), None, "nothing waits for its end");
        let end = waiting.push(SHORT);
        assert!(end.is_some() && end == waiting.turn_ends());
        assert_eq!(waiting.push(LONG), None, "it has its turn");
        assert_eq!(waiting.push(PeerId(3)), end);
        waiting.let_go_of(LONG);
        assert_eq!(waiting.push(PeerId(4)), None, "it waits for a buffer");
    }

    #[test]
    fn a_peer_that_is_gone_waits_nowhere() {
        let mut waiting = Waiting::default();
        let _ = waiting.push(SHORT);
        waiting.keep(LONG, 8);
        let _ = waiting.push(LONG);
        waiting.remove(LONG);
        let _ = waiting.push(PeerId(3));
        waiting.begin(NOW, 0);
        assert_eq!(waiting.next(8), Some(SHORT));
        assert_eq!((waiting.next(8), waiting.next(8)), (Some(PeerId(3)), None));
    }

    /// A thread may sleep only if no round would let a peer post.
    #[test]
    fn it_is_known_whether_another_round_lets_a_peer_post() {
        let mut waiting = Waiting::default();
        assert!(!waiting.may_go_on(100));
        let _ = waiting.push(SHORT);
        waiting.keep(LONG, 8);
        let _ = waiting.push(LONG);
        waiting.begin(NOW, 0);
        assert_eq!((waiting.next(8), waiting.next(8)), (Some(SHORT), None));
        assert!(
            waiting.may_go_on(8) && !waiting.may_go_on(7),
            "the long one is the first now"
        );
        waiting.begin(NOW, 0);
        assert_eq!(waiting.next(8), Some(LONG));
        let _ = waiting.push(SHORT);
        assert!(waiting.may_go_on(1), "what is dropped lets others post");
        waiting.begin(NOW, 0);
        assert_eq!((waiting.next(8), waiting.next(8)), (Some(SHORT), None));
        // It was let post, and waits for its peer's answer: no round helps it.
        let _ = waiting.push(SHORT);
        assert!(!waiting.may_go_on(100));
    }
}
