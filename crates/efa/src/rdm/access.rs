//! Accesses of peers to memory of this end, as frames of the engine. Path class: hot.

use oxifabric_engine::{Body, Header, HeaderFlags, Kind, Sink};
use oxifabric_types::PeerId;
use oxifabric_wire::efa::{Atomic, AtomicForm, Form, Read, Write};

use super::EfaRdm;
use super::operations::{Incoming, OperationKind, Stage};
use super::take::{Taken, first_part, flags, readable, targets};

impl EfaRdm {
    pub(super) fn take_write(
        &mut self,
        peer: PeerId,
        write: &Write<'_>,
        sink: &mut impl Sink,
    ) -> Taken {
        let is_nothing = write.targets.all().is_empty() && write.body.is_empty();
        if is_nothing && write.form == Form::Eager && write.data.is_none() && !write.wants_receipt {
            // It only asks for a handshake, which the first packet of any peer is answered by.
            return Taken::Done;
        }
        let memory = match &write.form {
            Form::Read { len, memory } => readable(memory, *len),
            _ => None,
        };
        let (len, stage) = match write.form {
            Form::Eager => (write.body.len() as u64, None),
            Form::Long { len, .. } if write.body.len() as u64 >= len => return Taken::Broken,
            Form::Long { len, .. } => (len, Some(Stage::Announced)),
            // No handshake of this end lets it announce that.
            Form::Read { .. } if !self.reach.reads || memory.is_none() => return Taken::Broken,
            Form::Read { len, .. } => (len, Some(Stage::Readable)),
            Form::Medium { .. } | Form::Runt { .. } => return Taken::Broken,
        };
        let kind = match stage {
            Some(stage) => Some(OperationKind::Incoming(Incoming {
                message: None,
                len,
                received: 0,
                send_id: write.send_id,
                wants_receipt: write.wants_receipt,
                stage,
                is_anew: false,
                runt: 0,
                is_read: false,
                first: first_part(write.body),
            })),
            None if write.wants_receipt => Some(OperationKind::Owed {
                send_id: write.send_id,
                message: 0,
            }),
            None => None,
        };
        let id = match kind.map(|kind| self.operations.insert(peer, kind)) {
            Some(None) => return Taken::Broken,
            Some(id) => id,
            None => None,
        };
        let header = Header {
            kind: if stage.is_some() {
                Kind::WriteRts
            } else {
                Kind::Write
            },
            flags: flags(write.data, write.wants_receipt),
            id: id.unwrap_or(0),
            tag: 0,
            data: write.data.unwrap_or(0),
            len,
        };
        let targets = targets(&write.targets);
        let placement = match (stage, &memory) {
            (None, _) => sink.access(peer, &header, targets.all(), Body::Whole(write.body)),
            (_, Some(memory)) => self.begin_read(peer, &header, targets.all(), memory, sink),
            (_, None) => sink.access(peer, &header, targets.all(), Body::Whole(&[])),
        };
        self.keep_if_taken(placement.into(), peer, id)
    }

    pub(super) fn take_read(&mut self, peer: PeerId, read: &Read, sink: &mut impl Sink) -> Taken {
        let kind = OperationKind::Answer {
            recv_id: read.recv_id,
            window: read.window.into(),
        };
        let Some(id) = self.operations.insert(peer, kind) else {
            return Taken::Broken;
        };
        let header = Header {
            kind: Kind::Read,
            flags: HeaderFlags::empty(),
            id,
            tag: 0,
            data: 0,
            len: read.len,
        };
        let placement = sink.access(
            peer,
            &header,
            targets(&read.targets).all(),
            Body::Whole(&[]),
        );
        self.keep_if_taken(placement.into(), peer, Some(id))
    }

    pub(super) fn take_atomic(
        &mut self,
        peer: PeerId,
        atomic: &Atomic<'_>,
        sink: &mut impl Sink,
    ) -> Taken {
        let (kind, operation) = match atomic.form {
            AtomicForm::Base => (Kind::Atomic, None),
            AtomicForm::BaseWithReceipt => (
                Kind::Atomic,
                Some(OperationKind::Owed {
                    send_id: atomic.id,
                    message: atomic.number,
                }),
            ),
            AtomicForm::Fetch => (
                Kind::FetchAtomic,
                Some(OperationKind::Fetch { recv_id: atomic.id }),
            ),
            AtomicForm::Compare => (
                Kind::CompareAtomic,
                Some(OperationKind::Fetch { recv_id: atomic.id }),
            ),
        };
        let targets = targets(&atomic.targets);
        let fetched = targets.all().iter().map(|target| target.len);
        let fetched = fetched.fold(0_u64, u64::saturating_add);
        // What it fetches goes in a packet.
        if matches!(operation, Some(OperationKind::Fetch { .. }))
            && fetched > self.response_max() as u64
        {
            return Taken::Broken;
        }
        let id = match operation.map(|operation| self.operations.insert(peer, operation)) {
            Some(None) => return Taken::Broken,
            Some(id) => id,
            None => None,
        };
        let wants_receipt = atomic.form == AtomicForm::BaseWithReceipt;
        let header = Header {
            kind,
            flags: flags(atomic.data, wants_receipt),
            id: id.unwrap_or(0),
            tag: u64::from(atomic.datatype & 0xff) | u64::from(atomic.operation) << 8,
            data: atomic.data.unwrap_or(0),
            len: atomic.body.len() as u64,
        };
        let placement = sink.access(peer, &header, targets.all(), Body::Whole(atomic.body));
        self.keep_if_taken(placement.into(), peer, id)
    }

    /// Drops the operation of a packet that was not taken.
    fn keep_if_taken(&mut self, taken: Taken, peer: PeerId, id: Option<u32>) -> Taken {
        if let (Taken::Stalled | Taken::Broken, Some(id)) = (taken, id) {
            self.operations.remove(peer, id);
        }
        taken
    }

    pub(super) fn take_fetched(
        &mut self,
        peer: PeerId,
        id: u32,
        body: &[u8],
        sink: &mut impl Sink,
    ) -> Taken {
        let Some(OperationKind::Fetching { mine }) = self.operations.get(peer, id) else {
            return Taken::Done;
        };
        let header = Header {
            kind: Kind::Response,
            flags: HeaderFlags::empty(),
            id,
            tag: u64::from(*mine),
            data: 0,
            len: body.len() as u64,
        };
        let taken = Taken::from(sink.arrival(peer, &header, Body::Whole(body)));
        if taken == Taken::Done {
            self.operations.remove(peer, id);
        }
        taken
    }
}
