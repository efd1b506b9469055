//! A [`Link`] over packets: one channel to each peer, and frames in it. Hot path.

mod coalescer;
mod fold;
mod handshake;
mod keepalive;
mod peer;
mod queues;
mod rest;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use oxifabric_engine::faults::FaultPlan;
use oxifabric_engine::link::{
    Frame, Limits, Link, OneSided, PostError, Posted, RemoteIov, RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::reliable::packet::{HEADER_LEN, Packet, PacketKind};
use oxifabric_wire::reliable::record::HEAD_MAX;

use super::channel::{Channel, ChannelConfig, CloseReason, Event, Identity, PacketWriter};
use super::faults::Faulty;
use super::reader::Feed;
use coalescer::Coalescer;
use fold::{FoldQueue, Slot};
use handshake::Admission;
use keepalive::Keepalive;
use peer::Peer;
use rest::RestingChannels;

/// What sends and receives the packets of a [`ReliableLink`]: a socket, or a simulated network.
pub trait PacketPort {
    /// Returns the length of the longest packet, with its header, in bytes.
    fn longest(&self) -> usize;

    /// Returns the maximum number of packets that may be under way to a peer, where more would only wait in the memory of this host.
    fn window_max(&self, to: PeerId) -> usize {
        let _ = to;
        usize::MAX
    }

    /// Returns whether a packet can be sent now.
    fn has_room(&self) -> bool;

    /// Sends a packet to a peer, at the next [`PacketPort::flush`] at the latest. It may be lost.
    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]);

    /// Sends what was held back.
    fn flush(&mut self);

    /// Goes on to the next packet that has arrived; false if there is none.
    fn next(&mut self) -> bool;

    /// Returns the packet that [`PacketPort::next`] found, and the peer whose address it came from; [`PeerId::ANY`] for an address
    /// that has no number.
    fn packet(&self) -> (PeerId, &[u8]);

    /// Returns the number of the source of the packet at hand, and gives it one if it has none; `None` if there are too many.
    fn number(&mut self) -> Option<PeerId> {
        Some(self.packet().0)
    }

    /// Takes back the number of a peer that the application does not address: its source may get another one.
    fn release(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// Sends a packet to the source of the packet at hand, number or not. It may be lost.
    fn answer(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let to = self.packet().0;
        self.send(to, header, payload);
    }

    /// Returns a number that stands for the address of the packet at hand, the same each time. Where sources can be forged, nothing
    /// outside this process can compute it.
    fn source(&self) -> u64 {
        self.packet().0.0.into()
    }

    /// Returns the number that stands for the address of a peer, as [`PacketPort::source`] does; `None` if there is no such peer.
    fn source_of(&self, peer: PeerId) -> Option<u64> {
        Some(peer.0.into())
    }

    /// Takes note that the connection with a peer is lost, before its operations fail. `had_answered` tells a lost connection from one that
    /// could not be made.
    fn lost(&mut self, peer: PeerId, why: CloseReason, had_answered: bool) {
        let _ = (peer, why, had_answered);
    }

    /// Returns a peer whose host reports that nothing listens at its address any more; each is returned once.
    fn refused(&mut self) -> Option<PeerId>;

    /// Returns a random number that no peer can guess.
    fn secret(&mut self) -> u64;

    /// Returns the time, to the microsecond: round trips are measured with it. That of [`Link::poll`] may be coarse.
    fn now(&self) -> Instant;

    /// Begins a poll; `coarse` is the time of its caller. Returns the time to use.
    #[inline]
    fn begin(&mut self, coarse: Instant) -> Instant {
        coarse
    }

    /// Sets when there is something to do next, if no packet comes: called after each poll, and when that becomes earlier.
    #[inline]
    fn set_due(&mut self, due: Instant) {
        let _ = due;
    }
}

/// Limits of every peer: short messages are eager, longer ones use a rendezvous, so that they arrive in the buffer of their receive. The
/// data of a write or a read has its place already, and arrives before whatever is sent later.
const LIMITS: Limits = Limits {
    eager: EAGER,
    segmented: EAGER,
    segmented_rma: true,
    segment: EAGER,
    rndv_msg: true,
    rndv_tagged: true,
    rndv_rma: false,
    pull: false,
    ack_on_arrival: false,
    one_sided: OneSided::empty(),
};

