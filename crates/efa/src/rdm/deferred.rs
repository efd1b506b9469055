//! What was put off to the next poll: what the engine is to be told, and what a peer is to be told when there is room. Path class: warm.

use oxifabric_engine::{Body, Kind, Sink};
use oxifabric_types::{Errno, PeerId};

use super::EfaRdm;
use super::operations::{Announcement, OperationKind};
use super::take::{Taken, answer};

/// What is to be told to the engine, or to a peer.
#[derive(Debug)]
pub(super) enum Deferred {
    /// The data that came with the announcement, now that the engine asked for it, of this operation.
    FirstPart(PeerId, u32),
    /// The peer lets so much of the data with this id of the engine be sent; zero for all.
    Cts(PeerId, u32, u64),
    /// The peer has all data with this id of the engine.
    Fin(PeerId, u32),
    /// More of what this operation reads may be sent.
    Grant(PeerId, u32),
    /// The access with this number is over.
    Accessed(u32),
    /// What this operation announced cannot be read, and is announced anew, to be sent.
    Anew(PeerId, u32, Box<Announcement>),
    /// The data of this operation can be asked for.
    Ask(PeerId, u32),
    /// What this operation announced was read.
    Read(PeerId, u32),
    /// The sender of this operation waits for its receipt.
    Receipt(PeerId, u32),
}

impl Deferred {
    /// Returns whether a peer waits for it, for what is done here already.
    pub(super) const fn is_owed(&self) -> bool {
        matches!(self, Self::Read(..) | Self::Receipt(..))
    }
}

impl EfaRdm {
    /// Tells the engine what was put off; returns how much that was.
    #[inline(always)]
    pub(super) fn tell_deferred(&mut self, sink: &mut impl Sink) -> usize {
        match self.deferred.is_empty() {
            true => 0,
            false => self.tell_all_deferred(sink),
        }
    }

    #[inline(never)]
    fn tell_all_deferred(&mut self, sink: &mut impl Sink) -> usize {
        let deferred = std::mem::take(&mut self.deferred);
        let count = deferred.len();
        for deferred in deferred {
            let (peer, taken) = match deferred {
                Deferred::FirstPart(peer, id) => (peer, self.tell_first(peer, id, sink)),
                Deferred::Cts(peer, id, granted) => {
                    let header = answer(Kind::Cts, id, granted, 0);
                    (peer, sink.arrival(peer, &header, Body::Whole(&[])).into())
                }
                Deferred::Fin(peer, id) => {
                    let header = answer(Kind::Fin, id, 0, 0);
                    (peer, sink.arrival(peer, &header, Body::Whole(&[])).into())
                }
                Deferred::Grant(peer, id) => {
                    self.count_received(peer, id, 0);
                    continue;
                }
                Deferred::Accessed(id) => {
                    self.end_access(id, sink);
                    continue;
                }
                Deferred::Anew(peer, id, announcement) => {
                    self.announce_anew(peer, id, announcement);
                    continue;
                }
                Deferred::Ask(peer, id) => {
                    let asked = self.ask_for_data(peer, id);
                    self.retry(peer, asked, Deferred::Ask(peer, id));
                    continue;
                }
                Deferred::Read(peer, id) => {
                    let told = self.finish(peer, id, 0);
                    self.retry(peer, told, Deferred::Read(peer, id));
                    continue;
                }
                Deferred::Receipt(peer, id) => {
                    let told = self.acknowledge(peer, id);
                    self.retry(peer, told, Deferred::Receipt(peer, id));
                    continue;
                }
            };
            if taken == Taken::Broken {
                self.doom(peer, Errno::PROTO, "it broke the protocol".to_owned());
            }
        }
        count
    }

    /// Puts something off to the next poll.
    pub(super) fn defer(&mut self, deferred: Deferred) {
        self.deferred.push_back(deferred);
        self.idle_period.end();
    }

    /// Puts off what could not be sent now.
    pub(super) fn retry(&mut self, peer: PeerId, sent: Result<(), Errno>, again: Deferred) {
        match sent {
            Ok(()) => {}
            Err(Errno::AGAIN) => self.defer(again),
            Err(errno) => self.doom(peer, errno, "an answer could not be sent".to_owned()),
        }
    }

    /// Tells the engine the data that came with an announcement.
    fn tell_first(&mut self, peer: PeerId, id: u32, sink: &mut impl Sink) -> Taken {
        let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) else {
            return Taken::Done;
        };
        for (offset, part) in std::mem::take(&mut incoming.first) {
            let taken = self.take_data(peer, id, offset, &part, sink);
            if taken != Taken::Done {
                return taken;
            }
        }
        Taken::Done
    }
}
