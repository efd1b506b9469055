//! Where the results of an endpoint's operations go: queues and counters, with the application's name of the source.
//!
//! Path class: short. What needs the device (the address of an unknown source, the reason of a failure) is set aside
//! while the engine runs, with everything after it, and settled right afterwards: so entries keep their order.

use core::mem;
use std::ffi::CString;

use oxifabric_engine::{Completion, Completions, Failure};
use oxifabric_types::{FiAddr, Flags, PeerId};

use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::{Cq, NO_SOURCE};
use crate::device::Device;
use crate::handle::Ref;

/// Queue and counter of one direction.
#[derive(Default)]
pub(super) struct Side {
    pub(super) cq: Option<Ref<Cq>>,
    pub(super) cntr: Option<Ref<Cntr>>,
}

/// Takes the results of one endpoint's operations.
#[derive(Default)]
pub(super) struct Router {
    pub(super) tx: Side,
    pub(super) rx: Side,
    /// Names of sources, if the endpoint gives them (FI_SOURCE).
    sources: Option<Sources>,
    set_aside: Vec<Result<Completion, Failure>>,
}

/// Names of sources by peer, as far as they were asked for.
struct Sources {
    av: Ref<Av>,
    /// [`Av::changes`] when the names were looked up.
    seen: u64,
    names: Vec<FiAddr>,
}

/// A source that was not looked up yet; no index is as large.
const UNKNOWN: FiAddr = FiAddr(u64::MAX - 1);

impl Completions for Router {
    #[inline]
    fn complete(&mut self, completion: Completion) {
        if !self.set_aside.is_empty() {
            self.set_aside.push(Ok(completion));
            return;
        }
        match self.source(completion.from) {
            UNKNOWN => self.set_aside.push(Ok(completion)),
            source => self.route(&completion, source),
        }
    }

    #[cold]
    fn fail(&mut self, failure: Failure) {
        self.set_aside.push(Err(failure));
    }
}

impl Router {
    /// Names the sources of messages by this vector.
    pub(super) fn name_sources(&mut self, av: Ref<Av>) {
        self.sources = Some(Sources {
            av,
            seen: 0,
            names: Vec::new(),
        });
    }

    /// Tells whether [`Router::settle`] has something to do.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        !self.set_aside.is_empty()
    }

    /// Deals with what was set aside.
    #[cold]
    pub(super) fn settle(&mut self, device: &impl Device) {
        for result in mem::take(&mut self.set_aside) {
            match result {
                Ok(completion) => {
                    let source = self.look_up(completion.from, device);
                    self.route(&completion, source);
                }
                Err(failure) => self.route_failure(&failure, device),
            }
        }
    }

    #[inline]
    fn route(&self, completion: &Completion, source: FiAddr) {
        let side = self.side(completion.flags);
        if let Some(cntr) = &side.cntr
            && counts(completion.flags)
        {
            cntr.add(1);
        }
        if let Some(cq) = &side.cq
            && completion.wanted
        {
            cq.push(completion, source.0);
        }
    }

    fn route_failure(&mut self, failure: &Failure, device: &impl Device) {
        let source = match failure.op.flags.contains(Flags::SEND) {
            true => FiAddr(NO_SOURCE),
            false => self.look_up(failure.op.from, device),
        };
        let reason = match failure.op.from {
            PeerId::ANY => None,
            peer => device.reason(peer),
        };
        let reason = reason.and_then(|text| CString::new(text).ok());
        let side = self.side(failure.op.flags);
        if let Some(cntr) = &side.cntr {
            cntr.add_errors(1);
        }
        if let Some(cq) = &side.cq {
            cq.push_failure(failure, source.0, reason);
        }
    }

    #[inline]
    const fn side(&self, flags: Flags) -> &Side {
        if flags.contains(Flags::SEND) {
            &self.tx
        } else {
            &self.rx
        }
    }

    /// Returns the name of a source if it is known, or not wanted.
    #[inline]
    fn source(&mut self, peer: PeerId) -> FiAddr {
        let Some(sources) = &mut self.sources else {
            return FiAddr(NO_SOURCE);
        };
        if peer == PeerId::ANY {
            return FiAddr(NO_SOURCE);
        }
        sources.refresh();
        let known = sources.names.get(peer.index());
        known.copied().unwrap_or(UNKNOWN)
    }

    /// Returns the name of a source, looking it up in the address vector if need be.
    fn look_up(&mut self, peer: PeerId, device: &impl Device) -> FiAddr {
        match (self.source(peer), &mut self.sources) {
            (UNKNOWN, Some(sources)) => sources.look_up(peer, device),
            (known, _) => known,
        }
    }
}

impl Sources {
    /// Forgets names that insertions or removals may have changed.
    #[inline]
    fn refresh(&mut self) {
        let changes = self.av.changes();
        if changes != self.seen {
            self.seen = changes;
            self.names.clear();
        }
    }

    fn look_up(&mut self, peer: PeerId, device: &impl Device) -> FiAddr {
        let found = device.address(peer).map(|address| self.av.find(address));
        let name = FiAddr(found.unwrap_or(NO_SOURCE));
        if self.names.len() <= peer.index() {
            self.names.resize(peer.index() + 1, UNKNOWN);
        }
        self.names[peer.index()] = name;
        name
    }
}

/// Tells whether a result is an operation of its own: not, when it only says that a multi-receive buffer was released.
#[inline]
fn counts(flags: Flags) -> bool {
    flags.intersects(Flags::SEND.union(Flags::RECV))
}
