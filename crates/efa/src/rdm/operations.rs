//! The operations that packets name: their ids on the wire, what the engine calls them, and how far they are.
//!
//! An id is used again once its operation is over, with another generation of 1,024, so that a late packet does not reach the next ones. A packet
//! reaches the operations of its own peer only.

use oxifabric_engine::Header;
use oxifabric_ibv::Mr;
use oxifabric_types::PeerId;
use oxifabric_wire::efa::Pieces;

/// Bits of an id that are the place of the operation; the others count its uses.
const PLACE_BITS: u32 = 22;
const PLACES: usize = 1 << PLACE_BITS;

/// The operations of an endpoint, by id.
#[derive(Debug, Default)]
pub(super) struct Operations {
    rows: Vec<Row>,
    free: Vec<u32>,
    /// The place of an announcement that is over, for the next one.
    spare: Option<Box<Exposed>>,
}

#[derive(Debug, Default)]
struct Row {
    uses: u32,
    operation: Option<Operation>,
}

/// An operation with a peer.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) peer: PeerId,
    pub(super) kind: OperationKind,
}

/// What an operation is. `mine` are ids of this engine.
#[derive(Debug)]
pub(super) enum OperationKind {
    /// A message, write or atomic was sent that the peer acknowledges.
    Sent { mine: u32 },
    /// A write of nothing was sent whose receipt says that the peer has done what came before it.
    Settling,
    /// Data was announced that the peer asks for.
    Offer(Offer),
    /// Memory was announced that the peer's device reads.
    Exposed(Box<Exposed>),
    /// A read was sent.
    Reading(Reading),
    /// An atomic was sent whose response brings what was there.
    Fetching { mine: u32 },
    /// A message or write is here whose sender waits for the acknowledgement.
    Owed { send_id: u32, message: u32 },
    /// A message comes in several packets, or a message or write was announced.
    Incoming(Incoming),
    /// The peer reads memory of this end.
    Answer { recv_id: u32, window: u64 },
    /// The peer wants to know what was there before its atomic.
    Fetch { recv_id: u32 },
}

/// Data that was announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) mine: u32,
    pub(super) len: u64,
    /// How many bytes went with the announcement.
    pub(super) first: u64,
    /// How many bytes the peer lets be sent.
    pub(super) granted: u64,
    /// The peer's operation, once it has said so.
    pub(super) recv_id: Option<u32>,
    /// The peer acknowledges it.
    pub(super) wants_receipt: bool,
    /// It is a write.
    pub(super) is_write: bool,
}

/// Memory that was announced, to be read by the peer's device.
#[derive(Debug)]
pub(super) struct Exposed {
    pub(super) announcement: Announcement,
    /// Its registrations, by which it can be read while this is kept; none where the application has registered it.
    pub(super) regions: Vec<Mr>,
}

/// What was announced, so that it can be announced anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announcement {
    pub(super) header: Header,
    /// The number of the message; none of a write.
    pub(super) message: Option<u32>,
    /// The memory that is written.
    pub(super) targets: Pieces,
}

/// A read that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) mine: u32,
    pub(super) len: u64,
    pub(super) received: u64,
    /// How many bytes the peer may send, until it is told.
    pub(super) granted: u64,
    pub(super) send_id: Option<u32>,
    /// The engine knows of the response.
    pub(super) has_begun: bool,
}

/// A message that is not here as a whole, or a write.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The number of the message; none of a write.
    pub(super) message: Option<u32>,
    pub(super) len: u64,
    pub(super) received: u64,
    pub(super) send_id: u32,
    pub(super) wants_receipt: bool,
    pub(super) stage: Stage,
    /// It was announced anew, so that the engine does not know that the sender waits for a receipt.
    pub(super) is_anew: bool,
    /// How many bytes are to come in packets of a message that is read, before its sender may be told that it was.
    pub(super) runt: u64,
    pub(super) is_read: bool,
    /// The data that came with the announcement.
    pub(super) first: Vec<(u64, Box<[u8]>)>,
}

/// What happens with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It comes without being asked for.
    Unasked,
    /// It was announced, and the engine has not asked for it.
    Announced,
    /// It can be read out of the sender's memory.
    Readable,
    /// The sender was told to announce it anew, to send it.
    Refused,
    /// The sender was told to send it.
    Asked,
}