const EAGER: usize = 64 * 1024;

/// Room that a channel must have before frames are given to it again.
const ROOM: usize = 64 * 1024;

/// Bytes that all channels together keep of what came early or was not taken yet; beyond it packets count as lost. It is
/// as much as the senders of a few hundred channels have under way when the network loses some of it.
const KEPT_MAX: usize = 128 << 20;

/// Number of packets that one poll takes.
const PACKETS_PER_POLL: usize = 64;

/// Polls in a row that may leave packets unread and judge no losses: what is missed may be among these packets. Beyond, a flood would keep losses from being
/// seen.
const POLLS_BEHIND: u32 = 64;

/// Time by which the clock of polls may be late: when something is due sooner, the exact one is asked.
const SOON: Duration = Duration::from_millis(20);

/// A link over packets.
#[derive(Debug)]
pub struct ReliableLink<P> {
    port: Faulty<P>,
    config: ChannelConfig,
    peers: Vec<Slot>,
    /// Those of them that are not folded.
    open: FoldQueue,
    /// The peers, by the ids that this end gave the channels with them.
    ids: BTreeMap<u64, PeerId>,
    /// Peers to look at in this poll.
    hot: Vec<PeerId>,
    /// Deadlines of peers; an outdated one is dropped when it is due.
    timers: BinaryHeap<Reverse<(Instant, u32)>>,
    admission: Admission,
    resting: RestingChannels,
    /// Bytes that all channels keep and their consumers have not taken.
    kept: usize,
    keepalive: Keepalive,
    coalescer: Coalescer,
    /// Number of polls in a row that left packets unread.
    behind: u32,
    /// Number of packets that were retransmitted over channels that have ended or are folded.
    repeated: u64,
    now: Instant,
}

/// Sends to one peer.
struct To<'a, P>(&'a mut P, PeerId);

impl<P: PacketPort> PacketWriter for To<'_, P> {
    #[inline]
    fn has_room(&self) -> bool {
        self.0.has_room()
    }

    #[inline]
    fn send(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]) {
        self.0.send(self.1, header, payload);
    }
}

#[cfg(test)]
impl<P> ReliableLink<P> {
    /// Returns how many channels are folded.
    pub(crate) fn folded(&self) -> usize {
        let is_folded = |slot: &&Slot| matches!(slot, Slot::Folded(_));
        self.peers.iter().filter(is_folded).count()
    }

    /// Returns how many entries the tables have that packets of untrusted sources make grow.
    pub(crate) fn entries(&self) -> [usize; 6] {
        [
            self.peers.len(),
            self.ids.len(),
            self.hot.len(),
            self.timers.len(),
            self.admission.parted.len(),
            self.open.len(),
        ]
    }
}

impl<P: PacketPort> Link for ReliableLink<P> {
    const CARRIES_OUT: bool = false;

    fn limits(&self, _peer: PeerId) -> &Limits {
        &LIMITS
    }

