//! Connections with untrusted peers: which of them a poll checks, and when.

use std::os::unix::net::UnixDatagram;

use oxifabric_engine::{RemoteIov, RxToken, Target};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};

use super::*;
use crate::conn;
use crate::hostile::untrusted_conn;
use crate::params::Params;
use crate::peer;
use crate::region::Region;

/// More than a poll checks, and no multiple of it.
const MANY: usize = 3 * IDLE_CHECKS + 5;

/// Number of polls in which every idle connection is checked, whatever becomes active meanwhile.
const ROUND: usize = MANY.div_ceil(IDLE_CHECKS);

/// Number of polls after which connections without traffic are idle.
const WHILE: usize = 2 * POLLS_PER_REBALANCE as usize;

/// The connections of an endpoint, with peers that the test plays.
#[derive(Default)]
struct Peered {
    conns: Conns,
    peers: Peers,
    /// The other sides, by peer; `None` of connections that are gone.
    theirs: Vec<Option<(Region, UnixDatagram)>>,
    polls: u32,
}

impl Peered {
    fn of(count: usize) -> Self {
        let mut peered = Self::default();
        for _ in 0..count {
            peered.add();
        }
        peered
    }

    fn add(&mut self) {
        let limits = conn::expected_limits(Params::of_environment());
        let name = self.theirs.len().to_string();
        let peer = peer::number(&mut self.peers, &name, &limits).expect("a name");
        let (conn, region, socket) = untrusted_conn(peer, true).expect("a connection");
        self.conns.add(conn, &mut self.peers);
        self.theirs.push(Some((region, socket)));
    }

    /// Does what a poll does before it looks at active connections, `count` times.
    fn poll(&mut self, count: usize) {
        for _ in 0..count {
            self.polls += 1;
            if self.conns.are_many() {
                self.conns.check_idle_in_turn(self.polls, &mut self.peers);
            }
        }
    }

    fn place(&self, peer: usize) -> usize {
        let peer = PeerId(peer as u32);
        self.peers.get(peer).expect("it was named").conn as usize
    }

    fn conn(&mut self, peer: usize) -> &mut Conn {
        let place = self.place(peer);
        self.conns.get_mut(place).expect("it is open")
    }

    fn is_active(&self, peer: usize) -> bool {
        self.conns.is_active(self.place(peer))
    }

    /// Sends something as the peer.
    fn publish(&mut self, peer: usize) {
        let (region, _) = self.theirs[peer].as_mut().expect("it is open");
        assert_eq!(region.tx.reserve(0), Ok(Some(0)));
        region.tx.push(&Default::default(), 0, false);
    }

    /// Takes what the peer has sent.
    fn take(&mut self, peer: usize) {
        self.conn(peer).rx.advance(0);
        let (region, _) = self.theirs[peer].as_mut().expect("it is open");
        let _ = region.tx.reserve(0);
    }

    fn remove(&mut self, peer: usize) {
        let place = self.place(peer);
        let removed = self.conns.remove(place, &mut self.peers);
        assert_eq!(removed.map(|conn| conn.peer), Some(PeerId(peer as u32)));
        self.theirs[peer] = None;
    }

    fn open_peers(&self) -> Vec<usize> {
        let peers = self.theirs.iter().enumerate();
        peers
            .filter_map(|(peer, other)| other.as_ref().map(|_| peer))
            .collect()
    }

    /// Checks that every peer has the index of its own connection.
    fn expect_order(&self) {
        for (peer, other) in self.theirs.iter().enumerate() {
            let at = self.conns.get(self.place(peer)).map(|conn| conn.peer);
            assert_eq!(at, other.as_ref().map(|_| PeerId(peer as u32)));
        }
    }
}

#[test]
fn few_connections_are_active_for_good() {
    let mut peered = Peered::of(IDLE_CHECKS);
    peered.poll(WHILE);
    assert!((0..IDLE_CHECKS).all(|peer| peered.is_active(peer)));
}

