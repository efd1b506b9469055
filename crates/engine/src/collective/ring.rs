//! Plans that pass pieces round a circle of all members: for what is long, because no member moves a byte twice.

use super::plan::{Buffer, Place, Plan, Span};

/// Bytes in all beyond which the circle wins over fewer rounds.
const LONG: usize = 64 * 1024;

/// Returns whether an allgather is long enough for the circle.
pub(super) const fn suits_allgather(place: &Place) -> bool {
    place.len.saturating_mul(place.size) > LONG && place.size > 2
}

/// Returns whether an allreduce is long enough for the circle.
pub(super) const fn suits_allreduce(place: &Place) -> bool {
    place.len > LONG && place.size > 2 && place.len / place.element >= place.size
}

/// In each round a member passes on the slice that it got in the round before.
pub(super) fn allgather(plan: &mut Plan, place: &Place) {
    plan.copy(
        place.slice(Buffer::Input, 0),
        place.slice(Buffer::Result, place.rank),
    );
    for round in 0..place.size - 1 {
        plan.exchange(
            place.after(1),
            place.slice(Buffer::Result, place.before(round)),
            place.before(1),
            place.slice(Buffer::Result, place.before(round + 1)),
        );
    }
}

/// One time round, each piece collects what every member adds to it; a second time round, it is handed to all.
pub(super) fn allreduce(plan: &mut Plan, place: &Place) {
    plan.copy(
        place.slice(Buffer::Input, 0),
        place.slice(Buffer::Result, 0),
    );
    let (right, left) = (place.after(1), place.before(1));
    for round in 0..place.size - 1 {
        let into = piece(place, place.before(round + 1));
        let arrived = Span {
            buffer: Buffer::Scratch,
            offset: 0,
            ..into
        };
        plan.exchange(right, piece(place, place.before(round)), left, arrived);
        plan.combine(arrived, into);
    }
    for round in 0..place.size - 1 {
        plan.exchange(
            right,
            piece(place, place.after(place.size + 1 - round)),
            left,
            piece(place, place.before(round)),
        );
    }
}

/// Returns the piece of the result that belongs to a rank: whole elements, as many for each as possible.
fn piece(place: &Place, rank: usize) -> Span {
    let elements = place.len / place.element;
    let (each, more) = (elements / place.size, elements % place.size);
    let begin = rank * each + rank.min(more);
    let count = each + usize::from(rank < more);
    Span {
        buffer: Buffer::Result,
        offset: begin * place.element,
        len: count * place.element,
    }
}
