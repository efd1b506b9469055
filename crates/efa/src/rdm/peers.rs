//! The peers of an endpoint, and which of them a packet is from.
//!
//! A device names a source by an address handle and the number of a queue pair. That number is used again by later endpoints, which their connid
//! tells apart: it is in the packets.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxifabric_ibv::{Ah, Completion, Received};
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_types::{Address, EfaAddress, Errno, Instant, PeerId};
use oxifabric_wire::efa::Sender;

use super::UNKNOWN_MAX;
use super::early::Early;
use super::held::{Backlog, Unfinished};
use super::order::Order;
use super::tx::Destination;
use crate::domain::{EfaDomain, Source};

/// The number that stands for a source without an address handle.
const NO_HANDLE: u32 = 0xffff;

/// The peers of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Peers {
    pub(super) table: PeerTable<EfaAddress, Peer>,
    /// The peers that a source may be, in the order in which they were first known. Ordered, as all tables that packets are looked up in: whatever numbers
    /// peers have, a look takes a few comparisons, and there is no hash to make them collide in.
    sources: BTreeMap<Source, Vec<PeerId>>,
    /// The source of the last packet, with its connid, and which peer that is: packets of a peer follow each other.
    last: Option<(Source, u32, PeerId)>,
    /// What the device does by itself with a peer whose handshake is not here, [`super::reach::index`].
    assumed: usize,
    /// How many peers that the application does not know are gone and have left what it has not taken, when that was looked at last. It has a bound of its own.
    pub(super) left_messages: usize,
}

/// What is kept of a peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) at: EfaAddress,
    ah: Arc<Ah>,
    source: Source,
    /// Something was sent to it.
    pub(super) has_met: bool,
    /// Something came from it.
    pub(super) was_heard: bool,
    /// What it can do, once its handshake is here.
    pub(super) features: Option<u64>,
    /// What the device does with it by itself, [`super::reach::index`].
    pub(super) ways: usize,
    /// It was asked for its handshake.
    pub(super) was_asked: bool,
    /// It was sent writes or atomics, and was not asked to say that they are in its memory since.
    pub(super) is_unsettled: bool,
    /// It was asked to say that those before are.
    pub(super) is_settling: bool,
    /// A handshake is to be sent to it.
    pub(super) owes_handshake: bool,
    /// The number of the next message to it.
    pub(super) next: u32,
    pub(super) order: Order,
    /// What of that is counted with other peers that the application does not know.
    pub(super) early: Early,
    pub(super) backlog: Backlog,
    /// The engine takes nothing from it until it says so.
    pub(super) is_stalled: bool,
    /// Operations of messages in several packets, by number.
    pub(super) begun: BTreeMap<u32, u32>,
    /// How many messages of it were read of which packets are to come.
    pub(super) unfinished: Unfinished,
    /// The engine was told to wait.
    pub(super) is_blocked: bool,
    /// When something was heard of it last, or a question was sent to it.
    pub(super) heard_at: Instant,
    /// It is to be given up, once the device has ended the accesses to it.
    pub(super) is_doomed: bool,
    /// Why it is given up.
    pub(super) gone: Option<Errno>,
}

impl Peers {
    /// Returns how many peers there are that the application does not know, but for those that are gone and have left messages.
    pub(super) fn unknown(&self) -> usize {
        self.table.unnamed().saturating_sub(self.left_messages)
    }

    /// Returns the number of the peer at an address, a new one if need be.
    ///
    /// # Errors
    /// `NOMEM` when there are too many, and what the device says of the address.
    pub(super) fn number(&mut self, domain: &EfaDomain, at: EfaAddress) -> Result<PeerId, Errno> {
        if let Some(known) = self.table.find(&at) {
            return Ok(known);
        }
        let ah = domain.handle(&at.gid)?;
        let source = (ah.efa_number()?, at.qpn);
        let mut former = None;
        let ways = self.assumed;
        let number = self.table.number(&at, |_, before| {
            former = before.map(|before| before.source);
            let peer = Peer::new(at, ah, source);
            (Address::Efa(at), Peer { ways, ..peer })
        });
        let number = number.ok_or(Errno::NOMEM)?;
        if let Some(former) = former {
            self.forget_source(former, number);
        }
        self.sources.entry(source).or_default().push(number);
        self.last = None;
        Ok(number)
    }

    /// Sets what the device does with peers whose handshake is not here, those that are known already among them.
    pub(super) fn assume(&mut self, ways: usize) {
        self.assumed = ways;
        for at in 0..self.table.rows() as u32 {
            let row = self.table.get_mut(PeerId(at));
            if let Some(row) = row.filter(|row| row.features.is_none()) {
                row.ways = ways;
            }
        }
    }

    fn forget_source(&mut self, source: Source, peer: PeerId) {
        self.last = None;
        if let Some(known) = self.sources.get_mut(&source) {
            known.retain(|known| *known != peer);
            if known.is_empty() {
                self.sources.remove(&source);
            }
        }
    }

