//! What an endpoint remembers of its peers.

use std::collections::HashMap;

use oxifabric_engine::Limits;
use oxifabric_types::{Address, Errno, Instant, PeerId};
use oxifabric_wire::shm::greeting::{Ability, MAX_NAME};

use crate::handshake::Standing;
use crate::pair::Pair;
use crate::region::Region;
use crate::sys::identity::Identity;

/// A peer: its name, and how far the pair with it is.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The index of its pair, or [`NO_PAIR`]: all that the data path looks at, with the limits.
    pub(crate) pair: u32,
    pub(crate) limits: Limits,
    pub(crate) stage: Stage,
    /// A frame was refused because there was no pair yet: somebody waits for one.
    pub(crate) wanted: bool,
    pub(crate) address: Address,
    /// Why there is no pair, or by what path long messages go.
    pub(crate) reason: Option<String>,
    /// The engine may know its number: the application has named it, or something of it has arrived.
    pub(crate) known: bool,
    /// The application has named it.
    pub(crate) named: bool,
}

/// Says that a peer has no open pair.
pub(crate) const NO_PAIR: u32 = u32::MAX;

/// How far the pair with a peer is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Nobody has asked for one.
    Apart,
    /// A frame is to be sent; the peer has not been reached yet. The next poll sets how long it may take to appear.
    Wanted(Option<Instant>),
    /// The hello was sent.
    Called(Box<Half>),
    /// The peer called at the same time; its call counts. If it has not been heard by then, this side calls again.
    Yielded(Instant),
    /// The peer's hello was accepted.
    Answered(Box<Half>),
    /// Frames move.
    Open,
    /// The other side is gone; what it published is still delivered.
    Ending,
}

/// A pair that is nearly there.
#[derive(Debug)]
pub(crate) struct Half {
    pub(crate) region: Region,
    /// When to give up, should the other process live and not answer.
    pub(crate) deadline: Instant,
    /// The index of its connection.
    pub(crate) conn: usize,
    /// The process at the other end.
    pub(crate) process: Identity,
    /// What the other end has said of itself; nothing yet of the called one.
    pub(crate) ability: Ability,
    pub(crate) incarnation: u64,
    /// This side can read the other's memory, or why not.
    pub(crate) reads: Result<(), String>,
}

/// All peers, in the order in which they were first named.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    all: Vec<Peer>,
    by_name: HashMap<Box<str>, PeerId>,
    /// Rows of callers that have left without a message.
    free: Vec<PeerId>,
}

impl Peers {
    /// Returns the number of the peer with this name, making one if there is none.
    ///
    /// # Errors
    /// `INVAL` for a name that no endpoint can have, `NOMEM` when there are no numbers left.
    pub(crate) fn named(&mut self, name: &str, limits: &Limits) -> Result<PeerId, Errno> {
        if let Some(&peer) = self.by_name.get(name) {
            return Ok(peer);
        }
        if !is_name(name) {
            return Err(Errno::INVAL);
        }
        let row = Peer {
            pair: NO_PAIR,
            limits: *limits,
            stage: Stage::Apart,
            wanted: false,
            address: Address::Name(name.into()),
            reason: None,
            known: false,
            named: false,
        };
        let peer = match self.free.pop() {
            Some(free) => free,
            None => u32::try_from(self.all.len())
                .ok()
                .map(PeerId)
                .filter(|&peer| peer != PeerId::ANY)
                .ok_or(Errno::NOMEM)?,
        };
        match self.all.get_mut(peer.index()) {
            Some(place) => *place = row,
            None => self.all.push(row),
        }
        self.by_name.insert(name.into(), peer);
        Ok(peer)
    }

    /// The application has named this peer.
    pub(crate) fn name(&mut self, name: &str, limits: &Limits) -> Result<PeerId, Errno> {
        let peer = self.named(name, limits)?;
        if let Some(row) = self.get_mut(peer) {
            row.known = true;
            row.named = true;
        }
        Ok(peer)
    }

    /// Gives the row of a peer to the next one, if it has no pair and no number that the engine may know. So callers that leave
    /// without a message leave no row.
    pub(crate) fn recycle(&mut self, peer: PeerId) {
        let Some(row) = self.all.get(peer.index()) else {
            return;
        };
        let idle = !row.known && matches!(row.stage, Stage::Apart);
        // A row that is free has no name any more.
        if idle && self.by_name.remove(row.name()).is_some() {
            self.free.push(peer);
        }
    }

    /// Returns the number of the peer with this name.
    pub(crate) fn find(&self, name: &str) -> Option<PeerId> {
        self.by_name.get(name).copied()
    }

    #[inline]
    pub(crate) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.all.get(peer.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.all.get_mut(peer.index())
    }
}

impl Peer {
    /// Returns the peer's name.
    pub(crate) fn name(&self) -> &str {
        match &self.address {
            Address::Name(name) => name,
            Address::Inet(_) => "",
        }
    }

    /// Returns where the pair stands, for a hello. `pair` is an open one that has not begun to end.
    pub(crate) fn standing(&self, pair: Option<&Pair>) -> Standing {
        let paired = |incarnation, process: &Identity| Standing::Paired {
            incarnation,
            lives: process.runs(),
        };
        match &self.stage {
            Stage::Apart | Stage::Yielded(_) | Stage::Wanted(_) => Standing::Apart,
            Stage::Called(_) => Standing::Calling,
            Stage::Answered(half) => paired(half.incarnation, &half.process),
            Stage::Open => pair.map_or(Standing::Ending, |pair| {
                paired(pair.incarnation, &pair.process)
            }),
            Stage::Ending => Standing::Ending,
        }
    }

    /// Tells whether a pair with it is on its way.
    pub(crate) fn is_opening(&self) -> bool {
        !matches!(self.stage, Stage::Apart | Stage::Open | Stage::Ending)
    }
}

/// Tells whether an endpoint can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair;
    use crate::params::Params;

    #[test]
    fn peers_are_numbered_as_they_are_named_and_keep_their_number() {
        let limits = pair::expected_limits(Params::of_environment());
        let mut peers = Peers::default();
        assert_eq!(peers.named("a", &limits), Ok(PeerId(0)));
        assert_eq!(peers.named("b", &limits), Ok(PeerId(1)));
        assert_eq!(peers.named("a", &limits), Ok(PeerId(0)));
        assert_eq!(peers.find("b"), Some(PeerId(1)));
        assert_eq!(peers.named("", &limits), Err(Errno::INVAL));
        assert_eq!(peers.named(&"x".repeat(256), &limits), Err(Errno::INVAL));
    }

    #[test]
    fn the_row_of_a_caller_that_sent_nothing_is_the_next_ones_and_that_of_a_named_peer_is_not() {
        let limits = pair::expected_limits(Params::of_environment());
        let mut peers = Peers::default();
        assert_eq!(peers.named("visitor", &limits), Ok(PeerId(0)));
        assert_eq!(peers.name("named", &limits), Ok(PeerId(1)));
        for peer in [PeerId(0), PeerId(0), PeerId(1)] {
            peers.recycle(peer);
        }
        assert_eq!(peers.find("visitor"), None);
        assert_eq!(peers.find("named"), Some(PeerId(1)));
        assert_eq!(peers.named("next", &limits), Ok(PeerId(0)));
        assert_eq!(peers.named("another", &limits), Ok(PeerId(2)));
    }
}
