//! Schedules that pass pieces round a ring of all members: for long messages, because each member sends about as many bytes as the result has,
//! once for an allgather and twice for an allreduce, however many members there are.

use super::schedule::{Buffer, Position, Schedule, Span};

/// Length of the result, in bytes, beyond which the ring is faster than the algorithms with fewer rounds.
const LONG: usize = 64 * 1024;

/// Returns whether an allgather is long enough for the ring.
pub(super) const fn suits_allgather(position: &Position) -> bool {
    position.len.saturating_mul(position.size) > LONG && position.size > 2
}

/// Returns whether an allreduce is long enough for the ring.
pub(super) const fn suits_allreduce(position: &Position) -> bool {
    position.len > LONG && position.size > 2 && position.len / position.element >= position.size
}

/// Makes an allgather: in each round a member passes on the slice that it got in the round before.
pub(super) fn allgather(schedule: &mut Schedule, position: &Position) {
    schedule.copy(
        position.slice(Buffer::Input, 0),
        position.slice(Buffer::Result, position.rank),
    );
    for round in 0..position.size - 1 {
        schedule.exchange(
            position.after(1),
            position.slice(Buffer::Result, position.before(round)),
            position.before(1),
            position.slice(Buffer::Result, position.before(round + 1)),
        );
    }
}

/// Makes an allreduce: a reduce-scatter, in which each piece goes round the ring and every member adds to it, and an allgather of the pieces.
pub(super) fn allreduce(schedule: &mut Schedule, position: &Position) {
    schedule.copy(
        position.slice(Buffer::Input, 0),
        position.slice(Buffer::Result, 0),
    );
    let (right, left) = (position.after(1), position.before(1));
    for round in 0..position.size - 1 {
        let into = piece(position, position.before(round + 1));
        let arrived = Span {
            buffer: Buffer::Scratch,
            offset: 0,
            ..into
        };
        schedule.exchange(
            right,
            piece(position, position.before(round)),
            left,
            arrived,
        );
        schedule.combine(arrived, into);
    }
    for round in 0..position.size - 1 {
        schedule.exchange(
            right,
            piece(position, position.after(position.size + 1 - round)),
            left,
            piece(position, position.before(round)),
        );
    }
}

/// Returns the piece of the result that belongs to a rank: whole elements, as many for each as possible.
fn piece(position: &Position, rank: usize) -> Span {
    let elements = position.len / position.element;
    let (each, more) = (elements / position.size, elements % position.size);
    let begin = rank * each + rank.min(more);
    let count = each + usize::from(rank < more);
    Span {
        buffer: Buffer::Result,
        offset: begin * position.element,
        len: count * position.element,
    }
}
