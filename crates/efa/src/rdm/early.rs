//! Packets of peers that the application does not know which came before what they have to follow: what all of them cost together. Path class: warm.
//!
//! Each peer has a bound of its own ([`super::order`]), and there may be many of them. Where they keep too much together, the peer is given up that keeps most: of one
//! that keeps to the protocol only that waits which the wire has let overtake others.

use oxifabric_engine::Sink;
use oxifabric_types::{Errno, Instant, PeerId};

use super::EfaRdm;
use super::order::{EARLY_MAX, Order};

/// What packets of all peers that the application does not know may cost together that came before what they have to follow.
const UNKNOWN_IN_ALL: usize = EARLY_MAX;

/// What packets of a peer cost that the application does not know, as it is counted with those of the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    bytes: usize,
    /// When the first of them came, or the last one had its turn.
    since: Instant,
}

impl Early {
    /// That of a peer of which nothing waits.
    pub(super) const NONE: Self = Self {
        bytes: 0,
        since: Instant::from_nanos(0),
    };

    /// Counts anew what waits of a peer; `total` is that of all.
    pub(super) const fn count(&mut self, bytes: usize, total: &mut usize, now: Instant) {
        if self.bytes == 0 {
            self.since = now;
        }
        *total = *total + bytes - self.bytes;
        self.bytes = bytes;
    }

    /// Notes that a packet of the peer had its turn.
    #[inline]
    pub(super) const fn advance(&mut self, now: Instant) {
        self.since = now;
    }

    /// Returns whether anything waits.
    pub(super) const fn is_any(self) -> bool {
        self.bytes > 0
    }
}

/// Returns what packets cost that wait for others. What waits for the engine has bounds of its own ([`super::held`]), and its sender leaves no gaps.
pub(super) fn bytes(order: &Order, is_stalled: bool) -> usize {
    match is_stalled || order.is_ready() {
        true => 0,
        false => order.bytes(),
    }
}

/// Returns the peer that keeps most, of these; of several, the one whose packets wait longest.
fn heaviest(waiting: impl Iterator<Item = (PeerId, Early)>) -> Option<PeerId> {
    let heaviest = waiting.min_by_key(|(_, early)| (usize::MAX - early.bytes, early.since));
    heaviest.map(|(peer, _)| peer)
}

impl EfaRdm {
    /// Gives peers up until all that the application does not know keep to their bound together. Those in an address vector have bounds of their own.
    pub(super) fn bound_early(&mut self, sink: &impl Sink) {
        let is_strange = |(peer, _): &(PeerId, Early)| !sink.is_known(*peer);
        while self.early_bytes > UNKNOWN_IN_ALL
            && let Some(peer) = heaviest(self.unknown_early().filter(is_strange))
        {
            if self.peers.table.is_named(peer) {
                // The application knows it by now, so it has a bound of its own.
                self.hold(peer, |_| {});
                continue;
            }
            self.doom(
                peer,
                Errno::PROTO,
                "it sent more than others before what that has to follow".to_owned(),
            );
            self.hold(peer, |row| row.order = Order::default());
        }
    }

    /// Returns the peers that the application does not know, of which packets wait for what they have to follow.
    pub(super) fn unknown_early(&self) -> impl Iterator<Item = (PeerId, Early)> + '_ {
        let rows = (0..self.peers.table.rows() as u32).map(PeerId);
        rows.filter_map(|peer| {
            let early = self.peers.get(peer)?.early;
            early.is_any().then_some((peer, early))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_engine_is_not_early() {
        let mut order = Order::default();
        order.keep(1, b"behind another one");
        assert_eq!(bytes(&order, false), order.bytes());
        assert_eq!(bytes(&order, true), 0);
        order.keep(0, b"that one");
        assert_eq!(bytes(&order, false), 0);
    }

    #[test]
    fn the_peer_goes_that_keeps_most_and_then_the_one_whose_packets_wait_longest() {
        let at = Instant::from_nanos;
        let (mut total, mut early) = (0, [Early::NONE; 4]);
        for (row, (bytes, since)) in early.iter_mut().zip([(5, 10), (9, 30), (9, 20), (0, 1)]) {
            row.count(bytes, &mut total, at(since));
        }
        assert_eq!(total, 23);
        let first = |early: &[Early]| {
            let rows = (0..).map(PeerId).zip(early.iter().copied());
            heaviest(rows.filter(|(_, early)| early.is_any()))
        };
        assert_eq!(first(&early), Some(PeerId(2)));
        early[2].advance(at(40));
        assert_eq!(first(&early), Some(PeerId(1)));
        early[1].count(0, &mut total, at(50));
        assert_eq!((first(&early), total), (Some(PeerId(2)), 14));
        early[2].count(1, &mut total, at(60));
        assert_eq!((first(&early), total), (Some(PeerId(0)), 6));
        assert_eq!(heaviest(std::iter::empty()), None);
    }
}
