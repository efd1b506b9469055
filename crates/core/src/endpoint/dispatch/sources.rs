//! The application's names of peers that messages come from (FI_SOURCE), and messages of peers without a name (FI_SOURCE_ERR).
//!
//! Path class: a name that was looked up is on the hot path; looking it up is not.

use oxifabric_engine::{Completion, PIECE};
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_types::{FiAddr, PeerId};

use super::{CompletionDispatch, ELSEWHERE, OWN, counts};
use crate::av::Av;
use crate::cq::NO_SOURCE;
use crate::handle::Ref;
use crate::info::address_to_c;

/// Names of sources by peer, as far as they were asked for.
pub(super) struct Sources {
    av: Ref<Av>,
    /// [`Av::changes`] when the names were looked up.
    seen: u64,
    names: Vec<FiAddr>,
    /// A message from an unknown peer is an error that gives its address (FI_SOURCE_ERR).
    report_unknown: bool,
}

/// A source that was not looked up yet; no index is as large.
pub(super) const UNKNOWN: FiAddr = FiAddr(u64::MAX - 1);

/// Returns what a vector calls a peer, if the peer is in it.
#[cold]
pub(super) fn find(av: &Av, directory: &PeerDirectory, peer: PeerId) -> Option<u64> {
    av.source(&directory.address(peer)?)
}

impl Sources {
    pub(super) const fn new(av: Ref<Av>, report_unknown: bool) -> Self {
        Self {
            av,
            seen: 0,
            names: Vec::new(),
            report_unknown,
        }
    }

    /// Forgets the name of a peer whose number means another one from now on.
    pub(super) fn forget(&mut self, peer: PeerId) {
        if let Some(name) = self.names.get_mut(peer.index()) {
            *name = UNKNOWN;
        }
    }

    /// Forgets names that insertions or removals may have changed.
    #[inline]
    fn refresh(&mut self) {
        let changes = self.av.changes();
        if changes != self.seen {
            self.seen = changes;
            self.names.clear();
        }
    }

    fn look_up(&mut self, peer: PeerId, directory: &PeerDirectory) -> FiAddr {
        let found = find(&self.av, directory, peer);
        if found.is_none() && self.report_unknown {
            return UNKNOWN;
        }
        let name = FiAddr(found.unwrap_or(NO_SOURCE));
        if self.names.len() <= peer.index() {
            self.names.resize(peer.index() + 1, UNKNOWN);
        }
        self.names[peer.index()] = name;
        name
    }
}

impl CompletionDispatch {
    /// Routes a result whose source has no name yet.
    #[cold]
    pub(super) fn route_unnamed(&mut self, completion: &Completion) {
        match self.look_up(completion) {
            // Unknown peers are looked up each time.
            UNKNOWN => self.route_from_unknown(completion),
            source => self.route(completion, source),
        }
    }

    /// Routes a message whose source is not in the vector: fi_cq(3) "FI_EADDRNOTAVAIL".
    fn route_from_unknown(&mut self, completion: &Completion) {
        if completion.flags.contains(PIECE) {
            let mut shown = *completion;
            let end = self.ended(&mut shown);
            self.route_from_unknown(&shown);
            return end.iter().for_each(|failure| self.route_end(failure));
        }
        if completion.flags.intersects(ELSEWHERE) {
            return self.route(completion, FiAddr(NO_SOURCE));
        }
        let side = self.side(completion.flags);
        if let Some(counter) = &side.counter
            && counts(completion.flags)
        {
            counter.count(completion.len);
        }
        if let (Some(cq), Some(address)) = (&side.cq, self.directory.address(completion.from))
            && completion.wanted
        {
            cq.push_unknown(completion, address_to_c(&address).0);
        }
    }

    /// Returns the name of a result's source if it is known, or there is none.
    #[inline(always)]
    pub(super) fn source(&mut self, completion: &Completion) -> FiAddr {
        let Some(sources) = &mut self.sources else {
            return FiAddr(NO_SOURCE);
        };
        let peer = completion.from;
        if peer == PeerId::ANY || completion.flags.intersects(OWN) {
            return FiAddr(NO_SOURCE);
        }
        sources.refresh();
        let known = sources.names.get(peer.index());
        known.copied().unwrap_or(UNKNOWN)
    }

    /// Returns the name of a result's source; an unknown peer has none.
    pub(in crate::endpoint) fn name_or_none(&mut self, completion: &Completion) -> FiAddr {
        match self.look_up(completion) {
            UNKNOWN => FiAddr(NO_SOURCE),
            source => source,
        }
    }

    /// Returns the name of a result's source, looking it up in the address vector if need be;
    /// `UNKNOWN` for an unknown peer whose address is to be reported.
    fn look_up(&mut self, completion: &Completion) -> FiAddr {
        match (self.source(completion), &mut self.sources) {
            (UNKNOWN, Some(sources)) => sources.look_up(completion.from, &self.directory),
            (known, _) => known,
        }
    }
}
