//! Futures of operations, for any executor.
//!
//! A future reads the completion queue when it is polled. When the queue is empty, the future registers its waker with a
//! [`Readiness`], which polls the queue's descriptor and wakes the future when that becomes readable: a thread of this crate
//! ([`AsyncQueue::new`]), tokio (`AsyncQueue::tokio`, with the feature `tokio`), or what an executor has ([`AsyncQueue::with`]).

mod endpoint;
#[cfg(feature = "tokio")]
mod tokio;
mod watcher;

pub use endpoint::AsyncEndpoint;

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Wake;

use oxifabric_types::Errno;

use self::watcher::Watched;
use crate::lock::lock;
use crate::raw::Queue;
use crate::{Buffer, Completion, CompletionQueue, Error, Op};

/// Maximum number of completions that are kept for [`AsyncQueue::next`]; the rest stay in the completion queue.
const OTHERS_MAX: usize = 16_384;

/// A source of readiness, which wakes futures when a queue has something.
pub trait Readiness: Send + Sync {
    /// Returns [`Poll::Ready`] if the descriptor has become readable since the last call; if not, the waker is woken when it does.
    ///
    /// Only the waker of the last call counts. It must not be woken inside the call.
    ///
    /// # Errors
    ///
    /// The error of a descriptor that cannot be polled.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// The descriptor of a queue, which becomes readable when there is something to be read from the queue.
#[derive(Clone)]
pub struct QueueDescriptor {
    queue: Arc<Queue>,
    fd: RawFd,
}

/// A completion queue whose completions wake the futures that wait for them.
///
/// Clones are the same queue. No other code should read the completion queue: what it reads never reaches its future.
#[derive(Clone)]
pub struct AsyncQueue(Arc<Shared>);

struct Shared {
    queue: CompletionQueue,
    readiness: Box<dyn Readiness>,
    state: Mutex<State>,
    /// The waker of one future, which then drives the queue for all.
    waker: Waker,
}

#[derive(Default)]
struct State {
    /// Tasks whose posts found the queue full; each completion may make room.
    blocked_posts: Vec<Waker>,
    operations: HashMap<Op, Entry>,
    /// Completions that no future waits for.
    others: VecDeque<Completion>,
    /// Whether [`AsyncQueue::next`] was ever asked for one.
    takes_others: bool,
    /// Futures of [`AsyncQueue::next`] that wait for such completions, by their numbers.
    nexts: BTreeMap<u64, Waker>,
    /// How many futures of `next` were polled.
    next_number: u64,
    /// The future that was woken to drive the queue.
    driver: Option<Driver>,
}

/// A future that drives the queue for all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Driver {
    Operation(Op),
    /// One of [`AsyncQueue::next`], by its number.
    Next(u64),
}

enum Entry {
    /// A future waits for the completion; with its waker, once it was polled.
    Waiting(Option<Waker>),
    Done(Completion),
    /// The future was dropped; its completion will be, too.
    Abandoned,
}

/// The effects of reading the queue, to be carried out once the lock is free.
#[derive(Default)]
struct Effects {
    /// Futures to wake.
    woken: Vec<Waker>,
    /// Completions that no future wants. Their memory may have a release callback of the application, which may use the queue.
    unwanted: Vec<Completion>,
    /// Wakers in whose place others came. They may be the last owners of tasks whose futures use the queue.
    replaced: Vec<Waker>,
}

impl Effects {
    fn carry_out(self) {
        self.woken.into_iter().for_each(Waker::wake);
    }
}

impl AsyncQueue {
    /// Has a thread of this crate poll the queue's descriptor; one thread serves all queues of the process.
    ///
    /// # Errors
    ///
    /// As [`AsyncQueue::with`].
    pub fn new(queue: CompletionQueue) -> Result<Self, Error> {
        Self::with(queue, |descriptor| Ok(Watched::new(descriptor)))
    }

