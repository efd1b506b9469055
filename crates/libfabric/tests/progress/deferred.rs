//! Deferred works of every kind over the real providers: fi_trigger(3).

use core::ptr::{from_mut, null_mut};

use oxifabric_abi::*;

use crate::world::{End, PROVIDERS, World, c, patiently};

/// Counters, registered memory and two endpoints.
struct Bench {
    a: End,
    b: End,
    to: fi_addr_t,
    start: *mut fid_cntr,
    done: *mut fid_cntr,
    region: *mut fid_mr,
    base: u64,
    memory: Vec<u64>,
}

impl Bench {
    fn new(world: &World) -> Self {
        let (a, b) = (world.end(), world.end());
        let to = a.knows(&b);
        let mut memory = vec![0u64; 64];
        let mut region = null_mut();
        let registered = c!(fi_mr_reg(
            world.domain,
            memory.as_mut_ptr().cast(),
            size_of_val(&*memory),
            FI_REMOTE_READ | FI_REMOTE_WRITE,
            0,
            7,
            0,
            &mut region,
            null_mut()
        ));
        assert_eq!(registered, 0);
        // SAFETY: an info has all attributes.
        let mode = unsafe { (*(*world.info).domain_attr).mr_mode };
        let base = if mode & FI_MR_VIRT_ADDR != 0 {
            memory.as_ptr().addr() as u64
        } else {
            0
        };
        Self {
            a,
            b,
            to,
            start: cntr(world),
            done: cntr(world),
            region,
            base,
            memory,
        }
    }

    fn work(&self, threshold: u64, op_type: fi_op_type) -> fi_deferred_work {
        fi_deferred_work {
            context: fi_context2 {
                internal: [null_mut(); 8],
            },
            threshold,
            triggering_cntr: self.start,
            completion_cntr: self.done,
            op_type,
            op: fi_deferred_op { cntr: null_mut() },
        }
    }

    fn close(self) {
        assert_eq!(c!(fi_close(self.region.cast())), 0);
        drop((self.a, self.b));
        assert_eq!(c!(fi_close(self.start.cast())), 0);
        assert_eq!(c!(fi_close(self.done.cast())), 0);
    }
}

fn cntr(world: &World) -> *mut fid_cntr {
    let mut attr = fi_cntr_attr {
        wait_obj: FI_WAIT_FD,
        ..fi_cntr_attr::ZERO
    };
    let mut cntr = null_mut();
    let opened = c!(fi_cntr_open(world.domain, &mut attr, &mut cntr, null_mut()));
    assert_eq!(opened, 0);
    cntr
}

fn queue(world: &World, work: &mut fi_deferred_work) {
    let work = from_mut(work).cast();
    assert_eq!(c!(fi_control(world.domain.cast(), FI_QUEUE_WORK, work)), 0);
}

fn piece<T>(of: &mut [T]) -> libc::iovec {
    libc::iovec {
        iov_base: of.as_mut_ptr().cast(),
        iov_len: size_of_val(of),
    }
}

/// Tagged messages, then accesses: each step waits for one more count.
#[test]
fn messages_and_accesses_follow_a_counter() {
    for provider in PROVIDERS {
        for progress in [FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO] {
            let world = World::with(provider, FI_THREAD_COMPLETION, progress, FI_TRIGGER);
            let bench = Bench::new(&world);
            let (mut into, mut from, mut back) = ([0u64; 2], [3u64, 4], [0u64; 2]);

            let landing = piece(&mut into);
            let mut message = fi_op_tagged {
                ep: bench.b.ep,
                msg: fi_msg_tagged {
                    msg_iov: &landing,
                    desc: null_mut(),
                    iov_count: 1,
                    addr: FI_ADDR_UNSPEC,
                    tag: 5,
                    ignore: 0,
                    context: null_mut(),
                    data: 0,
                },
                flags: 0,
            };
            let mut work = bench.work(1, FI_OP_TRECV);
            work.op.tagged = &mut message;
            queue(&world, &mut work);
            let out = piece(&mut from);
            let mut sending = fi_op_tagged {
                ep: bench.a.ep,
                msg: fi_msg_tagged {
                    addr: bench.to,
                    msg_iov: &out,
                    ..message.msg
                },
                ..message
            };
            work.op.tagged = &mut sending;
            work.op_type = FI_OP_TSEND;
            queue(&world, &mut work);

            let mut target = fi_rma_iov {
                addr: bench.base,
                len: 16,
                key: c!(fi_mr_key(bench.region)),
            };
            let mut access = fi_op_rma {
                ep: bench.a.ep,
                msg: fi_msg_rma {
                    msg_iov: &out,
                    desc: null_mut(),
                    iov_count: 1,
                    addr: bench.to,
                    rma_iov: &mut target,
                    rma_iov_count: 1,
                    context: null_mut(),
                    data: 0,
                },
                flags: FI_DELIVERY_COMPLETE,
            };
            let mut work = bench.work(2, FI_OP_WRITE);
            work.op.rma = &mut access;
            queue(&world, &mut work);
            let home = piece(&mut back);
            let mut reading = fi_op_rma {
                msg: fi_msg_rma {
                    msg_iov: &home,
                    ..access.msg
                },
                flags: 0,
                ..access
            };
            work.op.rma = &mut reading;
            work.threshold = 3;
            work.op_type = FI_OP_READ;
            queue(&world, &mut work);

            for (step, done) in [(1, 2), (2, 3), (3, 4)] {
                assert_eq!(c!(fi_cntr_set(bench.start, step)), 0);
                assert_eq!(c!(fi_cntr_wait(bench.done, done, 60_000)), 0, "step {step}");
            }
            assert_eq!((into, back), ([3, 4], [3, 4]), "{provider:?}");
            assert_eq!(bench.memory[..2], [3, 4]);
            assert!(bench.a.read().is_none() && bench.b.read().is_none());
            bench.close();
        }
    }
}

