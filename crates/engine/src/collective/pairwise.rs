//! Plans in which each pair of members exchanges one slice.

use super::plan::{Buffer, Place, Plan};

/// How many exchanges are under way at once: enough to hide latency, few enough to keep peers from piling up.
const WINDOW: usize = 8;

/// Every member's slice for every member.
pub(super) fn alltoall(plan: &mut Plan, place: &Place) {
    plan.copy(
        place.slice(Buffer::Input, place.rank),
        place.slice(Buffer::Result, place.rank),
    );
    for first in (1..place.size).step_by(WINDOW) {
        let last = (first + WINDOW).min(place.size);
        for distance in first..last {
            let to = place.after(distance);
            plan.send(to, place.slice(Buffer::Input, to));
        }
        for distance in first..last {
            let from = place.before(distance);
            plan.recv(from, place.slice(Buffer::Result, from));
        }
        plan.wait();
    }
}

/// Every member's part of every slice, reduced by the member that the slice is for.
pub(super) fn reduce_scatter(plan: &mut Plan, place: &Place) {
    let result = place.slice(Buffer::Result, 0);
    plan.copy(place.slice(Buffer::Input, place.rank), result);
    for first in (1..place.size).step_by(WINDOW) {
        let last = (first + WINDOW).min(place.size);
        for distance in first..last {
            let to = place.after(distance);
            plan.send(to, place.slice(Buffer::Input, to));
        }
        for distance in first..last {
            plan.recv(
                place.before(distance),
                place.slice(Buffer::Scratch, distance - first),
            );
        }
        plan.wait();
        for at in 0..last - first {
            plan.combine(place.slice(Buffer::Scratch, at), result);
        }
    }
}