    /// Has another source of readiness poll the queue; `watch` makes it from the queue's descriptor.
    ///
    /// # Errors
    ///
    /// `NOSYS` and the like for a queue without a descriptor: one that is only polled, or of a provider that has none; the error of
    /// `watch`.
    pub fn with<R: Readiness + 'static>(
        queue: CompletionQueue,
        watch: impl FnOnce(QueueDescriptor) -> io::Result<R>,
    ) -> Result<Self, Error> {
        let raw = queue.queue();
        let fd = raw.descriptor().map_err(|errno| {
            let cause = "futures sleep on the descriptor of their queue, and this one has none; open it by `CompletionQueue::open`, not `polled`, with a provider that has descriptors";
            Error::unmet("fi_control", errno, cause)
        })?;
        let descriptor = QueueDescriptor {
            fd: fd.as_raw_fd(),
            queue: raw.clone(),
        };
        let readiness = watch(descriptor).map_err(watching)?;
        Ok(Self(Arc::new_cyclic(|shared| Shared {
            queue,
            readiness: Box::new(readiness),
            state: Mutex::default(),
            waker: Waker::from(Arc::new(WakeOne(shared.clone()))),
        })))
    }

    /// Posts an operation at once; the future waits for its completion.
    ///
    /// Dropping the future changes nothing for the operation. Its completion, and the buffer, are dropped when it comes.
    ///
    /// `post` runs while the queue is locked: it must neither post through this queue nor poll or drop one of its futures, which would wait for ever.
    ///
    /// # Errors
    ///
    /// The errors of the post.
    pub fn post<E>(&self, post: impl FnOnce() -> Result<Op, E>) -> Result<InFlight, E> {
        // The lock is held, so that no other thread reads the completion before the operation is registered.
        let mut state = self.0.state();
        let op = post()?;
        state.operations.insert(op, Entry::Waiting(None));
        drop(state);
        Ok(InFlight {
            queue: self.clone(),
            op,
            finished: false,
        })
    }

    /// Returns the next completion of an operation that no future waits for: an access by a peer, or an operation that was posted
    /// without [`AsyncQueue::post`].
    ///
    /// 16,384 of them are kept. Beyond that the queue is not read until one is taken, and where none was ever asked for, the futures of the queue's operations
    /// fail with `OVERRUN`, since they would wait for ever. Their operations go on: their completions, with the buffers, are among those that `next` returns.
    pub fn next(&self) -> Next<'_> {
        Next {
            queue: self,
            number: None,
        }
    }

    pub(crate) fn queue(&self) -> &CompletionQueue {
        &self.0.queue
    }

    /// Has the task woken whose post found no room: by a completion, or when the queue has something to do.
    pub(crate) fn wait_for_room(&self, waker: &Waker) -> Result<(), Error> {
        let mut effects = Effects::default();
        let result = {
            let mut state = self.0.state();
            if !state
                .blocked_posts
                .iter()
                .any(|other| other.will_wake(waker))
            {
                state.blocked_posts.push(waker.clone());
            }
            self.0.drive(&mut state, &mut effects)
        };
        effects.carry_out();
        result
    }
}