    /// Returns the peer whose device wrote memory of this end and told so.
    pub(super) fn writer(&self, completion: &Completion) -> Option<PeerId> {
        let qpn = u16::try_from(completion.src_qp).ok()?;
        let handle = u16::try_from(completion.slid).ok()?;
        self.sources.get(&(handle, qpn))?.last().copied()
    }

    /// Returns the peer that a packet is from; `None` for one of which nothing is known, or that is not what it says.
    pub(super) fn source(
        &mut self,
        domain: &EfaDomain,
        from: Received,
        sender: &Sender,
    ) -> Option<PeerId> {
        let qpn = u16::try_from(from.src_qp).ok()?;
        if let Some(address) = &sender.address {
            let at = EfaAddress::from_bytes(address)?;
            let is_new = self.table.find(&at).is_none();
            if at.qpn != qpn || (is_new && self.unknown() >= UNKNOWN_MAX) {
                return None;
            }
            // Neither a row nor a handle is made for what is known to be another port.
            if self.is_of_another_port(from.slid, &at) {
                return None;
            }
            // It lasts until the row has it: a packet that comes meanwhile names it.
            let ah = domain.handle(&at.gid).ok()?;
            // A device that has no handle for the source says so, until it knows that one was made.
            let is_it = from.slid == u32::from(ah.efa_number().ok()?) || from.slid == NO_HANDLE;
            return is_it.then(|| self.number(domain, at).ok()).flatten();
        }
        let source = (u16::try_from(from.slid).ok()?, qpn);
        let Some(connid) = sender.connid else {
            return self.sources.get(&source)?.last().copied();
        };
        match self.last {
            Some((last, its, peer)) if (last, its) == (source, connid) => Some(peer),
            _ => self.look_up(source, connid),
        }
    }

    /// Finds the peer that a source is, of those that it may be.
    fn look_up(&mut self, source: Source, connid: u32) -> Option<PeerId> {
        let mut known = self.sources.get(&source)?.iter().copied();
        let is_it = |peer: &Peer| peer.at.connid == connid;
        let peer = known.find(|peer| self.table.get(*peer).is_some_and(is_it))?;
        self.last = Some((source, connid, peer));
        Some(peer)
    }

    /// Returns whether an address handle is that of a port, by what is known of peers, and not that of this address.
    fn is_of_another_port(&self, slid: u32, at: &EfaAddress) -> bool {
        let Ok(handle) = u16::try_from(slid) else {
            return false;
        };
        let mut of_handle = self.sources.range((handle, 0)..=(handle, u16::MAX));
        let peer = of_handle.find_map(|(_, known)| self.table.get(*known.first()?));
        peer.is_some_and(|peer| peer.at.gid != at.gid)
    }

    /// Returns the peers whose queue pair is now that of this peer.
    pub(super) fn replaced_by(&self, peer: PeerId) -> Vec<PeerId> {
        let source = self.table.get(peer).map(|peer| peer.source);
        let known = source.and_then(|source| self.sources.get(&source));
        let others = known.into_iter().flatten().copied();
        let is_there =
            |other: &PeerId| self.table.get(*other).is_some_and(|row| row.gone.is_none());
        others
            .filter(|other| *other != peer && is_there(other))
            .collect()
    }

    /// Returns a peer.
    #[inline]
    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.table.get(peer)
    }

    /// Returns a peer, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.table.get_mut(peer)
    }

    /// Returns the directory of the peers.
    pub(super) const fn directory(&self) -> &PeerDirectory {
        self.table.directory()
    }
}

impl Peer {
    fn new(at: EfaAddress, ah: Arc<Ah>, source: Source) -> Self {
        Self {
            at,
            ah,
            source,
            has_met: false,
            was_heard: false,
            was_asked: false,
            is_unsettled: false,
            is_settling: false,
            features: None,
            ways: 0,
            owes_handshake: false,
            next: 0,
            order: Order::default(),
            early: Early::NONE,
            backlog: Backlog::default(),
            is_stalled: false,
            begun: BTreeMap::new(),
            unfinished: Unfinished::default(),
            is_blocked: false,
            heard_at: Instant::from_nanos(0),
            is_doomed: false,
            gone: None,
        }
    }

    /// Returns where packets to it go.
    pub(super) fn destination(&self) -> Destination<'_> {
        Destination {
            ah: &self.ah,
            qpn: self.at.qpn.into(),
            qkey: self.at.connid,
        }
    }

    /// Returns how a packet names this end, whose address is `name`: requests have the address until the peer is known to know it, everything else the connid.
    pub(super) fn sender(&self, name: &EfaAddress, is_request: bool) -> Sender {
        match is_request && self.features.is_none() {
            true => Sender {
                address: Some(name.to_bytes()),
                connid: None,
            },
            false => Sender {
                address: None,
                connid: Some(name.connid),
            },
        }
    }

    /// Returns what packets of it cost that the engine has no room for.
    pub(super) fn stalled_bytes(&self) -> usize {
        match self.is_stalled {
            true => self.order.bytes() + self.backlog.bytes(),
            false => self.backlog.bytes(),
        }
    }
}
