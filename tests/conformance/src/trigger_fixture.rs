//! Deferred work that waits for a counter: two endpoints, and what deferred and triggered operations need.

use core::any::Any;
use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::time::Instant;

use oxifabric_abi::*;

use crate::fixture::{Fixture, Pair, close};
use crate::rma_fixture::{ACCESS, BOTH, RmaFixture, elements_of};
use crate::traffic::{Posted, TIMEOUT};
use crate::{Subject, c};

/// Two endpoints and memory, a counter that starts deferred work, one that counts its end, and the work.
pub(crate) struct TriggerFixture {
    pub(crate) rma: RmaFixture,
    pub(crate) start: *mut fid_cntr,
    pub(crate) done: *mut fid_cntr,
    /// Deferred work and what it refers to, which the library reads until it has ended.
    pub(crate) kept: RefCell<Vec<Box<dyn Any>>>,
}

impl TriggerFixture {
    pub(crate) fn new(subject: &Subject) -> Self {
        let fixture = Self::fixture(subject);
        let pair = fixture.pair();
        Self::with(fixture, pair)
    }

    pub(crate) fn fixture(subject: &Subject) -> Fixture {
        Fixture::with(subject, |hints| {
            hints.caps |= ACCESS | FI_ATOMIC | FI_TRIGGER
        })
    }

    pub(crate) fn with(fixture: Fixture, pair: Pair) -> Self {
        let (start, done) = (fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
        let rma = RmaFixture::of(fixture, pair, BOTH);
        Self {
            rma,
            start,
            done,
            kept: RefCell::default(),
        }
    }

    /// Keeps a value in place.
    pub(crate) fn keep<T: 'static>(&self, it: T) -> *mut T {
        let mut boxed = Box::new(it);
        let place = &raw mut *boxed;
        self.kept.borrow_mut().push(boxed);
        place
    }

    /// Makes deferred work that starts at a threshold, and ends in `done`.
    pub(crate) fn work(
        &self,
        threshold: u64,
        op_type: fi_op_type,
        op: fi_deferred_op,
    ) -> *mut fi_deferred_work {
        let mut work: fi_deferred_work = c!(core::mem::zeroed());
        work.threshold = threshold;
        work.triggering_cntr = self.start;
        work.completion_cntr = self.done;
        (work.op_type, work.op) = (op_type, op);
        self.keep(work)
    }

    /// Makes deferred work that sends bytes to `b`.
    pub(crate) fn message(
        &self,
        threshold: u64,
        place: *mut u8,
        len: usize,
        flags: u64,
    ) -> *mut fi_deferred_work {
        let pair = &self.rma.pair;
        let iov = self.keep(libc::iovec {
            iov_base: place.cast(),
            iov_len: len,
        });
        let msg = fi_msg {
            msg_iov: iov,
            desc: null_mut(),
            iov_count: 1,
            addr: pair.to_b,
            context: pair.a.traffic.context(),
            data: 0,
        };
        let msg = self.keep(fi_op_msg {
            ep: pair.a.ep,
            msg,
            flags,
        });
        self.work(threshold, FI_OP_SEND, fi_deferred_op { msg })
    }

    /// Queues deferred work that sends one byte.
    pub(crate) fn send(&self, threshold: u64, byte: u8) -> *mut fi_deferred_work {
        let place = self.rma.pair.a.traffic.buffer(&[byte]);
        let work = self.message(threshold, place, 1, 0);
        assert_eq!(self.queue(work), 0);
        work
    }

    /// Makes deferred work that changes a counter.
    pub(crate) fn change(
        &self,
        threshold: u64,
        op_type: fi_op_type,
        cntr: *mut fid_cntr,
        value: u64,
    ) -> *mut fi_deferred_work {
        let cntr = self.keep(fi_op_cntr { cntr, value });
        let work = self.work(threshold, op_type, fi_deferred_op { cntr });
        c!((*work).completion_cntr = null_mut());
        work
    }

