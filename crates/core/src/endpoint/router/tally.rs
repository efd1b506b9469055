//! Where results of one kind go: into a queue, and where they are counted. That is on the counter that the application bound, and for `oxi top` if the endpoint
//! is watched. Short path of operations that are counted; an endpoint with neither has no tally.

use std::cell::Cell;

use oxifabric_abi::{FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE};
use oxifabric_types::stats::{KINDS, Traffic};

use super::Router;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::handle::Ref;

/// Queue and counter of one direction.
#[derive(Default)]
pub(super) struct Side {
    pub(super) cq: Option<Ref<Cq>>,
    pub(super) tally: Option<Tally>,
}

/// Counters of reads and writes, by what began them.
#[derive(Default)]
pub(super) struct AccessCounters {
    pub(super) read: Option<Tally>,
    pub(super) write: Option<Tally>,
    pub(super) remote_read: Option<Tally>,
    pub(super) remote_write: Option<Tally>,
    /// There is one of them.
    pub(super) any: bool,
}

impl Router {
    /// Lets results go into queues (of sends, of receives) and be counted on what `bound` has for `FI_SEND` and so on. It may
    /// be called again; what was counted for `oxi top` stays.
    pub(in crate::endpoint) fn wire(
        &mut self,
        [tx, rx]: [Option<Ref<Cq>>; 2],
        bound: impl Fn(u64) -> Option<Ref<Cntr>>,
    ) {
        (self.tx.cq, self.rx.cq) = (tx, rx);
        for (tally, kind) in self.tallies_mut().into_iter().zip(KIND_FLAGS) {
            *tally = Tally::rewired(tally.take(), bound(kind));
        }
        self.see_accesses();
    }

    /// Begins to count everything for `oxi top`.
    pub(in crate::endpoint) fn watch(&mut self) {
        for tally in self.tallies_mut() {
            *tally = Some(Tally::watched(tally.take()));
        }
        self.see_accesses();
    }

    /// Returns what was counted for `oxi top`.
    pub(in crate::endpoint) fn traffic(&self) -> [Traffic; KINDS.len()] {
        self.tallies()
            .map(|tally| tally.as_ref().map(Tally::traffic).unwrap_or_default())
    }

    /// Returns all places where something is counted, in the order of [`KINDS`].
    pub(super) const fn tallies(&self) -> [&Option<Tally>; KINDS.len()] {
        let accesses = &self.accesses;
        [
            &self.tx.tally,
            &self.rx.tally,
            &accesses.read,
            &accesses.write,
            &accesses.remote_read,
            &accesses.remote_write,
        ]
    }

    const fn tallies_mut(&mut self) -> [&mut Option<Tally>; KINDS.len()] {
        let accesses = &mut self.accesses;
        [
            &mut self.tx.tally,
            &mut self.rx.tally,
            &mut accesses.read,
            &mut accesses.write,
            &mut accesses.remote_read,
            &mut accesses.remote_write,
        ]
    }

    fn see_accesses(&mut self) {
        let [_, _, accesses @ ..] = self.tallies();
        let any = accesses.iter().any(|tally| tally.is_some());
        self.accesses.any = any;
    }
}

/// What counters are bound for, in the order of [`KINDS`].
const KIND_FLAGS: [u64; KINDS.len()] = [
    FI_SEND,
    FI_RECV,
    FI_READ,
    FI_WRITE,
    FI_REMOTE_READ,
    FI_REMOTE_WRITE,
];

/// Where operations are counted.
pub(super) enum Tally {
    /// On a counter.
    Cntr(Ref<Cntr>),
    /// Of a watched endpoint, with a counter or without.
    Watched(Box<Watched>),
}

/// What a watched endpoint counts.
#[derive(Default)]
pub(super) struct Watched {
    cntr: Option<Ref<Cntr>>,
    /// The endpoint's lock, or what the application promised, keeps other threads away.
    traffic: Cell<Traffic>,
}

impl Tally {
    /// Lets operations be counted on another counter, or none. What was counted for `oxi top` stays.
    pub(super) fn rewired(old: Option<Self>, cntr: Option<Ref<Cntr>>) -> Option<Self> {
        match old {
            Some(Self::Watched(mut watched)) => {
                watched.cntr = cntr;
                Some(Self::Watched(watched))
            }
            _ => cntr.map(Self::Cntr),
        }
    }

    /// Begins to count for `oxi top`.
    pub(super) fn watched(old: Option<Self>) -> Self {
        match old {
            Some(Self::Cntr(cntr)) => Self::Watched(Box::new(Watched {
                cntr: Some(cntr),
                ..Watched::default()
            })),
            Some(watched) => watched,
            None => Self::Watched(Box::default()),
        }
    }

    /// Returns the application's counter.
    pub(super) fn cntr(&self) -> Option<&Cntr> {
        match self {
            Self::Cntr(cntr) => Some(cntr),
            Self::Watched(watched) => watched.cntr.as_deref(),
        }
    }

    /// Returns what was counted for `oxi top`.
    pub(super) fn traffic(&self) -> Traffic {
        match self {
            Self::Cntr(_) => Traffic::default(),
            Self::Watched(watched) => watched.traffic.get(),
        }
    }

    /// Counts an operation that ended well and moved so many bytes.
    #[inline]
    pub(super) fn count(&self, bytes: u64) {
        match self {
            Self::Cntr(cntr) => cntr.count(bytes),
            Self::Watched(watched) => watched.count(bytes),
        }
    }

    /// Counts an operation whose counter is another one: for `oxi top` only.
    pub(super) fn note(&self, bytes: u64) {
        if let Self::Watched(watched) = self {
            watched.note(bytes);
        }
    }

    /// Counts an operation that failed.
    pub(super) fn count_error(&self) {
        if let Some(cntr) = self.cntr() {
            cntr.count_error();
        }
    }
}

impl Watched {
    fn count(&self, bytes: u64) {
        self.note(bytes);
        if let Some(cntr) = &self.cntr {
            cntr.count(bytes);
        }
    }

    fn note(&self, bytes: u64) {
        let Traffic {
            operations,
            bytes: before,
        } = self.traffic.get();
        self.traffic.set(Traffic {
            operations: operations.wrapping_add(1),
            bytes: before.wrapping_add(bytes),
        });
    }
}
