//! The device of a datagram endpoint: opens its socket, numbers peers, joins multicast groups and arms the wait. Path class: setup.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::Arc;

use oxifabric_engine::faults::FaultKinds;
use oxifabric_engine::{Engine, Limits, OneSided};
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::Device;
use oxifabric_provider::faults;
use oxifabric_provider::inet::{addresses, local_address};
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_types::{Address, Caps, Errno, Info, PeerId};

use crate::group::Group;
use crate::params::Params;
use crate::peer::Peers;
use crate::rx_queue::{LONGEST, RxQueue};
use crate::sys::{Interest, Interface, Socket, Watch, errno_of};
use crate::tx_queue::TxQueue;

/// The device of one endpoint: a socket, and one more for each multicast group that it listens to.
#[derive(Debug)]
pub struct UdpPort {
    pub(crate) socket: Socket,
    name: SocketAddr,
    pub(crate) peers: Peers,
    pub(crate) limits: Limits,
    pub(crate) rx_queue: RxQueue,
    pub(crate) tx_queue: TxQueue,
    pub(crate) groups: Vec<Group>,
    /// Peers whose datagrams the socket did not take (EAGAIN).
    pub(crate) blocked: Vec<PeerId>,
    /// Whether the engine has no place for the next datagram.
    pub(crate) stalled: bool,
    /// Whether the sources of datagrams are asked for.
    pub(crate) sources: bool,
    pub(crate) watch: Watch,
    /// Whether a thread may sleep on this endpoint.
    waits: bool,
    enabled: bool,
}

impl Connection for UdpPort {}

impl Device for UdpPort {
    const DATAGRAM: bool = true;
    const FAULTS: FaultKinds = FaultKinds::PACKETS.union(FaultKinds::REFUSE);
    type Operations = Engine;
    type Domain = ();

    fn open(info: &Info, _domain: &Arc<()>) -> Result<Self, Errno> {
        let at = local_address(info, Params::read().iface.as_deref())?;
        let (socket, name) = bound(&at)?;
        let caps = info.caps | info.rx.caps;
        Ok(Self {
            socket,
            name,
            peers: Peers::default(),
            limits: Limits {
                eager: LONGEST,
                segmented: LONGEST,
                segmented_rma: true,
                segment: LONGEST,
                rndv_msg: false,
                rndv_tagged: false,
                rndv_rma: false,
                pull: false,
                ack_on_arrival: false,
                one_sided: OneSided::empty(),
            },
            rx_queue: RxQueue::new(),
            tx_queue: TxQueue::with_faults(faults::planned()?),
            groups: Vec::new(),
            blocked: Vec::new(),
            stalled: false,
            sources: caps.intersects(Caps::SOURCE | Caps::DIRECTED_RECV),
            watch: Watch::open().map_err(errno_of)?,
            waits: false,
            enabled: false,
        })
    }

    fn enable(&mut self, waits: bool) -> Result<(), Errno> {
        if waits && !self.waits {
            self.watch.add(&self.socket).map_err(errno_of)?;
            for group in &self.groups {
                self.watch.add(&group.socket).map_err(errno_of)?;
            }
            self.waits = true;
        }
        self.enabled = true;
        Ok(())
    }

    fn name(&self) -> Address {
        Address::Inet(self.name)
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        if self.enabled {
            return Err(Errno::OPBADSTATE);
        }
        let Address::Inet(at) = name else {
            return Err(Errno::INVAL);
        };
        (self.socket, self.name) = bound(&at)?;
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let at = self.reachable(address)?;
        if at.ip().is_multicast() {
            // A group is reached through the interface of the endpoint's own address, if one has that address.
            let _ = self.socket.send_groups_through(&self.interface());
        }
        self.peers.number(&at).ok_or(Errno::NOMEM)
    }

    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn fd(&self) -> RawFd {
        self.watch.fd()
    }

