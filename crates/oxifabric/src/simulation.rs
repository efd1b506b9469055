//! What a program can learn of a simulated network, and how it advances the time there.

use core::time::Duration;

use oxifabric_provider::simulation::NO_NODE;

use crate::raw::SimulationOps;
use crate::{Endpoint, Error, Kind, Threading};

/// The network that an endpoint of the provider `sim` is on.
///
/// Its time is that of the network: virtual, unless `FI_SIM_TIME=real`.
#[derive(Clone, Copy, Debug)]
pub struct Simulation(SimulationOps);

/// The counters that the network has of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketCount {
    /// Packets sent.
    Sent = 0,
    /// Packets that carried data sent before: retransmissions.
    Repeated = 1,
    /// Packets that arrived.
    Delivered = 2,
    /// Packets lost at random.
    Lost = 3,
    /// Packets doubled.
    Doubled = 4,
    /// Packets held back, so that others overtook them.
    Late = 5,
    /// Packets lost because a queue was full.
    Overflowed = 6,
    /// Packets lost because a node was cut off.
    Cut = 7,
    /// Packets of adapters that arrived after later ones of the same endpoint.
    Overtaken = 8,
    /// Parts of accesses that adapters carried out.
    Accesses = 9,
}

impl Simulation {
    /// Returns the network of an endpoint.
    ///
    /// # Errors
    ///
    /// What `fi_open_ops` returned: `NOSYS` where the network is a real one.
    pub fn of<K: Kind, T: Threading>(endpoint: &Endpoint<K, T>) -> Result<Self, Error> {
        let ops = SimulationOps::of(endpoint.object());
        ops.map(Self).map_err(Error::call("fi_open_ops"))
    }

    /// Returns the time since the network began.
    #[inline]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.now())
    }

    /// Waits until an endpoint has something to do, or until a time; returns the number of the endpoint's node, whose queue is to be
    /// polled next.
    ///
    /// From the first call on, virtual time passes in this call only.
    #[inline]
    pub fn turn(&self, until: Duration) -> Option<u64> {
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        Some(self.0.turn(until)).filter(|node| *node != NO_NODE)
    }

    /// Returns the value of a packet counter, of the whole network.
    pub fn count(&self, what: PacketCount) -> u64 {
        self.0.count(what as u32)
    }
}
