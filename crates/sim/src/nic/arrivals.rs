//! A poll: what the link does with the packets that have arrived.

use oxifabric_engine::{Body, Kind, Placement, Sink};
use oxifabric_types::{Errno, PeerId};

use super::head::{FrameHead, Head, Load, Sent};
use super::peer::Peer;
use super::reorder::Kept;
use super::requests::{End, Ended};
use super::sender::Then;
use super::{SimNic, UNKNOWN_MAX};
use crate::network::{Packet, Place};

impl SimNic {
    /// Polls once; returns how many events there were.
    pub(super) fn turn(&mut self, sink: &mut impl Sink) -> usize {
        self.forget_departed(sink);
        self.now = self.station.begin(&mut self.inbox);
        let mut events = self.end_peers(sink);
        while let Some(packet) = self.inbox.pop_front() {
            events += self.arrive(packet, sink);
        }
        let active: Vec<_> = self.active.iter().copied().collect();
        for &peer in &active {
            events += self.deliver(peer, sink);
        }
        self.look(sink);
        events += self.end_peers(sink);
        for peer in active {
            self.pump(peer);
            events += self.unblock(peer, sink);
        }
        self.settle_active();
        if events > 0 {
            self.station.note_news();
        }
        self.set_due();
        events
    }

    /// Handles a packet.
    fn arrive(&mut self, packet: Packet, sink: &mut impl Sink) -> usize {
        let Some(head) = packet.head else {
            return 0;
        };
        let Some(from) = self.source(packet.from, &head) else {
            return 0;
        };
        match *head {
            Head::Hello(generation, incarnation) => {
                self.take_hello(from, generation, incarnation, sink);
            }
            Head::Welcome(generation, incarnation) => self.welcomed(from, generation, incarnation),
            Head::Frame(frame) => self.keep(from, frame, packet.bytes, sink),
            Head::Taken(generation, number) => return self.taken(from, generation, number, sink),
            Head::Done(id, result) => {
                return self.carried_out(from, id, result, packet.bytes, sink);
            }
            Head::Bye(theirs, mine) => self.left(from, theirs, mine),
            Head::Gone(sent) => self.not_there(from, sent),
            Head::Alive(incarnation) => self.is_alive(from, incarnation),
            Head::Probe | Head::Request(_) => return 0,
        }
        1
    }

    /// Returns the peer that a packet is from, and notes that the peer was heard; `None` if the packet is for a former endpoint of this name, or there
    /// are too many peers.
    fn source(&mut self, place: Place, head: &Head) -> Option<PeerId> {
        let known = self.peers.find(&place);
        match head {
            Head::Hello(..) if known.is_none() && self.peers.unnamed() >= UNKNOWN_MAX => {
                return None;
            }
            Head::Frame(frame) if known.is_none() => {
                self.send(place, Head::Bye(0, frame.generation), Vec::new());
                return None;
            }
            Head::Hello(..) => {}
            _ => drop(known?),
        }
        let from = self.peer_at(place)?;
        if let Some(row) = self.peers.get_mut(from)
            && !matches!(head, Head::Gone(_))
        {
            row.silent_since = None;
            row.is_absent = false;
        }
        Some(from)
    }

    /// Handles a peer that begins a generation.
    fn take_hello(
        &mut self,
        from: PeerId,
        generation: u64,
        incarnation: u64,
        sink: &mut impl Sink,
    ) {
        let Some(row) = self.peers.get_mut(from) else {
            return;
        };
        let place = row.place;
        if generation <= row.over {
            return self.send(place, Head::Bye(0, generation), Vec::new());
        }
        let began_anew = row.theirs != 0 && row.theirs != generation;
        if began_anew || row.is_not(incarnation) {
            // It does not know any more what was under way.
            self.end(from, Errno::CONNRESET, "the peer began anew", sink);
        }
        if let Some(row) = self.peers.get_mut(from) {
            row.theirs = generation;
            row.incarnation = incarnation;
        }
        let welcome = Head::Welcome(generation, self.incarnation);
        self.send(place, welcome, Vec::new());
    }

