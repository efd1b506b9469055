//! Atomic operations through the tables: fi_atomic(3).

use core::ffi::c_void;
use core::ptr::{null, null_mut};

use oxifabric_abi::*;
use oxifabric_types::Caps;

use super::world::{End, World, bind, c, close};

const KEY: u64 = 7;
const BOTH: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
const CONTEXT: *mut c_void = 5 as *mut c_void;

fn world() -> World {
    World::with(FI_VERSION(2, 6), |info| {
        info.caps |= Caps::ATOMIC | Caps::READ | Caps::WRITE;
        info.caps |= Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    })
}

/// Two endpoints, and counters of the second one's.
struct Pair {
    a: End,
    b: End,
    to_b: fi_addr_t,
    memory: Box<[u32; 8]>,
    mr: *mut fid_mr,
}

impl Pair {
    fn new(world: &World, access: u64) -> Self {
        let a = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
        let b = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
        let mut memory = Box::new([0, 10, 20, 30, 40, 50, 60, 70]);
        Self {
            to_b: a.knows(&b),
            a,
            b,
            mr: register(world, memory.as_mut_ptr().cast(), 32, access),
            memory,
        }
    }

    /// Lets the target do its part, which is to report nothing.
    fn serve(&self) {
        assert_eq!(self.b.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
    }

    fn add(&self, operand: &[u32], addr: u64, key: u64) -> isize {
        let (buf, ep) = (operand.as_ptr().cast(), self.a.ep);
        let (len, desc) = (operand.len(), null_mut());
        let op = (FI_UINT32, FI_SUM);
        c!(fi_atomic(
            ep, buf, len, desc, self.to_b, addr, key, op.0, op.1, CONTEXT
        ))
    }

    fn fetch(&self, op: fi_op, operand: *const u32, result: &mut [u32], key: u64) -> isize {
        let (ep, len, none) = (self.a.ep, result.len(), null_mut());
        let (from, into) = (operand.cast(), result.as_mut_ptr().cast());
        c!(fi_fetch_atomic(
            ep, from, len, none, into, none, self.to_b, 4, key, FI_UINT32, op, CONTEXT
        ))
    }

    fn swap(&self, operand: &[u32], compare: &[u32], result: &mut [u32]) -> isize {
        let (ep, len, none) = (self.a.ep, result.len(), null_mut());
        let (from, with) = (operand.as_ptr().cast(), compare.as_ptr().cast());
        let into = result.as_mut_ptr().cast();
        c!(fi_compare_atomic(
            ep, from, len, none, with, none, into, none, self.to_b, 4, KEY, FI_UINT32, FI_CSWAP,
            CONTEXT
        ))
    }

    /// Returns why the first endpoint's operation failed.
    fn refused(&self) -> (i32, u64) {
        self.serve();
        assert_eq!(self.a.read().map(|_| ()), Err(-(FI_EAVAIL as isize)));
        let error = self.a.error();
        (error.err, error.flags)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        assert_eq!(close(self.mr), 0);
    }
}

fn register(world: &World, base: *mut c_void, len: usize, access: u64) -> *mut fid_mr {
    let mut mr = null_mut();
    let (domain, context) = (world.domain, null_mut());
    let registered = c!(fi_mr_reg(
        domain, base, len, access, 0, KEY, 0, &mut mr, context
    ));
    assert_eq!(registered, 0);
    mr
}

fn ioc(elements: &mut [u32]) -> fi_ioc {
    fi_ioc {
        addr: elements.as_mut_ptr().cast(),
        count: elements.len(),
    }
}

fn target(addr: u64, count: usize) -> fi_rma_ioc {
    let key = KEY;
    fi_rma_ioc { addr, count, key }
}

fn message(pair: &Pair, op: fi_op, iocs: &[fi_ioc], targets: &[fi_rma_ioc]) -> fi_msg_atomic {
    fi_msg_atomic {
        msg_iov: iocs.as_ptr(),
        iov_count: iocs.len(),
        addr: pair.to_b,
        rma_iov: targets.as_ptr(),
        rma_iov_count: targets.len(),
        datatype: FI_UINT32,
        op,
        context: CONTEXT,
        data: 42,
        ..fi_msg_atomic::ZERO
    }
}

#[test]
fn a_base_atomic_updates_the_region_unseen() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_WRITE);
    assert_eq!(pair.add(&[1, 2], 4, KEY), 0);
    pair.serve();
    assert_eq!(*pair.memory, [0, 11, 22, 30, 40, 50, 60, 70]);
    let done = pair.a.next().0;
    assert_eq!(
        (done.flags, done.op_context),
        (FI_ATOMIC | FI_WRITE, CONTEXT)
    );
}

