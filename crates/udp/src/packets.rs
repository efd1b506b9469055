//! Packets of reliable channels over a UDP socket: `udp;ofi_rxd`. Path class: hot.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

use oxifabric_provider::inet::{RawAddr, local_address};
use oxifabric_provider::packets::PacketDevice;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::timer::Timer;
use oxifabric_provider::{clock, log, secret};
use oxifabric_reliable::{CloseReason, PacketPort};
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};
use oxifabric_wire::reliable::packet::HEADER_LEN;

use crate::params::Params;
use crate::peer::{Destination, Peers};
use crate::rx_queue::RxQueue;
use crate::sys::{Interest, Socket, Watch, errno_of};
use crate::tx_queue::TxQueue;

/// Longest packet: the kernel keeps it in one object of its slab caches, 8 KiB with what it adds. Objects are used again, whereas the pages in which it keeps
/// longer ones, and pieces that it cuts (UDP_SEGMENT), are new ones each time while the receiver's processor collects those that are freed. Pieces pause then
/// (`cutting`), and packets leave one by one.
const LONGEST: usize = 7680;

/// Maximum number of packets under way to a peer in this host, 360 KiB, which a socket's buffer has room for where the system allows no more than Linux does by
/// default: more would only wait, in memory that has left the caches.
const WINDOW_MAX: usize = 48;

/// Bytes that a socket may hold in each direction (socket(7)), where the system allows it.
const BUFFER: i32 = 4 << 20;

/// A socket whose datagrams are packets.
#[derive(Debug)]
pub struct Packets {
    socket: Socket,
    name: SocketAddr,
    peers: Peers,
    rx_queue: RxQueue,
    tx_queue: TxQueue,
    /// Whether the first packet in the queue is the current one.
    is_at_hand: bool,
    /// Number of the current packet's source, if it has one.
    from: PeerId,
    /// Key of the hashes of sources ([`PacketPort::source`]), which peers cannot compute.
    secret: RandomState,
    /// Whether the kernel reported an error of an earlier packet.
    send_error: bool,
    watch: Watch,
    timer: Timer,
    /// Whether the timer is set.
    armed: bool,
    waits: bool,
    enabled: bool,
}

impl PacketPort for Packets {
    fn longest(&self) -> usize {
        LONGEST
    }

    fn window_max(&self, to: PeerId) -> usize {
        let at = self.peers.socket_address(to).map(SocketAddr::ip);
        match at.is_some_and(|at| at.is_loopback() || at == self.name.ip()) {
            true => WINDOW_MAX,
            false => usize::MAX,
        }
    }

    #[inline]
    fn has_room(&self) -> bool {
        !self.tx_queue.is_full()
    }