    fn welcomed(&mut self, from: PeerId, generation: u64, incarnation: u64) {
        if let Some(row) = self.peers.get_mut(from)
            && let Some(sender) = &mut row.sender
            && sender.generation == generation
        {
            sender.is_welcome = true;
            row.hello = None;
            let is_other = row.is_not(incarnation);
            row.incarnation = incarnation;
            self.active.insert(from);
            if is_other {
                // One of both generations is a former endpoint's.
                self.doom(from, Errno::CONNRESET, "another endpoint is there");
            }
        }
    }

    /// Handles the answer of the adapter of a peer, which may be another endpoint by now.
    fn is_alive(&mut self, from: PeerId, incarnation: u64) {
        let row = self.peers.get(from);
        if row.is_some_and(|row| row.hello.is_none() && row.is_not(incarnation)) {
            self.doom(from, Errno::CONNRESET, "another endpoint is there");
        }
    }

    /// Keeps a frame until the engine takes it.
    fn keep(&mut self, from: PeerId, frame: FrameHead, bytes: Vec<u8>, sink: &mut impl Sink) {
        let Some(row) = self.peers.get_mut(from) else {
            return;
        };
        if frame.generation != row.theirs {
            let place = row.place;
            return self.send(place, Head::Bye(0, frame.generation), Vec::new());
        }
        let kept = row
            .arrived
            .keep(frame.number, frame.after, frame.load, bytes);
        self.active.insert(from);
        if kept == Kept::Beyond {
            self.end(from, Errno::PROTO, "it sent more than its window", sink);
        }
    }

    /// Gives the engine the frames of a peer that are next in order; returns how many it has taken.
    fn deliver(&mut self, from: PeerId, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        while let Some(row) = self.peers.get_mut(from).filter(|row| row.has_ready())
            && let Some(number) = row.arrived.ready()
        {
            let (placement, over) = self.give(from, number, sink);
            match placement {
                Placement::Stall => {
                    if let Some(row) = self.peers.get_mut(from) {
                        row.is_stalled = true;
                    }
                    break;
                }
                Placement::Refuse => {
                    self.end(from, Errno::PROTO, "it broke the protocol", sink);
                    break;
                }
                _ => self.take(from, number, over),
            }
            events += 1;
        }
        events
    }

    /// Gives the engine a frame; returns its answer, and the id of the message whose memory is no longer to be exposed to the peer
    /// (after a Cts or Fin).
    fn give(&self, from: PeerId, number: u64, sink: &mut impl Sink) -> (Placement, Option<u32>) {
        let row = self.peers.get(from);
        let Some(waiting) = row.and_then(|row| row.arrived.get(number)) else {
            return (Placement::Done, None);
        };
        let (header, targets, remote) = match &waiting.load {
            Load::Written(write) => {
                sink.written(from, *write);
                return (Placement::Done, None);
            }
            Load::Engine {
                header,
                targets,
                remote,
            } => (header, targets, remote),
        };
        let body = match remote {
            Some(remote) => Body::Remote(*remote),
            None => Body::Whole(&waiting.bytes),
        };
        let placement = match header.kind {
            Kind::Segment if self.order == crate::plan::PacketOrder::Unordered => {
                sink.unordered_segment(from, header, body)
            }
            kind if kind.is_atomic() => sink.access(from, header, targets, body),
            Kind::Write | Kind::WriteRts | Kind::Read => sink.access(from, header, targets, body),
            _ => sink.arrival(from, header, body),
        };
        let over = matches!(header.kind, Kind::Cts | Kind::Fin).then_some(header.id);
        (placement, over)
    }

    /// Answers a frame that the engine has taken.
    fn take(&mut self, from: PeerId, number: u64, over: Option<u32>) {
        let Some(row) = self.peers.get_mut(from) else {
            return;
        };
        row.arrived.take(number);
        let (place, generation) = (row.place, row.theirs);
        let key = over.and_then(|id| row.rndv_keys.remove(&id));
        if let (Some(key), Some(memory)) = (key, &self.memory) {
            memory.withdraw(key);
        }
        self.send(place, Head::Taken(generation, number), Vec::new());
    }

