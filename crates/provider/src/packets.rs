//! Reliable datagram endpoints over ports that carry packets: what such a port has beyond sending and receiving them.
//!
//! The endpoint's device is a [`ReliableLink`] over the port, docs/protocol/reliable.md.

mod info;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::Engine;
use oxifabric_engine::faults::FaultKinds;
use oxifabric_reliable::{PacketPort, ReliableLink};
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};

use crate::connection::Connection;
use crate::device::Device;
use crate::faults;
use crate::peer_directory::PeerDirectory;
pub use info::info;

/// A local port that carries packets, with its address and its way to sleep. See [`Device`] for what the calls mean.
pub trait PacketDevice: PacketPort + Send + Sized + 'static {
    /// Returns how long a peer may leave everything unanswered before it counts as gone.
    fn deadline() -> Duration;

    /// Opens a port.
    ///
    /// # Errors
    /// As [`Device::open`].
    fn open(info: &Info) -> Result<Self, Errno>;

    /// Gets ready to receive.
    ///
    /// # Errors
    /// As [`Device::enable`].
    fn enable(&mut self, waits: bool) -> Result<(), Errno>;

    /// Returns the address that peers use.
    fn name(&self) -> Address;

    /// Changes the address.
    ///
    /// # Errors
    /// As [`Device::rename`].
    fn rename(&mut self, name: Address) -> Result<(), Errno>;

    /// Returns the number of a peer.
    ///
    /// # Errors
    /// As [`Device::peer`].
    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno>;

    /// Returns the directory of the peers.
    fn directory(&self) -> &PeerDirectory;

    /// Returns the descriptor to sleep on.
    fn fd(&self) -> RawFd;

    /// Gets ready for sleep: the next packet makes the descriptor readable, and so does `due`, if it comes first. Returns
    /// false if there is something already.
    fn arm(&mut self, due: Option<Duration>) -> bool;

    /// Returns whether nothing will arrive any more, whatever this endpoint does: closing does not wait for it.
    fn is_quiescent(&self) -> bool {
        false
    }
}

impl<P: PacketDevice> Connection for ReliableLink<P> {}

impl<P: PacketDevice> Device for ReliableLink<P> {
    const COALESCES: bool = true;
    const FAULTS: FaultKinds = FaultKinds::all();
    type Operations = Engine;
    type Domain = ();

    fn open(info: &Info, _domain: &Arc<()>) -> Result<Self, Errno> {
        let faults = faults::planned()?;
        Ok(Self::new(P::open(info)?, P::deadline(), faults))
    }

    fn enable(&mut self, waits: bool) -> Result<(), Errno> {
        self.port_mut().enable(waits)
    }

    fn name(&self) -> Address {
        self.port().name()
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        self.port_mut().rename(name)
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let peer = self.port_mut().peer(address)?;
        self.know(peer);
        Ok(peer)
    }

    fn directory(&self) -> &PeerDirectory {
        self.port().directory()
    }

    fn fd(&self) -> RawFd {
        self.port().fd()
    }

    fn arm(&mut self) -> bool {
        let now = self.port().now();
        let due = self.due();
        self.note_sleep(due);
        match due {
            Instant::END => self.port_mut().arm(None),
            due if due <= now => false,
            due => self.port_mut().arm(Some(due.since(now))),
        }
    }

    #[inline]
    fn posted(&mut self) {
        if self.is_timer_late() {
            let (now, due) = (self.port().now(), self.due());
            self.note_sleep(due);
            self.port_mut().arm(Some(due.since(now)));
        }
    }

    #[inline]
    fn holds_back(&self) -> bool {
        Self::holds_back(self)
    }

    fn idle(&self) -> bool {
        self.is_done() || self.port().is_quiescent()
    }

    fn close(&mut self) {
        Self::close(self);
    }

    fn repeated(&self) -> u64 {
        Self::repeated(self)
    }
}
