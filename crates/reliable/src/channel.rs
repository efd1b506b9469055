//! One end of a reliable channel: the ids of both ends, how it opens and ends, and what its deadlines require.
//!
//! A channel is known by two random numbers, one chosen by each end. Packets carry the one that their receiver chose, so that
//! neither a packet of an earlier channel between the same addresses nor one of an attacker that cannot read the wire is taken
//! for one of this channel (protocol section 3).

mod handshake;
pub(super) mod rest;
mod timestamps;

use alloc::vec;
use core::fmt;
use core::time::Duration;

use oxifabric_types::Instant;
use oxifabric_wire::reliable::packet::{HEADER_LEN, Packet, PacketKind};

use super::parts;
use super::receiver::Receiver;
use super::sender::{Segment, Sender};
pub(super) use handshake::handshake_in;
pub(super) use timestamps::micros;

/// Number of packets after which an acknowledgement is sent at once.
const ACK_EVERY: u32 = 8;
/// Longest time before an acknowledgement is sent.
const ACK_DELAY: Duration = Duration::from_micros(100);
/// Keepalive interval: time without a packet from the peer after which a probe asks for one.
const QUIET: Duration = Duration::from_secs(1);
/// Number of Byes when a channel is closed: the last acknowledgement may travel in them only, and no packet can follow them.
const BYES: usize = 2;

/// How long this end goes on sending Hellos to a peer whose host reports that no endpoint listens (yet).
const REFUSALS: Duration = Duration::from_secs(3);

/// How late this end's next Hello may be for such a report to count: later, it may have waited here since before the peer's endpoint was there.
const REFUSED_LATE: Duration = Duration::from_secs(1);

/// Silence after which a post looks whether this end itself has not asked for long.
const LONG_SILENCE: Duration = Duration::from_secs(1);

/// How late, as a share of the deadline, this end may ask again for an answer and count all of the time as the peer's silence.
const LATE_SHARE: u32 = 8;

/// Identity of an end, as it is sent to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The id that the end gives the channel: unpredictable, never zero, and no other channel's of the endpoint.
    pub id: u64,
    /// The longest payload that the end takes and sends, in bytes.
    pub payload: u32,
    /// See [`Handshake::port`](oxifabric_wire::reliable::packet::Handshake::port).
    pub port: u16,
}

/// Bounds of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelConfig {
    /// Time for which a peer may leave everything unanswered before it counts as down.
    pub deadline: Duration,
    /// Maximum number of packets under way, however wide the congestion window is.
    pub window_max: usize,
}

/// Takes bytes that have arrived.
pub trait Consumer {
    /// Takes bytes that follow those of the last call; returns how many. The rest is delivered again by
    /// [`Channel::resume`].
    fn take(&mut self, bytes: &[u8]) -> usize;

    /// Returns the number of further bytes that may be kept until they are taken.
    fn room(&self) -> usize {
        usize::MAX
    }
}

/// Sends packets.
pub trait PacketWriter {
    /// Returns whether [`PacketWriter::send`] can take a packet now.
    fn has_room(&self) -> bool;

    /// Sends a packet to the peer; it may be lost.
    fn send(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]);
}

/// What a call has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing that the caller has to react to.
    Nothing,
    /// Bytes moved, in either direction; a retransmission alone does not count.
    Moved,
    /// The channel is open.
    Opened,
    /// The channel has ended.
    Ended(CloseReason),
}

/// The reason for which a channel has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it.
    Closed,
    /// Another process has taken the peer's place, or the peer has forgotten the channel.
    Forgotten,
    /// The peer sent what is no frame, or one that breaks a rule.
    Broken,
    /// The peer's host reports that nothing listens there.
    Refused,
    /// The peer did not answer within [`ChannelConfig::deadline`].
    TimedOut,
    /// This end disconnected, for the reason given.
    Disconnected(&'static str),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the peer closed its endpoint",
            Self::Forgotten => "another process has taken the peer's place, or the peer gave us up",
            Self::Broken => "the peer broke the protocol",
            Self::Refused => "no endpoint listens there (any more)",
            Self::TimedOut => {
                "no answer for too long; is the host there, and does the peer poll its queues?"
            }
            Self::Disconnected(why) => why,
        })
    }
}

