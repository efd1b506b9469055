//! The port of an endpoint: packets to and from the network. Path class: hot.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_provider::log;
use oxifabric_provider::packets::PacketDevice;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_reliable::{CloseReason, PacketPort};
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};
use oxifabric_wire::reliable::packet::HEADER_LEN;

use crate::NAME;
use crate::network::{Packet, Place};
use crate::params;
use crate::station::Station;
use crate::world::World;

/// Number of packets that are held back to leave together.
const HELD: usize = 32;

/// An endpoint's place in a network.
#[derive(Debug)]
pub struct SimPort {
    station: Station,
    mtu: usize,
    peers: Peers,
    /// Packets that leave with the next flush.
    outbox: Vec<(Place, Vec<u8>)>,
    inbox: VecDeque<Packet>,
    /// The packet at hand.
    current: Option<(PeerId, Packet)>,
    /// Peers without an endpoint at their name.
    refused: Vec<PeerId>,
}

/// Known peers.
type Peers = PeerTable<Place, ()>;

impl SimPort {
    /// Takes a place in a network.
    ///
    /// # Errors
    /// `INVAL` for what is no name, `ADDRINUSE`.
    pub fn settle(world: &Arc<World>, name: &str) -> Result<Self, Errno> {
        Ok(Self::at(Station::settle(world, name)?))
    }

    fn at(station: Station) -> Self {
        let mtu = station.world.with(|network| network.plan().link.mtu);
        Self {
            station,
            mtu,
            peers: Peers::default(),
            outbox: Vec::new(),
            inbox: VecDeque::new(),
            current: None,
            refused: Vec::new(),
        }
    }

    /// Sends the packets that were held back.
    #[inline(never)]
    fn send_held(&mut self) {
        let (from, outbox) = (self.station.place, &mut self.outbox);
        let (peers, refused) = (&self.peers, &mut self.refused);
        self.station.world.with(|network| {
            for (to, bytes) in outbox.drain(..) {
                if !network.send(from, to, bytes)
                    && let Some(peer) = peers.find(&to)
                {
                    refused.push(peer);
                }
            }
        });
    }
}

impl PacketPort for SimPort {
    fn longest(&self) -> usize {
        self.mtu
    }

    fn has_room(&self) -> bool {
        true
    }

    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let Some(to) = self.peers.key(to) else {
            return;
        };
        let mut bytes = Vec::with_capacity(header.len() + payload.len());
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(payload);
        self.outbox.push((*to, bytes));
        if self.outbox.len() == HELD {
            self.flush();
        }
    }

    #[inline]
    fn flush(&mut self) {
        if !self.outbox.is_empty() {
            self.send_held();
        }
    }

    fn next(&mut self) -> bool {
        let Some(packet) = self.inbox.pop_front() else {
            self.current = None;
            return false;
        };
        let world = &self.station.world;
        let from = number(&mut self.peers, packet.from, || {
            world.with(|network| network.nodes().name(packet.from))
        });
        let from = from.unwrap_or(PeerId::ANY);
        self.current = Some((from, packet));
        true
    }

    fn packet(&self) -> (PeerId, &[u8]) {
        match &self.current {
            Some((from, packet)) => (*from, &packet.bytes),
            None => (PeerId::ANY, &[]),
        }
    }

    fn lost(&mut self, peer: PeerId, why: CloseReason, had_answered: bool) {
        let directory = self.peers.directory();
        let Some(at) = directory.address(peer) else {
            return;
        };
        if had_answered {
            log::info!(NAME, EpCtrl, "connection with {at} lost: {why}");
        }
        directory.explain(peer, Some(format!("{at}: {why}")));
    }

    fn refused(&mut self) -> Option<PeerId> {
        self.refused.pop()
    }

    fn secret(&mut self) -> u64 {
        self.station.world.with(crate::network::Network::draw)
    }

    fn now(&self) -> Instant {
        self.station.world.now()
    }

    fn begin(&mut self, _coarse: Instant) -> Instant {
        self.station.begin(&mut self.inbox)
    }

    fn set_due(&mut self, due: Instant) {
        self.station.set_due(due, !self.inbox.is_empty());
    }
}

impl PacketDevice for SimPort {
    fn deadline() -> Duration {
        Duration::from_millis(params::plan().map_or(1, |plan| plan.peer_timeout_ms.0))
    }

    fn open(info: &Info) -> Result<Self, Errno> {
        Ok(Self::at(Station::open(info)?))
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        self.station.enable();
        Ok(())
    }

    fn name(&self) -> Address {
        self.station.name()
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        self.station.rename(&name)
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let place = self.station.find(address)?;
        let name = || {
            self.station
                .world
                .with(|network| network.nodes().name(place))
        };
        number(&mut self.peers, place, name).ok_or(Errno::NOMEM)
    }

    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn fd(&self) -> RawFd {
        self.station.fd()
    }

    fn arm(&mut self, due: Option<Duration>) -> bool {
        self.station.arm(due)
    }

    fn is_quiescent(&self) -> bool {
        self.station.world.is_quiescent()
    }
}

/// Returns the peer at a place, with a new number if it is not known; `None` when there are too many.
fn number(peers: &mut Peers, place: Place, name: impl FnOnce() -> Box<str>) -> Option<PeerId> {
    peers.number(&place, |_, _| (Address::Name(name()), ()))
}
