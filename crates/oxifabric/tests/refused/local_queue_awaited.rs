//! Another thread polls a queue for futures.

use oxifabric::{AsyncQueue, CompletionQueue, Local};

fn watch(queue: CompletionQueue<Local>) {
    let _ = AsyncQueue::new(queue);
}

fn main() {}
