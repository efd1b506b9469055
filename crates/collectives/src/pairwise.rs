//! Schedules in which each pair of members exchanges one slice.

use super::schedule::{Buffer, Position, Schedule};

/// Number of exchanges that are under way at once: enough to hide latency, few enough to keep peers from piling up.
const WINDOW: usize = 8;

/// Every member's slice for every member.
pub(super) fn alltoall(schedule: &mut Schedule, position: &Position) {
    schedule.copy(
        position.slice(Buffer::Input, position.rank),
        position.slice(Buffer::Result, position.rank),
    );
    for first in (1..position.size).step_by(WINDOW) {
        let last = (first + WINDOW).min(position.size);
        for distance in first..last {
            let to = position.after(distance);
            schedule.send(to, position.slice(Buffer::Input, to));
        }
        for distance in first..last {
            let from = position.before(distance);
            schedule.recv(from, position.slice(Buffer::Result, from));
        }
        schedule.wait();
    }
}

/// Every member's part of every slice, reduced by the member that the slice is for.
pub(super) fn reduce_scatter(schedule: &mut Schedule, position: &Position) {
    let result = position.slice(Buffer::Result, 0);
    schedule.copy(position.slice(Buffer::Input, position.rank), result);
    for first in (1..position.size).step_by(WINDOW) {
        let last = (first + WINDOW).min(position.size);
        for distance in first..last {
            let to = position.after(distance);
            schedule.send(to, position.slice(Buffer::Input, to));
        }
        for distance in first..last {
            schedule.recv(
                position.before(distance),
                position.slice(Buffer::Scratch, distance - first),
            );
        }
        schedule.wait();
        for at in 0..last - first {
            schedule.combine(position.slice(Buffer::Scratch, at), result);
        }
    }
}
