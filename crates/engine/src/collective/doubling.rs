//! Plans that take a logarithm of rounds: for what is short.

use super::plan::{Buffer, Place, Plan};

const EMPTY: super::plan::Span = super::plan::Span {
    buffer: Buffer::Scratch,
    offset: 0,
    len: 0,
};

/// Dissemination: in each round a member tells one twice as far away, and hears from one as far on the other side.
pub(super) fn barrier(plan: &mut Plan, place: &Place) {
    let mut distance = 1;
    while distance < place.size {
        plan.exchange(place.after(distance), EMPTY, place.before(distance), EMPTY);
        distance *= 2;
    }
}

/// Recursive doubling. If the number of members is no power of two, some let their neighbour speak for them.
pub(super) fn allreduce(plan: &mut Plan, place: &Place) {
    let result = place.slice(Buffer::Result, 0);
    let scratch = place.slice(Buffer::Scratch, 0);
    plan.copy(place.slice(Buffer::Input, 0), result);
    let power = 1 << place.size.ilog2();
    let rest = place.size - power;
    let is_folded = place.rank < 2 * rest;
    if is_folded && place.rank.is_multiple_of(2) {
        plan.send(place.rank + 1, result);
        plan.wait();
        plan.recv(place.rank + 1, result);
        return;
    }
    if is_folded {
        plan.recv(place.rank - 1, scratch);
        plan.wait();
        plan.combine(scratch, result);
    }
    let me = match is_folded {
        true => place.rank / 2,
        false => place.rank - rest,
    };
    let mut mask = 1;
    while mask < power {
        let partner = match me ^ mask {
            folded if folded < rest => folded * 2 + 1,
            other => other + rest,
        };
        plan.exchange(partner, result, partner, scratch);
        plan.combine(scratch, result);
        mask *= 2;
    }
    if is_folded {
        plan.send(place.rank - 1, result);
    }
}

/// Dissemination of ever more slices, collected in the order of the members behind this one and turned at the end.
pub(super) fn allgather(plan: &mut Plan, place: &Place) {
    plan.copy(
        place.slice(Buffer::Input, 0),
        place.slice(Buffer::Scratch, 0),
    );
    let mut have = 1;
    while have < place.size {
        let count = have.min(place.size - have);
        plan.exchange(
            place.before(have),
            place.slices(Buffer::Scratch, 0, count),
            place.after(have),
            place.slices(Buffer::Scratch, have, count),
        );
        have += count;
    }
    let behind = place.size - place.rank;
    plan.copy(
        place.slices(Buffer::Scratch, 0, behind),
        place.slices(Buffer::Result, place.rank, behind),
    );
    if place.rank > 0 {
        plan.copy(
            place.slices(Buffer::Scratch, behind, place.rank),
            place.slices(Buffer::Result, 0, place.rank),
        );
    }
}
