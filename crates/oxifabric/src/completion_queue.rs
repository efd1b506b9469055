//! Completions of operations. Source: fi_cq(3).

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use oxifabric_abi::FI_REMOTE_CQ_DATA;
use oxifabric_types::Errno;

use crate::raw::{Entry, ErrorEntry, Polled, Queue};
use crate::{Address, Buffer, Domain, Error, Op, Operation, OperationError, Peer};

/// Where the completions of endpoints appear.
///
/// Reading it is also what moves operations forward, with providers of manual progress. Clones are the same queue; it is
/// closed when the last one and all endpoints that use it are dropped.
#[derive(Clone)]
pub struct CompletionQueue {
    queue: Arc<Queue>,
    waits: bool,
}

/// A completed operation, which gives its buffer back.
#[derive(Debug)]
pub struct Completion {
    /// The operation.
    pub op: Op,
    /// Its buffer. After a receive it is as long as the message.
    pub buffer: Buffer,
    /// What happened.
    pub outcome: Result<Transfer, Error>,
}

/// A message that was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfer {
    /// Which of both.
    pub operation: Operation,
    /// The length of a message that was received, in bytes.
    pub len: usize,
    /// The tag of a message that was received.
    pub tag: u64,
    /// The data that came beside the message, if any.
    pub data: Option<u64>,
    /// Who sent it, if the offer has [`Caps::SOURCE`](crate::Caps::SOURCE) and the sender is in the endpoint's address vector.
    pub source: Option<Peer>,
}

/// The longest time of one blocking read: the C call takes milliseconds in 31 bits.
const LONGEST_MS: i32 = 60_000;

impl CompletionQueue {
    /// Opens a queue for `size` completions, on which threads can sleep if the provider is able to.
    ///
    /// # Errors
    ///
    /// What `fi_cq_open` returned.
    pub fn open(domain: &Domain, size: usize) -> Result<Self, Error> {
        match Queue::open(domain.object().clone(), size, true) {
            Ok(queue) => Ok(Self {
                queue: Arc::new(queue),
                waits: true,
            }),
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Self::polled(domain, size),
            Err(errno) => Err(Error::call("fi_cq_open")(errno)),
        }
    }

    /// Opens a queue that is only polled, which spares some providers the cost of waking anybody.
    ///
    /// [`CompletionQueue::wait`] works too, by polling.
    ///
    /// # Errors
    ///
    /// What `fi_cq_open` returned.
    pub fn polled(domain: &Domain, size: usize) -> Result<Self, Error> {
        let queue =
            Queue::open(domain.object().clone(), size, false).map_err(Error::call("fi_cq_open"))?;
        Ok(Self {
            queue: Arc::new(queue),
            waits: false,
        })
    }

    /// Takes one completion if there is one.
    ///
    /// # Errors
    ///
    /// An error of the queue itself, such as an overrun. That an operation failed is in [`Completion::outcome`].
    #[inline]
    pub fn poll(&self) -> Result<Option<Completion>, Error> {
        self.read(None)
    }

    /// Takes one completion, waiting for it at most as long as `timeout`; without one, until there is a completion or
    /// somebody calls [`CompletionQueue::wake`].
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Option<Completion>, Error> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let read = if self.waits {
                self.read(Some(milliseconds(left)))?
            } else {
                self.poll()?
            };
            if read.is_some() || left == Some(Duration::ZERO) {
                return Ok(read);
            }
            if !self.waits {
                std::thread::yield_now();
            } else if deadline.is_none() {
                // Woken, or a very long time has passed; both are for the caller to judge.
                return Ok(None);
            }
        }
    }

    /// Makes one thread that waits return without a completion.
    ///
    /// # Errors
    ///
    /// What `fi_cq_signal` returned; `NOSYS` for a queue that is only polled.
    pub fn wake(&self) -> Result<(), Error> {
        self.queue.signal().map_err(Error::call("fi_cq_signal"))
    }

    #[inline]
    fn read(&self, timeout_ms: Option<i32>) -> Result<Option<Completion>, Error> {
        loop {
            match self.queue.read(timeout_ms) {
                Ok(Polled::Empty) => return Ok(None),
                Ok(Polled::Done(entry)) => return Ok(Some(done(entry))),
                Ok(Polled::Failed(entry)) => return Ok(Some(self.failed(*entry))),
                Ok(Polled::Orphan) => {}
                Err(errno) => return Err(Error::call("fi_cq_read")(errno)),
            }
        }
    }

    #[cold]
    fn failed(&self, entry: ErrorEntry) -> Completion {
        let domain = self.queue.domain();
        let format = crate::AddressFormat(domain.info().addr_format());
        let bytes = entry.load.peer.and_then(|peer| self.queue.address(peer));
        Completion {
            op: entry.op,
            buffer: entry.load.buffer,
            outcome: Err(Error::Operation(Box::new(OperationError {
                operation: entry.load.operation,
                peer: bytes.map(|bytes| Address::new(format, &bytes)),
                errno: entry.errno,
                provider_errno: entry.prov_errno,
                detail: entry.detail,
                overflow: entry.overflow,
            }))),
        }
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

#[inline]
fn done(entry: Entry) -> Completion {
    let mut buffer = entry.load.buffer;
    let operation = entry.load.operation;
    let len = match operation {
        Operation::Send => buffer.len(),
        Operation::Receive => entry.len.min(buffer.len()),
    };
    buffer.resize(len);
    Completion {
        op: entry.op,
        buffer,
        outcome: Ok(Transfer {
            operation,
            len,
            tag: entry.tag,
            data: (entry.flags & FI_REMOTE_CQ_DATA != 0).then_some(entry.data),
            source: entry.source,
        }),
    }
}

/// A time as the C call takes it, rounded up.
fn milliseconds(time: Option<Duration>) -> i32 {
    let Some(time) = time else {
        return -1;
    };
    let ms = time.as_nanos().div_ceil(1_000_000);
    i32::try_from(ms).unwrap_or(LONGEST_MS).min(LONGEST_MS)
}
