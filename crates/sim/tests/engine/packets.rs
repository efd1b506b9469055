//! Links over packets: reliable channels over a simulated network that loses, doubles, delays and cuts.
//!
//! The network is that of the provider `sim`. To test the checkers, a port may do what a broken engine would: acknowledge what has
//! not arrived, or deliver in the order of arrival.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::{
    Body, Frame, Header, Limits, Link, Placement, PostError, Posted, RemoteIov, RemoteWrite,
    RxToken, Sink, Target, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::packets::PacketDevice;
use oxifabric_reliable::{PacketPort, ReliableLink};
use oxifabric_sim::plan::{Cut, LinkPlan, PeerTimeout};
use oxifabric_sim::{Count, Plan, SimPort, World as Network};
use oxifabric_types::{Address, Errno, Instant, PeerId};
use oxifabric_wire::reliable::packet::{HEADER_LEN, Packet, PacketKind};

use crate::net::{BROKEN, SimLink};
use crate::nic::NicLink;

/// Timeout after which endpoints give a peer up.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// No operation takes longer than the longest cut that heals, the timeout after it, and the time in which a peer that is
/// not there is asked for again.
pub(crate) const DEADLINE: Duration = Duration::from_secs(14);

/// What the network does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packets {
    pub(crate) drop: f64,
    pub(crate) dup: f64,
    pub(crate) reorder: f64,
    pub(crate) queue_bytes: Option<u64>,
    /// The network carries packets of this length, and endpoints send longer ones.
    pub(crate) carries: Option<usize>,
    /// The first endpoint is cut off early on, for this time in milliseconds.
    pub(crate) cut_ms: Option<f64>,
    pub(crate) crook: Option<Crook>,
}

/// What a broken engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crook {
    /// It acknowledges all packets below the last one that came, whether they came or not.
    AcknowledgesTooMuch,
    /// It delivers packets as they come, whatever their numbers.
    DeliversAsItComes,
}

impl Packets {
    fn plan(&self, seed: u64) -> Plan {
        let usual = LinkPlan::default();
        let cut = |ms| Cut {
            nodes: vec![0],
            from_ms: 0.2 + (seed % 16) as f64 * 0.1,
            for_ms: Some(ms),
            every_ms: None,
        };
        Plan {
            seed,
            peer_timeout_ms: PeerTimeout(TIMEOUT.as_millis() as u64),
            link: LinkPlan {
                mtu: if self.carries.is_some() { 8192 } else { 1024 },
                carries: self.carries.unwrap_or(usual.carries),
                drop: self.drop,
                dup: self.dup,
                reorder: self.reorder,
                late_us: 200.0,
                queue_bytes: self.queue_bytes.unwrap_or(usual.queue_bytes),
                ..usual
            },
            cut: self.cut_ms.map(cut).into_iter().collect(),
            ..Plan::default()
        }
    }

    /// Peers are given up that are cut off for so long.
    pub(crate) fn loses_peers(&self) -> bool {
        self.cut_ms
            .is_some_and(|ms| ms >= TIMEOUT.as_millis() as f64)
    }

    pub(crate) fn network(&self, seed: u64) -> Arc<Network> {
        Arc::new(Network::new(self.plan(seed)))
    }
}

/// Describes what has happened to packets.
pub(crate) fn spell(network: &Network) -> String {
    let count = |what| network.count(what);
    format!(
        "{} packets, {} repeated, {} lost, {} overflowed, {} cut",
        count(Count::Sent),
        count(Count::Repeated),
        count(Count::Lost),
        count(Count::Overflowed),
        count(Count::Cut)
    )
}

/// One endpoint's end of any network.
pub(crate) enum AnyLink {
    Frames(SimLink),
    Packets(Box<PacketLink>),
    Nic(Box<NicLink>),
}

/// A reliable link that remembers which peers it lost.
pub(crate) struct PacketLink {
    link: ReliableLink<CrookedPort>,
    lost: Vec<usize>,
}

impl PacketLink {
    /// Opens one; its peers have the numbers of the endpoints.
    pub(crate) fn open(me: usize, nodes: usize, network: &Arc<Network>, how: &Packets) -> Self {
        let name = |node: usize| format!("fi_sim://{node}");
        let mut port = SimPort::settle(network, &name(me)).expect("the node is free");
        for node in 0..nodes {
            let peer = port.peer(&Address::Name(name(node).into()));
            assert_eq!(peer, Ok(PeerId(node as u32)));
        }
        port.enable(false).expect("it opens");
        let port = CrookedPort {
            port,
            crook: how.crook,
            packet: Vec::new(),
            next: BTreeMap::new(),
        };
        Self {
            link: ReliableLink::new(port, TIMEOUT, None),
            lost: Vec::new(),
        }
    }
}

impl AnyLink {
    /// Returns the peers that were reported to be gone since the last call.
    pub(crate) fn take_lost(&mut self) -> Vec<usize> {
        match self {
            Self::Frames(link) => std::mem::take(&mut link.lost),
            Self::Packets(link) => std::mem::take(&mut link.lost),
            Self::Nic(nic) => std::mem::take(&mut nic.lost),
        }
    }

    /// Everything that was sent has arrived, as far as the link knows.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Frames(_) => true,
            Self::Packets(link) => link.link.is_done(),
            Self::Nic(nic) => nic.nic.is_done(),
        }
    }
}