    /// Makes deferred work on the first element of the region.
    pub(crate) fn update(&self, op: fi_op, operand: u64) -> fi_msg_atomic {
        let pair = &self.rma.pair;
        let from = fi_ioc {
            addr: elements_of(pair, &[operand]).cast(),
            count: 1,
        };
        let to = fi_rma_ioc {
            addr: self.rma.base,
            count: 1,
            key: self.rma.key(),
        };
        fi_msg_atomic {
            msg_iov: self.keep(from),
            iov_count: 1,
            addr: pair.to_b,
            rma_iov: self.keep(to),
            rma_iov_count: 1,
            datatype: FI_UINT64,
            op,
            context: pair.a.traffic.context(),
            ..fi_msg_atomic::ZERO
        }
    }

    pub(crate) fn queue(&self, work: *mut fi_deferred_work) -> c_int {
        self.control(FI_QUEUE_WORK, work.cast())
    }

    pub(crate) fn control(&self, command: c_int, arg: *mut c_void) -> c_int {
        c!(fi_control(self.rma.fixture.domain.cast(), command, arg))
    }

    pub(crate) fn progress(&self) {
        let pair = &self.rma.pair;
        pair.progress(&pair.a);
        pair.progress(&pair.b);
    }

    /// Drives the progress of all for a while, in which no waiting work may start.
    pub(crate) fn idle(&self) {
        for _ in 0..100 {
            self.progress();
        }
    }

    /// Waits until the sum of successes and errors of a counter is `count`.
    pub(crate) fn until(&self, cntr: *mut fid_cntr, count: u64) {
        let begun = Instant::now();
        while c!(fi_cntr_read(cntr)) + c!(fi_cntr_readerr(cntr)) < count
            && begun.elapsed() < TIMEOUT
        {
            self.progress();
        }
        let counted = c!(fi_cntr_read(cntr)) + c!(fi_cntr_readerr(cntr));
        assert_eq!(counted, count);
    }

    pub(crate) fn trigger(&self, value: u64) {
        assert_eq!(c!(fi_cntr_add(self.start, value)), 0);
    }

    pub(crate) fn first(&self) -> u64 {
        self.rma.elements::<u64>(1)[0]
    }

    /// Posts a send with FI_TRIGGER that waits for a threshold.
    pub(crate) fn triggered(&self, threshold: usize, byte: u8) {
        let pair = &self.rma.pair;
        let context = pair.a.traffic.context();
        let condition = fi_triggered_context2 {
            event_type: FI_TRIGGER_THRESHOLD,
            trigger: fi_triggered_context2_union {
                threshold: fi_trigger_threshold {
                    cntr: self.start,
                    threshold,
                },
            },
        };
        c!(context.cast::<fi_triggered_context2>().write(condition));
        let iov = libc::iovec {
            iov_base: pair.a.traffic.buffer(&[byte]).cast(),
            iov_len: 1,
        };
        let msg = fi_msg {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: pair.to_b,
            context,
            data: 0,
        };
        pair.start(|| c!(fi_sendmsg(pair.a.ep, &msg, FI_TRIGGER | FI_COMPLETION)));
    }

    /// Posts `count` receives of one byte.
    pub(crate) fn receives(&self, count: usize) -> Vec<Posted> {
        (0..count).map(|_| self.rma.pair.b.recv(1)).collect()
    }

    /// Waits for all receives; returns what they got, in the order of posting.
    pub(crate) fn received(&self, posted: &[Posted]) -> Vec<u8> {
        for _ in posted {
            let _ = self.rma.pair.done(&self.rma.pair.b);
        }
        posted.iter().map(|posted| posted.bytes()[0]).collect()
    }
}

impl Drop for TriggerFixture {
    fn drop(&mut self) {
        self.control(FI_FLUSH_WORK, null_mut());
        let closed = [close(self.rma.mr), close(self.start), close(self.done)];
        if !std::thread::panicking() {
            assert_eq!(closed, [0; 3]);
        }
    }
}
