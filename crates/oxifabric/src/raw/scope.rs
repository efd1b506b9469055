//! Operations on borrowed memory, and the scope that waits for them.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex};

use super::memory::Backing;
use super::watch::sleep;
use super::{Memory, Plain, Post, Queue};
use crate::completion_queue::progress;
use crate::kind::{Connectionless, Kind, Reliable};
use crate::lock::lock;
use crate::{
    Access, Endpoint, Error, Msg, Op, Peer, Rdm, Remote, SendOptions, Threading, Transfer,
};

/// The outcomes of a scope's operations.
///
/// The thread that reads a completion of the scope records the outcome here, whichever thread that is.
#[derive(Default)]
pub(crate) struct ScopeOutcomes(Mutex<Vec<(Op, Result<Transfer, Error>)>>);

impl ScopeOutcomes {
    /// Records the outcome of an operation.
    pub(crate) fn record(&self, op: Op, outcome: Result<Transfer, Error>) {
        let mut ended = lock(&self.0);
        ended.push((op, outcome));
    }

    /// Takes the outcome of an operation, if it has completed and the outcome was not taken before.
    fn take(&self, op: Op) -> Option<Result<Transfer, Error>> {
        let mut ended = lock(&self.0);
        let at = ended.iter().position(|(other, _)| *other == op)?;
        Some(ended.swap_remove(at).1)
    }

    /// Returns the first error that was not taken.
    fn first_error(&self) -> Result<(), Error> {
        let mut ended = lock(&self.0);
        let failed = ended.drain(..).find_map(|(_, outcome)| outcome.err());
        failed.map_or(Ok(()), Err)
    }
}

/// A scope in which operations use borrowed memory; see [`Endpoint::scope`].
pub struct Scope<'scope, 'env: 'scope, K: Kind, T: Threading> {
    endpoint: &'env Endpoint<K, T>,
    outcomes: Arc<ScopeOutcomes>,
    /// The posted operations, to be cancelled if the scope ends early.
    posted: Cell<Vec<Op>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// An operation of a scope; [`Scope::wait`] returns its outcome.
#[derive(Debug)]
pub struct ScopedOp<'scope> {
    op: Op,
    scope: PhantomData<&'scope ()>,
}

/// Back-off of a thread that polls queues: first it spins, then it sleeps.
#[derive(Default)]
pub(crate) struct PollBackoff {
    polls: u32,
}

impl PollBackoff {
    /// Empty polls before the first sleep; they take less time than waking up does.
    const SPINS: u32 = 2000;
    /// Longest sleep. Another thread may read the completion that ends the wait, and then no queue wakes this one.
    const SLEEP_MS: i32 = 10;

    /// Waits before the next poll: not at all at first, then asleep.
    pub(crate) fn wait(&mut self, queues: &[&Queue]) {
        if self.polls < Self::SPINS {
            self.polls += 1;
            std::hint::spin_loop();
        } else if !sleep(queues, Self::SLEEP_MS) {
            std::thread::yield_now();
        }
    }
}

/// Waits for the end of all operations, also when the scope's body panics.
struct Guard<'a, 'scope, 'env, K: Kind, T: Threading> {
    scope: &'a Scope<'scope, 'env, K, T>,
    /// Whether the body has returned without an error.
    finished: bool,
}

impl<K: Kind, T: Threading> Endpoint<K, T> {
    /// Runs `body`, which may post operations on memory that it borrows, and waits until all of them are done.
    ///
    /// ```
    /// use oxifabric::{Endpoint, Error, Peer, SendOptions};
    ///
    /// fn exchange(endpoint: &Endpoint, peer: Peer, ours: &[u8], theirs: &mut [u8]) -> Result<usize, Error> {
    ///     endpoint.scope(|scope| {
    ///         let receive = scope.receive(theirs)?;
    ///         scope.send(peer, ours, SendOptions::new())?;
    ///         Ok(scope.wait(receive)?.len)
    ///     })
    /// }
    /// ```
    ///
    /// The compiler refuses memory that ends before the scope, and code in the scope that writes memory which is sent from, or
    /// touches memory which is received into.
    ///
    /// If the body fails or panics, operations that are still in flight are cancelled first. Completions of other operations that
    /// appear meanwhile are kept for the threads that read the queue.
    ///
    /// # Errors
    ///
    /// The error that the body returned; else that of an operation for which [`Scope::wait`] was not called.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env, K, T>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let scope = Scope {
            endpoint: self,
            outcomes: Arc::default(),
            posted: Cell::default(),
            scope: PhantomData,
            env: PhantomData,
        };
        let mut guard = Guard {
            scope: &scope,
            finished: false,
        };
        let result = body(&scope);
        guard.finished = result.is_ok();
        drop(guard);
        let result = result?;
        scope.outcomes.first_error().map(|()| result)
    }
}

