//! Packets of peers that the application does not know which came before what they have to follow: what all of them cost together. Path class: warm.
//!
//! Each peer has a bound of its own ([`super::order`]), and there may be many of them. Where they keep too much together, the peer is given up whose packets wait
//! longest: one that keeps to the protocol sends what is missing at once, and its packets wait for as long as the wire changes their order.

use oxifabric_types::{Errno, Instant, PeerId};

use super::EfaRdm;
use super::order::EARLY_MAX;

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

/// Returns the peer whose packets wait longest, of these.
fn longest(waiting: impl Iterator<Item = (PeerId, Early)>) -> Option<PeerId> {
    let longest = waiting.min_by_key(|(_, early)| (early.since, usize::MAX - early.bytes));
    longest.map(|(peer, _)| peer)
}

impl EfaRdm {
    /// Gives peers up until all that the application does not know keep to their bound together.
    pub(super) fn bound_early(&mut self) {
        while self.early_bytes > UNKNOWN_IN_ALL
            && let Some(peer) = longest(self.unknown_early())
        {
            if self.peers.table.is_named(peer) {
                // The application knows it by now, so it has a bound of its own.
                self.hold(peer, |_| {});
                continue;
            }
            self.doom(
                peer,
                Errno::PROTO,
                "others wait, and what it sent has been waiting longest for what it has to follow"
                    .to_owned(),
            );
            self.hold(peer, |row| row.order = super::order::Order::default());
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
    fn the_peer_goes_whose_packets_wait_longest_and_then_the_one_with_most() {
        let at = Instant::from_nanos;
        let (mut total, mut early) = (0, [Early::NONE; 4]);
        for (row, (bytes, since)) in early.iter_mut().zip([(5, 30), (7, 20), (9, 20), (0, 1)]) {
            row.count(bytes, &mut total, at(since));
        }
        assert_eq!(total, 21);
        let first = |early: &[Early]| {
            let rows = (0..).map(PeerId).zip(early.iter().copied());
            longest(rows.filter(|(_, early)| early.is_any()))
        };
        assert_eq!(first(&early), Some(PeerId(2)));
        early[2].advance(at(40));
        assert_eq!(first(&early), Some(PeerId(1)));
        early[1].count(0, &mut total, at(50));
        assert_eq!((first(&early), total), (Some(PeerId(0)), 14));
        early[1].count(1, &mut total, at(60));
        assert_eq!(first(&early), Some(PeerId(0)), "it waits anew");
        assert_eq!(longest(std::iter::empty()), None);
    }
}