    #[inline]
    fn post(&mut self, id: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) else {
            return match self.unfold(id) {
                true => self.post(id, frame, token),
                false => Err(self.dial(id)),
            };
        };
        let len = match frame.header.kind.carries_body() {
            true => frame.len,
            false => 0,
        };
        let wanted = HEAD_MAX + if frame.transient { len.min(ROOM) } else { 0 };
        let has_room = peer.large.is_none() && peer.channel.room() >= wanted;
        if !has_room && !self.admission.lengthen(peer, wanted) {
            peer.wanted = true;
            return Err(PostError::Again);
        }
        let posted = peer.post(&frame, len, token);
        let waits = frame.more || self.coalescer.coalesces(&mut peer.turn);
        if waits && !peer.channel.has_full_packet() {
            self.coalescer.holds = true;
            self.warm(id);
            return Ok(posted);
        }
        self.now = self.port.now();
        let acted = peer.channel.send(self.now, &mut To(&mut self.port, id));
        self.port.flush();
        match acted {
            // The next poll reports the end.
            Event::Ended(_) => self.warm(id),
            _ => self.set_timer(id),
        }
        self.port.set_due(self.due());
        Ok(posted)
    }

    fn pull(
        &mut self,
        _peer: PeerId,
        _remote: &RemoteIov,
        _into: Iov,
        _token: RxToken,
    ) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    fn flush(&mut self) {
        if self.coalescer.holds {
            self.now = self.port.now();
        }
        let mut hot = core::mem::take(&mut self.hot);
        for id in &hot {
            if let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) {
                peer.channel.send(self.now, &mut To(&mut self.port, *id));
            }
        }
        hot.append(&mut self.hot);
        self.hot = hot;
        self.port.flush();
        self.coalescer.end();
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.coalescer.begin();
        let now = self.port.begin(now);
        let mut events = 0;
        let due = self.due();
        if due <= now.after(SOON) {
            self.now = self.port.now();
        }
        let is_due = due <= self.now.max(now);
        let mut taken = 0;
        while taken < PACKETS_PER_POLL && self.port.next() {
            if taken == 0 && due > now.after(SOON) {
                self.now = self.port.now();
            }
            events += self.arrived(sink);
            taken += 1;
        }
        self.behind = match taken {
            PACKETS_PER_POLL => self.behind.saturating_add(1),
            _ => 0,
        };
        while let Some(id) = self.port.refused() {
            let now = self.now;
            if let Some(peer) = self.peer(id) {
                peer.channel.refuse(now);
                self.warm(id);
            }
        }
        if is_due && self.keepalive.at <= self.now {
            self.update_keepalive(sink);
        }
        self.expire_timers();
        while let Some(id) = self.hot.pop() {
            events += self.step(id, sink);
        }
        self.port.flush();
        self.port.set_due(self.due());
        events
    }

    fn resume(&mut self, id: PeerId) {
        if let Some(peer) = self.peer(id) {
            peer.resumed = true;
            self.warm(id);
        }
    }

    #[cold]
    fn disconnect(&mut self, id: PeerId, why: &'static str) -> bool {
        self.unfold(id);
        let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) else {
            return false;
        };
        self.now = self.port.now();
        peer.channel
            .disconnect(self.now, why, &mut To(&mut self.port, id));
        self.port.flush();
        self.warm(id);
        true
    }
}

impl<P: PacketPort> ReliableLink<P> {
    /// Creates a link over a port, with the packet faults of a plan, if there is one.
    pub fn new(mut port: P, deadline: Duration, faults: Option<FaultPlan>) -> Self {
        let admission = Admission::new(port.secret());
        Self {
            port: Faulty::new(port, faults),
            config: ChannelConfig {
                deadline,
                window_max: usize::MAX,
            },
            peers: Vec::new(),
            open: FoldQueue::default(),
            ids: BTreeMap::new(),
            hot: Vec::new(),
            timers: BinaryHeap::new(),
            admission,
            resting: RestingChannels::default(),
            kept: 0,
            keepalive: Keepalive::new(),
            coalescer: Coalescer::new(),
            behind: 0,
            repeated: 0,
            now: Instant::default(),
        }
    }

    /// Returns the port below.
    pub fn port(&self) -> &P {
        &self.port.port
    }

