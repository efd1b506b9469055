//! The port of an endpoint: packets to and from the network. Path class: hot.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use oxifabric_provider::log;
use oxifabric_provider::packets::PacketDevice;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_provider::timer::Timer;
use oxifabric_reliable::{CloseReason, PacketPort};
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};
use oxifabric_wire::reliable::packet::HEADER_LEN;

use crate::NAME;
use crate::name;
use crate::network::{Packet, Place};
use crate::params;
use crate::world::World;

/// Number of packets that are held back to leave together.
const HELD: usize = 32;

/// An endpoint's place in a network.
#[derive(Debug)]
pub struct SimPort {
    world: Arc<World>,
    place: Place,
    name: Address,
    mtu: usize,
    peers: Peers,
    /// Packets that leave with the next flush.
    outbox: Vec<(Place, Vec<u8>)>,
    inbox: VecDeque<Packet>,
    /// The packet at hand.
    current: Option<(PeerId, Packet)>,
    /// Peers without an endpoint at their name.
    refused: Vec<PeerId>,
    /// Made when a thread may sleep.
    timer: OnceLock<Arc<Timer>>,
    enabled: bool,
}

/// Known peers.
type Peers = PeerTable<Place, ()>;

impl SimPort {
    /// Takes a place in a network.
    ///
    /// # Errors
    /// `INVAL` for what is no name, `ADDRINUSE`.
    pub fn settle(world: &Arc<World>, name: &str) -> Result<Self, Errno> {
        let (place, mtu) = world.with(|network| {
            let place = network.place(name).ok_or(Errno::INVAL)?;
            let settled = network.settle(place).then_some(place);
            settled
                .map(|place| (place, network.plan().link.mtu))
                .ok_or(Errno::ADDRINUSE)
        })?;
        Ok(Self {
            world: Arc::clone(world),
            place,
            name: Address::Name(name.into()),
            mtu,
            peers: Peers::default(),
            outbox: Vec::new(),
            inbox: VecDeque::new(),
            current: None,
            refused: Vec::new(),
            timer: OnceLock::new(),
            enabled: false,
        })
    }

    fn timer(&self) -> Option<&Arc<Timer>> {
        if self.timer.get().is_none() {
            let _ = self.timer.set(Arc::new(Timer::open().ok()?));
        }
        self.timer.get()
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        self.world.with(|network| network.leave(self.place));
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

    fn flush(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        let (from, outbox) = (self.place, &mut self.outbox);
        let (peers, refused) = (&self.peers, &mut self.refused);
        self.world.with(|network| {
            for (to, bytes) in outbox.drain(..) {
                if !network.send(from, to, bytes)
                    && let Some(peer) = peers.find(&to)
                {
                    refused.push(peer);
                }
            }
        });
    }

    fn next(&mut self) -> bool {
        let Some(packet) = self.inbox.pop_front() else {
            self.current = None;
            return false;
        };
        let world = &self.world;
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

    fn lost(&mut self, peer: PeerId, why: CloseReason) {
        if let Some(at) = self.address(peer) {
            log::info!(NAME, EpCtrl, "connection with {at} lost: {why}");
        }
    }

    fn refused(&mut self) -> Option<PeerId> {
        self.refused.pop()
    }

    fn secret(&mut self) -> u64 {
        self.world.with(crate::network::Network::draw)
    }

    fn now(&self) -> Instant {
        self.world.now()
    }

    fn begin(&mut self, _coarse: Instant) -> Instant {
        let now = self.world.begin(self.place);
        if self.inbox.is_empty() {
            let (place, inbox) = (self.place, &mut self.inbox);
            self.world.with(|network| network.take(place, inbox));
        }
        now
    }

    fn rest(&mut self, due: Instant) {
        let (place, busy) = (self.place, !self.inbox.is_empty());
        self.world.with(|network| network.rest(place, due, busy));
    }
}

impl PacketDevice for SimPort {
    fn deadline() -> Duration {
        Duration::from_millis(params::plan().map_or(1, |plan| plan.patience_ms.0))
    }

    fn open(info: &Info) -> Result<Self, Errno> {
        let world = params::world()?;
        match &info.src {
            Some(Address::Name(name)) if &**name != name::PREFIX => Self::settle(world, name),
            Some(Address::Name(_)) | None => loop {
                let name = world.with(|network| network.nodes_mut().free_name());
                match Self::settle(world, &name) {
                    Err(Errno::ADDRINUSE) => {}
                    settled => return settled,
                }
            },
            Some(_) => Err(Errno::INVAL),
        }
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        self.enabled = true;
        self.world.with(|network| network.open(self.place));
        Ok(())
    }

    fn name(&self) -> Address {
        self.name.clone()
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        if self.enabled {
            return Err(Errno::OPBADSTATE);
        }
        let Address::Name(name) = name else {
            return Err(Errno::INVAL);
        };
        *self = Self::settle(&self.world, &name)?;
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let Address::Name(name) = address else {
            return Err(Errno::INVAL);
        };
        let place = self.world.with(|network| network.place(name));
        let place = place.ok_or(Errno::INVAL)?;
        number(&mut self.peers, place, || name.clone()).ok_or(Errno::NOMEM)
    }

    fn address(&self, peer: PeerId) -> Option<&Address> {
        self.peers.address(peer)
    }

    fn fd(&self) -> RawFd {
        self.timer().map_or(-1, |timer| timer.fd())
    }

    fn arm(&mut self, due: Option<Duration>) -> bool {
        let Some(nap) = self.world.nap() else {
            return false;
        };
        let Some(timer) = self.timer() else {
            return false;
        };
        // What is due in virtual time is among the events that keep all threads from sleeping.
        let nap = nap.min(due.unwrap_or(Duration::MAX));
        timer.set((nap != Duration::MAX).then_some(nap));
        let place = self.place;
        (self.world).with(|network| network.nodes_mut().sleep(place, timer))
    }

    fn is_quiescent(&self) -> bool {
        self.world.is_quiescent()
    }
}

/// Returns the peer at a place, with a new number if it is not known; `None` when there are too many.
fn number(peers: &mut Peers, place: Place, name: impl FnOnce() -> Box<str>) -> Option<PeerId> {
    peers.number(&place, |_, _| (Address::Name(name()), ()))
}
