//! What an endpoint does with operations, whatever carries them out.
//!
//! There are two kinds of devices. A [`Link`] moves frames, and an [`Engine`] over it matches, orders and acknowledges messages. A device with
//! [hardware queues](crate::queues) takes sends, receives and accesses as they are and reports their ends: nothing stands between it
//! and the application but a [`WorkLedger`](crate::queues::WorkLedger). A device names the one that it needs as [`Device::Operations`](crate::device::Device::Operations).

use oxifabric_engine::{
    AtomicOp, CollectiveOp, Completions, Config, Engine, GroupId, Link, RmaOp, RxOp, TxOp,
};
use oxifabric_types::{Errno, Instant, PeerId};

/// What carries out the operations of an endpoint over a device of type `D`, and reports their ends.
///
/// Each operation that was started ends in exactly one call of [`Completions`], unless [`Operations::abandon`] drops it.
pub trait Operations<D>: Send + Sized + 'static {
    /// An engine matches messages: there are tags, peeks, multi-receive buffers, shared receive contexts and collectives. Without
    /// an engine there are none of these, since hardware queues do not have them.
    const MATCHES: bool;

    /// Creates an engine or ledger that has no operations yet.
    fn new(config: Config) -> Self;

    /// Returns the configuration, to be changed. Changes count for what is posted from then on.
    fn config_mut(&mut self) -> &mut Config;

    /// Returns the engine, if there is one.
    #[inline(always)]
    fn engine(&self) -> Option<&Engine> {
        None
    }

    /// Returns the engine, if there is one, to be changed.
    #[inline(always)]
    fn engine_mut(&mut self) -> Option<&mut Engine> {
        None
    }

    /// Starts a send, fi_msg(3) and fi_tagged(3).
    ///
    /// # Errors
    /// `AGAIN` when there is no room, `INVAL` for a peer that cannot exist, `OPNOTSUPP` for what cannot be done. The operation was not
    /// started then.
    fn send(&mut self, device: &mut D, out: &mut impl Completions, op: TxOp) -> Result<(), Errno>;

    /// Posts a receive.
    ///
    /// # Errors
    /// As [`Operations::send`].
    fn recv(&mut self, device: &mut D, out: &mut impl Completions, op: RxOp) -> Result<(), Errno>;

    /// Starts a read or write of memory of a peer, fi_rma(3).
    ///
    /// # Errors
    /// As [`Operations::send`].
    fn access(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: RmaOp<'_>,
    ) -> Result<(), Errno>;

    /// Starts an atomic update of memory of a peer, fi_atomic(3).
    ///
    /// # Errors
    /// As [`Operations::send`].
    fn atomic(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: AtomicOp,
    ) -> Result<(), Errno>;

    /// Cancels an operation, fi_cancel: it ends with `CANCELED`.
    ///
    /// # Errors
    /// `NOENT` when none has this context, `NOSYS` when it cannot be cancelled; it goes on then.
    fn cancel(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        context: usize,
    ) -> Result<(), Errno>;

    /// Cancels every receive. Some may end later than the call; [`Operations::pending_rx`] counts those.
    fn cancel_receives(&mut self, device: &mut D, out: &mut impl Completions);

    /// Moves what can be moved without waiting; returns how many events there were.
    fn progress(&mut self, device: &mut D, out: &mut impl Completions, now: Instant) -> usize;

    /// Drops what the application lent memory for, without completions, and goes on with the rest: the endpoint begins to close.
    fn discard_lent(&mut self) {}

    /// Drops whatever is pending, without completions: the endpoint closes. What the device still reports is ignored.
    fn abandon(&mut self, out: &mut impl Completions);

    /// Returns whether nothing is in flight on the transmit side.
    fn is_idle(&self) -> bool;

    /// Returns whether operations of this end, or what peers asked of it, are under way.
    fn is_sending(&self) -> bool;

    /// Returns how many operations of the application are outstanding on the transmit side.
    fn pending_tx(&self) -> usize;

    /// Returns how many receives are posted or being filled.
    fn pending_rx(&self) -> usize;

    /// Matches unexpected messages with the receives that were posted to a shared receive context.
    fn feed(&mut self, device: &mut D, out: &mut impl Completions) {
        let _ = (device, out);
    }

    /// Begins to join a group, fi_join_collective(3).
    ///
    /// # Errors
    /// As [`Engine::join`]; `NOSYS` where nothing matches messages.
    fn join(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        members: &[PeerId],
        context: usize,
    ) -> Result<GroupId, Errno> {
        let _ = (device, out, members, context);
        Err(Errno::NOSYS)
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// As [`Engine::leave`]; `NOSYS` where nothing matches messages.
    fn leave(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        group: GroupId,
    ) -> Result<(), Errno> {
        let _ = (device, out, group);
        Err(Errno::NOSYS)
    }

    /// Starts a collective, fi_collective(3).
    ///
    /// # Errors
    /// As [`Engine::collective`]; `NOSYS` where nothing matches messages.
    fn collective(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: CollectiveOp,
    ) -> Result<(), Errno> {
        let _ = (device, out, op);
        Err(Errno::NOSYS)
    }
}