/// Makes the error of a descriptor that cannot be polled.
fn watching(error: io::Error) -> Error {
    Error::call("fi_trywait")(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reads all completions that there is room for.
    fn drain(&self, state: &mut State, effects: &mut Effects) -> Result<(), Error> {
        while !state.is_full()
            && let Some(completion) = self.queue.poll()?
        {
            state.take(completion, effects);
        }
        Ok(())
    }

    /// As [`Shared::drive_once`]; where it fails, wakes all futures, as each has to see the error.
    fn drive(&self, state: &mut State, effects: &mut Effects) -> Result<(), Error> {
        let driven = self.drive_once(state, effects);
        if driven.is_err() {
            state.wake_all(effects);
        }
        driven
    }

    /// Reads the queue until it is empty and its descriptor is polled, no future waits any more, or too many completions wait for [`AsyncQueue::next`].
    fn drive_once(&self, state: &mut State, effects: &mut Effects) -> Result<(), Error> {
        loop {
            self.drain(state, effects)?;
            if state.is_full() && !state.takes_others {
                let cause = "accesses by peers and operations without futures have filled the queue's list; take their completions with `AsyncQueue::next`";
                return Err(Error::unmet("fi_cq_read", Errno::OVERRUN, cause));
            }
            // Where it is full, the next future of `next` has the queue read on.
            if state.is_full() || !state.has_waiting() {
                return Ok(());
            }
            let mut cx = Context::from_waker(&self.waker);
            match self.readiness.poll_readable(&mut cx) {
                Poll::Ready(ready) => ready.map_err(watching)?,
                Poll::Pending => {
                    let may_sleep = self.queue.queue().may_sleep();
                    if may_sleep.map_err(Error::call("fi_trywait"))? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Returns the completion of an operation; if it is not there, keeps the waker and drives the queue.
    fn poll(&self, op: Op, cx: &mut Context<'_>) -> Poll<Result<Completion, Error>> {
        let mut effects = Effects::default();
        let polled = {
            let mut state = self.state();
            state
                .driver
                .take_if(|driver| *driver == Driver::Operation(op));
            self.poll_locked(op, &mut state, &mut effects, cx)
        };
        effects.carry_out();
        polled
    }

    fn poll_locked(
        &self,
        op: Op,
        state: &mut State,
        effects: &mut Effects,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Completion, Error>> {
        if let Some(completion) = state.done(op) {
            return Poll::Ready(Ok(completion));
        }
        if let Some(Entry::Waiting(waker)) = state.operations.get_mut(&op) {
            effects.replaced.extend(waker.replace(cx.waker().clone()));
        }
        let driven = self.drive(state, effects);
        match (state.done(op), driven) {
            (Some(completion), _) => Poll::Ready(Ok(completion)),
            (None, Ok(())) => Poll::Pending,
            (None, Err(error)) => {
                // Without its future the operation is one of those that `next` has.
                state.operations.remove(&op);
                Poll::Ready(Err(error))
            }
        }
    }
}

impl State {
    fn take(&mut self, completion: Completion, effects: &mut Effects) {
        let Effects {
            woken, unwanted, ..
        } = effects;
        woken.append(&mut self.blocked_posts);
        match self.operations.remove(&completion.op) {
            Some(Entry::Waiting(waker)) => {
                woken.extend(waker);
                let op = completion.op;
                self.operations.insert(op, Entry::Done(completion));
            }
            Some(Entry::Abandoned) => unwanted.push(completion),
            Some(done @ Entry::Done(_)) => {
                self.operations.insert(completion.op, done);
                unwanted.push(completion);
            }
            None => {
                self.others.push_back(completion);
                woken.extend(core::mem::take(&mut self.nexts).into_values());
            }
        }
    }

    fn wake_all(&mut self, effects: &mut Effects) {
        let waiting = self
            .operations
            .values_mut()
            .filter_map(|entry| match entry {
                Entry::Waiting(waker) => waker.take(),
                _ => None,
            });
        effects.woken.extend(waiting);
        let nexts = core::mem::take(&mut self.nexts);
        effects.woken.extend(nexts.into_values());
        effects.woken.append(&mut self.blocked_posts);
    }

    fn is_full(&self) -> bool {
        self.others.len() >= OTHERS_MAX
    }

    fn done(&mut self, op: Op) -> Option<Completion> {
        if !matches!(self.operations.get(&op), Some(Entry::Done(_))) {
            return None;
        }
        match self.operations.remove(&op) {
            Some(Entry::Done(completion)) => Some(completion),
            _ => None,
        }
    }

    fn has_waiting(&self) -> bool {
        let waits = |entry: &Entry| matches!(entry, Entry::Waiting(Some(_)));
        !self.nexts.is_empty()
            || !self.blocked_posts.is_empty()
            || self.operations.values().any(waits)
    }

    /// Takes the waker of a future that can drive the queue.
    fn next_driver(&mut self) -> Option<Waker> {
        let waiting = self.operations.iter().find_map(|(op, entry)| match entry {
            Entry::Waiting(Some(waker)) => Some((*op, waker.clone())),
            _ => None,
        });
        if let Some((op, waker)) = waiting {
            self.driver = Some(Driver::Operation(op));
            return Some(waker);
        }
        if let Some((number, waker)) = self.nexts.pop_first() {
            self.driver = Some(Driver::Next(number));
            return Some(waker);
        }
        self.blocked_posts.pop()
    }

    /// Ends the part of a future that is dropped; returns the waker of the one that has to drive the queue if that was this one.
    fn successor(&mut self, of: Driver) -> Option<Waker> {
        let was_driver = self.driver.take_if(|driver| *driver == of).is_some();
        was_driver.then(|| self.next_driver()).flatten()
    }
}

/// The waker of all futures of a queue; it wakes one of them to drive the queue.
struct WakeOne(Weak<Shared>);

impl Wake for WakeOne {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        let driver = shared.state().next_driver();
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// The future of an operation that was posted. Its output is the completion.
#[must_use = "futures do nothing unless they are polled"]
pub struct InFlight {
    queue: AsyncQueue,
    op: Op,
    finished: bool,
}

impl InFlight {
    /// Returns the operation, with which an endpoint can cancel it.
    pub fn op(&self) -> Op {
        self.op
    }
}

impl Future for InFlight {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Completion> {
        let op = self.op;
        let polled = self.queue.0.poll(op, cx);
        polled.map(|completion| {
            // After an error of the queue itself the operation goes on without its future.
            self.finished = true;
            completion.unwrap_or_else(|error| Completion {
                op,
                buffer: Buffer::new(),
                outcome: Err(error),
            })
        })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (next, unwanted) = {
            let mut state = self.queue.0.state();
            let unwanted = state.done(self.op);
            if unwanted.is_none() {
                state.operations.insert(self.op, Entry::Abandoned);
            }
            // If this future was woken to drive the queue, another one has to.
            (state.successor(Driver::Operation(self.op)), unwanted)
        };
        // Without the lock, because all that may run code of the application.
        drop(unwanted);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// The future of [`AsyncQueue::next`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Next<'a> {
    queue: &'a AsyncQueue,
    /// Its number among the futures that wait, once it was polled.
    number: Option<u64>,
}

impl Next<'_> {
    /// Returns its number, and gives it one first if it was not polled before.
    fn number(&mut self, state: &mut State) -> u64 {
        *self.number.get_or_insert_with(|| {
            state.next_number += 1;
            state.next_number
        })
    }
}

impl Future for Next<'_> {
    type Output = Result<Completion, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &self.queue.0;
        let mut effects = Effects::default();
        let polled = {
            let mut state = shared.state();
            let number = self.number(&mut state);
            state
                .driver
                .take_if(|driver| *driver == Driver::Next(number));
            state.takes_others = true;
            if state.is_full() {
                effects.woken.extend(state.next_driver());
            }
            let mut driven = Ok(());
            if state.others.is_empty() {
                let replaced = state.nexts.insert(number, cx.waker().clone());
                effects.replaced.extend(replaced);
                driven = shared.drive(&mut state, &mut effects);
            }
            match (state.others.pop_front(), driven) {
                (Some(completion), _) => Poll::Ready(Ok(completion)),
                (None, Ok(())) => Poll::Pending,
                (None, Err(error)) => Poll::Ready(Err(error)),
            }
        };
        effects.carry_out();
        polled
    }
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let (waker, next) = {
            let mut state = self.queue.0.state();
            (
                state.nexts.remove(&number),
                state.successor(Driver::Next(number)),
            )
        };
        // Without the lock, because both may run code of the application.
        drop(waker);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl AsFd for QueueDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.borrow_descriptor(self.fd)
    }
}

impl AsRawFd for QueueDescriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl fmt::Debug for AsyncQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncQueue").finish_non_exhaustive()
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlight").field(&self.op).finish()
    }
}

impl fmt::Debug for QueueDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueueDescriptor").field(&self.fd).finish()
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}
