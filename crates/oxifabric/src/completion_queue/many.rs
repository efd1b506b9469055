//! Reading many completions at once.

use oxifabric_types::Errno;

use super::{by_peer, failed_for_reader, of_parts, shared, sweep};
use crate::Completion;
use crate::raw::{Arrival, Batch, Other, Queue, ReadGuard};

/// Takes completions for the reader, at most `most`: those that were kept, then the next ones.
///
/// Those that were read before an error are in `into`.
pub(super) fn read_many(
    queue: &Queue,
    most: usize,
    into: &mut Vec<Completion>,
) -> Result<(), Errno> {
    let full = into.len().saturating_add(most);
    if queue.has_pending_work() {
        queue.do_pending_work();
        sweep(queue);
        while into.len() < full
            && let Some(kept) = queue.take_kept()
        {
            into.push(kept);
        }
    }
    while into.len() < full {
        let mut batch = Batch::new();
        let guard = queue.begin_read();
        let asked = batch.room().min(full - into.len());
        match queue.read_batch(&mut batch, asked) {
            Ok(arrivals) => {
                let count = arrivals.len();
                into.extend(arrivals.filter_map(|arrival| completion(queue, &guard, arrival)));
                if count < asked {
                    return Ok(());
                }
            }
            Err(ret) => match queue.read_other(&guard, ret)? {
                Other::Empty => return Ok(()),
                Other::Failed(entry) => into.extend(failed_for_reader(queue, entry)),
                Other::Orphan => {}
            },
        }
    }
    Ok(())
}

/// Returns the completion that has arrived; `None` for one of a closed endpoint, or one that was recorded in its scope.
fn completion(queue: &Queue, guard: &ReadGuard<'_>, arrival: Arrival<'_>) -> Option<Completion> {
    match arrival.remote() {
        Some(remote) => Some(by_peer(remote)),
        None => queue.done(guard, arrival).and_then(shared).map(of_parts),
    }
}
