//! Packets that arrive: whose they are, and when it is their turn. Path class: hot.
//!
//! All input is checked: ids reach operations of the sender only, lengths are those of the operation, and what does not fit ends
//! the peer that sent it.

use oxifabric_engine::Sink;
use oxifabric_ibv::Received;
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, Packet};

use super::EfaRdm;
use super::early;
use super::held::is_too_much;
use super::order::Turn;
use super::peers::Peer;
use super::take::Taken;

impl EfaRdm {
    /// Handles a packet that the device has put into a buffer.
    pub(super) fn received(&mut self, from: Received, at: u32, sink: &mut impl Sink) {
        // The pool of buffers is taken out, since its packet is read while everything else may change.
        let rx = std::mem::take(&mut self.rx);
        if let Some(buffers) = &rx {
            let bytes = buffers.packet(at, from.len as usize);
            // Looked at where it is: it is large.
            match &Packet::decode(bytes) {
                Ok(packet) => self.packet(from, packet, bytes, sink),
                Err(error) => log::debug!(
                    "efa",
                    EpData,
                    "a packet that is none was dropped: {error:?}"
                ),
            }
        }
        self.rx = rx;
    }

    fn packet(&mut self, from: Received, packet: &Packet<'_>, bytes: &[u8], sink: &mut impl Sink) {
        let Some(peer) = self.peers.source(&self.domain, from, &packet.sender) else {
            log::debug!(
                "efa",
                EpData,
                "a packet of a source that cannot be told was dropped"
            );
            return;
        };
        if packet.sender.address.is_some() {
            for former in self.peers.replaced_by(peer) {
                self.doom(
                    former,
                    Errno::CONNRESET,
                    "another endpoint has its queue pair".to_owned(),
                );
            }
        }
        let now = self.now;
        let row = self.peers.get_mut(peer);
        let Some(row) = row.filter(|row| row.gone.is_none() && !row.is_doomed) else {
            return;
        };
        row.heard_at = now;
        if !std::mem::replace(&mut row.was_heard, true) {
            self.owe_handshake(peer);
        }
        self.handle(peer, &packet.content, bytes, sink);
    }