    fn arm(&mut self) -> bool {
        if !self.rx_queue.is_empty() && !self.stalled {
            return false;
        }
        self.watch_for(Interest {
            read: !self.stalled,
            write: !self.blocked.is_empty() || !self.tx_queue.is_empty(),
        });
        true
    }

    fn idle(&self) -> bool {
        self.tx_queue.is_empty()
    }

    fn join(&mut self, group: &Address) -> Result<(), Errno> {
        let at = self.reachable(group)?;
        if !at.ip().is_multicast() {
            return Err(Errno::INVAL);
        }
        if let Some(group) = self.groups.iter_mut().find(|group| group.at == at) {
            group.joins += 1;
            return Ok(());
        }
        let group = Group::open(at, &self.interface()).map_err(errno_of)?;
        if self.waits {
            self.watch.add(&group.socket).map_err(errno_of)?;
        }
        self.groups.push(group);
        Ok(())
    }

    fn leave(&mut self, group: &Address) {
        let found = self
            .groups
            .iter()
            .position(|known| Address::Inet(known.at) == *group);
        if let Some(at) = found {
            self.groups[at].joins -= 1;
            if self.groups[at].joins == 0 {
                self.groups.swap_remove(at);
            }
        }
    }
}

impl UdpPort {
    /// Reads the address of a peer.
    ///
    /// # Errors
    /// `INVAL` when this endpoint cannot send there.
    fn reachable(&self, address: &Address) -> Result<SocketAddr, Errno> {
        match address {
            Address::Inet(at) if at.is_ipv4() == self.name.is_ipv4() && at.port() != 0 => Ok(*at),
            _ => Err(Errno::INVAL),
        }
    }

    /// Changes the events that wake a sleeping thread.
    pub(crate) fn watch_for(&mut self, interest: Interest) {
        if self.waits && self.watch.interest != interest {
            self.watch.change(&self.socket, interest);
            for group in &self.groups {
                let read = interest.read;
                self.watch
                    .change(&group.socket, Interest { read, write: false });
            }
            self.watch.interest = interest;
        }
    }

    /// Returns the interface of the endpoint's address, for traffic of groups.
    fn interface(&self) -> Interface {
        match self.name.ip() {
            ip if ip.is_unspecified() => Interface::Any,
            IpAddr::V4(ip) => Interface::At(ip),
            IpAddr::V6(ip) => {
                let places = addresses(None);
                let here = places.iter().find(|place| place.at.ip() == IpAddr::V6(ip));
                here.map_or(Interface::Any, |place| Interface::named(&place.interface))
            }
        }
    }
}

/// Opens a socket at an address.
fn bound(at: &SocketAddr) -> Result<(Socket, SocketAddr), Errno> {
    let socket = Socket::open(at).map_err(errno_of)?;
    socket.bind(at).map_err(errno_of)?;
    let name = socket.local().map_err(errno_of)?;
    Ok((socket, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_one_socket_however_often_it_is_joined() {
        let mut port = UdpPort::open(
            &Info {
                src: Some(Address::Inet(SocketAddr::from(([127, 0, 0, 1], 0)))),
                caps: Caps::MSG | Caps::MULTICAST,
                ..Info::default()
            },
            &Arc::new(()),
        )
        .expect("loopback has ports");
        let mine = port.name;
        let group = |last| Address::Inet(SocketAddr::from(([239, 255, 17, last], mine.port())));
        for _ in 0..1000 {
            assert_eq!(port.join(&group(4)), Ok(()));
        }
        assert_eq!(port.join(&group(5)), Ok(()));
        assert_eq!(port.groups.len(), 2);
        assert_eq!(port.join(&Address::Inet(mine)), Err(Errno::INVAL));
        port.leave(&group(5));
        for left in (0..1000).rev() {
            port.leave(&group(4));
            assert_eq!(port.groups.len(), usize::from(left > 0));
        }
    }
}
