//! Pairs with strangers: who is looked at, and when.

use std::os::unix::net::UnixDatagram;

use oxifabric_engine::{RemoteIov, RxToken};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};

use super::*;
use crate::hostile::pair_with_stranger;
use crate::pair;
use crate::params::Params;
use crate::region::Region;

/// More than a poll looks at, and no multiple of it.
const MANY: usize = 3 * TURNS + 5;

/// In so many polls every silent pair has its turn, whatever becomes busy meanwhile.
const ROUND: usize = MANY.div_ceil(TURNS);

/// Polls after which whoever is idle is silent.
const WHILE: usize = 2 * POLLS_PER_JUDGEMENT as usize;

#[derive(Default)]
struct Crowd {
    pairs: Pairs,
    peers: Peers,
    /// The other sides, by peer; `None` of pairs that are gone.
    theirs: Vec<Option<(Region, UnixDatagram)>>,
    polls: u32,
}

impl Crowd {
    fn of(count: usize) -> Self {
        let mut crowd = Self::default();
        for _ in 0..count {
            crowd.add();
        }
        crowd
    }

    fn add(&mut self) {
        let limits = pair::expected_limits(Params::of_environment());
        let name = self.theirs.len().to_string();
        let peer = self.peers.named(&name, &limits).expect("a name");
        let (pair, region, socket) = pair_with_stranger(peer, true).expect("a pair");
        self.pairs.add(pair, &mut self.peers);
        self.theirs.push(Some((region, socket)));
    }

    /// What a poll does before it looks at busy pairs, so many times.
    fn poll(&mut self, count: usize) {
        for _ in 0..count {
            self.polls += 1;
            if self.pairs.are_many() {
                self.pairs.take_turns(self.polls, &mut self.peers);
            }
        }
    }

    fn place(&self, peer: usize) -> usize {
        let peer = PeerId(peer as u32);
        self.peers.get(peer).expect("it was named").pair as usize
    }

    fn pair(&mut self, peer: usize) -> &mut Pair {
        let place = self.place(peer);
        self.pairs.get_mut(place).expect("it is open")
    }

    fn is_busy(&self, peer: usize) -> bool {
        self.pairs.is_busy(self.place(peer))
    }

    /// The peer sends something.
    fn publish(&mut self, peer: usize) {
        let (region, _) = self.theirs[peer].as_mut().expect("it is open");
        assert_eq!(region.tx.reserve(0), Ok(Some(0)));
        region.tx.push(&Default::default(), 0, false);
    }

    /// What it has sent is taken.
    fn take(&mut self, peer: usize) {
        self.pair(peer).rx.advance(0);
        let (region, _) = self.theirs[peer].as_mut().expect("it is open");
        let _ = region.tx.reserve(0);
    }

    fn remove(&mut self, peer: usize) {
        let place = self.place(peer);
        let removed = self.pairs.remove(place, &mut self.peers);
        assert_eq!(removed.map(|pair| pair.peer), Some(PeerId(peer as u32)));
        self.theirs[peer] = None;
    }

    fn open_peers(&self) -> Vec<usize> {
        let peers = self.theirs.iter().enumerate();
        peers
            .filter_map(|(peer, other)| other.as_ref().map(|_| peer))
            .collect()
    }

    /// Every peer knows the place of its pair, and nobody else's.
    fn expect_order(&self) {
        for (peer, other) in self.theirs.iter().enumerate() {
            let at = self.pairs.get(self.place(peer)).map(|pair| pair.peer);
            assert_eq!(at, other.as_ref().map(|_| PeerId(peer as u32)));
        }
    }
}

#[test]
fn few_pairs_are_busy_for_good() {
    let mut crowd = Crowd::of(TURNS);
    crowd.poll(WHILE);
    assert!((0..TURNS).all(|peer| crowd.is_busy(peer)));
}

#[test]
fn of_many_those_that_nobody_uses_fall_silent_and_using_one_makes_it_busy() {
    let mut crowd = Crowd::of(MANY);
    assert!((0..MANY).all(|peer| crowd.is_busy(peer)));
    crowd.poll(WHILE);
    assert!(!(0..MANY).any(|peer| crowd.is_busy(peer)));
    let place = crowd.place(7);
    assert_eq!(crowd.pairs.rouse(place, &mut crowd.peers), Some(0));
    assert!(crowd.is_busy(7) && !crowd.is_busy(8));
    crowd.poll(POLLS_PER_JUDGEMENT as usize);
    assert!(crowd.is_busy(7), "it was used since the last judgement");
    crowd.expect_order();
}

