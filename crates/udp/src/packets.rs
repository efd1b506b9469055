//! Packets of reliable channels over a UDP socket: `udp;ofi_rxd`. Path class: short.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

use oxifabric_core::inet::{RawAddr, local_address};
use oxifabric_core::packets::PacketDevice;
use oxifabric_core::timer::Timer;
use oxifabric_core::{clock, secret};
use oxifabric_engine::reliable::PacketPort;
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};
use oxifabric_wire::reliable::packet::HEADER_LEN;

use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::params::Params;
use crate::peer::{Destination, Peers};
use crate::sys::{Interest, Socket, Watch, errno_of};

/// Longest packet. Longer ones would be carried faster, but few of them fit the buffer that a socket has by default.
const LONGEST: usize = 16 * 1024;

/// How many bytes a socket may hold in each direction (socket(7)), where the system allows it.
const BUFFER: i32 = 4 << 20;

/// A socket whose datagrams are packets.
#[derive(Debug)]
pub struct Packets {
    socket: Socket,
    name: SocketAddr,
    peers: Peers,
    inbox: Inbox,
    outbox: Outbox,
    /// The first packet in the inbox is at hand.
    is_at_hand: bool,
    /// The number of its source, if that has one.
    from: PeerId,
    /// Sources stand for numbers that nothing outside can compute.
    secret: RandomState,
    /// The kernel told of an error of an earlier packet.
    troubled: bool,
    watch: Watch,
    timer: Timer,
    /// The timer is set.
    armed: bool,
    waits: bool,
    enabled: bool,
}

impl PacketPort for Packets {
    fn longest(&self) -> usize {
        LONGEST
    }

    #[inline]
    fn has_room(&self) -> bool {
        !self.outbox.is_full()
    }

    #[inline]
    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        self.outbox.push_parts(to, [header, payload]);
        if self.outbox.is_full() {
            self.flush();
        }
    }

    #[inline]
    fn flush(&mut self) {
        if !self.outbox.is_empty() {
            // An error is about earlier packets, and what of these is lost is sent again.
            self.outbox.flush(&self.socket, &self.peers);
        }
    }

    #[inline]
    fn next(&mut self) -> bool {
        if std::mem::take(&mut self.is_at_hand) {
            self.inbox.pop();
        }
        if self.inbox.is_empty() {
            let found = self.inbox.fill(&self.socket, true);
            self.inbox.note(self.inbox.len());
            self.troubled |= self.inbox.take_trouble();
            if !found {
                return false;
            }
        }
        let Some((letter, _)) = self.inbox.front() else {
            return false;
        };
        self.from = self.peers.known(&letter.from).unwrap_or(PeerId::ANY);
        self.is_at_hand = true;
        true
    }

    #[inline]
    fn packet(&self) -> (PeerId, &[u8]) {
        let bytes = self.inbox.front().map_or(&[][..], |(_, bytes)| bytes);
        (self.from, bytes)
    }

    fn number(&mut self) -> Option<PeerId> {
        if self.from == PeerId::ANY {
            let (letter, _) = self.inbox.front()?;
            self.from = self.peers.meet(&letter.from)?;
        }
        Some(self.from)
    }

    fn address_of(&self, peer: PeerId) -> Option<&Address> {
        self.peers.address(peer)
    }

    fn release(&mut self, peer: PeerId) {
        self.peers.release(peer);
    }

    fn answer(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let source = self.inbox.front();
        let Some(at) = source.and_then(|(letter, _)| letter.from.address()) else {
            return;
        };
        let (raw, len) = RawAddr::of(&at);
        // What is lost is asked for again.
        let to = Destination { raw: &raw, len };
        let _ = (self.socket).send_bytes(to, &[&header[..], payload].concat());
    }

    fn source(&self) -> u64 {
        let source = self.inbox.front();
        let at = source.and_then(|(letter, _)| letter.from.address());
        self.secret.hash_one(at)
    }

    fn refused(&mut self) -> Option<PeerId> {
        if !std::mem::take(&mut self.troubled) {
            return None;
        }
        while let Some(at) = self.socket.take_refusal() {
            if let Some(peer) = self.peers.find(&at) {
                self.troubled = true;
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
        Params::read().patience
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
            inbox: Inbox::merging(),
            outbox: Outbox::default(),
            is_at_hand: false,
            from: PeerId::ANY,
            secret: RandomState::new(),
            troubled: false,
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

    fn address(&self, peer: PeerId) -> Option<&Address> {
        self.peers.address(peer)
    }

    fn fd(&self) -> RawFd {
        self.watch.fd()
    }

    fn arm(&mut self, due: Option<Duration>) -> bool {
        if !self.inbox.is_empty() {
            return false;
        }
        if due.is_some() || self.armed {
            self.timer.set(due);
            self.armed = due.is_some();
        }
        let interest = Interest {
            read: true,
            write: !self.outbox.is_empty(),
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
    // Wishes: without them more packets are lost, and peers that have gone are noticed later.
    let _ = socket.hold(BUFFER);
    let _ = socket.hear_refusals(at);
    socket.bind(at).map_err(errno_of)?;
    let name = socket.local().map_err(errno_of)?;
    Ok((socket, name))
}