#[test]
fn a_fetch_brings_what_was_there() {
    let world = world();
    let pair = Pair::new(&world, BOTH);
    let mut result = [0; 2];
    assert_eq!(pair.fetch(FI_SUM, [1, 2].as_ptr(), &mut result, KEY), 0);
    assert_eq!(pair.a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
    pair.serve();
    let done = pair.a.next().0;
    assert_eq!(
        (done.flags, done.op_context),
        (FI_ATOMIC | FI_READ, CONTEXT)
    );
    assert_eq!((result, &pair.memory[1..3]), ([10, 20], &[11, 22][..]));
}

#[test]
fn an_atomic_read_needs_neither_operand_nor_the_right_to_write() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_READ);
    let mut result = [0; 3];
    assert_eq!(pair.fetch(FI_ATOMIC_READ, null(), &mut result, KEY), 0);
    pair.serve();
    assert_eq!(pair.a.next().0.flags, FI_ATOMIC | FI_READ);
    assert_eq!(result, [10, 20, 30]);
}

#[test]
fn a_swap_happens_where_the_comparison_holds() {
    let world = world();
    let pair = Pair::new(&world, BOTH);
    let mut result = [0; 2];
    assert_eq!(pair.swap(&[1, 2], &[10, 21], &mut result), 0);
    pair.serve();
    assert_eq!(pair.a.next().0.flags, FI_ATOMIC | FI_READ);
    assert_eq!((result, &pair.memory[1..3]), ([10, 20], &[1, 20][..]));
}

#[test]
fn messages_gather_elements_and_scatter_them_over_targets() {
    let world = world();
    let pair = Pair::new(&world, BOTH);
    let from_a = pair.b.knows(&pair.a);
    let (mut first, mut second) = ([1], [2, 3]);
    let iocs = [ioc(&mut first), ioc(&mut second)];
    let targets = [target(0, 2), target(28, 1)];
    let msg = message(&pair, FI_SUM, &iocs, &targets);
    let flags = FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE;
    assert_eq!(c!(fi_atomicmsg(pair.a.ep, &msg, flags)), 0);
    let (heard, source) = pair.b.next();
    let expected = FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    assert_eq!((heard.flags, heard.data, source), (expected, 42, from_a));
    assert_eq!(*pair.memory, [1, 12, 20, 30, 40, 50, 60, 73]);
    assert_eq!(pair.a.next().0.flags, FI_ATOMIC | FI_WRITE);

    let (mut left, mut right, mut with) = ([0; 2], [0], [1, 12, 73]);
    let mut results = [ioc(&mut left), ioc(&mut right)];
    let compare = ioc(&mut with);
    let msg = message(&pair, FI_CSWAP, &iocs, &targets);
    let (ep, none) = (pair.a.ep, null_mut());
    let posted = c!(fi_compare_atomicmsg(
        ep,
        &msg,
        &compare,
        none,
        1,
        results.as_mut_ptr(),
        none,
        2,
        0
    ));
    assert_eq!(posted, 0);
    pair.serve();
    assert_eq!(pair.a.next().0.flags, FI_ATOMIC | FI_READ);
    assert_eq!((left, right), ([1, 12], [73]));
    assert_eq!(*pair.memory, [1, 2, 20, 30, 40, 50, 60, 3]);

    let msg = message(&pair, FI_ATOMIC_READ, &[], &targets);
    let posted = c!(fi_fetch_atomicmsg(
        ep,
        &msg,
        results.as_mut_ptr(),
        none,
        2,
        0
    ));
    assert_eq!(posted, 0);
    pair.serve();
    pair.a.next();
    assert_eq!((left, right), ([1, 2], [3]));
}