/// Calls the link that it is.
macro_rules! either {
    ($self:ident, $link:ident => $call:expr) => {
        match $self {
            AnyLink::Frames($link) => $call,
            AnyLink::Packets(packets) => {
                let $link = &mut packets.link;
                $call
            }
            AnyLink::Nic(nic) => {
                let $link = &mut nic.nic;
                $call
            }
        }
    };
}

impl Link for AnyLink {
    fn limits(&self, peer: PeerId) -> &Limits {
        match self {
            Self::Frames(link) => link.limits(peer),
            Self::Packets(link) => link.link.limits(peer),
            Self::Nic(nic) => nic.nic.limits(peer),
        }
    }

    fn post(&mut self, to: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        either!(self, link => link.post(to, frame, token))
    }

    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        either!(self, link => link.pull(peer, remote, into, token))
    }

    fn flush(&mut self) {
        either!(self, link => link.flush());
    }

    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        match self {
            Self::Frames(link) => link.poll(now, sink),
            Self::Packets(link) => {
                let lost = &mut link.lost;
                link.link.poll(now, &mut Watch { sink, lost })
            }
            Self::Nic(nic) => {
                let lost = &mut nic.lost;
                nic.nic.poll(now, &mut Watch { sink, lost })
            }
        }
    }

    fn resume(&mut self, peer: PeerId) {
        either!(self, link => link.resume(peer));
    }

    fn disconnect(&mut self, peer: PeerId, why: &'static str) -> bool {
        either!(self, link => link.disconnect(peer, why))
    }
}

/// Takes note of peers that are lost. However a channel was lost, the checkers call it broken; only a broken protocol is an error
/// of its own.
struct Watch<'a, S> {
    sink: &'a mut S,
    lost: &'a mut Vec<usize>,
}

fn broken(errno: Errno) -> Errno {
    match errno {
        Errno::TIMEDOUT | Errno::CONNREFUSED => BROKEN,
        other => other,
    }
}

impl<S: Sink> Sink for Watch<'_, S> {
    fn arrival(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        self.sink.arrival(from, header, body)
    }

    fn access(
        &mut self,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        body: Body<'_>,
    ) -> Placement {
        self.sink.access(from, header, targets, body)
    }

    fn unordered_segment(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        self.sink.unordered_segment(from, header, body)
    }

    fn written(&mut self, from: PeerId, write: RemoteWrite) {
        self.sink.written(from, write);
    }

    fn placed(&mut self, token: RxToken, result: Result<(), Errno>) {
        self.sink.placed(token, result.map_err(broken));
    }

    fn sent(&mut self, token: TxToken, result: Result<(), Errno>) {
        self.sink.sent(token, result.map_err(broken));
    }

    fn pulled(&mut self, token: RxToken, result: Result<(), Errno>) {
        self.sink.pulled(token, result.map_err(broken));
    }

    fn writable(&mut self, peer: PeerId) {
        self.sink.writable(peer);
    }

    fn peers_with_pending(&self, each: &mut dyn FnMut(PeerId)) {
        self.sink.peers_with_pending(each);
    }

    fn peer_down(&mut self, peer: PeerId, why: Errno) {
        self.lost.push(peer.index());
        self.sink.peer_down(peer, broken(why));
    }
}

/// A port under an engine that may be broken.
struct CrookedPort {
    port: SimPort,
    crook: Option<Crook>,
    /// The packet at hand, as the engine sees it.
    packet: Vec<u8>,
    /// For each peer, the number behind the last data packet that came.
    next: BTreeMap<PeerId, u64>,
}

impl CrookedPort {
    /// Changes the packet at hand.
    fn tamper(&mut self, crook: Crook) {
        let (from, bytes) = self.port.packet();
        self.packet.clear();
        self.packet.extend_from_slice(bytes);
        let Ok((mut packet, _)) = Packet::parse(bytes) else {
            return;
        };
        let next = self.next.entry(from).or_default();
        match packet.kind {
            PacketKind::Hello => *next = 0,
            PacketKind::Data if crook == Crook::AcknowledgesTooMuch => {
                *next = packet.number.max(*next) + 1;
            }
            PacketKind::Data => {
                packet.number = *next;
                *next += 1;
                self.packet[..HEADER_LEN].copy_from_slice(&packet.emit());
            }
            _ => {}
        }
    }
}

impl PacketPort for CrookedPort {
    fn longest(&self) -> usize {
        self.port.longest()
    }

    fn has_room(&self) -> bool {
        self.port.has_room()
    }

    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let (packet, _) = Packet::parse(header).expect("it was just written");
        let mut packet = packet;
        if self.crook == Some(Crook::AcknowledgesTooMuch) {
            let seen = self.next.get(&to).copied().unwrap_or(0);
            packet.ack = packet.ack.max(seen);
        }
        self.port.send(to, &packet.emit(), payload);
    }

    fn flush(&mut self) {
        self.port.flush();
    }

    fn next(&mut self) -> bool {
        let found = self.port.next();
        if let Some(crook) = self.crook.filter(|_| found) {
            self.tamper(crook);
        }
        found
    }

    fn packet(&self) -> (PeerId, &[u8]) {
        let (from, bytes) = self.port.packet();
        match self.crook {
            None => (from, bytes),
            Some(_) => (from, &self.packet),
        }
    }

    fn refused(&mut self) -> Option<PeerId> {
        self.port.refused()
    }

    fn secret(&mut self) -> u64 {
        self.port.secret()
    }

    fn now(&self) -> Instant {
        self.port.now()
    }

    fn begin(&mut self, coarse: Instant) -> Instant {
        self.port.begin(coarse)
    }

    fn set_due(&mut self, due: Instant) {
        self.port.set_due(due);
    }
}
