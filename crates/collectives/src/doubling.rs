//! Schedules that take a logarithm of rounds: for what is short.

use super::schedule::{Buffer, Position, Schedule};

const EMPTY: super::schedule::Span = super::schedule::Span {
    buffer: Buffer::Scratch,
    offset: 0,
    len: 0,
};

/// Dissemination: in each round a member notifies one twice as far away, and is notified by one as far on the other side.
pub(super) fn barrier(schedule: &mut Schedule, position: &Position) {
    let mut distance = 1;
    while distance < position.size {
        schedule.exchange(
            position.after(distance),
            EMPTY,
            position.before(distance),
            EMPTY,
        );
        distance *= 2;
    }
}

/// Recursive doubling. If the number of members is no power of two, some let their neighbour speak for them.
pub(super) fn allreduce(schedule: &mut Schedule, position: &Position) {
    let result = position.slice(Buffer::Result, 0);
    let scratch = position.slice(Buffer::Scratch, 0);
    schedule.copy(position.slice(Buffer::Input, 0), result);
    let power = 1 << position.size.ilog2();
    let rest = position.size - power;
    let is_folded = position.rank < 2 * rest;
    if is_folded && position.rank.is_multiple_of(2) {
        schedule.send(position.rank + 1, result);
        schedule.wait();
        schedule.recv(position.rank + 1, result);
        return;
    }
    if is_folded {
        schedule.recv(position.rank - 1, scratch);
        schedule.wait();
        schedule.combine(scratch, result);
    }
    let me = match is_folded {
        true => position.rank / 2,
        false => position.rank - rest,
    };
    let mut mask = 1;
    while mask < power {
        let partner = match me ^ mask {
            folded if folded < rest => folded * 2 + 1,
            other => other + rest,
        };
        schedule.exchange(partner, result, partner, scratch);
        schedule.combine(scratch, result);
        mask *= 2;
    }
    if is_folded {
        schedule.send(position.rank - 1, result);
    }
}

/// Dissemination of ever more slices, collected in the order of the members behind this one and turned at the end.
pub(super) fn allgather(schedule: &mut Schedule, position: &Position) {
    schedule.copy(
        position.slice(Buffer::Input, 0),
        position.slice(Buffer::Scratch, 0),
    );
    let mut have = 1;
    while have < position.size {
        let count = have.min(position.size - have);
        schedule.exchange(
            position.before(have),
            position.slices(Buffer::Scratch, 0, count),
            position.after(have),
            position.slices(Buffer::Scratch, have, count),
        );
        have += count;
    }
    let behind = position.size - position.rank;
    schedule.copy(
        position.slices(Buffer::Scratch, 0, behind),
        position.slices(Buffer::Result, position.rank, behind),
    );
    if position.rank > 0 {
        schedule.copy(
            position.slices(Buffer::Scratch, behind, position.rank),
            position.slices(Buffer::Result, 0, position.rank),
        );
    }
}
