//! Completions of operations. Source: fi_cq(3).

mod many;

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::sync::Arc;

use oxifabric_abi::{FI_REMOTE_CQ_DATA, FI_REMOTE_READ};
use oxifabric_types::Errno;

use self::many::read_many;
use crate::atomic::Fetched;
use crate::deadline::{Deadline, milliseconds};
use crate::raw::{Done, Entry, ErrorEntry, Other, Polled, Queue, ReadGuard, Remote, Room, Waits};
use crate::threading::Marker;
use crate::{
    Address, Buffer, Domain, Error, Op, Operation, OperationError, Peer, Shared, Threading,
};

/// A queue of the completions of endpoints' operations.
///
/// With providers of manual progress, reading it also drives the operations. Clones are the same queue; it is closed when the
/// last clone and all endpoints that use it are dropped.
///
/// Any number of threads may read one queue at the same time, if its domain is [`Shared`]. Each completion goes to one of them, whichever
/// reads it, and not to the thread that has posted the operation: [`CompletionQueue::wait`] and [`CompletionQueue::next`] return the next
/// completion of *any* operation of the queue's endpoints. Threads that wait for operations of their own have a queue each, or one of
/// them reads and hands the others their completions by [`Completion::op`], which can be the key of a map; a scope ([`Endpoint::scope`](crate::Endpoint::scope))
/// and futures ([`AsyncQueue`](crate::AsyncQueue)) do that by themselves. While one thread waits, the operations of all others make progress.
pub struct CompletionQueue<T: Threading = Shared> {
    queue: Arc<Queue>,
    waits: Waits,
    threading: Marker<T>,
}

/// A completed operation, which returns its buffer.
#[derive(Debug)]
pub struct Completion {
    /// The operation: what the post returned, and a key to find what belongs to it; [`Op::PEER`] for an access by a peer.
    pub op: Op,
    /// Its buffer. After a receive it is as long as the message. It is empty if the operation had no buffer of its own.
    pub buffer: Buffer,
    /// The result of the operation.
    pub outcome: Result<Transfer, Error>,
}

impl Completion {
    /// Returns the buffer and the transfer of an operation that succeeded.
    ///
    /// # Errors
    ///
    /// The operation's error; the buffer is dropped then.
    #[inline(always)]
    pub fn ok(self) -> Result<(Buffer, Transfer), Error> {
        match self.outcome {
            Ok(transfer) => Ok((self.buffer, transfer)),
            Err(error) => Err(error),
        }
    }
}

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfer {
    /// The kind of operation.
    pub operation: Operation,
    /// The length of the transfer, in bytes.
    pub len: usize,
    /// The tag of a message that was received.
    pub tag: u64,
    /// The remote completion data that came with the message, if any.
    pub data: Option<u64>,
    /// The sender, if the offer has [`Caps::SOURCE`](crate::Caps::SOURCE) and the sender is in the endpoint's address vector.
    pub source: Option<Peer>,
    pub(crate) fetched: Fetched,
}

impl<T: Threading> CompletionQueue<T> {
    /// Opens a queue for `size` completions, on which threads can sleep if the provider supports that.
    ///
    /// # Errors
    ///
    /// What `fi_cq_open` returned.
    pub fn open(domain: &Domain<T>, size: usize) -> Result<Self, Error> {
        let mut last = Errno::NOSYS;
        for waits in [Waits::Descriptor, Waits::Somehow, Waits::No] {
            match Self::open_with(domain, size, waits) {
                Ok(queue) => return Ok(queue),
                Err(errno @ (Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL)) => last = errno,
                Err(errno) => return Err(Error::call("fi_cq_open")(errno)),
            }
        }
        Err(Error::call("fi_cq_open")(last))
    }

    /// Opens a queue that is only polled, which saves some providers the cost of waking threads.
    ///
    /// [`CompletionQueue::wait`] works too, by polling.
    ///
    /// # Errors
    ///
    /// What `fi_cq_open` returned.
    pub fn polled(domain: &Domain<T>, size: usize) -> Result<Self, Error> {
        Self::open_with(domain, size, Waits::No).map_err(Error::call("fi_cq_open"))
    }