#[test]
fn injected_atomics_leave_no_entry() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_WRITE);
    let (ep, to_b) = (pair.a.ep, pair.to_b);
    let mut operand = [5u32; 17];
    let buf = operand.as_ptr().cast();
    let inject = |count| {
        c!(fi_inject_atomic(
            ep, buf, count, to_b, 0, KEY, FI_UINT32, FI_SUM
        ))
    };
    assert_eq!(inject(1), 0);
    assert_eq!(inject(17), -(FI_EMSGSIZE as isize));
    operand.fill(0);
    pair.serve();
    assert_eq!(pair.memory[0], 5);
    assert_eq!(pair.a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
}

#[test]
fn what_is_not_allowed_changes_nothing() {
    let world = world();
    for (access, key, errno) in [
        (BOTH, KEY + 1, FI_ENOKEY),
        (FI_REMOTE_READ, KEY, FI_EACCES),
        (FI_REMOTE_WRITE, KEY, FI_EACCES),
    ] {
        let pair = Pair::new(&world, access);
        let mut result = [0; 2];
        assert_eq!(pair.fetch(FI_SUM, [1, 2].as_ptr(), &mut result, key), 0);
        assert_eq!(pair.refused(), (errno, FI_ATOMIC | FI_READ));
        assert_eq!(*pair.memory, [0, 10, 20, 30, 40, 50, 60, 70]);
    }
    let pair = Pair::new(&world, FI_REMOTE_READ);
    let (mut operand, targets) = ([1, 2], [target(28, 2)]);
    let iocs = [ioc(&mut operand)];
    let msg = message(&pair, FI_SUM, &iocs, &targets);
    assert_eq!(c!(fi_atomicmsg(pair.a.ep, &msg, FI_DELIVERY_COMPLETE)), 0);
    assert_eq!(pair.refused(), (FI_EACCES, FI_ATOMIC | FI_WRITE));
}

