//! Packets from the first byte that is written to them until the peer has acknowledged them. Hot path.
//!
//! `packets[i]` has the number `base + i`. The first `begun` of them have been sent at least once; those behind may still
//! grow, the last one at least. A packet that was sent never changes.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use oxifabric_types::Instant;

use super::mtu::Search;
use super::path::Path;

/// Number of bytes that are kept for a peer: those that it has not acknowledged and those that have to wait.
pub(super) const QUEUE_BYTES: usize = 4 << 20;

/// Number of bytes that are of use at least, however short the congestion window is.
const AHEAD_MIN: usize = 256 << 10;

/// Consecutive PTOs after which the congestion is persistent (RFC 9002, section 7.6).
const PERSISTENT_PTOS: u32 = 3;

/// Number of packets, from the first that has not arrived on, of which an acknowledgement tells: that one, and as many behind it as it has bits.
const TOLD: usize = 1 + u128::BITS as usize;

/// Losses of a packet after which it counts as lost for its length (RFC 8899, section 4.3), if it did not arrive for [`HOPE`]
/// either: full queues lose one packet several times as well.
const SWALLOWED: u8 = 3;
/// Time after its first transmission in which a packet does not count as lost for its length.
const HOPE: Duration = Duration::from_millis(200);

/// The sending half of a channel.
#[derive(Debug)]
pub(super) struct Sender {
    /// The number of the first packet that is kept: all before it have arrived.
    base: u64,
    packets: VecDeque<Outgoing>,
    /// Number of them that have been sent at least once.
    begun: usize,
    /// Number of them that are on their way, as far as is known.
    under_way: usize,
    /// Number of packets to be retransmitted.
    again: usize,
    /// All bytes of the packets.
    bytes: usize,
    /// Maximum number of bytes of the packets.
    pub(super) queue: usize,
    /// The longest payload that both ends take.
    longest: usize,
    /// The longest payload of a packet to come.
    payload: usize,
    pub(super) search: Search,
    /// The longest packet that arrived whole, and when the latest such one was sent.
    carried: (usize, Instant),
    /// Packets from here on the peer has no room for.
    room_ends: u64,
    /// Counts transmissions.
    order: u64,
    /// The latest transmission that is known to have arrived.
    top: u64,
    /// When loss detection runs next.
    look_at: Instant,
    /// When the last packet was sent.
    last_sent: Instant,
    /// A probe may leave whatever window and pacing allow: it elicits an acknowledgement.
    asks: bool,
    /// PTOs since the last acknowledgement.
    pub(super) pto_count: u32,
    /// Number of the first packet that was not under way when the congestion was persistent last: of those before it none may have arrived.
    silent_until: u64,
    /// Buffers for payloads to come.
    spare: Vec<Vec<u8>>,
    pub(super) path: Path,
    /// Packets that were sent more than once, all in all.
    pub(super) repeated: u64,
}

#[derive(Debug)]
struct Outgoing {
    payload: Vec<u8>,
    sent: Instant,
    /// Number of its last transmission among all of the channel.
    order: u64,
    /// When it was sent for the first time.
    born: Instant,
    /// Number of times that it was taken for lost.
    losses: u8,
    state: State,
}

/// A segment to be sent, as a whole packet or in parts.
pub(super) struct Segment<'a> {
    pub(super) number: u64,
    pub(super) payload: &'a [u8],
    /// The path does not carry it whole.
    pub(super) in_parts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Never sent.
    New,
    UnderWay,
    Lost,
    Arrived,
}

impl Outgoing {
    /// Returns whether it counts as lost for its length: it was lost often and for long, and none arrived that was as long.
    fn is_swallowed(&self, (longest, when): (usize, Instant), now: Instant) -> bool {
        let len = self.payload.len();
        let carries = longest >= len && when > self.born;
        let is_persistent = self.losses >= SWALLOWED && now.since(self.born) >= HOPE;
        is_persistent && Search::is_long(len) && !carries
    }
}

impl Sender {
    pub(super) fn new(payload: usize, window_max: usize) -> Self {
        Self {
            base: 0,
            packets: VecDeque::new(),
            begun: 0,
            under_way: 0,
            again: 0,
            bytes: 0,
            queue: QUEUE_BYTES,
            longest: payload.max(1),
            payload: payload.max(1),
            search: Search::new(payload.max(1)),
            carried: (0, Instant::default()),
            room_ends: 0,
            order: 0,
            top: 0,
            look_at: Instant::END,
            last_sent: Instant::default(),
            asks: false,
            pto_count: 0,
            silent_until: 0,
            spare: Vec::new(),
            path: Path::new().bounded(window_max),
            repeated: 0,
        }
    }

    /// Learns what the peer takes: the longest payload, and how many packets at first.
    pub(super) fn open(&mut self, payload: usize, credit: u16) {
        self.longest = payload.max(1);
        self.payload = self.longest;
        self.search = Search::new(self.payload);
        self.room_ends = credit.into();
    }

