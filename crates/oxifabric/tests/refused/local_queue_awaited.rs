//! Whoever watches a queue for futures is another thread.

use oxifabric::{AsyncQueue, CompletionQueue, Local};

fn watch(queue: CompletionQueue<Local>) {
    let _ = AsyncQueue::new(queue);
}

fn main() {}
