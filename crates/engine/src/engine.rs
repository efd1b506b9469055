//! One endpoint's protocol state, and what its driver calls.

use alloc::boxed::Box;
use alloc::vec::Vec;

use oxifabric_types::{Errno, Flags, Instant, PeerId};

use crate::collective::Collectives;
use crate::faults::FaultInjector;
use crate::peer::Peers;
use crate::posted::PostedQueue;
use crate::sink::EngineSink;
use crate::slab::{Key, Slab};
use crate::transmit::Transmit;
use crate::tx::Sent;
use crate::unexpected::UnexpectedQueue;
use crate::{Completions, Link, MAX_ATOMIC_BYTES, RxOp, TxOp};

const LOOK: Flags = Flags::PEEK.union(Flags::CLAIM).union(Flags::DISCARD);

/// Sizes and budgets of an engine, from the attributes of its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of sends that may be outstanding.
    pub tx_size: usize,
    /// Number of receives that are expected to be posted; more are taken as long as there is memory.
    pub rx_size: usize,
    /// Budget in bytes for unexpected messages.
    pub unexpected_bytes: usize,
    /// Limit of those bytes while the message that a receive, or the answer that a send, waits for may be behind them.
    pub unexpected_ceiling: usize,
    /// A multi-receive buffer with less room than this is released (FI_OPT_MIN_MULTI_RECV).
    pub min_multi_recv: usize,
    /// Receives may name their source (FI_DIRECTED_RECV); otherwise the source is ignored.
    pub directed_recv: bool,
}

/// The protocol state of one endpoint.
///
/// It is driven from outside: [`Engine::send`] and [`Engine::recv`] start operations, [`Engine::progress`] moves
/// them. Each operation ends in exactly one call of [`Completions`] (a multi-receive buffer: one per message,
/// of which the last says that the buffer is released), unless [`Engine::abandon`] drops it.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    /// The peer that is this endpoint itself.
    pub(crate) me: PeerId,
    pub(crate) posted: PostedQueue,
    pub(crate) unexpected: UnexpectedQueue,
    pub(crate) sends: Slab<Transmit>,
    /// Number of sends from which on the application's posts return `AGAIN`: [`Config::tx_size`], and as many as answer peers' requests.
    pub(crate) most_sends: usize,
    /// [`Link::LONGEST_ATOMIC`].
    pub(crate) longest_atomic: usize,
    pub(crate) peers: Peers,
    /// Something changed that may make room for the arrivals of stalled peers ([`crate::Placement::Stall`]).
    pub(crate) retry_stalled: bool,
    pub(crate) collectives: Collectives,
    /// Fault injection at posts.
    pub(crate) fault_injector: Option<Box<FaultInjector>>,
}

/// Number of sends, and of receives, that the tables hold before they grow. In a program with many endpoints most of them never have more
/// operations under way.
const FIRST_OPS: usize = 16;