/// One end of a channel.
#[derive(Debug)]
pub struct Channel {
    me: Identity,
    config: ChannelConfig,
    /// The id that the peer gave the channel; zero before it is known.
    other: u64,
    /// When the handshake message is to be sent, again and again until the peer answers.
    handshake_at: Instant,
    handshakes: u32,
    /// Whether the peer's handshake message is to be answered.
    welcome: bool,
    /// The peer has answered this end's Hello without making a channel: it makes one when this end's Welcome shows that the answer has arrived,
    /// and confirms that. Until then this end sends nothing but the Welcome.
    unconfirmed: bool,
    /// What a Hello from the peer's address calls the channel while it is not open; zero for none. The answer goes to that address:
    /// if the Hello was the peer's, the peer answers in turn.
    claimed: u64,
    sender: Sender,
    receiver: Receiver,
    /// Number of packets that have come since the last acknowledgement left.
    owed: u32,
    /// When the packets that have come have to be acknowledged.
    ack_at: Instant,
    /// Whether the last acknowledgements gave the peer less credit, because bytes that had arrived were not taken.
    credit_starved: bool,
    /// The latest `sent` of the peer's packets: one that was overtaken tells nothing of how long packets take.
    heard: u32,
    /// `sent` of the packet that is to be echoed, and when it came.
    echo: u32,
    echo_at: Instant,
    /// Whether keepalive is enabled: an operation of this end waits for the peer.
    keepalive: bool,
    /// When the next keepalive probe is due.
    probe_at: Instant,
    probes: u32,
    /// Length of the padded probe that is to be answered; zero for none.
    tried: u64,
    /// Whether a packet in the peer's name has asked for a new channel: the peer has to confirm this one or lose it.
    challenge: bool,
    /// Since when the peer has answered nothing; that it closed is no answer.
    unanswered_since: Option<Instant>,
    /// Whether some of that time was excused.
    excused: bool,
    /// Whether the peer has closed, and what it sent before is not taken yet.
    draining: bool,
    ended: Option<CloseReason>,
}

impl Channel {
    /// Creates an end that opens a channel.
    pub fn new(me: Identity, config: ChannelConfig, now: Instant) -> Self {
        Self {
            me,
            config,
            other: 0,
            handshake_at: now,
            handshakes: 0,
            welcome: false,
            unconfirmed: false,
            claimed: 0,
            sender: Sender::new(me.payload as usize, config.window_max),
            receiver: Receiver::default(),
            owed: 0,
            ack_at: Instant::END,
            credit_starved: false,
            heard: 0,
            echo: 0,
            echo_at: now,
            keepalive: false,
            probe_at: Instant::END,
            probes: 0,
            tried: 0,
            challenge: false,
            unanswered_since: None,
            excused: false,
            draining: false,
            ended: None,
        }
    }

    /// Sets the length of the send queue in bytes.
    pub(super) fn queueing(mut self, bytes: usize) -> Self {
        self.sender.queue = bytes;
        self
    }

    /// Returns the length of the send queue in bytes.
    pub(super) const fn queue(&self) -> usize {
        self.sender.queue
    }

    /// Sets the length of the send queue; what is queued stays.
    pub(super) fn set_queue(&mut self, bytes: usize) {
        self.sender.queue = bytes;
    }

    /// Returns the number of the packet that will follow all that was written.
    pub(crate) fn written(&self) -> u64 {
        self.sender.written()
    }

    /// Returns the number of the first packet that the peer has not acknowledged.
    pub(crate) fn acknowledged_up_to(&self) -> u64 {
        self.sender.position().0
    }

    /// Returns the number of bytes in the send queue.
    pub(super) const fn queued(&self) -> usize {
        self.sender.queued()
    }

