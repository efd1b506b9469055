//! Where results of one kind go: into a queue, and where they are counted. That is on the counter that the application
//! bound, and for `oxi top` if the endpoint is watched. An endpoint with neither has no `ResultCounter`.

use std::cell::Cell;

use oxifabric_abi::{FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE};
use oxifabric_types::stats::{KINDS, Traffic};

use super::CompletionDispatch;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::handle::Ref;

/// Queue and counter of one direction.
#[derive(Default)]
pub(super) struct Side {
    pub(super) cq: Option<Ref<Cq>>,
    pub(super) counter: Option<ResultCounter>,
}

/// Counters of reads and writes, by what began them.
#[derive(Default)]
pub(super) struct AccessCounters {
    pub(super) read: Option<ResultCounter>,
    pub(super) write: Option<ResultCounter>,
    pub(super) remote_read: Option<ResultCounter>,
    pub(super) remote_write: Option<ResultCounter>,
    /// There is one of them.
    pub(super) any: bool,
}

impl CompletionDispatch {
    /// Lets results go into queues (of sends, of receives) and be counted on what `bound` has for `FI_SEND` and so on. It may
    /// be called again; what was counted for `oxi top` stays.
    pub(in crate::endpoint) fn wire(
        &mut self,
        [tx, rx]: [Option<Ref<Cq>>; 2],
        bound: impl Fn(u64) -> Option<Ref<Cntr>>,
    ) {
        (self.tx.cq, self.rx.cq) = (tx, rx);
        let watched = self.watched;
        for (counter, kind) in self.result_counters_mut().into_iter().zip(KIND_FLAGS) {
            *counter = ResultCounter::rewired(counter.take(), bound(kind), watched);
        }
        self.see_accesses();
    }

    /// Begins to count everything for `oxi top`.
    pub(in crate::endpoint) fn watch(&mut self) {
        self.watched = true;
        for counter in self.result_counters_mut() {
            counter.get_or_insert_with(|| ResultCounter(Box::default()));
        }
        self.see_accesses();
    }

    /// Returns what was counted for `oxi top`.
    pub(in crate::endpoint) fn traffic(&self) -> [Traffic; KINDS.len()] {
        self.result_counters().map(|counter| {
            counter
                .as_ref()
                .map(|counter| counter.0.traffic.get())
                .unwrap_or_default()
        })
    }

    /// Returns all places where something is counted, in the order of [`KINDS`].
    pub(super) const fn result_counters(&self) -> [&Option<ResultCounter>; KINDS.len()] {
        let accesses = &self.accesses;
        [
            &self.tx.counter,
            &self.rx.counter,
            &accesses.read,
            &accesses.write,
            &accesses.remote_read,
            &accesses.remote_write,
        ]
    }

    const fn result_counters_mut(&mut self) -> [&mut Option<ResultCounter>; KINDS.len()] {
        let accesses = &mut self.accesses;
        [
            &mut self.tx.counter,
            &mut self.rx.counter,
            &mut accesses.read,
            &mut accesses.write,
            &mut accesses.remote_read,
            &mut accesses.remote_write,
        ]
    }

    fn see_accesses(&mut self) {
        let [_, _, accesses @ ..] = self.result_counters();
        let any = accesses.iter().any(|counter| counter.is_some());
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

/// Where operations are counted. One word, and one call, so that the paths of operations that are not counted stay as they are.
pub(super) struct ResultCounter(Box<Counts>);

#[derive(Default)]
struct Counts {
    /// The application's counter.
    cntr: Option<Ref<Cntr>>,
    /// For `oxi top`. The endpoint's lock, or what the application promised, keeps other threads away.
    traffic: Cell<Traffic>,
}

impl ResultCounter {
    /// Lets operations be counted on another counter, or none. What was counted before stays; there is nothing to count if
    /// neither a counter nor `oxi top` wants it.
    fn rewired(old: Option<Self>, cntr: Option<Ref<Cntr>>, watched: bool) -> Option<Self> {
        if cntr.is_none() && !watched {
            return None;
        }
        let mut counter = old.unwrap_or_else(|| Self(Box::default()));
        counter.0.cntr = cntr;
        Some(counter)
    }

    /// Returns the application's counter.
    pub(super) fn cntr(&self) -> Option<&Cntr> {
        self.0.cntr.as_deref()
    }

    /// Counts an operation that succeeded and moved `bytes` bytes.
    #[inline(never)]
    pub(super) fn count(&self, bytes: u64) {
        self.note(bytes);
        if let Some(cntr) = &self.0.cntr {
            cntr.count(bytes);
        }
    }

    /// Counts an operation whose counter is another one.
    pub(super) fn note(&self, bytes: u64) {
        let traffic = self.0.traffic.get();
        self.0.traffic.set(Traffic {
            operations: traffic.operations.wrapping_add(1),
            bytes: traffic.bytes.wrapping_add(bytes),
        });
    }

    /// Counts an operation that failed.
    pub(super) fn count_error(&self) {
        if let Some(cntr) = self.cntr() {
            cntr.count_error();
        }
    }
}
