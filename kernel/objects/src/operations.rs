//! What carries out the operations of an endpoint: an engine over frames, or the queues of its device.

use alloc::boxed::Box;

use oxifabric_engine::{AtomicOp, Completions, Config, Engine, Link, RmaOp, RxOp, TxOp};
use oxifabric_types::{Errno, Instant};

/// What carries out operations over a device of type `D`, and reports their ends.
///
/// Each operation that was started ends in one call of [`Completions`], unless [`Operations::abandon`] drops it.
pub trait Operations<D>: Sized + Send + 'static {
    /// Creates it without operations.
    fn new(config: Config) -> Self;

    /// Returns the engine, if there is one.
    fn engine(&mut self) -> Option<&mut Engine> {
        None
    }

    /// Starts a send.
    ///
    /// # Errors
    /// `AGAIN` when there is no room; another one when it cannot be done. It was not started then.
    fn send(&mut self, device: &mut D, out: &mut impl Completions, op: TxOp) -> Result<(), Errno>;

    /// Posts a receive.
    ///
    /// # Errors
    /// As [`Operations::send`].
    fn recv(&mut self, device: &mut D, out: &mut impl Completions, op: RxOp) -> Result<(), Errno>;

    /// Starts a read or write of memory of a peer.
    ///
    /// # Errors
    /// As [`Operations::send`].
    fn access(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: RmaOp<'_>,
    ) -> Result<(), Errno>;

    /// Starts an update of memory of a peer.
    ///
    /// # Errors
    /// As [`Operations::send`].
    fn atomic(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: AtomicOp,
    ) -> Result<(), Errno>;

    /// Cancels an operation.
    ///
    /// # Errors
    /// `NOENT` when there is none with this context; `NOSYS` when it cannot be cancelled.
    fn cancel(&mut self, out: &mut impl Completions, context: usize) -> Result<(), Errno>;

    /// Gives back all receives: the connection has ended.
    fn cancel_receives(&mut self, device: &mut D, out: &mut impl Completions);

    /// Moves what can be moved without waiting.
    fn progress(&mut self, device: &mut D, out: &mut impl Completions);

    /// Has accesses of peers carried out that waited for room in the queue.
    fn reconsider(&mut self, device: &mut D) {
        let _ = device;
    }

    /// Drops all operations without completions.
    fn abandon(&mut self, out: &mut impl Completions);

    /// Returns how many receives are posted.
    fn posted(&self, device: &D) -> usize;
}

/// The engine over a link. On the heap: a kernel's stack is short.
impl<D: Link> Operations<D> for Box<Engine> {
    fn new(config: Config) -> Self {
        Self::new(Engine::new(config))
    }

    fn engine(&mut self) -> Option<&mut Engine> {
        Some(self)
    }

    fn send(&mut self, device: &mut D, out: &mut impl Completions, op: TxOp) -> Result<(), Errno> {
        (**self).send(device, out, op)
    }

    fn recv(&mut self, device: &mut D, out: &mut impl Completions, op: RxOp) -> Result<(), Errno> {
        (**self).recv(device, out, op)
    }

    fn access(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: RmaOp<'_>,
    ) -> Result<(), Errno> {
        (**self).rma(device, out, op)
    }

    fn atomic(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: AtomicOp,
    ) -> Result<(), Errno> {
        (**self).atomic(device, out, op)
    }

    fn cancel(&mut self, out: &mut impl Completions, context: usize) -> Result<(), Errno> {
        (**self).cancel(out, context)
    }

    fn cancel_receives(&mut self, _device: &mut D, out: &mut impl Completions) {
        (**self).cancel_receives(out);
    }

    fn progress(&mut self, device: &mut D, out: &mut impl Completions) {
        // No time limits are set, so that the engine asks for none.
        (**self).progress(device, out, Instant::from_nanos(0));
    }

    fn reconsider(&mut self, device: &mut D) {
        (**self).reconsider(device);
    }

    fn abandon(&mut self, out: &mut impl Completions) {
        (**self).abandon(out);
    }

    fn posted(&self, _device: &D) -> usize {
        (**self).posted()
    }
}

/// A device whose own queues carry out operations. It keeps an operation's memory mapped, and knows what its completion says, until it
/// reports the end.
///
/// The memory of an operation with `INJECT` is the device's during the call only. A send with it that writes no completion and asks for no level of
/// completion may be reported by the call itself.
pub trait Queues {
    /// Queues a send.
    ///
    /// # Errors
    /// `AGAIN` when the queue is full, or the error of the device. It was not queued then.
    fn post_send(&mut self, out: &mut impl Completions, op: &TxOp) -> Result<(), Errno>;

    /// Queues a receive.
    ///
    /// # Errors
    /// As [`Queues::post_send`].
    fn post_receive(&mut self, op: &RxOp) -> Result<(), Errno>;

    /// Queues a read or write of memory of the peer.
    ///
    /// # Errors
    /// As [`Queues::post_send`].
    fn post_access(&mut self, op: &RmaOp<'_>) -> Result<(), Errno>;

    /// Reports what has happened, without waiting; a write of the peer that came with data and took a receive has the flags of a receive as well.
    fn poll(&mut self, out: &mut impl Completions);

    /// Has all receives end with `CANCELED`, in a later poll.
    fn flush(&mut self);

    /// Returns how many receives are queued.
    fn receives(&self) -> usize;
}

/// Nothing but the queues of the device.
#[derive(Debug)]
pub struct Queued;

impl<D: Queues> Operations<D> for Queued {
    fn new(_config: Config) -> Self {
        Self
    }

    fn send(&mut self, device: &mut D, out: &mut impl Completions, op: TxOp) -> Result<(), Errno> {
        device.post_send(out, &op)
    }

    fn recv(&mut self, device: &mut D, _out: &mut impl Completions, op: RxOp) -> Result<(), Errno> {
        device.post_receive(&op)
    }

    fn access(
        &mut self,
        device: &mut D,
        _out: &mut impl Completions,
        op: RmaOp<'_>,
    ) -> Result<(), Errno> {
        device.post_access(&op)
    }

    fn atomic(
        &mut self,
        _device: &mut D,
        _out: &mut impl Completions,
        _op: AtomicOp,
    ) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    fn cancel(&mut self, _out: &mut impl Completions, _context: usize) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn cancel_receives(&mut self, device: &mut D, _out: &mut impl Completions) {
        device.flush();
    }

    fn progress(&mut self, device: &mut D, out: &mut impl Completions) {
        device.poll(out);
    }

    fn abandon(&mut self, _out: &mut impl Completions) {}

    fn posted(&self, device: &D) -> usize {
        device.receives()
    }
}