    fn open_with(domain: &Domain<T>, size: usize, waits: Waits) -> Result<Self, Errno> {
        let queue = Queue::open(domain.object().clone(), size, waits)?;
        Ok(Self {
            queue: Arc::new(queue),
            waits,
            threading: PhantomData,
        })
    }

    /// Takes one completion if there is one.
    ///
    /// # Errors
    ///
    /// An error of the queue itself, such as an overrun. The failure of an operation is in [`Completion::outcome`].
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<Completion>, Error> {
        read(&self.queue, None).map_err(Error::call("fi_cq_read"))
    }

    /// Takes the completions that there are, at most `most`, and adds them to `into`; returns how many there were.
    ///
    /// One read of the library takes up to 16 of them, so it costs less than as many calls of [`CompletionQueue::poll`].
    ///
    /// ```no_run
    /// # fn serve(queue: &oxifabric::CompletionQueue) -> Result<(), oxifabric::Error> {
    /// let mut completions = Vec::with_capacity(64);
    /// while queue.poll_many(&mut completions, 64)? > 0 {
    ///     for completion in completions.drain(..) {
    ///         println!("{:?}", completion.ok()?.1);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`]; what was read before the error is in `into`.
    pub fn poll_many(&self, into: &mut Vec<Completion>, most: usize) -> Result<usize, Error> {
        let before = into.len();
        read_many(&self.queue, most, into).map_err(Error::call("fi_cq_read"))?;
        Ok(into.len() - before)
    }

    /// Takes one completion, of whichever operation, waiting for it as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub fn next(&self) -> Result<Completion, Error> {
        loop {
            if let Some(completion) = self.wait(None)? {
                return Ok(completion);
            }
        }
    }

    /// Takes one completion, of whichever operation, waiting for it at most as long as `timeout`; without a timeout, until there is a
    /// completion or a thread calls [`CompletionQueue::wake`].
    ///
    /// Meanwhile it drives all endpoints of the queue, those that other threads post on too. Of several threads that wait, one gets each
    /// completion.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Option<Completion>, Error> {
        let deadline = Deadline::after(timeout);
        let waits = self.waits != Waits::No;
        loop {
            let left = deadline.left();
            let found = if waits {
                read(&self.queue, Some(milliseconds(left))).map_err(Error::call("fi_cq_sread"))?
            } else {
                self.poll()?
            };
            if found.is_some() || left == Some(Duration::ZERO) {
                return Ok(found);
            }
            if !waits {
                std::thread::yield_now();
            } else if left.is_none() {
                // Woken, or a very long time has passed; the caller decides about both.
                return Ok(None);
            }
        }
    }

    /// Makes one waiting thread return without a completion.
    ///
    /// # Errors
    ///
    /// What `fi_cq_signal` returned; `NOSYS` for a queue that is only polled.
    pub fn wake(&self) -> Result<(), Error> {
        self.queue.signal().map_err(Error::call("fi_cq_signal"))
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

impl<T: Threading> Clone for CompletionQueue<T> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            waits: self.waits,
            threading: PhantomData,
        }
    }
}

impl<T: Threading> fmt::Debug for CompletionQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

/// Drives progress, and records outcomes of a scope's operations in the scope. Other completions are kept for the threads that read the queue.
pub(crate) fn progress(queue: &Queue) -> Result<(), Error> {
    let read = read_now(queue, None);
    if let Some(completion) = read.map_err(Error::call("fi_cq_read"))? {
        queue.keep(completion);
    }
    Ok(())
}

/// Takes one completion for the reader: one that was kept, or the next.
///
/// It is inlined into the caller, so that only the fields that the caller uses are kept, in registers. For that, no other function
/// may write to where the completion is put together; so rare results are boxed.
#[inline(always)]
pub(crate) fn read(queue: &Queue, timeout_ms: Option<i32>) -> Result<Option<Completion>, Errno> {
    if queue.has_pending_work() {
        return unboxed(read_after_pending_work(queue, timeout_ms));
    }
    read_now(queue, timeout_ms)
}