impl<'scope, K: Kind, T: Threading> Scope<'scope, '_, K, T> {
    /// Waits for the end of an operation.
    ///
    /// # Errors
    ///
    /// The error with which the operation failed.
    pub fn wait(&'scope self, op: ScopedOp<'scope>) -> Result<Transfer, Error> {
        let mut backoff = PollBackoff::default();
        loop {
            if let Some(outcome) = self.outcomes.take(op.op) {
                return outcome;
            }
            self.progress(&mut backoff)?;
        }
    }

    /// Reads the queues, and backs off before the next read.
    fn progress(&self, backoff: &mut PollBackoff) -> Result<(), Error> {
        let (tx, rx) = self.endpoint.object().queues();
        progress(tx)?;
        if !core::ptr::eq::<Queue>(tx, rx) {
            progress(rx)?;
        }
        backoff.wait(&[tx, rx]);
        Ok(())
    }

    /// Posts an operation on memory that stays borrowed until the scope ends; retries while the queue is full.
    fn post(
        &'scope self,
        call: &'static str,
        (start, len): (NonNull<u8>, usize),
        peer: Option<Peer>,
        post: Post<'_>,
    ) -> Result<ScopedOp<'scope>, Error> {
        let needs = post.needs(peer.is_some());
        if !self.endpoint.info().caps().contains(needs) {
            return Err(self.endpoint.lacks(call, needs));
        }
        let mut backoff = PollBackoff::default();
        loop {
            let memory = Memory::part(start, len, Backing::Scope(self.outcomes.clone()));
            match self.endpoint.object().post(memory, peer, post) {
                Ok(op) => {
                    let mut posted = self.posted.take();
                    posted.push(op);
                    self.posted.set(posted);
                    return Ok(ScopedOp {
                        op,
                        scope: PhantomData,
                    });
                }
                Err((errno, _)) if errno == crate::Errno::AGAIN => self.progress(&mut backoff)?,
                Err((errno, memory)) => {
                    return Err(self.endpoint.refusal(call, errno, peer, &memory));
                }
            }
        }
    }

    fn send_bytes(
        &'scope self,
        peer: Option<Peer>,
        bytes: &'scope [u8],
        options: SendOptions,
    ) -> Result<ScopedOp<'scope>, Error> {
        let post = Post::Send {
            tag: options.tag,
            data: options.data,
        };
        let call = match (options.tag, options.data) {
            (None, None) => "fi_send",
            (None, Some(_)) => "fi_senddata",
            (Some(_), None) => "fi_tsend",
            (Some(_), Some(_)) => "fi_tsenddata",
        };
        self.post(call, extent(bytes), peer, post)
    }

    /// Receives a message.
    ///
    /// # Errors
    ///
    /// The error with which the post was refused.
    pub fn receive(&'scope self, bytes: &'scope mut [u8]) -> Result<ScopedOp<'scope>, Error> {
        self.post("fi_recv", extent_mut(bytes), None, Post::Recv { tag: None })
    }

    fn read_bytes<E: Plain>(
        &'scope self,
        peer: Option<Peer>,
        from: Remote<[E]>,
        bytes: &'scope mut [u8],
    ) -> Result<ScopedOp<'scope>, Error> {
        let from = from.place(bytes.len(), Access::READ)?;
        self.post("fi_read", extent_mut(bytes), peer, Post::Read { from })
    }

    fn write_bytes<E: Plain>(
        &'scope self,
        peer: Option<Peer>,
        to: Remote<[E]>,
        bytes: &'scope [u8],
    ) -> Result<ScopedOp<'scope>, Error> {
        let to = to.place(bytes.len(), Access::WRITE)?;
        let post = Post::Write { to, data: None };
        self.post("fi_write", extent(bytes), peer, post)
    }
}

