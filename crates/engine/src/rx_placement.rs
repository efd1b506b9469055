//! Placement of a matched message, and the completion that reports it.

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use crate::matching::Arrival;
use crate::op::PIECE;
use crate::rma::wanted_flags;
use crate::slab::Key;
use crate::transmit::first_key;
use crate::{Completion, Completions, Failure, RxOp, Target};

/// Where a matched message goes, and what to report when it is there.
#[derive(Debug)]
pub(crate) struct RxPlacement {
    pub(crate) body: Iov,
    /// Where in `body` the message begins.
    pub(crate) offset: usize,
    /// Number of its bytes that may be placed.
    pub(crate) room: usize,
    pub(crate) flags: Flags,
    pub(crate) context: usize,
    /// The multi-receive buffer that this is a part of, or [`Key::NONE`].
    pub(crate) shared: Key,
}

impl RxPlacement {
    /// Makes the placement of a receive that found its message waiting.
    pub(crate) fn new(op: RxOp) -> Self {
        Self {
            offset: 0,
            room: op.body.len(),
            body: op.body,
            flags: op.flags,
            context: op.context,
            shared: Key::NONE,
        }
    }

    /// Makes the placement of a write in the memory that it names.
    #[inline(always)]
    pub(crate) fn of_write(region: Iov, arrival: &Arrival, targets: &[Target]) -> Self {
        Self {
            room: arrival.len,
            body: region,
            offset: 0,
            flags: wanted_flags(arrival),
            context: first_key(targets),
            shared: Key::NONE,
        }
    }

    /// Places the part of the message that begins at `at`; what does not fit is dropped.
    #[inline]
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        let fits = self.room.saturating_sub(at).min(bytes.len());
        self.body.write(self.offset + at, &bytes[..fits]);
    }

    /// Describes where the part of the message that begins at `at` goes; it may be shorter than `len`.
    pub(crate) fn part(&self, at: usize, len: usize) -> Iov {
        let fits = self.room.saturating_sub(at).min(len);
        self.body.slice(self.offset.saturating_add(at), fits)
    }

    /// Places a message that lies in other memory.
    pub(crate) fn copy_from(&self, from: &Iov, len: usize) {
        let fits = self.room.min(len);
        self.part(0, fits).copy_from(0, &from.slice(0, fits));
    }

    /// Makes the completion of the receive.
    #[inline]
    pub(crate) fn completion(&self, arrival: &Arrival) -> Completion {
        let buf = match self.shared {
            Key::NONE => self.body.base() as usize,
            _ => self.body.address(self.offset),
        };
        received(arrival, self.flags, self.context, buf, self.room)
    }
}

/// Makes the completion of a receive with `room` bytes that got a message.
#[inline(always)]
pub(crate) fn received(
    arrival: &Arrival,
    flags: Flags,
    context: usize,
    buf: usize,
    room: usize,
) -> Completion {
    Completion {
        context,
        flags: arrival
            .completion_flags()
            .union(flags.intersection(Flags::DEFERRED.union(PIECE))),
        len: arrival.len.min(room) as u64,
        buf,
        data: arrival.data,
        tag: arrival.tag,
        from: arrival.from,
        wanted: flags.contains(Flags::COMPLETION),
    }
}

/// Reports the completion of a receive that matched a message: `op` describes what was placed if all went well. What did not
/// fit was cut off, fi_cq(3) "olen".
#[inline(always)]
pub(crate) fn report(
    op: Completion,
    arrival: &Arrival,
    result: Result<(), Errno>,
    out: &mut impl Completions,
) {
    let overflow = arrival.len as u64 - op.len;
    match result {
        Ok(()) if overflow == 0 => out.complete(op),
        Ok(()) => out.fail(Failure {
            op,
            errno: Errno::TRUNC,
            overflow,
            code: 0,
        }),
        Err(errno) => out.fail(Failure {
            op: Completion { len: 0, ..op },
            errno,
            overflow: 0,
            code: 0,
        }),
    }
}