    /// Notes that a handshake is to be sent to a peer.
    pub(super) fn owe_handshake(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer) {
            row.owes_handshake = true;
            self.attention.push(peer);
            self.idle_period.end();
        }
    }

    /// Handles a packet of a peer, or keeps it.
    fn handle(&mut self, peer: PeerId, content: &Content<'_>, bytes: &[u8], sink: &mut impl Sink) {
        let taken = match ordered(content) {
            Some(number) => return self.handle_ordered(peer, number, content, bytes, sink),
            None if is_request(content) && self.is_behind(peer, content) => {
                return self.hold(peer, |row| row.backlog.push(bytes));
            }
            None => self.take(peer, content, sink),
        };
        match taken {
            Taken::Done => {}
            Taken::Stalled => self.hold(peer, |row| {
                row.is_stalled = true;
                row.backlog.push(bytes);
            }),
            Taken::Broken => self.broken(peer, content),
        }
    }

    /// Handles a message or atomic: those of a peer take their turns.
    fn handle_ordered(
        &mut self,
        peer: PeerId,
        number: u32,
        content: &Content<'_>,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) {
        let Some(row) = self.peers.get_mut(peer) else {
            return;
        };
        let begun = row.begun.get(&number).copied();
        if let Content::Message(message) = content
            && (message.is_after_nack || begun.is_some())
        {
            if self.take_further(peer, message, begun, sink) == Taken::Broken {
                self.broken(peer, content);
            }
            return;
        }
        match row.order.turn(number) {
            Turn::Over => {}
            Turn::Now if !row.is_stalled && row.backlog.is_empty() && !row.order.is_ready() => {
                self.take_turn(peer, content, bytes, sink);
                self.take_turns(peer, sink);
            }
            Turn::Now | Turn::Later => {
                self.hold(peer, |row| row.order.keep(number, bytes));
                self.bound_early(sink);
                let is_too_much = |row: &Peer| !row.is_stalled && row.order.is_too_much();
                if self.peers.get(peer).is_some_and(is_too_much) {
                    self.doom(
                        peer,
                        Errno::PROTO,
                        "too much of it came before what it has to follow".to_owned(),
                    );
                }
            }
        }
    }

    /// Takes a packet whose turn it is; one for which there is no room waits.
    fn take_turn(
        &mut self,
        peer: PeerId,
        content: &Content<'_>,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) {
        match self.take(peer, content, sink) {
            Taken::Stalled => {
                self.hold(peer, |row| {
                    row.is_stalled = true;
                    row.order.put_back(bytes.into());
                });
                return;
            }
            Taken::Broken => self.broken(peer, content),
            Taken::Done => {}
        }
        let now = self.now;
        if let Some(row) = self.peers.get_mut(peer) {
            row.order.advance();
            row.early.advance(now);
        }
    }

    /// Takes the packets of a peer that have their turn now.
    fn take_turns(&mut self, peer: PeerId, sink: &mut impl Sink) -> usize {
        let mut count = 0;
        while let Some(row) = self.peers.get(peer)
            && !row.is_stalled
            && row.order.is_ready()
        {
            let mut next = None;
            self.hold(peer, |row| next = row.order.take());
            let Some(bytes) = next else {
                break;
            };
            self.take_kept(peer, &bytes, sink);
            count += 1;
        }
        count
    }

    /// Takes a packet that was kept for its turn: the first one of a number, or a further one of a message in several.
    fn take_kept(&mut self, peer: PeerId, bytes: &[u8], sink: &mut impl Sink) {
        let (Ok(Packet { content, .. }), Some(row)) = (Packet::decode(bytes), self.peers.get(peer))
        else {
            return;
        };
        if let Content::Message(message) = &content
            && let Some(id) = row.begun.get(&message.number).copied()
        {
            if self.take_further(peer, message, Some(id), sink) == Taken::Broken {
                self.broken(peer, &content);
            }
        } else if ordered(&content).is_some_and(|number| row.order.turn(number) == Turn::Now) {
            self.take_turn(peer, &content, bytes, sink);
        }
    }

    /// Does what is due for peers: sends handshakes, and delivers what had no room.
    #[inline(always)]
    pub(super) fn attend(&mut self, sink: &mut impl Sink) -> usize {
        match self.attention.is_empty() {
            true => 0,
            false => self.attend_some(sink),
        }
    }

    #[inline(never)]
    fn attend_some(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        for peer in std::mem::take(&mut self.attention) {
            let Some(row) = self.peers.get_mut(peer).filter(|row| row.gone.is_none()) else {
                continue;
            };
            if row.owes_handshake {
                row.owes_handshake = false;
                match self.send_handshake(peer) {
                    Err(Errno::AGAIN) => self.owe_handshake(peer),
                    Err(errno) => {
                        self.doom(peer, errno, "a handshake could not be sent".to_owned())
                    }
                    Ok(()) => {}
                }
            }
            if !self.is_closing {
                // What has no place in the order of messages goes first: a write that its sender has as complete is not overtaken by messages.
                events += self.take_backlog(peer, sink);
                events += self.take_turns(peer, sink);
            }
        }
        events
    }

    fn take_backlog(&mut self, peer: PeerId, sink: &mut impl Sink) -> usize {
        let mut count = 0;
        while !self.is_stalled(peer) {
            let mut next = None;
            self.hold(peer, |row| next = row.backlog.pop());
            let Some(bytes) = next else {
                break;
            };
            if let Ok(Packet { content, .. }) = Packet::decode(&bytes) {
                if asks_to_settle(&content) {
                    count += self.take_turns(peer, sink);
                    if self.is_stalled(peer) {
                        self.hold(peer, |row| row.backlog.put_back(bytes));
                        break;
                    }
                }
                match self.take(peer, &content, sink) {
                    Taken::Done => {}
                    Taken::Broken => self.broken(peer, &content),
                    Taken::Stalled => self.hold(peer, |row| {
                        row.is_stalled = true;
                        row.backlog.put_back(bytes.clone());
                    }),
                }
            }
            count += 1;
        }
        count
    }

    fn is_stalled(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_none_or(|row| row.is_stalled)
    }

    /// Returns whether a request that has no place in the order of messages and atomics comes after others that wait.
    fn is_behind(&self, peer: PeerId, content: &Content<'_>) -> bool {
        self.peers.get(peer).is_none_or(|row| {
            row.is_stalled
                || !row.backlog.is_empty()
                || (row.order.is_ready() && asks_to_settle(content))
        })
    }

    /// Changes what is kept of a peer, and counts what waits there for the engine, or for what comes before.
    pub(super) fn hold(&mut self, peer: PeerId, change: impl FnOnce(&mut Peer)) {
        let is_named = self.peers.table.is_named(peer);
        let Some(row) = self.peers.get_mut(peer) else {
            return;
        };
        let before = row.stalled_bytes();
        change(row);
        let after = row.stalled_bytes();
        self.stalled_bytes = self.stalled_bytes + after - before;
        let early = match is_named {
            true => 0,
            false => early::bytes(&row.order, row.is_stalled),
        };
        row.early.count(early, &mut self.early_bytes, self.now);
        if after > before && is_too_much(after, is_named) {
            self.doom(
                peer,
                Errno::NOBUFS,
                "it sends more than this endpoint takes".to_owned(),
            );
        }
    }

    /// Handles a packet that breaks the protocol. One that names memory which it may not reach is dropped, as nothing tells its
    /// sender; after any other one nothing of the peer can be relied on.
    fn broken(&mut self, peer: PeerId, content: &Content<'_>) {
        match content {
            Content::Write(_) | Content::Read(_) | Content::Atomic(_) => {
                log::info!(
                    "efa",
                    EpData,
                    "an access of a peer to memory that it may not reach was dropped"
                );
            }
            _ => self.doom(peer, Errno::PROTO, "it broke the protocol".to_owned()),
        }
    }
}

/// Returns the number of what takes its turn in the order of a peer's messages and atomics.
const fn ordered(content: &Content<'_>) -> Option<u32> {
    match content {
        Content::Message(message) => Some(message.number),
        Content::Atomic(atomic) => Some(atomic.number),
        _ => None,
    }
}

/// Returns whether a peer asks to be told when everything that came before is done, atomics too: by a write of nothing that wants a receipt.
fn asks_to_settle(content: &Content<'_>) -> bool {
    matches!(content, Content::Write(write) if write.wants_receipt && write.targets.all().is_empty())
}

const fn is_request(content: &Content<'_>) -> bool {
    matches!(content, Content::Write(_) | Content::Read(_))
}
