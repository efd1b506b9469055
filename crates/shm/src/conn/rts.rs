//! Messages that are read from their sender's memory in the poll in which their Rts arrives, docs/protocol/shm.md 6.1.
//!
//! Such a message has a receive, and no pull is under way. It is short enough that its sender would not help; or it is not much longer and comes alone (with one
//! message at a time, the sender hears of the request for help when most is copied); or its sender is not asked, as long messages cross or did lately. The connection reads it into the receive's buffer and
//! answers with Fin at once, so that the sender may go on while this side reads the next one. All others go through the engine.

use oxifabric_engine::{Announced, Header, HeaderFlags, Kind, Placement, Sink, Target};
use oxifabric_wire::shm::cell;

use super::Conn;
use crate::rndv_threshold::Path;
use crate::sys::process;

impl Conn {
    /// Delivers an Rts whose message is one piece of the sender's memory.
    pub(super) fn deliver_rts(
        &mut self,
        header: &Header,
        piece: Target,
        sink: &mut impl Sink,
    ) -> Placement {
        if !self.may_read(header.len, &piece) {
            self.cma.note_announced();
            return sink.arrival(self.peer, header, self.remote(&[piece]));
        }
        let (pid, from) = (self.process.pid(), [(piece.addr, header.len)]);
        let mut was_tried = false;
        let mut copy = |into: &_| {
            was_tried = true;
            let read = process::read_memory(pid, &from, into);
            read.is_ok_and(|read| read as u64 == header.len)
        };
        let announced = sink.announced(self.peer, header, &[piece], &mut copy);
        if was_tried {
            // Also where it failed: a part may have been copied before.
            self.cma.charge(header.len as usize);
        }
        match announced {
            Announced::Placed(placement) => {
                self.cma.note_announced();
                placement
            }
            Announced::Copied => {
                self.note_read(header);
                Placement::Done
            }
        }
    }

    /// Returns whether a message may be read now: nothing else is being read, its sender runs, and there is space for the answer.
    fn may_read(&mut self, len: u64, piece: &Target) -> bool {
        self.pull
            && self.ending.is_none()
            && len <= piece.len
            && self
                .cma
                .may_copy_on_arrival(len, || self.rx.peek_ahead(1).is_none())
            && self.cma.has_left(len, || self.process.ran_just_now())
            && self.has_cell()
    }

    /// Answers a message that was read.
    fn note_read(&mut self, header: &Header) {
        let len = header.len as usize;
        self.cma.note_received(len);
        self.cma.threshold.note(header.len, len, Path::Pull);
        let fin = Header {
            kind: Kind::Fin,
            flags: HeaderFlags::empty(),
            tag: 0,
            data: 0,
            len: 0,
            id: header.id,
        };
        self.direct.order.note_unordered(self.tx.pushed());
        self.emit(&fin, cell::Body::Bare, 0, false);
    }
}
