//! Simulated adapters: a link whose packets arrive once each, in order or in any order, and which carries out accesses by itself.
//!
//! An endpoint's frames to a peer are numbered, and at most [`WINDOW`] of them are under way. Each names the one that the peer has to take
//! before it, if there is one: messages follow each other, and segments follow the first frame of their message. What arrives too early
//! waits in [`reorder`]. A frame is answered when the peer's engine has taken it.
//!
//! Accesses are cut into requests of one packet. The network carries them out where they arrive ([`domain`]) and answers them; at most
//! [`WINDOW`] are under way to a peer. A write with data is followed by a frame that reports it.
//!
//! What is under way is lost with its peer only: one that leaves says so, one that is not there is reported by the network, and one that
//! is silent for too long is given up.
//!
//! `head` is what packets say, `peer` what an endpoint keeps of a peer, `sender` the frames that were sent, `arrivals` what becomes of
//! packets, `liveness` how peers are noticed to be gone, `link` the engine's link, and `device` the provider's device.

mod arrivals;
mod device;
pub(crate) mod domain;
mod head;
mod link;
mod liveness;
mod peer;
mod reorder;
mod requests;
mod sender;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::Limits;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_types::{Address, Errno, Instant, PeerId};

use crate::network::{Packet, Place};
use crate::plan::{NicPlan, PacketOrder};
use crate::station::Station;
use crate::world::World;
pub use device::SimDevice;
pub(crate) use domain::NicMemory;
pub use domain::SimDomain;
pub(crate) use head::Head;
use peer::Peer;

/// Maximum number of frames, and of requests, that are under way from one endpoint to another. What has arrived too early is no more.
pub(crate) const WINDOW: u64 = 64;

/// Maximum number of accesses to a peer that the link has taken and not carried out.
const ACCESSES_MAX: usize = 128;

/// Maximum number of peers that have sent frames and that the application has not named.
const UNKNOWN_MAX: usize = 4096;

/// An endpoint's adapter.
#[derive(Debug)]
pub struct SimNic {
    station: Station,
    peers: PeerTable<Place, Peer>,
    limits: Limits,
    order: PacketOrder,
    /// What peers may reach, if adapters carry out accesses.
    memory: Option<Arc<NicMemory>>,
    inbox: VecDeque<Packet>,
    /// Peers that something is under way to, or that have something here, or that are to be given up.
    active: BTreeSet<PeerId>,
    /// Tells this endpoint from others that have had its name.
    incarnation: u64,
    /// Numbers requests.
    requests: u64,
    /// How long a peer may be silent while something is under way.
    peer_timeout: Duration,
    /// The present time, as of the last poll.
    now: Instant,
    /// When peers are to be looked at.
    look_at: Instant,
}

impl SimNic {
    /// Takes a place in a network, in a domain.
    ///
    /// # Errors
    /// `INVAL` for what is no name, `ADDRINUSE`.
    pub fn settle(
        world: &Arc<World>,
        name: &str,
        domain: &SimDomain,
        peer_timeout: Duration,
    ) -> Result<Self, Errno> {
        Ok(Self::at(
            Station::settle(world, name)?,
            domain,
            peer_timeout,
        ))
    }

    fn at(station: Station, domain: &SimDomain, peer_timeout: Duration) -> Self {
        let (nic, mtu, incarnation) = station.world.with(|network| {
            let plan = network.plan();
            let (nic, mtu) = (plan.nic.clone().unwrap_or_default(), plan.link.mtu);
            (nic, mtu, network.begin())
        });
        let now = station.world.now();
        Self {
            station,
            peers: PeerTable::default(),
            limits: limits(&nic, mtu),
            order: nic.order,
            memory: domain.memory().map(Arc::clone),
            inbox: VecDeque::new(),
            active: BTreeSet::new(),
            incarnation,
            requests: 0,
            peer_timeout,
            now,
            look_at: Instant::END,
        }
    }

    /// Lets packets arrive.
    pub fn open(&mut self) {
        self.station.enable();
        let (place, incarnation) = (self.station.place, self.incarnation);
        let memory = self.memory.as_ref().map(Arc::clone);
        let world = &self.station.world;
        world.with(|network| network.attach(place, incarnation, memory));
    }

    /// Returns the number of the peer with this address.
    ///
    /// # Errors
    /// `INVAL` for what is no name, `NOMEM`.
    pub fn number(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let place = self.station.find(address)?;
        let peer = self.peer_at(place).ok_or(Errno::NOMEM)?;
        self.peers.name(peer);
        Ok(peer)
    }

    /// Returns how many rows the table of peers has.
    pub fn rows(&self) -> usize {
        self.peers.rows()
    }

    /// Returns whether nothing is under way from here.
    pub fn is_done(&self) -> bool {
        let mut active = self.active.iter().filter_map(|peer| self.peers.get(*peer));
        active.all(Peer::is_done)
    }

    /// Returns the peer at a place, with a new number if it has none; `None` when there are too many.
    fn peer_at(&mut self, place: Place) -> Option<PeerId> {
        let world = &self.station.world;
        self.peers.number(&place, |_, _| {
            let name = world.with(|network| network.nodes().name(place));
            (Address::Name(name), Peer::new(place))
        })
    }

    fn send(&self, to: Place, head: Head, bytes: Vec<u8>) {
        let from = self.station.place;
        let world = &self.station.world;
        world.with(|network| network.post(from, to, head, bytes));
    }
}

impl Drop for SimNic {
    fn drop(&mut self) {
        // What was exposed is not read any more.
        if let Some(memory) = &self.memory {
            let rndv_keys = self.peers.iter().flat_map(|peer| peer.rndv_keys.values());
            rndv_keys.for_each(|key| memory.withdraw(*key));
        }
    }
}

/// Returns what the path to any peer takes.
fn limits(nic: &NicPlan, mtu: usize) -> Limits {
    let one_sided = nic.one_sided();
    Limits {
        eager: mtu,
        segmented: 4 * mtu,
        segmented_rma: true,
        segment: mtu,
        rndv_msg: true,
        rndv_tagged: true,
        // With order, a message is behind what was written before it: such data does not wait to be asked for.
        rndv_rma: nic.order == PacketOrder::Unordered,
        pull: one_sided.contains(oxifabric_engine::OneSided::READ),
        ack_on_arrival: false,
        one_sided,
    }
}