    /// Handles the answer to a frame.
    fn taken(&mut self, from: PeerId, generation: u64, number: u64, sink: &mut impl Sink) -> usize {
        let Some(row) = self.peers.get_mut(from) else {
            return 0;
        };
        let sender = row.sender.as_mut();
        let sender = sender.filter(|sender| sender.generation == generation);
        match sender.and_then(|sender| sender.taken(number)) {
            Some(Then::Report(token)) => sink.sent(token, Ok(())),
            Some(Then::End(access)) => {
                if let Some(ended) = row.requests.end(access) {
                    report(from, ended, sink);
                }
            }
            Some(Then::Nothing) | None => {}
        }
        1
    }

    /// Handles the answer to a request.
    fn carried_out(
        &mut self,
        from: PeerId,
        id: u64,
        result: Result<(), Errno>,
        bytes: Vec<u8>,
        sink: &mut impl Sink,
    ) -> usize {
        let row = self.peers.get_mut(from);
        if result.is_err() && row.as_ref().is_some_and(|row| row.requests.is_pull(id)) {
            // The memory of an announced message can be withdrawn before it was read only when its sender has given this end up.
            self.doom(from, Errno::CONNRESET, "the memory of its message is gone");
            return 1;
        }
        if let Some(ended) = row.and_then(|row| row.requests.answered(id, result, bytes)) {
            report(from, ended, sink);
        }
        1
    }

    /// Handles a peer that has left, or has given this end up.
    fn left(&mut self, from: PeerId, theirs: u64, mine: u64) {
        if let Some(row) = self.peers.get_mut(from) {
            let is_theirs = theirs != 0 && theirs == row.theirs;
            if is_theirs || (mine != 0 && mine == row.mine()) {
                self.doom(from, Errno::CONNRESET, "the peer has closed");
            }
        }
    }

    /// Handles a packet that the network could not deliver, and has returned.
    fn not_there(&mut self, from: PeerId, sent: Sent) {
        let Some(row) = self.peers.get_mut(from) else {
            return;
        };
        let is_lost = match sent {
            // It may be about to come.
            Sent::Generation(generation) if row.hello.is_some() => {
                row.is_absent = generation == row.mine();
                false
            }
            Sent::Generation(generation) => generation == row.mine(),
            Sent::Access(id) => row.requests.has(id),
            Sent::Probe => row.hello.is_none(),
        };
        if is_lost {
            self.doom(from, Errno::CONNRESET, "no endpoint is there any more");
        }
    }

    /// Has a peer given up in this poll.
    pub(super) fn doom(&mut self, peer: PeerId, why: Errno, reason: &'static str) {
        if let Some(row) = self.peers.get_mut(peer) {
            row.ending.get_or_insert((why, reason));
            self.active.insert(peer);
        }
    }

    /// Lets the engine post again, if there is room.
    fn unblock(&mut self, peer: PeerId, sink: &mut impl Sink) -> usize {
        let may_post = |row: &&mut Peer| {
            let has_room = row
                .sender
                .as_ref()
                .is_none_or(super::sender::Sender::has_room);
            row.is_blocked
                && has_room
                && !row.requests.has_unsent()
                && row.requests.len() < super::ACCESSES_MAX
        };
        let Some(row) = self.peers.get_mut(peer).filter(may_post) else {
            return 0;
        };
        row.is_blocked = false;
        sink.writable(peer);
        1
    }
}

/// Reports an access that is over.
fn report(peer: PeerId, ended: Ended, sink: &mut impl Sink) {
    match ended.end {
        End::Sent(token) => sink.sent(token, ended.result),
        End::Pulled(token) => sink.pulled(token, ended.result),
    }
    if let Some((id, old)) = ended.fetched {
        let header = SimNic::response(id, old.len());
        // What is no longer awaited is dropped by the engine.
        let _ = sink.arrival(peer, &header, Body::Whole(&old));
    }
}