    /// Returns the number of the first packet to come when all others have arrived, and the first that the peer has no room for.
    pub(super) const fn position(&self) -> (u64, u64) {
        (self.base, self.room_ends)
    }

    /// Returns the number of the packet that will follow all that was written.
    pub(super) fn written(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Returns the longest payload of a packet on a path that carries it.
    pub(super) const fn longest(&self) -> usize {
        self.longest
    }

    /// Returns whether packets of every length that both ends take pass whole, as far as is known.
    pub(super) const fn has_whole_path(&self) -> bool {
        self.payload == self.longest
    }

    /// Goes on at such a position, on a path of which nothing is known.
    pub(super) fn go_on(&mut self, payload: usize, base: u64, room_ends: u64) {
        self.open(payload, 0);
        (self.base, self.room_ends) = (base, room_ends);
    }

    /// Returns the number of bytes that it takes now.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.queue.saturating_sub(self.bytes)
    }

    /// Returns how many of them are of use now: as many as two congestion windows hold. More could not leave before acknowledgements were
    /// read.
    pub(super) fn room_ahead(&self) -> usize {
        let windows = self.path.window().saturating_mul(2 * self.payload);
        let ahead = windows.max(AHEAD_MIN).saturating_sub(self.bytes);
        ahead.min(self.room())
    }

    /// Returns the number of bytes that were written and have not arrived.
    pub(super) const fn queued(&self) -> usize {
        self.bytes
    }

    /// Takes `len` bytes, or as many as there is room for; returns how many. `fill` writes those from an offset on.
    #[inline]
    pub(super) fn write(&mut self, len: usize, mut fill: impl FnMut(usize, &mut [u8])) -> usize {
        let taken = len.min(self.room());
        let mut done = 0;
        while done < taken {
            let grows = self.packets.len() > self.begun
                && (self.packets.back()).is_some_and(|last| last.payload.len() < self.payload);
            if !grows {
                self.packets.push_back(Outgoing {
                    payload: self.spare.pop().unwrap_or_default(),
                    sent: Instant::default(),
                    order: 0,
                    born: Instant::default(),
                    losses: 0,
                    state: State::New,
                });
            }
            let Some(last) = self.packets.back_mut() else {
                break;
            };
            let start = last.payload.len();
            let part = (taken - done).min(self.payload - start);
            last.payload.resize(start + part, 0);
            fill(done, &mut last.payload[start..]);
            done += part;
        }
        self.bytes += taken;
        taken
    }

    /// Returns whether there is a packet that was not sent and grows no more.
    #[inline]
    pub(super) fn has_full_packet(&self) -> bool {
        self.packets.len() > self.begun + 1
    }

    /// Returns whether nothing was ever written.
    pub(super) fn is_unused(&self) -> bool {
        self.base == 0 && self.packets.is_empty()
    }

    /// Returns whether everything that was written has arrived.
    pub(super) fn is_done(&self) -> bool {
        self.packets.is_empty()
    }