impl Incoming {
    /// Counts bytes in packets of a message that is read. Returns whether these were the last ones of a message that has been read.
    pub(super) const fn count_runt(&mut self, len: u64) -> bool {
        let was_missing = self.runt > 0;
        self.runt = self.runt.saturating_sub(len);
        was_missing && self.runt == 0 && self.is_read
    }
}

impl OperationKind {
    /// Returns the engine's id of an operation that its peer can give up without anything else being lost: it waits for an answer, or for what it
    /// announced to be read, or of a write to be asked for. The number of an announced message is used at the peer, so that others follow it.
    pub(super) fn fails_alone(&self) -> Option<u32> {
        match self {
            Self::Sent { mine } | Self::Fetching { mine } => Some(*mine),
            Self::Reading(reading) => (!reading.has_begun).then_some(reading.mine),
            Self::Offer(offer) => (offer.is_write && offer.recv_id.is_none()).then_some(offer.mine),
            Self::Exposed(exposed) => Some(exposed.announcement.header.id),
            Self::Settling
            | Self::Owed { .. }
            | Self::Incoming(_)
            | Self::Answer { .. }
            | Self::Fetch { .. } => None,
        }
    }
}

impl Operations {
    /// Keeps an operation; `None` when there are too many.
    #[inline]
    pub(super) fn insert(&mut self, peer: PeerId, kind: OperationKind) -> Option<u32> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.rows.len() >= PLACES => return None,
            None => {
                self.rows.push(Row::default());
                self.rows.len() as u32 - 1
            }
        };
        let row = self.rows.get_mut(at as usize)?;
        row.operation = Some(Operation { peer, kind });
        Some(row.uses << PLACE_BITS | at)
    }

    /// Returns an operation with a peer.
    pub(super) fn get(&mut self, peer: PeerId, id: u32) -> Option<&mut OperationKind> {
        let row = self.row(id)?;
        let operation = row.operation.as_mut();
        let operation = operation.filter(|operation| operation.peer == peer)?;
        Some(&mut operation.kind)
    }

    /// Returns whether there is an operation with this id.
    pub(super) fn has(&self, id: u32) -> bool {
        let row = self.rows.get(id as usize & (PLACES - 1));
        row.is_some_and(|row| row.uses == id >> PLACE_BITS && row.operation.is_some())
    }

    /// Takes an operation with a peer out.
    pub(super) fn remove(&mut self, peer: PeerId, id: u32) -> Option<OperationKind> {
        let row = self.row(id)?;
        let operation = row.operation.take_if(|operation| operation.peer == peer)?;
        row.uses = row.uses.wrapping_add(1) & (u32::MAX >> PLACE_BITS);
        self.free.push(id & (PLACES as u32 - 1));
        Some(operation.kind)
    }

    /// Keeps what is announced at a place of its own.
    pub(super) fn boxed(&mut self, exposed: Exposed) -> Box<Exposed> {
        match self.spare.take() {
            Some(mut place) => {
                *place = exposed;
                place
            }
            None => Box::new(exposed),
        }
    }

    /// Takes memory back that a peer's device has read.
    pub(super) fn end_exposed(&mut self, peer: PeerId, id: u32) {
        if let Some(OperationKind::Exposed(mut exposed)) = self.remove(peer, id) {
            exposed.regions = Vec::new();
            self.spare = Some(exposed);
        }
    }

    /// Takes all operations with a peer out.
    pub(super) fn remove_all(&mut self, peer: PeerId) {
        let rows = (0_u32..).zip(&mut self.rows);
        for (at, row) in rows {
            if row
                .operation
                .take_if(|operation| operation.peer == peer)
                .is_some()
            {
                row.uses = row.uses.wrapping_add(1) & (u32::MAX >> PLACE_BITS);
                self.free.push(at);
            }
        }
    }

    /// Takes all memory back that was announced to be read by peers' devices.
    pub(super) fn withdraw(&mut self) {
        for at in 0..self.rows.len() as u32 {
            let Some(row) = self.rows.get(at as usize) else {
                return;
            };
            let id = row.uses << PLACE_BITS | at;
            if let Some(Operation {
                peer,
                kind: OperationKind::Exposed(_),
            }) = row.operation
            {
                self.remove(peer, id);
            }
        }
    }

    fn row(&mut self, id: u32) -> Option<&mut Row> {
        let row = self.rows.get_mut(id as usize & (PLACES - 1))?;
        (row.uses == id >> PLACE_BITS).then_some(row)
    }
}

