//! How a connection ends: what was published is delivered, unless it can never be complete. docs/protocol/shm.md "The end".

use oxifabric_engine::{Header, Kind};
use oxifabric_sync::spsc::Cell as LaneCell;
use oxifabric_types::Errno;
use oxifabric_wire::shm::cell::{self, Cell};

use super::{Conn, header_of, is_rts};

/// Cells that are searched at most for the rest of a message whose sender is gone: as many as a lane of this library
/// has by default. A message that has not ended then may be complete.
const LONGEST_LOOK: u64 = 256;

impl Conn {
    /// Begins to end: what the other side has published until now is delivered, and then the connection is over.
    pub(crate) fn end(&mut self, why: Errno) {
        if self.ending.is_none() {
            self.ending = Some(why);
            self.ended_at = self.rx.taken();
        }
    }

    /// Returns whether nothing of the other side has been delivered to the sink.
    pub(crate) fn delivered_nothing(&self) -> bool {
        self.rx.taken() == 0 && !self.stalled && !self.broken && !self.rx.is_ready()
    }

    /// Delivers again: the sink has room for arrivals.
    pub(crate) fn resume(&mut self) {
        self.stalled = false;
        self.cut_short = None;
    }

    #[cold]
    #[inline(never)]
    pub(super) fn is_drained(&mut self) -> bool {
        if self.broken {
            return true;
        }
        // A process that has hung up and lives could go on to publish.
        let since = self.rx.taken().wrapping_sub(self.ended_at);
        if since >= self.rx.layout().cells() as u64 {
            return true;
        }
        match self.stalled {
            false => !self.rx.is_ready(),
            true => match self.cut_short {
                Some(known) => known,
                None => *self.cut_short.insert(self.is_cut_short()),
            },
        }
    }

    /// Returns whether the stalled message lacks something that only the other side could send: it would keep the
    /// connection as long as the application has no room for it, and never be complete.
    fn is_cut_short(&self) -> bool {
        let Some((header, ring_len)) = self.rx.peek_ahead(0).and_then(|cell| outline(&cell)) else {
            return false;
        };
        if is_rts(header.kind) || asks(header.kind) {
            return true;
        }
        if !matches!(header.kind, Kind::Msg | Kind::Tagged | Kind::Collective) {
            return false;
        }
        let mut here = ring_len as u64;
        for ahead in 1..=LONGEST_LOOK {
            if here >= header.len {
                return false;
            }
            let Some(cell) = self.rx.peek_ahead(ahead) else {
                return true;
            };
            if let Some((next, len)) = outline(&cell)
                && (next.kind, next.id) == (Kind::Segment, header.id)
            {
                here = here.saturating_add(len as u64);
            }
        }
        false
    }
}

/// Returns whether a request asks for an answer.
const fn asks(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::FetchAtomic | Kind::CompareAtomic)
}

/// Returns the header of a cell, and how much of its message it brings.
fn outline(arrived: &LaneCell) -> Option<(Header, usize)> {
    let cell = Cell::parse(arrived.meta, &arrived.words).ok()?;
    let brought = match cell.body {
        cell::Body::Inline { len, .. } | cell::Body::Access { len, .. } => usize::from(len),
        cell::Body::Ring { len } => len as usize,
        _ => 0,
    };
    Some((header_of(&cell)?, brought))
}