    /// Returns whether the peer has answered.
    pub(super) fn is_met(&self) -> bool {
        self.other != 0
    }

    /// Returns whether the channel can be the one that the peer calls so.
    pub(super) fn is_with(&self, other: u64) -> bool {
        self.other == 0 || (self.other == other && self.receiver.next() == 0)
    }

    /// Changes the id that this end gave the channel: the peer has got another one.
    pub(super) fn rename(&mut self, id: u64) {
        self.me.id = id;
    }

    /// Has a probe sent to the peer, because a packet in its name has asked for another channel.
    pub(super) fn doubt(&mut self) {
        self.challenge = true;
    }

    /// Returns whether nothing has gone either way since it was opened.
    pub(super) fn is_unused(&self) -> bool {
        self.receiver.next() == 0 && self.kept() == 0 && self.sender.is_unused()
    }

    /// Returns the number of bytes that have arrived, in order or not, and were not taken.
    #[inline]
    pub(super) fn kept(&self) -> usize {
        self.receiver.kept()
    }

    /// Returns the id that this end gave the channel.
    pub fn id(&self) -> u64 {
        self.me.id
    }

    /// Returns whether the handshake is over, and the channel has not begun to end.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.other != 0 && !self.unconfirmed && !self.draining && self.ended.is_none()
    }

    /// Returns whether everything that was written has arrived.
    pub fn is_done(&self) -> bool {
        self.sender.is_done()
    }

    /// Returns whether bytes have arrived that the consumer has not taken.
    pub fn is_stalled(&self) -> bool {
        self.receiver.is_stalled()
    }

    /// Returns the number of packets that were sent more than once.
    pub fn repeated(&self) -> u64 {
        self.sender.repeated
    }

    /// Returns whether there are bytes for a packet of full length that was not sent.
    #[inline]
    pub fn has_full_packet(&self) -> bool {
        self.sender.has_full_packet()
    }

    /// Returns the number of bytes that [`Channel::write`] takes now.
    #[inline]
    pub fn room(&self) -> usize {
        match self.is_open() {
            true => self.sender.room(),
            false => 0,
        }
    }

    /// Returns how many of them could leave soon. What waits in its own memory is better written when more can.
    pub fn room_ahead(&self) -> usize {
        self.room().min(self.sender.room_ahead())
    }

    /// Takes `len` bytes behind those written before, or as many as there is room for; returns how many. `fill` writes
    /// those from an offset on.
    #[inline]
    pub fn write(&mut self, len: usize, fill: impl FnMut(usize, &mut [u8])) -> usize {
        match self.is_open() {
            true => self.sender.write(len, fill),
            false => 0,
        }
    }

    /// Enables or disables keepalive: while it is enabled, the channel notices that the peer is gone although no data is sent to it.
    pub fn set_keepalive(&mut self, keepalive: bool, now: Instant) {
        if keepalive != self.keepalive {
            self.keepalive = keepalive;
            self.probes = 0;
            self.probe_at = match keepalive {
                true => now.after(QUIET),
                false => Instant::END,
            };
        }
    }

    /// Takes a packet from the peer: one whose `to` is [`Channel::id`], or a [`PacketKind::Hello`] or
    /// [`PacketKind::Unknown`] from its address.
    pub fn receive(
        &mut self,
        now: Instant,
        packet: &Packet,
        payload: &[u8],
        consumer: &mut impl Consumer,
    ) -> Event {
        if let Some(end) = self.ended {
            return Event::Ended(end);
        }
        if packet.to == self.me.id {
            self.unconfirmed = false;
            self.hear(packet);
        }
        match packet.kind {
            PacketKind::Hello => self.hello_arrived(now, packet, payload),
            PacketKind::Unknown if packet.to == self.other && self.other != 0 => {
                self.end(CloseReason::Forgotten)
            }
            _ if packet.to != self.me.id => Event::Nothing,
            PacketKind::Welcome => self.welcomed(now, packet, payload),
            _ if self.other == 0 => Event::Nothing,
            _ if self.draining => Event::Nothing,
            PacketKind::Bye => {
                self.answered(now, packet);
                self.unanswered_since = Some(now);
                self.leave()
            }
            PacketKind::Unknown => Event::Nothing,
            PacketKind::Ack => {
                if packet.number != 0 {
                    self.sender.lengthen(packet.number, now);
                }
                self.answered(now, packet)
            }
            PacketKind::Probe => {
                self.remember(now, packet);
                self.owed = ACK_EVERY;
                if !payload.is_empty() {
                    self.tried = (HEADER_LEN + payload.len()) as u64;
                }
                self.answered(now, packet)
            }
            // Longer than was agreed.
            PacketKind::Data if payload.len() > self.me.payload as usize => Event::Nothing,
            PacketKind::Data | PacketKind::Part => {
                self.remember(now, packet);
                let in_order = packet.number == self.receiver.next();
                let new = match packet.kind {
                    PacketKind::Data => self.receiver.take(packet.number, payload, consumer),
                    _ => {
                        let most = self.me.payload as usize;
                        (self.receiver).take_part(packet.number, payload, most, consumer)
                    }
                };
                self.owed += 1;
                if !in_order || self.receiver.is_stalled() {
                    // The peer has to know soon: something is missing, or an acknowledgement was lost.
                    self.owed = ACK_EVERY;
                }
                if self.ack_at == Instant::END {
                    self.ack_at = now.after(ACK_DELAY);
                }
                match self.answered(now, packet) {
                    Event::Nothing if new => Event::Moved,
                    event => event,
                }
            }
        }
    }

    /// Delivers to the consumer again what it did not take.
    pub fn resume(&mut self, consumer: &mut impl Consumer) -> Event {
        if !self.receiver.resume(consumer) {
            return Event::Nothing;
        }
        if self.credit_starved && !self.receiver.is_stalled() {
            // The peer may wait to hear that there is room again.
            self.credit_starved = false;
            self.owed = ACK_EVERY;
        }
        Event::Moved
    }

    /// Does what is due, and sends what may be sent now. What has come is to be read before: answers may be among it.
    pub fn act(&mut self, now: Instant, writer: &mut impl PacketWriter) -> Event {
        if self.ended.is_none() && !self.draining {
            // Without room nothing can be asked now, which is excused once.
            if self.gives_up_at() <= now && (writer.has_room() || !self.excused) {
                self.excuse_silence(now);
            }
            if self.gives_up_at() <= now {
                return self.end(CloseReason::TimedOut);
            }
            if self.sender.pto_at() <= now {
                self.excuse_silence(now);
                self.sender.on_pto(now);
            } else if self.sender.look_at() <= now {
                self.sender.find_lost(now);
            }
        }
        self.send_due(now, writer)
    }

    /// Sends what may be sent now. Nothing counts as lost that did not before: its answer may have come, and was not read. Only a channel that takes nothing
    /// any more ends by its deadline here.
    pub fn send(&mut self, now: Instant, writer: &mut impl PacketWriter) -> Event {
        // What is sent now puts off the time at which this end asks again, which shows how late it is.
        if (self.unanswered_since).is_some_and(|since| since.after(LONG_SILENCE) <= now) {
            self.excuse_silence(now);
        }
        self.send_due(now, writer)
    }

    fn send_due(&mut self, now: Instant, writer: &mut impl PacketWriter) -> Event {
        if let Some(end) = self.ended {
            return Event::Ended(end);
        }
        if self.draining {
            return match self.keepalive && self.gives_up_at() <= now {
                true => self.end(CloseReason::Closed),
                false => self.leave(),
            };
        }
        if self.welcome && writer.has_room() {
            self.welcome = false;
            self.send_handshake(PacketKind::Welcome, self.other, now, writer);
        }
        if self.claimed != 0 && writer.has_room() {
            let other = core::mem::take(&mut self.claimed);
            self.send_handshake(PacketKind::Welcome, other, now, writer);
        }
        if self.other == 0 {
            self.resend_handshake(PacketKind::Hello, now, writer);
            return Event::Nothing;
        }
        if self.unconfirmed {
            self.resend_handshake(PacketKind::Welcome, now, writer);
            return Event::Nothing;
        }
        let mut event = Event::Nothing;
        let mut header = self.header(PacketKind::Data, now);
        while writer.has_room() {
            let repeated = self.sender.repeated;
            let Some(segment) = self.sender.next(now) else {
                break;
            };
            header.number = segment.number;
            match segment.in_parts {
                false => writer.send(&header.emit(), segment.payload),
                true => send_parts(&header, &segment, writer),
            }
            self.unanswered_since.get_or_insert(now);
            self.acknowledged();
            if self.sender.repeated == repeated {
                event = Event::Moved;
            }
        }
        self.probe(now, writer);
        if self.tried != 0 && writer.has_room() {
            header = self.header(PacketKind::Ack, now);
            header.number = core::mem::take(&mut self.tried);
            writer.send(&header.emit(), &[]);
            self.acknowledged();
        }
        if (self.owed >= ACK_EVERY || self.ack_at <= now) && writer.has_room() {
            writer.send(&self.header(PacketKind::Ack, now).emit(), &[]);
            self.acknowledged();
        }
        event
    }

    /// Sends a probe if one is due: an answer of the peer is needed, and no other packet asks for one.
    fn probe(&mut self, now: Instant, writer: &mut impl PacketWriter) {
        if self.sender.is_out_of_room() && self.probe_at == Instant::END {
            self.probe_at = now.after(self.sender.path.pto(self.probes));
        }
        if (self.challenge || self.probe_at <= now) && writer.has_room() {
            self.excuse_silence(now);
            self.challenge = false;
            self.probes += 1;
            self.probe_at = now.after(match self.sender.is_out_of_room() {
                true => self.sender.path.pto(self.probes),
                false => QUIET,
            });
            writer.send(&self.header(PacketKind::Probe, now).emit(), &[]);
            self.unanswered_since.get_or_insert(now);
            self.acknowledged();
        }
        if self.sender.tries_at() <= now && writer.has_room() {
            self.try_length(now, writer);
        }
    }

    /// Sends a padded probe: if it arrives, packets may be as long (section 6.7).
    #[cold]
    fn try_length(&mut self, now: Instant, writer: &mut impl PacketWriter) {
        let len = self.sender.search.tries(now);
        let padding = vec![0; len.saturating_sub(HEADER_LEN)];
        writer.send(&self.header(PacketKind::Probe, now).emit(), &padding);
    }

    /// Returns when [`Channel::act`] has to be called next, if nothing arrives before.
    pub fn due(&self) -> Instant {
        if self.ended.is_some() || (self.draining && !self.keepalive) {
            return Instant::END;
        }
        let deadline = self.gives_up_at();
        if self.draining {
            return deadline;
        }
        if self.welcome || self.claimed != 0 {
            return Instant::default();
        }
        if self.other == 0 || self.unconfirmed {
            return self.handshake_at.min(deadline);
        }
        if self.challenge {
            return Instant::default();
        }
        let pto = self.sender.pto_at();
        let soon = pto.min(self.ack_at).min(self.sender.look_at());
        let soon = soon
            .min(self.sender.leaves_at())
            .min(self.sender.tries_at());
        soon.min(self.probe_at).min(deadline)
    }

    /// Returns when the peer will have answered nothing for too long.
    fn gives_up_at(&self) -> Instant {
        match self.unanswered_since {
            Some(since) => since.after(self.config.deadline),
            None => Instant::END,
        }
    }

    /// Takes from the peer's silence the time by which this end asks again too late, but for a part of the deadline: the application did not poll, and what
    /// the peer was asked before may be lost.
    #[cold]
    pub(super) fn excuse_silence(&mut self, now: Instant) {
        let asks_at = match self.other == 0 || self.unconfirmed {
            true => self.handshake_at,
            false => (self.sender.pto_at())
                .min(self.sender.leaves_at())
                .min(self.probe_at),
        };
        let counts = self.config.deadline / LATE_SHARE;
        let late = now.since(asks_at);
        if let Some(since) = &mut self.unanswered_since
            && late > counts
        {
            let excused = late - counts;
            self.excused = true;
            *since = since.after(excused).min(asks_at.after(excused)).max(*since);
        }
    }

    /// Takes note that the peer's host reports no listener at its address. A peer that is about to start is given a moment, and a Hello after it.
    pub fn refuse(&mut self, now: Instant) {
        let since = *self.unanswered_since.get_or_insert(now);
        let is_recent = self.other != 0 || now.since(self.handshake_at) < REFUSED_LATE;
        if is_recent && now.since(since) >= REFUSALS {
            self.ended.get_or_insert(CloseReason::Refused);
        }
    }

    /// Closes the channel with Byes to the peer; what has not arrived is lost.
    pub fn close(&mut self, now: Instant, writer: &mut impl PacketWriter) {
        if self.is_open() || self.unconfirmed {
            for _ in 0..BYES {
                if writer.has_room() {
                    writer.send(&self.header(PacketKind::Bye, now).emit(), &[]);
                }
            }
        }
        self.ended.get_or_insert(CloseReason::Closed);
    }

    /// Ends the channel as if it had broken, for this reason, and sends the peer a Bye.
    pub fn disconnect(&mut self, now: Instant, why: &'static str, writer: &mut impl PacketWriter) {
        if self.ended.is_none() {
            self.close(now, writer);
            self.ended = Some(CloseReason::Disconnected(why));
        }
    }

    /// Takes the acknowledgement and the credit of a packet of the peer.
    fn answered(&mut self, now: Instant, packet: &Packet) -> Event {
        self.unanswered_since = None;
        self.excused = false;
        self.probes = 0;
        self.probe_at = match self.keepalive {
            true => now.after(QUIET),
            false => Instant::END,
        };
        self.measure(now, packet);
        let room_ends = packet.ack.saturating_add(packet.credit.into());
        let news = (self.sender).acknowledged(packet.ack, packet.more, room_ends, now);
        match news {
            true => Event::Moved,
            false => Event::Nothing,
        }
    }

    fn header(&self, kind: PacketKind, now: Instant) -> Packet {
        let held = now.since(self.echo_at).as_micros();
        Packet {
            kind,
            credit: self.receiver.credit(),
            held: held.try_into().unwrap_or(u32::MAX),
            to: self.other,
            number: 0,
            ack: self.receiver.next(),
            more: self.receiver.more(),
            sent: micros(now),
            echo: self.echo,
        }
    }

    /// Notes that an acknowledgement has left.
    fn acknowledged(&mut self) {
        self.owed = 0;
        self.ack_at = Instant::END;
        self.credit_starved |= self.receiver.is_stalled();
        self.echo = 0;
    }

    /// Begins to end a channel that the peer has closed: it ends when all that came from it is taken.
    fn leave(&mut self) -> Event {
        self.draining = true;
        match self.receiver.is_stalled() {
            true => Event::Nothing,
            false => self.end(CloseReason::Closed),
        }
    }

    fn end(&mut self, end: CloseReason) -> Event {
        Event::Ended(*self.ended.get_or_insert(end))
    }
}

/// Sends a packet in parts, which its path does not carry whole.
#[cold]
fn send_parts(header: &Packet, segment: &Segment<'_>, writer: &mut impl PacketWriter) {
    let header = Packet {
        kind: PacketKind::Part,
        ..*header
    };
    for (head, bytes) in parts::cut(segment.payload) {
        writer.send(&header.emit(), &[&head.emit()[..], bytes].concat());
    }
}