#[test]
fn what_arrives_from_a_silent_peer_is_seen_within_a_round() {
    let mut crowd = Crowd::of(MANY);
    for peer in 0..MANY {
        crowd.poll(WHILE + peer % 5);
        assert!(!crowd.is_busy(peer));
        crowd.publish(peer);
        crowd.poll(ROUND);
        assert!(crowd.is_busy(peer));
        crowd.take(peer);
    }
}

#[test]
fn what_arrives_from_all_is_seen_within_a_round() {
    let mut crowd = Crowd::of(MANY);
    crowd.poll(WHILE + 1);
    (0..MANY).for_each(|peer| crowd.publish(peer));
    crowd.poll(ROUND);
    assert!((0..MANY).all(|peer| crowd.is_busy(peer)));
}

#[test]
fn who_may_have_slept_sees_everything_at_once() {
    let mut crowd = Crowd::of(MANY);
    crowd.poll(WHILE + 1);
    for peer in [0, MANY / 2, MANY - 1] {
        crowd.publish(peer);
    }
    crowd.pairs.look_at_all(&mut crowd.peers);
    let busy: Vec<usize> = (0..MANY).filter(|&peer| crowd.is_busy(peer)).collect();
    assert_eq!(busy, [0, MANY / 2, MANY - 1]);
}

#[test]
fn pairs_with_something_to_do_stay_busy() {
    let mut crowd = Crowd::of(MANY);
    let nothing = Iov::empty();
    let remote = RemoteIov::new(&[(0, 0)]).expect("one piece");
    crowd.pair(1).stalled = true;
    crowd.pair(2).blocked = Some(8);
    crowd.pair(3).ending = Some(Errno::CONNRESET);
    crowd.pair(4).desk.begin(&remote, nothing, RxToken(1));
    crowd.poll(WHILE);
    let busy: Vec<usize> = (0..MANY).filter(|&peer| crowd.is_busy(peer)).collect();
    assert_eq!(busy, [1, 2, 3, 4]);
    crowd.pair(4).desk.abandon();
    crowd.pair(2).blocked = None;
    crowd.poll(WHILE);
    assert!(!crowd.is_busy(2) && !crowd.is_busy(4));
}

#[test]
fn the_last_few_are_busy_again() {
    let mut crowd = Crowd::of(MANY);
    crowd.poll(WHILE);
    for peer in TURNS..MANY {
        crowd.remove(peer);
    }
    assert!((0..TURNS).all(|peer| crowd.is_busy(peer)));
    crowd.expect_order();
}

/// Random messages, uses and ends: places are kept, and no arrival is forgotten.
#[test]
fn nobody_is_forgotten_whoever_comes_and_goes() {
    let mut seed = 1u32;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    let mut crowd = Crowd::of(MANY);
    // Peers that have sent something that was not seen yet, and when.
    let mut sent: Vec<(usize, u32)> = Vec::new();
    for _ in 0..20_000 {
        let open = crowd.open_peers();
        let peer = open[random(open.len())];
        match random(40) {
            0 if !sent.iter().any(|&(waiting, _)| waiting == peer) => crowd.remove(peer),
            1 if open.len() < MANY => crowd.add(),
            2..8 if !sent.iter().any(|&(waiting, _)| waiting == peer) => {
                crowd.publish(peer);
                sent.push((peer, crowd.polls));
            }
            8..14 => {
                let place = crowd.place(peer);
                crowd.pairs.rouse(place, &mut crowd.peers);
            }
            _ => crowd.poll(1),
        }
        crowd.expect_order();
        for (peer, since) in std::mem::take(&mut sent) {
            if crowd.is_busy(peer) {
                crowd.take(peer);
            } else {
                sent.push((peer, since));
                // A round, and another one for those whom the end of a pair has put back.
                assert!(crowd.polls - since < 2 * ROUND as u32, "peer {peer} waits");
            }
        }
    }
}
