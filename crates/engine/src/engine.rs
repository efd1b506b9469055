//! One endpoint's protocol state, and what its driver calls.

use oxifabric_types::{Errno, Instant, PeerId};

use crate::{Completions, Link, RxOp, TxOp};

/// What an engine is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How many sends may be outstanding.
    pub tx_size: usize,
    /// How many receives are expected to be posted; more are taken as long as there is memory.
    pub rx_size: usize,
    /// How many bytes of messages that no receive matches may be buffered.
    pub unexpected_bytes: usize,
    /// A multi-receive buffer with less room than this is released (FI_OPT_MIN_MULTI_RECV).
    pub min_multi_recv: usize,
    /// Receives may name their source (FI_DIRECTED_RECV); otherwise the source is ignored.
    pub directed_recv: bool,
}

/// The protocol state of one endpoint.
pub struct Engine {
    config: Config,
    me: PeerId,
}

impl Engine {
    /// Makes an engine without peers and operations.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            me: PeerId::ANY,
        }
    }

    /// Returns the configuration, to be changed.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// Says which peer is this endpoint itself: messages to it are looped back.
    pub fn set_self(&mut self, me: PeerId) {
        self.me = me;
    }

    /// Starts a send.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] when [`Config::tx_size`] sends are outstanding.
    pub fn send(
        &mut self,
        _link: &mut impl Link,
        _out: &mut impl Completions,
        _op: TxOp,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Posts a receive, or looks for a message (`PEEK`, `CLAIM`, `DISCARD`).
    ///
    /// # Errors
    /// [`Errno::AGAIN`] when no more receives can be kept.
    pub fn recv(
        &mut self,
        _link: &mut impl Link,
        _out: &mut impl Completions,
        _op: RxOp,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Cancels the posted receive, or the send that has not begun, with this context.
    ///
    /// # Errors
    /// [`Errno::NOENT`] when there is none.
    pub fn cancel(&mut self, _out: &mut impl Completions, _context: usize) -> Result<(), Errno> {
        Err(Errno::NOENT)
    }

    /// Moves what can be moved without waiting; returns how many events there were.
    pub fn progress(
        &mut self,
        _link: &mut impl Link,
        _out: &mut impl Completions,
        _now: Instant,
    ) -> usize {
        0
    }

    /// Drops whatever is pending, without completions: the endpoint closes.
    pub fn abandon(&mut self, _out: &mut impl Completions) {}

    /// Tells whether nothing is in flight on the transmit side.
    pub fn idle(&self) -> bool {
        true
    }

    /// Returns how many sends are outstanding.
    pub fn pending_tx(&self) -> usize {
        0
    }

    /// Returns how many receives are posted or being filled.
    pub fn pending_rx(&self) -> usize {
        0
    }

    /// Returns how many messages wait for a receive.
    pub fn unexpected(&self) -> usize {
        0
    }

    /// Returns how many bytes of the unexpected budget are used.
    pub fn unexpected_bytes(&self) -> usize {
        0
    }
}
