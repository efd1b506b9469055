//! What is bound to an endpoint: fi_endpoint(3) "fi_ep_bind". Path class: setup.

use oxifabric_abi::{
    FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SELECTIVE_COMPLETION, FI_SEND,
    FI_TRANSMIT, FI_WRITE,
};
use oxifabric_types::Errno;

use super::context_pair::Direction;
use super::srx::Srx;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::eq::Eq;
use crate::handle::Ref;
use crate::passive::Taken;

/// What counters may be bound for.
const COUNTED: u64 = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// What is bound to an endpoint.
#[derive(Default)]
pub(super) struct Bindings {
    pub(super) eq: Option<Ref<Eq>>,
    pub(super) tx_cq: Option<Ref<Cq>>,
    pub(super) rx_cq: Option<Ref<Cq>>,
    /// Counters with what they count.
    pub(super) counters: Vec<(u64, Ref<Cntr>)>,
    /// Kinds of operations that have a counter.
    pub(super) counted: u64,
    /// The endpoint is a pair of contexts, whose directions are bound and enabled apart.
    pub(super) apart: bool,
    /// Which of the two directions are enabled, as a set of [`Direction::bit`].
    pub(super) enabled_directions: u8,
    pub(super) srx: Option<Ref<Srx>>,
    /// A shared transmit context was bound, which may be closed by now.
    pub(super) stx: bool,
    /// The request that the endpoint was opened from, until it is accepted.
    pub(super) request: Option<Taken>,
}

impl Bindings {
    /// Returns the bindings of a new endpoint, which has none, but may answer a request.
    pub(super) fn answering(request: Option<Taken>) -> Self {
        Self {
            request,
            ..Self::default()
        }
    }

    /// Returns the queues, each once or twice.
    pub(super) fn cqs(&self) -> impl Iterator<Item = &Ref<Cq>> {
        self.tx_cq.iter().chain(&self.rx_cq)
    }

    /// Returns whether a thread may sleep until the endpoint reports something.
    pub(super) fn waits(&self) -> bool {
        self.apart
            || self.cqs().any(|cq| cq.waits())
            || self.counters.iter().any(|(_, cntr)| cntr.waits())
    }

    pub(super) fn counter(&self, kind: u64) -> Option<Ref<Cntr>> {
        let found = self.counters.iter().find(|(flags, _)| flags & kind != 0);
        found.map(|(_, cntr)| cntr.clone())
    }

    /// Checks the flags with which a queue is to be bound.
    ///
    /// # Errors
    /// `BADFLAGS`; `INVAL` for no direction, or one that has a queue.
    pub(super) fn check_cq(&self, flags: u64) -> Result<(), Errno> {
        if flags & !(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Errno::BADFLAGS);
        }
        let (tx, rx) = (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0);
        if !(tx || rx) || (tx && self.tx_cq.is_some()) || (rx && self.rx_cq.is_some()) {
            return Err(Errno::INVAL);
        }
        Ok(())
    }

    /// Remembers a queue whose flags were checked.
    pub(super) fn add_cq(&mut self, cq: &Cq, flags: u64) {
        if flags & FI_TRANSMIT != 0 {
            self.tx_cq = Some(Ref::to(cq));
        }
        if flags & FI_RECV != 0 {
            self.rx_cq = Some(Ref::to(cq));
        }
    }

    /// Checks that something takes the results of a direction.
    ///
    /// # Errors
    /// `NOCQ`.
    pub(super) fn check_direction(&self, direction: Direction) -> Result<(), Errno> {
        match self.has(direction) {
            true => Ok(()),
            false => Err(Errno::NOCQ),
        }
    }

    /// Returns whether a direction has a queue or a counter.
    pub(super) const fn has(&self, direction: Direction) -> bool {
        let cq = match direction {
            Direction::Transmit => &self.tx_cq,
            Direction::Receive => &self.rx_cq,
        };
        cq.is_some() || self.counted & direction.counted() != 0
    }

    /// Releases queue and counters of a direction.
    pub(super) fn unbind(&mut self, direction: Direction) {
        match direction {
            Direction::Transmit => self.tx_cq = None,
            Direction::Receive => self.rx_cq = None,
        }
        let counted = direction.counted();
        self.counters.retain(|(flags, _)| flags & counted == 0);
        self.counted &= !counted;
    }

    /// Checks what a counter is to count.
    ///
    /// # Errors
    /// `BADFLAGS`; `INVAL` for nothing, or what is counted elsewhere.
    pub(super) fn check_cntr(&self, flags: u64) -> Result<(), Errno> {
        if flags & !COUNTED != 0 {
            return Err(Errno::BADFLAGS);
        }
        if flags == 0 || flags & self.counted != 0 {
            return Err(Errno::INVAL);
        }
        Ok(())
    }

    /// Remembers a counter whose flags were checked.
    pub(super) fn add_cntr(&mut self, cntr: &Cntr, flags: u64) {
        self.counted |= flags;
        self.counters.push((flags, Ref::to(cntr)));
    }
}