#[cfg(test)]
mod tests {
    use oxifabric_engine::{HeaderFlags, Kind};

    use super::*;

    const PEER: PeerId = PeerId(1);

    #[test]
    fn an_operation_is_reached_by_its_peer_while_it_lasts() {
        let mut operations = Operations::default();
        let first = operations
            .insert(PEER, OperationKind::Sent { mine: 7 })
            .expect("room");
        assert!(operations.get(PeerId(2), first).is_none());
        assert!(operations.remove(PeerId(2), first).is_none());
        assert!(operations.get(PEER, first).is_some());
        assert!(operations.remove(PEER, first).is_some());
        assert!(operations.get(PEER, first).is_none());
        let second = operations
            .insert(PEER, OperationKind::Sent { mine: 8 })
            .expect("room");
        assert_ne!(first, second, "the place is used again, the id is not");
        assert!(operations.get(PEER, first).is_none() && operations.get(PEER, second).is_some());
        assert!(operations.get(PEER, u32::MAX).is_none());
    }

    #[test]
    fn a_message_that_was_read_has_one_last_packet() {
        let mut incoming = Incoming {
            message: Some(1),
            len: 100,
            received: 0,
            send_id: 0,
            wants_receipt: false,
            stage: Stage::Readable,
            is_anew: false,
            runt: 50,
            is_read: true,
            first: Vec::new(),
        };
        assert_eq!(
            [30, 30, 30].map(|len| incoming.count_runt(len)),
            [false, true, false]
        );
        (incoming.runt, incoming.is_read) = (30, false);
        assert!(!incoming.count_runt(30), "it is not read yet");
    }

    fn announced() -> Exposed {
        let announcement = Announcement {
            header: Header {
                kind: Kind::MsgRts,
                flags: HeaderFlags::empty(),
                id: 2,
                tag: 0,
                data: 0,
                len: 3,
            },
            message: Some(4),
            targets: Pieces::new([]).expect("none"),
        };
        Exposed {
            announcement,
            regions: Vec::new(),
        }
    }

    #[test]
    fn memory_is_taken_back_that_was_announced() {
        let mut operations = Operations::default();
        let sent = operations.insert(PEER, OperationKind::Sent { mine: 1 });
        let exposed = operations.insert(PEER, OperationKind::Exposed(Box::new(announced())));
        operations.withdraw();
        assert!(operations.has(sent.expect("room")) && !operations.has(exposed.expect("room")));
    }

    #[test]
    fn an_announcement_that_is_over_leaves_its_place_to_the_next_one() {
        let mut operations = Operations::default();
        let mut announce = |peer| {
            let exposed = operations.boxed(announced());
            let place = std::ptr::from_ref(&*exposed);
            let kind = OperationKind::Exposed(exposed);
            let id = operations.insert(PEER, kind).expect("room");
            operations.end_exposed(peer, id);
            (place, operations.has(id))
        };
        let (first, is_kept) = announce(PEER);
        assert!(!is_kept, "it is over");
        assert_eq!(announce(PeerId(2)), (first, true), "its own peer ends it");
        let (third, is_kept) = announce(PEER);
        assert!(third != first && !is_kept, "the place is taken");
    }

    #[test]
    fn the_operations_of_a_peer_go_together() {
        let mut operations = Operations::default();
        let mut insert = |peer| operations.insert(peer, OperationKind::Sent { mine: 1 });
        let ids = [PEER, PeerId(2), PEER].map(|peer| insert(peer).expect("room"));
        operations.remove_all(PEER);
        assert!(operations.get(PEER, ids[0]).is_none() && operations.get(PEER, ids[2]).is_none());
        assert!(operations.get(PeerId(2), ids[1]).is_some());
    }
}