#[test]
fn of_many_those_without_use_become_idle_and_using_one_makes_it_active() {
    let mut peered = Peered::of(MANY);
    assert!((0..MANY).all(|peer| peered.is_active(peer)));
    peered.poll(WHILE);
    assert!(!(0..MANY).any(|peer| peered.is_active(peer)));
    let place = peered.place(7);
    assert_eq!(peered.conns.activate(place, &mut peered.peers), Some(0));
    assert!(peered.is_active(7) && !peered.is_active(8));
    peered.poll(POLLS_PER_REBALANCE as usize);
    assert!(peered.is_active(7), "it was used since the last rebalance");
    peered.expect_order();
}

#[test]
fn what_arrives_from_an_idle_peer_is_seen_within_a_round() {
    let mut peered = Peered::of(MANY);
    for peer in 0..MANY {
        peered.poll(WHILE + peer % 5);
        assert!(!peered.is_active(peer));
        peered.publish(peer);
        peered.poll(ROUND);
        assert!(peered.is_active(peer));
        peered.take(peer);
    }
}

#[test]
fn what_arrives_from_all_is_seen_within_a_round() {
    let mut peered = Peered::of(MANY);
    peered.poll(WHILE + 1);
    (0..MANY).for_each(|peer| peered.publish(peer));
    peered.poll(ROUND);
    assert!((0..MANY).all(|peer| peered.is_active(peer)));
}

#[test]
fn after_a_sleep_everything_is_seen_at_once() {
    let mut peered = Peered::of(MANY);
    peered.poll(WHILE + 1);
    for peer in [0, MANY / 2, MANY - 1] {
        peered.publish(peer);
    }
    peered.conns.check_all_idle(&mut peered.peers);
    let active: Vec<usize> = (0..MANY).filter(|&peer| peered.is_active(peer)).collect();
    assert_eq!(active, [0, MANY / 2, MANY - 1]);
}

#[test]
fn connections_with_something_to_do_stay_active() {
    let mut peered = Peered::of(MANY);
    let nothing = Iov::empty();
    let remote = RemoteIov::new(&[Target::default()]).expect("one piece");
    peered.conn(1).stalled = true;
    peered.conn(2).blocked = Some(8);
    peered.conn(3).ending = Some(Errno::CONNRESET);
    peered.conn(4).cma.begin(&remote, nothing, RxToken(1));
    peered.poll(WHILE);
    let active: Vec<usize> = (0..MANY).filter(|&peer| peered.is_active(peer)).collect();
    assert_eq!(active, [1, 2, 3, 4]);
    peered.conn(4).cma.abandon();
    peered.conn(2).blocked = None;
    peered.poll(WHILE);
    assert!(!peered.is_active(2) && !peered.is_active(4));
}

#[test]
fn the_last_few_are_active_again() {
    let mut peered = Peered::of(MANY);
    peered.poll(WHILE);
    for peer in IDLE_CHECKS..MANY {
        peered.remove(peer);
    }
    assert!((0..IDLE_CHECKS).all(|peer| peered.is_active(peer)));
    peered.expect_order();
}

/// Plays random messages, uses and ends: indices are kept, and no arrival is forgotten.
#[test]
fn no_arrival_is_forgotten_whatever_connections_come_and_go() {
    let mut seed = 1u32;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    let mut peered = Peered::of(MANY);
    // Peers that have sent something that was not seen yet, and when.
    let mut sent: Vec<(usize, u32)> = Vec::new();
    for _ in 0..20_000 {
        let open = peered.open_peers();
        let peer = open[random(open.len())];
        match random(40) {
            0 if !sent.iter().any(|&(waiting, _)| waiting == peer) => peered.remove(peer),
            1 if open.len() < MANY => peered.add(),
            2..8 if !sent.iter().any(|&(waiting, _)| waiting == peer) => {
                peered.publish(peer);
                sent.push((peer, peered.polls));
            }
            8..14 => {
                let place = peered.place(peer);
                peered.conns.activate(place, &mut peered.peers);
            }
            _ => peered.poll(1),
        }
        peered.expect_order();
        for (peer, since) in std::mem::take(&mut sent) {
            if peered.is_active(peer) {
                peered.take(peer);
            } else {
                sent.push((peer, since));
                // A round, and another one for those that the end of a connection has put back.
                assert!(peered.polls - since < 2 * ROUND as u32, "peer {peer} waits");
            }
        }
    }
}