    /// Chooses the packet that is to be sent next, if one may be now; it counts as sent at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Option<Segment<'_>> {
        let may = self.under_way < self.path.window() && self.path.leaves_at() <= now;
        if !(may || self.asks) {
            return None;
        }
        let at = match self.again {
            0 => self.begun,
            _ => (self.packets.iter()).position(|packet| packet.state == State::Lost)?,
        };
        let number = self.base + at as u64;
        let packet = self.packets.get_mut(at)?;
        match packet.state {
            State::Lost => {
                self.again -= 1;
                self.repeated += 1;
            }
            _ if number >= self.room_ends => return None,
            _ => {
                self.begun += 1;
                packet.born = now;
            }
        }
        self.asks = false;
        self.path.left(now);
        self.order += 1;
        packet.order = self.order;
        packet.sent = now;
        packet.state = State::UnderWay;
        self.under_way += 1;
        self.last_sent = now;
        Some(Segment {
            number,
            payload: &packet.payload,
            in_parts: packet.payload.len() > self.payload,
        })
    }

    /// Learns what has arrived: all below `ack`, and behind `ack` those whose bits are set. `room_ends` is the first
    /// packet that the peer has no room for. Returns whether anything was new.
    pub(super) fn acknowledged(
        &mut self,
        ack: u64,
        more: u128,
        room_ends: u64,
        now: Instant,
    ) -> bool {
        if ack < self.base || ack > self.base + self.begun as u64 {
            // Of an earlier time, or of packets that were never sent.
            return false;
        }
        self.room_ends = self.room_ends.max(room_ends);
        let limited = self.under_way + 1 >= self.path.window();
        let mut news = false;
        while self.base < ack {
            news |= self.arrived_at(0, limited);
            self.base += 1;
            self.begun -= 1;
            if let Some(packet) = self.packets.pop_front() {
                self.bytes -= packet.payload.len();
                self.keep(packet.payload);
            }
        }
        let mut rest = more;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize + 1;
            rest &= rest - 1;
            if at < self.begun {
                news |= self.arrived_at(at, limited);
            }
        }
        if news {
            self.pto_count = 0;
            self.find_lost(now);
            self.path.reached(self.base, self.base + self.begun as u64);
        }
        news
    }

    /// Takes a packet for arrived; returns whether that is news.
    fn arrived_at(&mut self, at: usize, limited: bool) -> bool {
        let Some(packet) = self.packets.get_mut(at) else {
            return false;
        };
        match packet.state {
            State::UnderWay => self.under_way -= 1,
            State::Lost => self.again -= 1,
            State::New | State::Arrived => return false,
        }
        packet.state = State::Arrived;
        self.top = self.top.max(packet.order);
        let len = packet.payload.len();
        if len >= self.carried.0 && len <= self.payload {
            self.carried = (len, packet.sent);
        }
        self.path.arrived(limited);
        true
    }

    /// Returns when [`Sender::find_lost`] is to be called next.
    pub(super) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// Declares packets lost that later ones have overtaken long ago. Those of which no acknowledgement tells may have arrived, unless they were under way
    /// while nothing was heard for several PTOs.
    pub(super) fn find_lost(&mut self, now: Instant) {
        self.look_at = Instant::END;
        let mut swallowed = false;
        let silent = self.silent_until.saturating_sub(self.base) as usize;
        let looked_at = self.begun.min(TOLD.max(silent));
        for packet in self.packets.iter_mut().take(looked_at) {
            if packet.state != State::UnderWay || packet.order >= self.top {
                continue;
            }
            let lost_at = self.path.lost_at(packet.sent);
            if lost_at > now {
                self.look_at = self.look_at.min(lost_at);
                continue;
            }
            packet.state = State::Lost;
            packet.losses = packet.losses.saturating_add(1);
            swallowed |= packet.is_swallowed(self.carried, now);
            self.under_way -= 1;
            self.again += 1;
            self.path.lost();
        }
        if swallowed {
            self.shorten(now);
        }
    }

    /// Returns when the probe timeout (PTO) expires.
    pub(super) fn pto_at(&self) -> Instant {
        match self.under_way {
            0 => Instant::END,
            _ => self.last_sent.after(self.path.pto(self.pto_count)),
        }
    }

    /// Retransmits the first packet after a PTO, whatever the congestion window is. The acknowledgement shows which others
    /// are lost.
    pub(super) fn on_pto(&mut self, now: Instant) {
        self.pto_count = self.pto_count.saturating_add(1);
        let mut packets = self.packets.iter_mut().take(self.begun);
        if let Some(packet) = packets.find(|packet| packet.state == State::UnderWay) {
            packet.state = State::Lost;
            packet.losses = packet.losses.saturating_add(1);
            let swallowed = packet.is_swallowed(self.carried, now);
            self.under_way -= 1;
            self.again += 1;
            self.path.lost();
            if swallowed {
                self.shorten(now);
            }
        }
        self.asks = self.again > 0;
        if self.pto_count == PERSISTENT_PTOS {
            self.silent_until = self.base + self.begun as u64;
            self.path.collapse(self.silent_until);
        }
    }

    /// Shortens packets: the path loses long ones (protocol section 6.7).
    #[cold]
    fn shorten(&mut self, now: Instant) {
        if Search::is_long(self.payload) {
            self.search.swallowed(now);
            self.payload = self.search.payload();
            self.carried = (0, now);
        }
    }

    /// Takes the acknowledgement of a path MTU probe of this length.
    pub(super) fn lengthen(&mut self, len: u64, now: Instant) {
        self.search.arrived(len, now);
        self.payload = self.search.payload();
    }

    /// Returns when a longer packet is to be tried: not as long as there is nothing to be sent.
    pub(super) fn tries_at(&self) -> Instant {
        match self.is_done() {
            true => Instant::END,
            false => self.search.at(),
        }
    }

    /// Returns when pacing lets the next packet leave, if nothing else holds it back.
    pub(super) fn leaves_at(&self) -> Instant {
        let next = self.base + self.begun as u64;
        let new = self.packets.len() > self.begun && next < self.room_ends;
        match (self.again > 0 || new) && self.under_way < self.path.window() {
            true => self.path.leaves_at(),
            false => Instant::END,
        }
    }

    /// Returns whether the sender is out of credit with nothing under way: no acknowledgement will bring new credit.
    pub(super) fn is_out_of_room(&self) -> bool {
        self.under_way == 0
            && self.again == 0
            && self.packets.len() > self.begun
            && self.base + self.begun as u64 >= self.room_ends
    }

    fn keep(&mut self, mut payload: Vec<u8>) {
        if self.spare.len() < 64 {
            payload.clear();
            self.spare.push(payload);
        }
    }
}
