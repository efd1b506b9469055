//! Schedules that pass pieces round a circle of all members: for what is long, because no member moves a byte twice.

use super::schedule::{Buffer, Position, Schedule, Span};

/// Bytes in all beyond which the circle wins over fewer rounds.
const LONG: usize = 64 * 1024;

/// Returns whether an allgather is long enough for the circle.
pub(super) const fn suits_allgather(position: &Position) -> bool {
    position.len.saturating_mul(position.size) > LONG && position.size > 2
}

/// Returns whether an allreduce is long enough for the circle.
pub(super) const fn suits_allreduce(position: &Position) -> bool {
    position.len > LONG && position.size > 2 && position.len / position.element >= position.size
}

/// In each round a member passes on the slice that it got in the round before.
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

/// One time round, each piece collects what every member adds to it; a second time round, it is handed to all.
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