#[test]
fn calls_that_make_no_sense_fail_at_once() {
    let world = world();
    let pair = Pair::new(&world, BOTH);
    let (ep, to_b, none) = (pair.a.ep, pair.to_b, null_mut());
    let buf = [0u64; 8].as_ptr().cast();
    let post = |buf, count, datatype, op| {
        c!(fi_atomic(
            ep, buf, count, none, to_b, 0, KEY, datatype, op, CONTEXT
        ))
    };
    assert_eq!(post(buf, 1, FI_FLOAT, FI_BOR), -(FI_EOPNOTSUPP as isize));
    assert_eq!(post(buf, 1, FI_UINT8, FI_CSWAP), -(FI_EOPNOTSUPP as isize));
    assert_eq!(
        post(buf, 1, FI_UINT8, FI_ATOMIC_READ),
        -(FI_EOPNOTSUPP as isize)
    );
    assert_eq!(post(buf, 1, FI_VOID, FI_SUM), -(FI_EOPNOTSUPP as isize));
    assert_eq!(post(buf, 1, FI_UINT8, FI_NOOP), -(FI_EOPNOTSUPP as isize));
    assert_eq!(post(buf, 0, FI_UINT8, FI_SUM), -(FI_EINVAL as isize));
    assert_eq!(post(null(), 1, FI_UINT8, FI_SUM), -(FI_EINVAL as isize));
    assert_eq!(
        post(buf, usize::MAX, FI_UINT64, FI_SUM),
        -(FI_EINVAL as isize)
    );
    assert_eq!(post(buf, 513, FI_UINT64, FI_SUM), -(FI_EMSGSIZE as isize));
    assert_eq!(c!(fi_atomicmsg(ep, null(), 0)), -(FI_EINVAL as isize));
    let (mut operand, targets) = ([1, 2], [target(0, 1)]);
    let iocs = [ioc(&mut operand)];
    let unequal = message(&pair, FI_SUM, &iocs, &targets);
    assert_eq!(c!(fi_atomicmsg(ep, &unequal, 0)), -(FI_EINVAL as isize));
    let tagged = c!(fi_atomicmsg(ep, &unequal, FI_TAGGED));
    assert_eq!(tagged, -(FI_EOPNOTSUPP as isize));
    pair.serve();
    assert_eq!(pair.a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
}

#[test]
fn which_atomics_there_are_can_be_asked_of_endpoint_and_domain() {
    let world = world();
    let ep = world.bare();
    let mut count = 0;
    assert_eq!(c!(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &mut count)), 0);
    assert_eq!(count, 512);
    let read = c!(fi_fetch_atomicvalid(
        ep,
        FI_FLOAT16,
        FI_ATOMIC_READ,
        &mut count
    ));
    assert_eq!((read, count), (0, 2048));
    let swap = c!(fi_compare_atomicvalid(ep, FI_INT128, FI_MSWAP, &mut count));
    assert_eq!((swap, count), (0, 128));
    let none = c!(fi_atomicvalid(ep, FI_DOUBLE, FI_BAND, &mut count));
    assert_eq!(none, -FI_EOPNOTSUPP);
    assert_eq!(close(ep), 0);

    let mut attr = fi_atomic_attr::ZERO;
    let mut query = |datatype, op, flags| {
        let asked = c!(fi_query_atomic(
            world.domain,
            datatype,
            op,
            &mut attr,
            flags
        ));
        (asked, attr.count, attr.size)
    };
    assert_eq!(query(FI_DOUBLE_COMPLEX, FI_PROD, 0), (0, 256, 16));
    assert_eq!(query(FI_UINT8, FI_CSWAP, FI_COMPARE_ATOMIC), (0, 2048, 1));
    assert_eq!(
        query(FI_UINT8, FI_ATOMIC_READ, FI_FETCH_ATOMIC),
        (0, 4096, 1)
    );
    let unsupported = -FI_EOPNOTSUPP;
    assert_eq!(query(FI_UINT8, FI_CSWAP, 0).0, unsupported);
    assert_eq!(query(FI_UINT8, FI_SUM, FI_TAGGED).0, unsupported);
    assert_eq!(
        query(FI_UINT8, FI_SUM, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC).0,
        -FI_EBADFLAGS
    );
    assert_eq!(query(FI_UINT8, FI_SUM, FI_SEND).0, -FI_EBADFLAGS);
}

#[test]
fn endpoints_without_atomics_and_disabled_ones_say_so() {
    let without = World::new();
    let with = world();
    for (world, errno) in [(&without, FI_ENOSYS), (&with, FI_EOPBADSTATE)] {
        let (ep, none) = (world.bare(), null_mut());
        let posted = c!(fi_atomic(
            ep,
            null(),
            1,
            none,
            0,
            0,
            KEY,
            FI_UINT8,
            FI_SUM,
            CONTEXT
        ));
        assert_eq!(posted, -(errno as isize));
        assert_eq!(close(ep), 0);
    }
}

#[test]
fn counters_count_by_what_atomics_do() {
    let world = world();
    let (a, b) = (world.bare(), world.bare());
    let [write, read, written, fetched] = [0; 4].map(|_| world.cntr(FI_WAIT_NONE));
    let (av, cq) = (world.av(0), world.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE));
    for (ep, bound) in [
        (a, [(write, FI_WRITE), (read, FI_READ)]),
        (b, [(written, FI_REMOTE_WRITE), (fetched, FI_REMOTE_READ)]),
    ] {
        assert_eq!(bind(ep, av, 0), 0);
        assert_eq!(bind(ep, cq, FI_SEND | FI_RECV), 0);
        for (cntr, what) in bound {
            assert_eq!(bind(ep, cntr, what), 0);
        }
        assert_eq!(c!(fi_enable(ep)), 0);
    }
    let mut memory = [0u32; 2];
    let mr = register(&world, memory.as_mut_ptr().cast(), 8, BOTH);
    let to_b = insert(av, b);
    let (operand, mut result, none) = ([1u32], [0u32], null_mut());
    let (from, into) = (operand.as_ptr().cast(), result.as_mut_ptr().cast());
    for _ in 0..2 {
        let posted = c!(fi_atomic(
            a, from, 1, none, to_b, 0, KEY, FI_UINT32, FI_SUM, CONTEXT
        ));
        assert_eq!(posted, 0);
    }
    let posted = c!(fi_fetch_atomic(
        a, from, 1, none, into, none, to_b, 0, KEY, FI_UINT32, FI_SUM, CONTEXT
    ));
    assert_eq!(posted, 0);
    let counts = || [write, read, written, fetched].map(|cntr| c!(fi_cntr_read(cntr)));
    // Reading drives the endpoints; the last answer may need one more turn.
    counts();
    counts();
    assert_eq!(counts(), [2, 1, 2, 1]);
    assert_eq!((memory[0], result[0]), (3, 2));
    assert_eq!(
        [close(mr), close(a), close(b), close(av), close(cq)],
        [0; 5]
    );
    assert_eq!([write, read, written, fetched].map(close), [0; 4]);
}

