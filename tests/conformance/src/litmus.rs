//! A litmus test of writes: an origin, a target, and a third party, which the origin notifies when a write was counted.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, bind, close};
use oxifabric_fixtures::rma_fixture::{ACCESS, BOTH, RmaFixture};
use oxifabric_fixtures::traffic::TIMEOUT;
use oxifabric_fixtures::{Subject, c};

/// An endpoint whose writes are counted, and memory of an endpoint in another domain, which is driven apart.
#[derive(Debug)]
pub struct Counted {
    /// The endpoints and the memory.
    pub rma: RmaFixture,
    writes: *mut fid_cntr,
    origin: Fixture,
}

impl Counted {
    /// Opens them.
    #[must_use]
    pub fn new(subject: &Subject) -> Self {
        let fixture = || Fixture::with(subject, |hints| hints.caps |= ACCESS);
        let (origin, target) = (fixture(), fixture());
        let writes = origin.cntr(FI_WAIT_UNSPEC);
        let flags = FI_SEND | FI_RECV;
        let a = origin.end_with(flags, |ep| assert_eq!(bind(ep, writes, FI_WRITE), 0));
        let pair = Pair::of(a, target.end());
        let rma = RmaFixture::of(target, pair, BOTH);
        Self {
            rma,
            writes,
            origin,
        }
    }

    /// Begins to write a number to the target's memory.
    pub fn put(&self, number: u64) {
        let pair = &self.rma.pair;
        let (place, key) = (&raw const number, self.rma.key());
        pair.start(|| {
            c!(fi_inject_write(
                pair.a.ep,
                place.cast(),
                8,
                pair.to_b,
                self.rma.base,
                key
            ))
        });
    }

    /// Starts to write as [`Counted::put`] does, while another thread has the target.
    fn put_alone(&self, number: u64) {
        let pair = &self.rma.pair;
        let (place, key) = (&raw const number, self.rma.key());
        let put = || {
            c!(fi_inject_write(
                pair.a.ep,
                place.cast(),
                8,
                pair.to_b,
                self.rma.base,
                key
            ))
        };
        while put() == -(FI_EAGAIN as isize) {
            let _ = self.counted();
        }
    }

    /// Returns the number in the target's memory.
    #[must_use]
    pub fn number(&self) -> u64 {
        c!(self.rma.bytes.cast::<u64>().read_volatile())
    }

    /// Returns how many writes were counted.
    #[must_use]
    pub fn counted(&self) -> u64 {
        c!(fi_cntr_read(self.writes))
    }

    /// Closes all.
    pub fn close(self) {
        let Self {
            rma,
            writes,
            origin,
        } = self;
        rma.close_with(|| {
            assert_eq!(close(writes), 0);
            drop(origin);
        });
    }
}

/// The parties of a litmus test: each of them uses objects that the others leave alone.
#[derive(Debug)]
pub struct Parties<'a> {
    counted: &'a Counted,
    /// The last number of which the origin has notified the third party.
    told: AtomicU64,
    /// The last number that the third party has looked for.
    looked: AtomicU64,
    over: AtomicBool,
}

// SAFETY: the origin's objects are used by one thread and the target's by another; the memory is read as devices do.
unsafe impl Sync for Parties<'_> {}

impl<'a> Parties<'a> {
    /// Makes the parties; no number has been written yet.
    #[must_use]
    pub fn of(counted: &'a Counted) -> Self {
        Self {
            counted,
            told: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Waits until `done` or the test is over.
    fn wait(&self, done: impl Fn() -> bool) {
        let begun = Instant::now();
        while !done() && !self.over.load(Ordering::Relaxed) {
            if begun.elapsed() > TIMEOUT {
                self.over.store(true, Ordering::Relaxed);
            }
            std::thread::yield_now();
        }
    }

    /// Writes number after number, each when the third party has looked for the one before.
    pub fn originate(&self, rounds: u64) {
        for round in 1..=rounds {
            self.counted.put_alone(round);
            self.wait(|| self.counted.counted() >= round);
            self.told.store(round, Ordering::Release);
            self.wait(|| self.looked.load(Ordering::Acquire) >= round);
        }
    }

    /// Drives the progress of the target.
    pub fn serve(&self) {
        let cq = self.counted.rma.pair.b.cq;
        self.wait(|| {
            c!(fi_cq_read(cq, core::ptr::null_mut(), 0));
            false
        });
    }

    /// Looks for each number that the origin announces; returns how many were not there.
    #[must_use]
    pub fn look(&self, rounds: u64) -> u64 {
        let stale = (1..=rounds).filter(|&round| {
            self.wait(|| self.told.load(Ordering::Acquire) >= round);
            let number = self.counted.number();
            self.looked.store(round, Ordering::Release);
            number != round
        });
        let stale = stale.count() as u64;
        self.over.store(true, Ordering::Relaxed);
        stale
    }
}