impl Engine {
    /// Makes an engine without peers and operations.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            me: PeerId::ANY,
            posted: PostedQueue::with_capacity(config.rx_size.min(FIRST_OPS)),
            unexpected: UnexpectedQueue::new(),
            sends: Slab::with_capacity(config.tx_size.min(FIRST_OPS)),
            most_sends: config.tx_size,
            longest_atomic: MAX_ATOMIC_BYTES,
            peers: Peers::default(),
            retry_stalled: false,
            collectives: Collectives::new(),
            fault_injector: None,
        }
    }

    /// Makes an engine for links of this type, whose peers may send longer atomics than others ([`Link::LONGEST_ATOMIC`]).
    pub fn over<L: Link>(config: Config) -> Self {
        Self {
            longest_atomic: L::LONGEST_ATOMIC,
            ..Self::new(config)
        }
    }

    /// Returns the configuration, to be changed. Changes count for what is posted from then on.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// Names the peer that is this endpoint itself: messages to it are looped back inside the engine.
    pub fn set_self(&mut self, me: PeerId) {
        self.me = me;
    }

    /// Starts a send, fi_msg(3) and fi_tagged(3). The peer was named ([`Engine::name`]).
    ///
    /// An operation that the link cannot take yet, because it is blocked or connecting, waits here; an inject operation does not
    /// (below). With `INJECT` the body is not needed once the call returns. Messages to one peer are matched there in the
    /// order of these calls.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] when [`Config::tx_size`] sends are outstanding, and for an inject operation to a peer whose
    /// link takes nothing now: when the call returns without error, it has left; [`Errno::INVAL`] when the peer cannot
    /// exist; [`Errno::NOMEM`] when a body has to be copied and there is no memory. The operation was not
    /// started then. Everything else, a peer that is down too, is reported as a [`crate::Failure`].
    #[inline(always)]
    pub fn send<L: Link>(
        &mut self,
        link: &mut L,
        out: &mut impl Completions,
        op: TxOp,
    ) -> Result<(), Errno> {
        if !Peers::is_valid(op.peer) {
            return Err(Errno::INVAL);
        }
        if self.is_busy() {
            return Err(Errno::AGAIN);
        }
        let key = self.sends.vacant().ok_or(Errno::AGAIN)?;
        if op.peer == self.me {
            self.check_own_fence(op.flags)?;
            return self.send_to_self(out, op.spilled(), key);
        }
        let fits = op.body.len() <= link.limits(op.peer).longest_whole::<L>();
        let fenced = op.flags.contains(Flags::FENCE);
        if !fits || fenced || !self.peers.is_clear(op.peer) {
            self.submit(link, out, op.spilled(), key)?;
            self.resume_stalled(link);
            return Ok(());
        }
        match self.send_now(link, out, &op, key) {
            Sent::Over => {
                self.resume_stalled(link);
                Ok(())
            }
            sent => self.after_send(link, out, op.spilled(), key, sent),
        }
    }

    /// Posts a receive, or looks for a message (`PEEK`, `CLAIM`, `DISCARD`), fi_msg(3) and fi_tagged(3).
    ///
    /// A receive takes the first waiting message that matches; otherwise it waits for one, behind the
    /// receives that were posted before. Peeks are answered at once.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] when no more receives can be kept; [`Errno::INVAL`] for `DISCARD` without `PEEK` or
    /// `CLAIM`.
    #[inline(always)]
    pub fn recv(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: RxOp,
    ) -> Result<(), Errno> {
        if !op.flags.intersects(LOOK) {
            self.post_recv(out, op)?;
        } else if op.flags.intersects(Flags::PEEK | Flags::CLAIM) {
            self.peek_or_claim(out, op.spilled());
        } else {
            return Err(Errno::INVAL);
        }
        self.advance_ready(link, out);
        self.resume_stalled(link);
        Ok(())
    }

    /// Cancels the posted receive, or else the send that has not begun, with this context: it ends as a
    /// [`crate::Failure`] with [`Errno::CANCELED`], fi_endpoint(3) "fi_cancel". If a multi-receive buffer is
    /// being filled, that failure follows the messages that are under way.
    ///
    /// # Errors
    /// [`Errno::NOENT`] when there is none: it has completed, or will.
    pub fn cancel(&mut self, out: &mut impl Completions, context: usize) -> Result<(), Errno> {
        self.posted
            .cancel(context, out)
            .or_else(|_| self.cancel_send(out, context))
    }

    /// Cancels every receive. Those that a message is arriving in go on until it is there; [`Engine::pending_rx`] counts them.
    pub fn cancel_receives(&mut self, out: &mut impl Completions) {
        self.posted.end_all(Errno::CANCELED, out);
    }

    /// Moves what can be moved without waiting; returns how many events there were.
    #[inline(always)]
    pub fn progress(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        now: Instant,
    ) -> usize {
        let mut events = link.poll(now, &mut EngineSink { engine: self, out });
        self.advance_ready(link, out);
        if self.collectives.is_ready() | self.fault_injector.is_some() {
            self.settle_collectives(link, out);
            events += self.retry_refused(link, out);
        }
        self.resume_stalled(link);
        link.flush();
        events
    }

    /// Drops what the application lent memory for, without completions: sends that are not complete, receives, and messages that arrive or wait for one.
    /// That memory is not touched any more, unless the link does that. What is left are answers to peers, and sends out of memory of our own.
    pub fn discard_lent(&mut self) {
        self.posted.clear();
        self.unexpected.remove_all();
        let sends = self.sends.iter().filter(|(_, send)| !send.owns_memory());
        let keys: Vec<Key> = sends.map(|(key, _)| key).collect();
        for key in keys {
            if let Some(send) = self.sends.remove(key)
                && send.is_response()
            {
                self.responded(send.peer);
            }
        }
    }

    /// Drops whatever is pending, without completions: the endpoint closes. Its memory is free afterwards;
    /// what the link still reports is ignored.
    pub fn abandon(&mut self, _out: &mut impl Completions) {
        self.posted.clear();
        self.unexpected.clear();
        self.sends.clear();
        self.most_sends = self.config.tx_size;
        self.peers = Peers::default();
        self.collectives = Collectives::new();
    }

    /// Returns whether nothing is in flight on the transmit side: no sends, no answers.
    pub fn idle(&self) -> bool {
        self.sends.len() == 0 && self.peers.no_replies()
    }

    /// Returns whether a peer's access to the region with this key is under way: the link or a peer may still touch its
    /// memory.
    pub fn uses_region(&self, key: u64) -> bool {
        self.unexpected.writes_to(key) || self.sends.iter().any(|(_, send)| send.sends_from(key))
    }

    /// Returns how many sends are outstanding; answers to peers' requests do not count.
    pub fn pending_tx(&self) -> usize {
        self.sends.len().saturating_sub(self.responses())
    }

    /// Returns whether as many operations of the application are outstanding as may be. Responses do not count: no peer keeps
    /// the application from posting.
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        self.sends.len() >= self.most_sends
    }

    /// Returns how many sends answer peers' requests.
    pub(crate) const fn responses(&self) -> usize {
        self.most_sends.saturating_sub(self.config.tx_size)
    }

    /// Returns whether anything is under way on the transmit side, responses to peers included.
    pub fn is_sending(&self) -> bool {
        self.sends.len() != 0
    }

    /// Returns how many receives are posted or being filled.
    pub fn pending_rx(&self) -> usize {
        self.posted.len() + self.unexpected.matched()
    }

    /// Returns how many receives wait for a message.
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Returns how many messages wait for a receive.
    pub fn unexpected(&self) -> usize {
        self.unexpected.waiting()
    }

    /// Returns how much of [`Config::unexpected_bytes`] is used. Every waiting message counts with a fixed
    /// amount besides its length.
    pub fn unexpected_bytes(&self) -> usize {
        self.unexpected.held_bytes()
    }

    /// Sends the frames and answers that can be sent by now, or have become due.
    #[inline]
    pub(crate) fn advance_ready(&mut self, link: &mut impl Link, out: &mut impl Completions) {
        while let Some(peer) = self.peers.next_ready() {
            self.advance(link, out, peer);
        }
    }

    /// Lets the link retry stalled arrivals, if anything changed.
    #[inline(always)]
    pub(crate) fn resume_stalled(&mut self, link: &mut impl Link) {
        if self.retry_stalled {
            self.retry_stalled = false;
            while let Some(peer) = self.peers.next_stalled() {
                link.resume(peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine moves between threads: the holder of an endpoint's lock may be on any.
    #[test]
    fn an_engine_moves_between_threads() {
        fn is_send<T: Send>() {}
        is_send::<Engine>();
    }
}