/// Inserts an endpoint into a vector.
fn insert(av: *mut fid_av, ep: *mut fid_ep) -> fi_addr_t {
    let mut name = [0u8; 64];
    let (mut len, mut at) = (name.len(), 0);
    let named = c!(fi_getname(ep.cast(), name.as_mut_ptr().cast(), &mut len));
    assert_eq!(named, 0);
    let context = null_mut();
    let inserted = c!(fi_av_insert(
        av,
        name.as_ptr().cast(),
        1,
        &mut at,
        0,
        context
    ));
    assert_eq!(inserted, 1);
    at
}

#[test]
fn sizes_of_atomics_are_options() {
    let world = world();
    let ep = world.bare();
    let option = |name| {
        let (mut value, mut len) = (0usize, size_of::<usize>());
        let asked = c!(fi_getopt(
            ep.cast(),
            FI_OPT_ENDPOINT,
            name,
            (&raw mut value).cast(),
            &mut len
        ));
        (asked, value)
    };
    assert_eq!(option(FI_OPT_MAX_ATOMIC_SIZE), (0, 4096));
    assert_eq!(option(FI_OPT_INJECT_ATOMIC_SIZE), (0, 64));
    assert_eq!(close(ep), 0);
}

/// How many elements an atomic has at most: between updates of that many, others come if they may.
const LONGEST: usize = 512;

/// Several endpoints, each with a thread of its own, are asked to update the same elements, which lie at odd addresses.
#[test]
fn endpoints_of_a_domain_do_not_lose_each_others_updates() {
    const ROUNDS: u64 = 2_000;
    const PAIRS: usize = 3;
    let world = world();
    let mut memory = vec![0u8; 8 * LONGEST + 1];
    let mr = register(&world, memory.as_mut_ptr().cast(), memory.len(), BOTH);
    let pairs: [(End, End); PAIRS] = core::array::from_fn(|_| {
        let end = || world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
        (end(), end())
    });
    let start = std::sync::Barrier::new(PAIRS);
    std::thread::scope(|scope| {
        for pair in &pairs {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                increments(pair, ROUNDS);
            });
        }
    });
    for (at, sum) in memory[1..].as_chunks().0.iter().enumerate() {
        let sum = u64::from_ne_bytes(*sum);
        assert_eq!(sum, ROUNDS * PAIRS as u64, "element {at}");
    }
    assert_eq!(close(mr), 0);
}

/// Adds one to every element, again and again, and lets the other end of the pair do it.
fn increments((a, b): &(End, End), rounds: u64) {
    let (to_b, none, ones) = (a.knows(b), null_mut(), [1u64; LONGEST]);
    let buf = ones.as_ptr().cast();
    for _ in 0..rounds {
        let ep = a.ep;
        let posted = c!(fi_atomic(
            ep, buf, LONGEST, none, to_b, 1, KEY, FI_UINT64, FI_SUM, CONTEXT
        ));
        assert_eq!(posted, 0);
        assert_eq!(b.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
        assert_eq!(a.next().0.flags, FI_ATOMIC | FI_WRITE);
    }
}