#[test]
fn atomics_follow_a_counter() {
    for provider in PROVIDERS {
        let world = World::with(
            provider,
            FI_THREAD_SAFE,
            FI_PROGRESS_MANUAL,
            FI_TRIGGER | FI_ATOMIC,
        );
        let bench = Bench::new(&world);
        let (mut operand, mut compare, mut before) = ([5u64], [5u64], [77u64]);
        let ioc = |of: &mut [u64; 1]| fi_ioc {
            addr: of.as_mut_ptr().cast(),
            count: 1,
        };
        let (with, mut fetched) = (ioc(&mut operand), ioc(&mut before));
        let target = fi_rma_ioc {
            addr: bench.base,
            count: 1,
            key: c!(fi_mr_key(bench.region)),
        };
        let msg = fi_msg_atomic {
            msg_iov: &with,
            desc: null_mut(),
            iov_count: 1,
            addr: bench.to,
            rma_iov: &target,
            rma_iov_count: 1,
            datatype: FI_UINT64,
            op: FI_SUM,
            context: null_mut(),
            data: 0,
        };
        let fetch = fi_msg_fetch {
            msg_iov: &mut fetched,
            desc: null_mut(),
            iov_count: 1,
        };
        let mut base = fi_op_atomic {
            ep: bench.a.ep,
            msg,
            flags: FI_DELIVERY_COMPLETE,
        };
        let mut work = bench.work(1, FI_OP_ATOMIC);
        work.op.atomic = &mut base;
        queue(&world, &mut work);
        let mut fetching = fi_op_fetch_atomic {
            ep: bench.a.ep,
            msg,
            fetch,
            flags: 0,
        };
        let mut work = bench.work(2, FI_OP_FETCH_ATOMIC);
        work.op.fetch_atomic = &mut fetching;
        queue(&world, &mut work);
        let with = ioc(&mut compare);
        let mut comparing = fi_op_compare_atomic {
            ep: bench.a.ep,
            msg: fi_msg_atomic {
                op: FI_CSWAP_NE,
                ..msg
            },
            fetch,
            compare: fi_msg_compare {
                msg_iov: &with,
                desc: null_mut(),
                iov_count: 1,
            },
            flags: 0,
        };
        let mut work = bench.work(3, FI_OP_COMPARE_ATOMIC);
        work.op.compare_atomic = &mut comparing;
        queue(&world, &mut work);
        for (step, memory, seen) in [(1, 5, 77), (2, 10, 5), (3, 5, 10)] {
            assert_eq!(c!(fi_cntr_set(bench.start, step)), 0);
            assert_eq!(c!(fi_cntr_wait(bench.done, step, 60_000)), 0);
            // SAFETY: both are written through other pointers by operations that ended.
            let now = unsafe {
                (
                    bench.memory.as_ptr().read_volatile(),
                    before.as_ptr().read_volatile(),
                )
            };
            assert_eq!(now, (memory, seen), "{provider:?}, step {step}");
        }
        bench.close();
    }
}

/// As a program does that writes through an alias whose flags say FI_TRIGGER.
#[test]
fn an_alias_may_trigger_all_its_operations() {
    for provider in PROVIDERS {
        let world = World::with(provider, FI_THREAD_SAFE, FI_PROGRESS_MANUAL, FI_TRIGGER);
        let bench = Bench::new(&world);
        let mut alias = null_mut();
        let made = c!(fi_ep_alias(
            bench.a.ep,
            &mut alias,
            FI_TRANSMIT | FI_TRIGGER
        ));
        assert_eq!(made, 0);
        let mut context = fi_triggered_context {
            event_type: FI_TRIGGER_THRESHOLD,
            trigger: fi_triggered_context_union {
                threshold: fi_trigger_threshold {
                    cntr: bench.start,
                    threshold: 1,
                },
            },
        };
        let from = [9u64];
        let key = c!(fi_mr_key(bench.region));
        let write = |ep, context| {
            let from = from.as_ptr().cast();
            c!(fi_write(
                ep,
                from,
                8,
                null_mut(),
                bench.to,
                bench.base,
                key,
                context
            ))
        };
        assert_eq!(write(alias, from_mut(&mut context).cast()), 0);
        assert!(bench.a.read().is_none());
        assert_eq!(bench.memory[0], 0);
        assert_eq!(c!(fi_cntr_add(bench.start, 1)), 0);
        let entry = loop {
            match bench.a.read() {
                Some(entry) => break entry,
                None => assert!(bench.b.read().is_none()),
            }
        };
        assert_eq!(entry.op_context, from_mut(&mut context).cast());
        assert_ne!(entry.flags & FI_WRITE, 0);
        let plain = || write(bench.a.ep, null_mut());
        patiently(&bench.a, plain, |end| assert!(end.read().is_none()));
        while bench.a.read().is_none() {
            assert!(bench.b.read().is_none());
        }
        assert_eq!(c!(fi_close(alias.cast())), 0);
        bench.close();
    }
}
