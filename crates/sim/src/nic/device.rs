//! The provider's device: an adapter, or reliable channels over packets, as the plan says.

use std::os::fd::RawFd;
use std::sync::Arc;

use oxifabric_engine::faults::FaultKinds;
use oxifabric_engine::{
    Engine, Frame, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::Device;
use oxifabric_provider::faults;
use oxifabric_provider::packets::PacketDevice;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_reliable::ReliableLink;
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};

use super::{SimDomain, SimNic};
use crate::params;
use crate::port::SimPort;
use crate::station::Station;

/// What an endpoint has below its engine. Path class: hot.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one for each endpoint, and channels are on the hot path"
)]
pub enum SimDevice {
    /// Reliable channels.
    Packets(ReliableLink<SimPort>),
    /// An adapter.
    Nic(Box<SimNic>),
}

/// Calls the device that it is. What an adapter does stays out of the path of channels.
macro_rules! either {
    ($self:ident, $device:ident => $call:expr) => {
        match $self {
            Self::Packets($device) => $call,
            Self::Nic($device) => out_of_line(|| $call),
        }
    };
}

#[cold]
#[inline(never)]
fn out_of_line<R>(call: impl FnOnce() -> R) -> R {
    call()
}

impl Link for SimDevice {
    const IN_ORDER: bool = false;

    #[inline]
    fn limits(&self, peer: PeerId) -> &Limits {
        either!(self, device => device.limits(peer))
    }

    #[inline]
    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        either!(self, device => device.post(peer, frame, token))
    }

    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        either!(self, device => device.pull(peer, remote, into, token))
    }

    #[inline]
    fn flush(&mut self) {
        either!(self, device => device.flush());
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        either!(self, device => device.poll(now, sink))
    }

    fn resume(&mut self, peer: PeerId) {
        either!(self, device => device.resume(peer));
    }

    fn disconnect(&mut self, peer: PeerId, why: &'static str) -> bool {
        either!(self, device => device.disconnect(peer, why))
    }
}

impl Connection for SimDevice {}

impl Device for SimDevice {
    const COALESCES: bool = true;
    const FAULTS: FaultKinds = FaultKinds::all();
    type Operations = Engine;
    type Domain = SimDomain;

    fn open(info: &Info, domain: &Arc<SimDomain>) -> Result<Self, Errno> {
        let plan = params::plan().map_err(|_| Errno::INVAL)?;
        if plan.nic.is_none() {
            return ReliableLink::open(info, &Arc::new(())).map(Self::Packets);
        }
        let planned = faults::planned()?;
        if planned.is_some_and(|faults| !FaultKinds::POSTS.contains(faults.kinds())) {
            // Packets of adapters arrive.
            return Err(Errno::INVAL);
        }
        let station = Station::open(info)?;
        let nic = SimNic::at(station, domain, SimPort::deadline());
        Ok(Self::Nic(Box::new(nic)))
    }

    fn enable(&mut self, waits: bool) -> Result<(), Errno> {
        match self {
            Self::Packets(link) => Device::enable(link, waits),
            Self::Nic(nic) => {
                nic.open();
                Ok(())
            }
        }
    }

    fn name(&self) -> Address {
        match self {
            Self::Packets(link) => Device::name(link),
            Self::Nic(nic) => nic.station.name(),
        }
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        match self {
            Self::Packets(link) => Device::rename(link, name),
            Self::Nic(nic) => nic.station.rename(&name),
        }
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        match self {
            Self::Packets(link) => Device::peer(link, address),
            Self::Nic(nic) => nic.number(address),
        }
    }

    fn directory(&self) -> &PeerDirectory {
        match self {
            Self::Packets(link) => Device::directory(link),
            Self::Nic(nic) => nic.peers.directory(),
        }
    }

    fn fd(&self) -> RawFd {
        match self {
            Self::Packets(link) => Device::fd(link),
            Self::Nic(nic) => nic.station.fd(),
        }
    }

    fn arm(&mut self) -> bool {
        match self {
            Self::Packets(link) => Device::arm(link),
            Self::Nic(nic) => nic.arm(),
        }
    }

    #[inline]
    fn posted(&mut self) {
        match self {
            Self::Packets(link) => Device::posted(link),
            Self::Nic(nic) => out_of_line(|| nic.posted()),
        }
    }

    #[inline]
    fn holds_back(&self) -> bool {
        match self {
            Self::Packets(link) => Device::holds_back(link),
            Self::Nic(_) => false,
        }
    }

    fn idle(&self) -> bool {
        match self {
            Self::Packets(link) => Device::idle(link),
            Self::Nic(nic) => nic.is_done() || nic.station.world.is_quiescent(),
        }
    }

    fn close(&mut self) {
        match self {
            Self::Packets(link) => Device::close(link),
            Self::Nic(nic) => nic.leave(),
        }
    }

    fn repeated(&self) -> u64 {
        match self {
            Self::Packets(link) => Device::repeated(link),
            Self::Nic(_) => 0,
        }
    }
}
