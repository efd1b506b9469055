//! Schedules whose number of rounds is the logarithm of the group's size: for short messages.

use super::schedule::{Buffer, Position, Schedule};

const EMPTY: super::schedule::Span = super::schedule::Span {
    buffer: Buffer::Scratch,
    offset: 0,
    len: 0,
};

/// Makes a dissemination barrier: in each round a member notifies the rank at a distance that doubles, and waits for the rank at that
/// distance on the other side.
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

/// Makes an allreduce by recursive doubling. If the number of members is no power of two, the first members form pairs: the even
/// rank sends its data to the odd one, which takes part for both and sends the result back. The pairs are as many as the remainder.
pub(super) fn allreduce(schedule: &mut Schedule, position: &Position) {
    let result = position.slice(Buffer::Result, 0);
    let scratch = position.slice(Buffer::Scratch, 0);
    schedule.copy(position.slice(Buffer::Input, 0), result);
    let power = 1 << position.size.ilog2();
    let remainder = position.size - power;
    let is_in_remainder = position.rank < 2 * remainder;
    if is_in_remainder && position.rank.is_multiple_of(2) {
        schedule.send(position.rank + 1, result);
        schedule.wait();
        schedule.recv(position.rank + 1, result);
        return;
    }
    if is_in_remainder {
        schedule.recv(position.rank - 1, scratch);
        schedule.wait();
        schedule.combine(scratch, result);
    }
    let me = match is_in_remainder {
        true => position.rank / 2,
        false => position.rank - remainder,
    };
    let mut mask = 1;
    while mask < power {
        let peer = match me ^ mask {
            rank if rank < remainder => rank * 2 + 1,
            rank => rank + remainder,
        };
        schedule.exchange(peer, result, peer, scratch);
        schedule.combine(scratch, result);
        mask *= 2;
    }
    if is_in_remainder {
        schedule.send(position.rank - 1, result);
    }
}

/// Makes an allgather by Bruck's algorithm: a member collects the slices of ever more ranks from its own on, and rotates them into the order of
/// ranks at the end.
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