    #[inline]
    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        self.tx_queue.push_parts(to, [header, payload]);
        if self.tx_queue.is_full() {
            self.flush();
        }
    }

    #[inline]
    fn flush(&mut self) {
        if !self.tx_queue.is_empty() {
            // An error is about earlier packets, and what is lost of these is retransmitted.
            self.tx_queue.flush(&self.socket, &self.peers);
        }
    }

    #[inline]
    fn next(&mut self) -> bool {
        if std::mem::take(&mut self.is_at_hand) {
            self.rx_queue.pop();
        }
        if self.rx_queue.is_empty() {
            let found = self.rx_queue.fill(&self.socket, true);
            self.rx_queue.note(self.rx_queue.len());
            self.send_error |= self.rx_queue.take_send_error();
            if !found {
                return false;
            }
        }
        let Some((datagram, _)) = self.rx_queue.front() else {
            return false;
        };
        self.from = self.peers.known(&datagram.from).unwrap_or(PeerId::ANY);
        self.is_at_hand = true;
        true
    }

    #[inline]
    fn packet(&self) -> (PeerId, &[u8]) {
        let bytes = self.rx_queue.front().map_or(&[][..], |(_, bytes)| bytes);
        (self.from, bytes)
    }

    fn number(&mut self) -> Option<PeerId> {
        if self.from == PeerId::ANY {
            let (datagram, _) = self.rx_queue.front()?;
            self.from = self.peers.add(&datagram.from)?;
        }
        Some(self.from)
    }

    fn release(&mut self, peer: PeerId) {
        self.peers.release(peer);
    }

    fn answer(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let source = self.rx_queue.front();
        let Some(at) = source.and_then(|(datagram, _)| datagram.from.address()) else {
            return;
        };
        let (raw, len) = RawAddr::of(&at);
        // If the answer is lost, the peer repeats the packet that asked for it.
        let to = Destination { raw: &raw, len };
        let _ = (self.socket).send_bytes(to, &[&header[..], payload].concat());
    }

    fn source(&self) -> u64 {
        let source = self.rx_queue.front();
        let at = source.and_then(|(datagram, _)| datagram.from.address());
        self.secret.hash_one(at)
    }

    fn source_of(&self, peer: PeerId) -> Option<u64> {
        let at = self.peers.socket_address(peer)?;
        Some(self.secret.hash_one(Some(*at)))
    }

    fn lost(&mut self, peer: PeerId, why: CloseReason, had_answered: bool) {
        let Some(at) = self.peers.socket_address(peer) else {
            return;
        };
        if had_answered {
            log::info!("udp;ofi_rxd", EpCtrl, "connection with {at} lost: {why}");
        }
        let reason = format!("{at}: {why}");
        self.peers.directory().explain(peer, Some(reason));
    }

    fn refused(&mut self) -> Option<PeerId> {
        if !std::mem::take(&mut self.send_error) {
            return None;
        }
        while let Some(at) = self.socket.take_refusal() {
            if let Some(peer) = self.peers.find(&at) {
                self.send_error = true;
                return Some(peer);
            }
        }
        None
    }

    fn secret(&mut self) -> u64 {
        secret::draw()
    }

    fn now(&self) -> Instant {
        clock::exact()
    }
}

impl PacketDevice for Packets {
    fn deadline() -> Duration {
        Params::read().peer_timeout
    }

    fn open(info: &Info) -> Result<Self, Errno> {
        let at = local_address(info, Params::read().iface.as_deref())?;
        let (socket, name) = bound(&at)?;
        let watch = Watch::open().map_err(errno_of)?;
        let timer = Timer::open().map_err(errno_of)?;
        watch.add_timer(&timer).map_err(errno_of)?;
        Ok(Self {
            socket,
            name,
            peers: Peers::default(),
            rx_queue: RxQueue::merging(LONGEST),
            tx_queue: TxQueue::timed(),
            is_at_hand: false,
            from: PeerId::ANY,
            secret: RandomState::new(),
            send_error: false,
            watch,
            timer,
            armed: false,
            waits: false,
            enabled: false,
        })
    }

    fn enable(&mut self, waits: bool) -> Result<(), Errno> {
        if waits && !self.waits {
            self.watch.add(&self.socket).map_err(errno_of)?;
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
        match address {
            Address::Inet(at) if at.is_ipv4() == self.name.is_ipv4() && at.port() != 0 => {
                self.peers.number(at).ok_or(Errno::NOMEM)
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn fd(&self) -> RawFd {
        self.watch.fd()
    }

    fn arm(&mut self, due: Option<Duration>) -> bool {
        if !self.rx_queue.is_empty() {
            return false;
        }
        if due.is_some() || self.armed {
            self.timer.set(due);
            self.armed = due.is_some();
        }
        let interest = Interest {
            read: true,
            write: !self.tx_queue.is_empty(),
        };
        if self.waits && self.watch.interest != interest {
            self.watch.change(&self.socket, interest);
            self.watch.interest = interest;
        }
        true
    }
}

/// Opens a socket at an address.
fn bound(at: &SocketAddr) -> Result<(Socket, SocketAddr), Errno> {
    let socket = Socket::open(at).map_err(errno_of)?;
    // Optional: without them more packets are lost, and peers that have gone are noticed later.
    let _ = socket.hold(BUFFER);
    let _ = socket.hear_refusals(at);
    socket.bind(at).map_err(errno_of)?;
    let name = socket.local().map_err(errno_of)?;
    Ok((socket, name))
}
