//! A litmus test of writes: an origin, a target and a third party that the origin tells when a write was counted.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use oxifabric_abi::*;

use crate::ground::{ACCESS, BOTH, Ground};
use crate::traffic::PATIENCE;
use crate::world::{Two, World, bind, close};
use crate::{Stage, c};

/// An endpoint whose writes are counted, and memory of an endpoint in another domain, which is driven apart.
#[derive(Debug)]
pub struct Counted {
    /// The endpoints and the memory.
    pub ground: Ground,
    writes: *mut fid_cntr,
    origin: World,
}

impl Counted {
    /// Opens them.
    #[must_use]
    pub fn new(stage: &Stage) -> Self {
        let world = || World::with(stage, |hints| hints.caps |= ACCESS);
        let (origin, target) = (world(), world());
        let writes = origin.cntr(FI_WAIT_UNSPEC);
        let flags = FI_SEND | FI_RECV;
        let a = origin.end_with(flags, |ep| assert_eq!(bind(ep, writes, FI_WRITE), 0));
        let two = Two::of(a, target.end());
        let ground = Ground::of(target, two, BOTH);
        Self {
            ground,
            writes,
            origin,
        }
    }

    /// Begins to write a number to the target's memory.
    pub fn put(&self, number: u64) {
        let two = &self.ground.two;
        let (place, key) = (&raw const number, self.ground.key());
        two.start(|| {
            c!(fi_inject_write(
                two.a.ep,
                place.cast(),
                8,
                two.to_b,
                self.ground.base,
                key
            ))
        });
    }

    /// The same, while another thread has the target.
    fn put_alone(&self, number: u64) {
        let two = &self.ground.two;
        let (place, key) = (&raw const number, self.ground.key());
        let put = || {
            c!(fi_inject_write(
                two.a.ep,
                place.cast(),
                8,
                two.to_b,
                self.ground.base,
                key
            ))
        };
        while put() == -(FI_EAGAIN as isize) {
            let _ = self.counted();
        }
    }

    /// What the target has.
    #[must_use]
    pub fn number(&self) -> u64 {
        c!(self.ground.bytes.cast::<u64>().read_volatile())
    }

    /// How many writes were counted.
    #[must_use]
    pub fn counted(&self) -> u64 {
        c!(fi_cntr_read(self.writes))
    }

    /// Closes all.
    pub fn close(self) {
        let Self {
            ground,
            writes,
            origin,
        } = self;
        ground.close_with(|| {
            assert_eq!(close(writes), 0);
            drop(origin);
        });
    }
}

/// The parties of a litmus test: each of them uses objects that the others leave alone.
#[derive(Debug)]
pub struct Parties<'a> {
    counted: &'a Counted,
    /// The last number that the third party was told of, by the origin.
    told: AtomicU64,
    /// The last one that it has looked for.
    looked: AtomicU64,
    over: AtomicBool,
}

// SAFETY: the origin's objects are used by one thread and the target's by another; the memory is read as devices do.
unsafe impl Sync for Parties<'_> {}

impl<'a> Parties<'a> {
    /// Nothing has been said yet.
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
            if begun.elapsed() > PATIENCE {
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

    /// Lets the target make progress.
    pub fn serve(&self) {
        let cq = self.counted.ground.two.b.cq;
        self.wait(|| {
            c!(fi_cq_read(cq, core::ptr::null_mut(), 0));
            false
        });
    }

    /// Looks for each number that it is told of; returns how many were not there.
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