    /// Returns the port below.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port.port
    }

    /// Returns whether everything that was taken has arrived.
    pub fn is_done(&self) -> bool {
        let mut open = self.peers.iter().filter_map(Slot::open);
        open.all(|peer| peer.large.is_none() && peer.channel.is_done())
    }

    /// Returns the number of packets that were sent more than once, to any peer.
    pub fn repeated(&self) -> u64 {
        let open = self.peers.iter().filter_map(Slot::open);
        self.repeated + open.map(|peer| peer.channel.repeated()).sum::<u64>()
    }

    /// Returns whether frames wait for the next poll to leave together.
    #[inline]
    pub fn holds_back(&self) -> bool {
        self.coalescer.holds
    }

    /// Takes note that a thread is going to sleep until the port has news, or until this deadline.
    pub fn note_sleep(&mut self, until: Instant) {
        self.coalescer.note_sleep(until);
    }

    /// Returns whether the timer armed by [`ReliableLink::note_sleep`] is later than the next deadline.
    #[inline]
    pub fn is_timer_late(&self) -> bool {
        self.coalescer.is_timer_late(self.due())
    }

    /// Returns when [`Link::poll`] has to be called next, if no packet comes before.
    pub fn due(&self) -> Instant {
        if !self.hot.is_empty() {
            return Instant::default();
        }
        let timer = (self.timers.peek()).map_or(Instant::END, |Reverse((at, _))| *at);
        timer.min(self.keepalive.at)
    }

    /// Closes all channels. What has not arrived is lost: the caller waits for [`ReliableLink::is_done`] before, for a while.
    pub fn close(&mut self) {
        self.now = self.port.now();
        let (payload, config, now) = (self.payload(), self.config, self.now);
        for (at, slot) in self.peers.iter_mut().enumerate() {
            let mut to = To(&mut self.port, PeerId(at as u32));
            match slot {
                Slot::Empty => {}
                Slot::Open(peer) => peer.channel.close(now, &mut to),
                Slot::Folded(peer) => peer.channel(payload, config, now).close(now, &mut to),
            }
        }
        self.port.flush();
    }

    /// Takes the packet at hand.
    #[inline]
    fn arrived(&mut self, sink: &mut impl Sink) -> usize {
        let (from, bytes) = self.port.packet();
        let Ok((packet, _)) = Packet::parse(bytes) else {
            return 0;
        };
        let id = match packet.kind {
            PacketKind::Hello | PacketKind::Unknown => Some(from)
                .filter(|id| (self.peers.get(id.index())).is_some_and(|slot| !slot.is_empty())),
            _ => self.ids.get(&packet.to).copied().filter(|id| *id == from),
        };
        let Some(id) = id.or_else(|| self.meet_source(&packet, sink)) else {
            return 0;
        };
        if matches!(self.peers.get(id.index()), Some(Slot::Folded(_))) {
            self.unfold(id);
        }
        let (_, bytes) = self.port.packet();
        let payload = bytes.get(HEADER_LEN..).unwrap_or_default();
        let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) else {
            return 0;
        };
        let kept = peer.channel.kept();
        let mut feed = Feed {
            reader: &mut peer.reader,
            from: id,
            sink,
            events: 0,
            room: KEPT_MAX.saturating_sub(self.kept),
        };
        peer.heard_at = self.now;
        peer.channel.receive(self.now, &packet, payload, &mut feed);
        let events = feed.events;
        self.kept = self.kept - kept + peer.channel.kept();
        if !peer.hot {
            peer.hot = true;
            self.hot.push(id);
        }
        events
    }

    /// Does for a peer what is to be done in this poll.
    fn step(&mut self, id: PeerId, sink: &mut impl Sink) -> usize {
        let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) else {
            return 0;
        };
        peer.hot = false;
        let mut events = 0;
        let kept = peer.channel.kept();
        let mut feed = Feed {
            reader: &mut peer.reader,
            from: id,
            sink,
            events: 0,
            room: 0,
        };
        if core::mem::take(&mut peer.resumed) {
            feed.retry();
        }
        peer.channel.resume(&mut feed);
        events += feed.events;
        self.kept = self.kept - kept + peer.channel.kept();
        if peer.reader.is_broken() {
            peer.channel.close(self.now, &mut To(&mut self.port, id));
            self.lose(id, CloseReason::Broken, sink);
            return events + 1;
        }
        if let Some(token) = peer.go_on() {
            sink.sent(token, Ok(()));
            events += 1;
        }
        while let Some(token) = peer.next_acknowledged() {
            sink.sent(token, Ok(()));
            events += 1;
        }
        let mut writer = To(&mut self.port, id);
        let acted = match self.behind {
            1..=POLLS_BEHIND => peer.channel.send(self.now, &mut writer),
            _ => peer.channel.act(self.now, &mut writer),
        };
        events += usize::from(acted == Event::Moved);
        if let Event::Ended(end) = acted {
            self.lose(id, end, sink);
            return events + 1;
        }
        if peer.wanted && peer.large.is_none() && peer.channel.room() >= ROOM {
            peer.wanted = false;
            sink.writable(id);
            events += 1;
        }
        self.set_timer(id);
        events
    }

    /// Answers a post to a peer without a channel: opens one.
    #[cold]
    fn dial(&mut self, id: PeerId) -> PostError {
        // That of the last poll may be long ago.
        self.now = self.port.now();
        self.meet(id);
        if let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) {
            peer.wanted = true;
        }
        self.warm(id);
        PostError::Again
    }

    /// Begins a channel with a peer.
    #[cold]
    fn meet(&mut self, id: PeerId) {
        let name = self.port.secret().max(1);
        self.meet_as(id, name);
    }

    /// Returns the longest payload that is taken.
    fn payload(&self) -> u32 {
        self.port.longest().saturating_sub(HEADER_LEN) as u32
    }

    /// Returns the identity of this end of a channel.
    fn identity(&self, id: u64) -> Identity {
        Identity {
            id,
            payload: self.payload(),
            port: 0,
        }
    }

    /// Returns the bounds of a channel with a peer.
    fn config_with(&self, peer: PeerId) -> ChannelConfig {
        ChannelConfig {
            window_max: self.port.window_max(peer),
            ..self.config
        }
    }

    /// Begins a channel with this id.
    #[cold]
    fn meet_as(&mut self, id: PeerId, name: u64) {
        if self.peers.len() <= id.index() {
            self.peers.resize_with(id.index() + 1, Slot::default);
        }
        self.ids.insert(name, id);
        self.keepalive.begin(self.now);
        let is_known = self.admission.begin(id);
        let channel = Channel::new(self.identity(name), self.config_with(id), self.now);
        let channel = channel.queueing(queues::first(is_known));
        let peer = Peer::new(channel, is_known, self.now);
        self.peers[id.index()] = Slot::Open(Box::new(peer));
        self.opened(id);
    }

    /// Ends a channel that has ended by itself.
    #[cold]
    fn lose(&mut self, id: PeerId, end: CloseReason, sink: &mut impl Sink) {
        let peer = self.peers.get(id.index()).and_then(Slot::open);
        let had_answered = peer.is_some_and(|peer| peer.channel.is_met());
        self.port.lost(id, end, had_answered);
        self.down(id, errno_of(end), sink);
    }

    /// Ends the channel with a peer: its operations fail with this error.
    #[cold]
    fn down(&mut self, id: PeerId, why: Errno, sink: &mut impl Sink) {
        self.unfold(id);
        let Some(Slot::Open(mut peer)) = self.peers.get_mut(id.index()).map(core::mem::take) else {
            return;
        };
        self.ids.remove(&peer.channel.id());
        self.admission.end(id, &peer);
        self.kept -= peer.channel.kept();
        self.repeated += peer.channel.repeated();
        for token in peer.abandon_frames() {
            sink.sent(token, Err(why));
        }
        if let Some(token) = peer.reader.abandon() {
            sink.placed(token, Err(why));
        }
        sink.peer_down(id, why);
    }

    fn warm(&mut self, id: PeerId) {
        if let Some(Slot::Open(peer)) = self.peers.get_mut(id.index())
            && !peer.hot
        {
            peer.hot = true;
            self.hot.push(id);
            self.port.set_due(Instant::default());
        }
    }

    /// Finds the peers whose timers have expired.
    fn expire_timers(&mut self) {
        while let Some(Reverse((at, id))) = self.timers.peek()
            && *at <= self.now
        {
            let (at, id) = (*at, PeerId(*id));
            self.timers.pop();
            if let Some(Slot::Open(peer)) = self.peers.get_mut(id.index())
                && peer.timer_at == at
            {
                peer.timer_at = Instant::END;
                self.warm(id);
            }
        }
    }

    fn set_timer(&mut self, id: PeerId) {
        if let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) {
            let due = peer.channel.due();
            if due < peer.timer_at {
                peer.timer_at = due;
                self.timers.push(Reverse((due, id.0)));
            }
        }
    }
}

const fn errno_of(end: CloseReason) -> Errno {
    match end {
        CloseReason::Closed | CloseReason::Forgotten | CloseReason::Disconnected(_) => {
            Errno::CONNRESET
        }
        CloseReason::Broken => Errno::PROTO,
        CloseReason::Refused => Errno::CONNREFUSED,
        CloseReason::TimedOut => Errno::TIMEDOUT,
    }
}
