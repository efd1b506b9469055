//! Queues whose descriptors tokio polls.

use core::task::{Context, Poll};
use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{AsyncQueue, QueueDescriptor, Readiness};
use crate::{CompletionQueue, Error};

impl AsyncQueue {
    /// Has tokio poll the queue's descriptor. It must be called within a runtime that has I/O enabled.
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
        // Cleared before the queue is read, so that a completion that comes after the read is noticed.
        self.poll_read_ready(cx)
            .map(|ready| ready.map(|mut guard| guard.clear_ready()))
    }
}