impl<'scope, K: Reliable, T: Threading> Scope<'scope, '_, K, T> {
    /// Receives a message with this tag; bits of it that are set in `ignore` do not matter.
    ///
    /// # Errors
    ///
    /// The error with which the post was refused.
    pub fn receive_tagged(
        &'scope self,
        tag: u64,
        ignore: u64,
        bytes: &'scope mut [u8],
    ) -> Result<ScopedOp<'scope>, Error> {
        let tag = Some((tag, ignore));
        self.post("fi_trecv", extent_mut(bytes), None, Post::Recv { tag })
    }
}

impl<'scope, K: Connectionless, T: Threading> Scope<'scope, '_, K, T> {
    /// Sends a message, with the options' tag and data; other options are ignored.
    ///
    /// # Errors
    ///
    /// The error with which the post was refused.
    pub fn send(
        &'scope self,
        to: Peer,
        bytes: &'scope [u8],
        options: SendOptions,
    ) -> Result<ScopedOp<'scope>, Error> {
        self.send_bytes(Some(to), bytes, options)
    }
}

impl<'scope, T: Threading> Scope<'scope, '_, Rdm, T> {
    /// Reads memory of the peer.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::NotGranted`], or the error with which the post was refused.
    pub fn read<E: Plain>(
        &'scope self,
        peer: Peer,
        from: Remote<[E]>,
        bytes: &'scope mut [u8],
    ) -> Result<ScopedOp<'scope>, Error> {
        self.read_bytes(Some(peer), from, bytes)
    }

    /// Writes memory of the peer.
    ///
    /// # Errors
    ///
    /// As [`Scope::read`].
    pub fn write<E: Plain>(
        &'scope self,
        peer: Peer,
        to: Remote<[E]>,
        bytes: &'scope [u8],
    ) -> Result<ScopedOp<'scope>, Error> {
        self.write_bytes(Some(peer), to, bytes)
    }
}

impl<'scope, T: Threading> Scope<'scope, '_, Msg, T> {
    /// Sends a message, with the options' tag and data; other options are ignored.
    ///
    /// # Errors
    ///
    /// The error with which the post was refused.
    pub fn send(
        &'scope self,
        bytes: &'scope [u8],
        options: SendOptions,
    ) -> Result<ScopedOp<'scope>, Error> {
        self.send_bytes(None, bytes, options)
    }

    /// Reads memory of the peer.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::NotGranted`], or the error with which the post was refused.
    pub fn read<E: Plain>(
        &'scope self,
        from: Remote<[E]>,
        bytes: &'scope mut [u8],
    ) -> Result<ScopedOp<'scope>, Error> {
        self.read_bytes(None, from, bytes)
    }

    /// Writes memory of the peer.
    ///
    /// # Errors
    ///
    /// As [`Scope::read`].
    pub fn write<E: Plain>(
        &'scope self,
        to: Remote<[E]>,
        bytes: &'scope [u8],
    ) -> Result<ScopedOp<'scope>, Error> {
        self.write_bytes(None, to, bytes)
    }
}

fn extent(bytes: &[u8]) -> (NonNull<u8>, usize) {
    (NonNull::from(bytes).cast(), bytes.len())
}

fn extent_mut(bytes: &mut [u8]) -> (NonNull<u8>, usize) {
    let len = bytes.len();
    (NonNull::from(bytes).cast(), len)
}

impl<K: Kind, T: Threading> Drop for Guard<'_, '_, '_, K, T> {
    fn drop(&mut self) {
        if !self.finished {
            for op in self.scope.posted.take() {
                // A completed operation cannot be cancelled any more.
                let _ = self.scope.endpoint.cancel(op);
            }
        }
        // The borrow ends only when no operation holds the outcomes any more.
        let mut backoff = PollBackoff::default();
        while Arc::strong_count(&self.scope.outcomes) > 1 {
            // Even if the queue fails, the memory must not be given up.
            let _ = self.scope.progress(&mut backoff);
        }
        fence(Ordering::Acquire);
    }
}
