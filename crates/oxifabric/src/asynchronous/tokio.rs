//! Queues that tokio watches.

use core::task::{Context, Poll};
use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{AsyncQueue, QueueDescriptor, Readiness};
use crate::{CompletionQueue, Error};

impl AsyncQueue {
    /// Has tokio watch the queue. It must be called within a runtime that has I/O enabled.
    ///
    /// # Errors
    ///
    /// As [`AsyncQueue::with`].
    ///
    /// # Panics
    ///
    /// Outside of a runtime, as all of tokio does.
    pub fn tokio(queue: CompletionQueue) -> Result<Self, Error> {
        #[allow(
            deprecated,
            reason = "the successor is unsafe for the sake of types that do not own their descriptor, as this one does"
        )]
        Self::with(queue, |descriptor| {
            AsyncFd::with_interest(descriptor, Interest::READABLE)
        })
    }
}

impl Readiness for AsyncFd<QueueDescriptor> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Cleared before the queue is read, so that nothing is lost that comes after it was.
        self.poll_read_ready(cx)
            .map(|ready| ready.map(|mut guard| guard.clear_ready()))
    }
}
