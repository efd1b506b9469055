//! How a pair ends: what was published is delivered, unless it can never be complete. docs/protocol/shm.md "The end".

use oxifabric_engine::{Header, Kind};
use oxifabric_sync::lane::Cell as LaneCell;
use oxifabric_types::Errno;
use oxifabric_wire::shm::cell::{self, Cell};

use super::{Pair, header_of, is_offer};

/// At most so many cells are searched for the rest of a message whose sender is gone: as many as the lanes that this library makes have by
/// default. One that has not ended then may be complete.
const LONGEST_LOOK: u64 = 256;

impl Pair {
    /// The other side is gone: what it has published until now is delivered, and then the pair is over.
    pub(crate) fn end(&mut self, why: Errno) {
        if self.ending.is_none() {
            self.ending = Some(why);
            self.ended_at = self.rx.taken();
        }
    }

    /// Tells whether nothing of the other side has been offered to the sink.
    pub(crate) fn was_silent(&self) -> bool {
        self.rx.taken() == 0 && !self.stalled && !self.broken && !self.rx.is_ready()
    }

    /// The sink has room again.
    pub(crate) fn resume(&mut self) {
        self.stalled = false;
        self.cut_short = None;
    }

    #[cold]
    #[inline(never)]
    pub(super) fn has_said_all(&mut self) -> bool {
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

    /// Tells whether the message that stalls lacks something that only the other side could send: it would keep the pair for
    /// as long as the application has no room for it, and never be complete.
    fn is_cut_short(&self) -> bool {
        let Some((header, ring_len)) = self.rx.peek().and_then(|cell| outline(&cell)) else {
            return false;
        };
        if is_offer(header.kind) || asks(header.kind) {
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

/// Tells whether a request asks for an answer.
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