/// The engine over a link.
impl<D: Link> Operations<D> for Engine {
    const MATCHES: bool = true;

    fn new(config: Config) -> Self {
        Self::over::<D>(config)
    }

    #[inline]
    fn config_mut(&mut self) -> &mut Config {
        self.config_mut()
    }

    #[inline(always)]
    fn engine(&self) -> Option<&Engine> {
        Some(self)
    }

    #[inline(always)]
    fn engine_mut(&mut self) -> Option<&mut Engine> {
        Some(self)
    }

    #[inline(always)]
    fn send(&mut self, device: &mut D, out: &mut impl Completions, op: TxOp) -> Result<(), Errno> {
        self.send(device, out, op)
    }

    #[inline(always)]
    fn recv(&mut self, device: &mut D, out: &mut impl Completions, op: RxOp) -> Result<(), Errno> {
        self.recv(device, out, op)
    }

    #[inline(always)]
    fn access(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: RmaOp<'_>,
    ) -> Result<(), Errno> {
        self.rma(device, out, op)
    }

    #[inline(always)]
    fn atomic(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: AtomicOp,
    ) -> Result<(), Errno> {
        self.atomic(device, out, op)
    }

    #[inline]
    fn cancel(
        &mut self,
        _device: &mut D,
        out: &mut impl Completions,
        context: usize,
    ) -> Result<(), Errno> {
        self.cancel(out, context)
    }

    #[inline]
    fn cancel_receives(&mut self, _device: &mut D, out: &mut impl Completions) {
        self.cancel_receives(out);
    }

    #[inline(always)]
    fn progress(&mut self, device: &mut D, out: &mut impl Completions, now: Instant) -> usize {
        self.progress(device, out, now)
    }

    fn discard_lent(&mut self) {
        self.discard_lent();
    }

    fn abandon(&mut self, out: &mut impl Completions) {
        self.abandon(out);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.idle()
    }

    #[inline]
    fn is_sending(&self) -> bool {
        self.is_sending()
    }

    #[inline]
    fn pending_tx(&self) -> usize {
        self.pending_tx()
    }

    #[inline]
    fn pending_rx(&self) -> usize {
        self.pending_rx()
    }

    #[inline]
    fn feed(&mut self, device: &mut D, out: &mut impl Completions) {
        self.feed(device, out);
    }

    fn join(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        members: &[PeerId],
        context: usize,
    ) -> Result<GroupId, Errno> {
        self.join(device, out, members, context)
    }

    fn leave(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        group: GroupId,
    ) -> Result<(), Errno> {
        self.leave(device, out, group)
    }

    fn collective(
        &mut self,
        device: &mut D,
        out: &mut impl Completions,
        op: CollectiveOp,
    ) -> Result<(), Errno> {
        self.collective(device, out, op)
    }
}
