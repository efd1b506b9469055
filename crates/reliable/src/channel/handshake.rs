//! How a channel opens: Hello and Welcome are sent, repeated and answered (protocol section 3).

use core::time::Duration;

use oxifabric_types::Instant;
use oxifabric_wire::reliable::packet::{Handshake, Packet, PacketKind};

use super::{ACK_EVERY, Channel, Event, PacketWriter};

/// The pause between the first two handshake messages, and the longest one.
const HANDSHAKE_PAUSE: Duration = Duration::from_millis(10);
const HANDSHAKE_PAUSE_MAX: Duration = Duration::from_millis(400);

/// Least payload, in bytes, that a peer must take to be accepted: with shorter ones the stream would be cut into any number of packets.
const PAYLOAD_MIN: u32 = 200;

impl Channel {
    /// Sends Hello or Welcome if it is time, again and again until the peer answers.
    pub(super) fn resend_handshake(
        &mut self,
        kind: PacketKind,
        now: Instant,
        writer: &mut impl PacketWriter,
    ) {
        if self.handshake_at <= now && writer.has_room() {
            self.excuse_silence(now);
            let pause = HANDSHAKE_PAUSE.saturating_mul(1 << self.handshakes.min(8));
            self.handshakes += 1;
            self.handshake_at = now.after(pause.min(HANDSHAKE_PAUSE_MAX));
            self.unanswered_since.get_or_insert(now);
            self.send_handshake(kind, self.other, now, writer);
        }
    }

    pub(super) fn hello_arrived(&mut self, now: Instant, packet: &Packet, payload: &[u8]) -> Event {
        let Some(handshake) = handshake_in(payload) else {
            return Event::Nothing;
        };
        if self.other == 0 && handshake.to == self.me.id {
            self.hear(packet);
            self.measure(now, packet);
            self.remember(now, packet);
            self.unconfirmed = true;
            (self.handshakes, self.handshake_at) = (0, now);
            return self.open(&handshake, packet.credit);
        }
        if self.other == handshake.from {
            self.welcome = true;
            self.hear(packet);
            self.remember(now, packet);
        } else if handshake.to != 0 {
            // It answers a Hello that this end did not send.
        } else if self.other == 0 {
            self.claimed = handshake.from;
        } else {
            // A new process in the peer's place, or a forged packet: the old process answers if it lives.
            self.challenge = true;
        }
        Event::Nothing
    }

    pub(super) fn welcomed(&mut self, now: Instant, packet: &Packet, payload: &[u8]) -> Event {
        match handshake_in(payload) {
            Some(handshake) if self.other == 0 && handshake.to == self.me.id => {
                self.measure(now, packet);
                // The peer may wait to hear that it has come.
                self.owed = ACK_EVERY;
                self.open(&handshake, packet.credit)
            }
            Some(handshake) if self.other == handshake.from => {
                self.owed = ACK_EVERY;
                Event::Nothing
            }
            _ => Event::Nothing,
        }
    }

    fn open(&mut self, handshake: &Handshake, credit: u16) -> Event {
        self.other = handshake.from;
        self.unanswered_since = None;
        self.sender
            .open(self.me.payload.min(handshake.payload) as usize, credit);
        Event::Opened
    }

    pub(super) fn send_handshake(
        &self,
        kind: PacketKind,
        other: u64,
        now: Instant,
        writer: &mut impl PacketWriter,
    ) {
        let handshake = Handshake {
            from: self.me.id,
            to: other,
            payload: self.me.payload,
            port: self.me.port,
        };
        let header = Packet {
            to: other,
            ..self.header(kind, now)
        };
        writer.send(&header.emit(), &handshake.emit());
    }
}

/// Reads a handshake message; `None` if its sender cannot be a peer.
pub(crate) fn handshake_in(payload: &[u8]) -> Option<Handshake> {
    let handshake = Handshake::parse(payload).ok()?;
    (handshake.from != 0 && handshake.payload >= PAYLOAD_MIN).then_some(handshake)
}