/// A rare result: a completion that was kept or that failed, or an error of the queue; `None` if there is no completion.
type Rare = Option<Box<Result<Completion, Errno>>>;

#[inline(always)]
fn unboxed(rare: Rare) -> Result<Option<Completion>, Errno> {
    rare.map(|found| *found).transpose()
}

fn boxed(found: Result<Option<Completion>, Errno>) -> Rare {
    found.transpose().map(Box::new)
}

#[cold]
fn read_after_pending_work(queue: &Queue, timeout_ms: Option<i32>) -> Rare {
    queue.do_pending_work();
    sweep(queue);
    boxed(match queue.take_kept() {
        Some(kept) => Ok(Some(kept)),
        None => read_now(queue, timeout_ms),
    })
}

/// Takes one completion for the reader; those of operations of scopes are recorded in their scopes.
#[inline(always)]
fn read_now(queue: &Queue, timeout_ms: Option<i32>) -> Result<Option<Completion>, Errno> {
    let mut room = Room::new();
    let guard = queue.begin_read();
    match queue.read(timeout_ms, &mut room) {
        Polled::Empty => Ok(None),
        Polled::Arrived(arrival) => match arrival.remote() {
            Some(remote) => Ok(Some(by_peer(remote))),
            None => match queue.done(&guard, arrival) {
                Some(done) if done.is_plain() => Ok(Some(of_parts(parts(done.finish_plain())))),
                Some(done) => Ok(shared(done).map(of_parts)),
                None => unboxed(read_next(queue, timeout_ms)),
            },
        },
        Polled::Other(ret) => unboxed(read_other(queue, &guard, timeout_ms, ret)),
    }
}

#[cold]
fn read_other(queue: &Queue, guard: &ReadGuard<'_>, timeout_ms: Option<i32>, ret: isize) -> Rare {
    boxed(match queue.read_other(guard, ret) {
        Ok(Other::Empty) => Ok(None),
        Ok(Other::Failed(entry)) => Ok(failed_for_reader(queue, entry)),
        Ok(Other::Orphan) => return read_next(queue, timeout_ms),
        Err(errno) => Err(errno),
    })
}

/// Reads on after a completion that is not the reader's: that of a closed endpoint, or of a scope's operation. The queue may be full of them.
#[cold]
fn read_next(queue: &Queue, timeout_ms: Option<i32>) -> Rare {
    // A wait with a timeout has had its completion; the caller handles the time that is left.
    let timeout_ms = timeout_ms.map(|timeout| timeout.min(0));
    loop {
        match step(queue, timeout_ms) {
            Ok(Step::Empty) => return None,
            Ok(Step::Found(completion)) => return boxed(Ok(Some(*completion))),
            Ok(Step::Gone) => {}
            Err(errno) => return boxed(Err(errno)),
        }
    }
}

/// The result of one read.
enum Step {
    /// The queue is empty.
    Empty,
    /// A completion for the reader.
    Found(Box<Completion>),
    /// A completion of a closed endpoint, or one that was recorded in its scope.
    Gone,
}

/// Reads once; the cold path of [`read_now`].
#[cold]
fn step(queue: &Queue, timeout_ms: Option<i32>) -> Result<Step, Errno> {
    let mut room = Room::new();
    let guard = queue.begin_read();
    let polled = match timeout_ms {
        None => queue.read_or_reclaim(&mut room),
        Some(_) => queue.read(timeout_ms, &mut room),
    };
    let found = match polled {
        Polled::Empty => return Ok(Step::Empty),
        Polled::Arrived(arrival) => match arrival.remote() {
            Some(remote) => Some(by_peer(remote)),
            None => queue.done(&guard, arrival).and_then(shared).map(of_parts),
        },
        Polled::Other(ret) => match queue.read_other(&guard, ret)? {
            Other::Empty => return Ok(Step::Empty),
            Other::Failed(entry) => failed_for_reader(queue, entry),
            Other::Orphan => None,
        },
    };
    Ok(found.map_or(Step::Gone, |completion| Step::Found(Box::new(completion))))
}

/// Empties the queue if slots of closed endpoints wait for that before they are used again; keeps what it reads for the threads
/// that read the queue.
pub(crate) fn sweep(queue: &Queue) {
    /// Maximum number of reads of one sweep, for queues where completions come as fast as they are read. The next reader continues.
    const READS: usize = 1 << 12;
    if !queue.has_orphans() {
        return;
    }
    for _ in 0..READS {
        match step(queue, None) {
            Ok(Step::Found(completion)) => queue.keep(*completion),
            Ok(Step::Gone) => {}
            Ok(Step::Empty) | Err(_) => return,
        }
    }
}

/// A completed operation, the buffer that it owned alone, and its transfer.
type Parts = (Op, Buffer, Transfer);

#[inline(always)]
fn of_parts((op, buffer, transfer): Parts) -> Completion {
    Completion {
        op,
        buffer,
        outcome: Ok(transfer),
    }
}

#[inline(always)]
fn parts(mut entry: Entry) -> Parts {
    let (op, transfer) = (entry.op, transfer(&mut entry));
    (op, entry.in_flight.memory.into_buffer(), transfer)
}

/// Finishes an operation that does not own its memory, or that fetched something. The outcome of a scope's operation is recorded in the
/// scope, and `None` returned.
#[inline(never)]
fn shared(done: Done<'_>) -> Option<Parts> {
    let mut entry = done.finish();
    let Some(outcomes) = entry.in_flight.memory.outcomes().cloned() else {
        return Some(parts(entry));
    };
    let (op, transfer) = (entry.op, transfer(&mut entry));
    // The outcome is recorded before the memory is released: the scope may end as soon as that is gone.
    outcomes.record(op, Ok(transfer));
    None
}

/// Returns the transfer; shortens the buffer of a receive to the message.
#[inline(always)]
fn transfer(entry: &mut Entry) -> Transfer {
    let operation = entry.in_flight.operation;
    let len = match operation {
        Operation::Receive => entry.in_flight.memory.shorten(entry.len),
        _ => entry.in_flight.memory.len(),
    };
    Transfer {
        operation,
        len,
        tag: entry.tag,
        data: (entry.flags & FI_REMOTE_CQ_DATA != 0).then_some(entry.data),
        source: entry.source,
        fetched: entry.fetched,
    }
}

/// Returns the completion of a failed operation; `None` for a scope's, whose outcome is recorded in the scope.
#[cold]
fn failed_for_reader(queue: &Queue, entry: ErrorEntry) -> Option<Completion> {
    let Some(outcomes) = entry.in_flight.memory.outcomes().cloned() else {
        return Some(failed(queue, entry));
    };
    let failed = failed(queue, entry);
    if let Err(error) = failed.outcome {
        outcomes.record(failed.op, Err(error));
    }
    None
}

#[inline(always)]
fn by_peer(remote: Remote) -> Completion {
    Completion {
        op: Op::PEER,
        buffer: Buffer::new(),
        outcome: Ok(Transfer {
            operation: match remote.flags & FI_REMOTE_READ {
                0 => Operation::RemoteWrite,
                _ => Operation::RemoteRead,
            },
            len: remote.len,
            tag: 0,
            data: (remote.flags & FI_REMOTE_CQ_DATA != 0).then_some(remote.data),
            source: None,
            fetched: Fetched::NOTHING,
        }),
    }
}

fn failed(queue: &Queue, entry: ErrorEntry) -> Completion {
    let format = crate::AddressFormat(queue.domain().info().addr_format());
    let bytes = entry.in_flight.peer().and_then(|peer| queue.address(peer));
    Completion {
        op: entry.op,
        outcome: Err(Error::Operation(Box::new(OperationError {
            operation: entry.in_flight.operation,
            peer: bytes.map(|bytes| Address::new(format, &bytes)),
            errno: entry.errno,
            provider_errno: entry.prov_errno,
            detail: entry.detail,
            overflow: entry.overflow,
        }))),
        buffer: entry.in_flight.memory.into_buffer(),
    }
}
