//! Remote memory access through the tables: fi_rma(3).

use core::ffi::c_void;
use core::ptr::{null, null_mut};

use libc::iovec;
use oxifabric_abi::*;
use oxifabric_types::{Caps, Flags, Info, MrMode};

use super::world::{End, World, bind, c, close};
use crate::cq::{Cq, UNREAD};
use crate::domain::Domain;
use crate::handle::object;

const TAGGED: fi_cq_format = FI_CQ_FORMAT_TAGGED;
const KEY: u64 = 7;
const ANY: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

fn world() -> World {
    world_with(|_| {})
}

fn world_with(change: impl FnOnce(&mut Info)) -> World {
    World::with(FI_VERSION(2, 6), |info| {
        info.caps |= Caps::RMA | Caps::READ | Caps::WRITE;
        info.caps |= Caps::REMOTE_READ | Caps::REMOTE_WRITE;
        change(info);
    })
}

/// Two endpoints, and memory that both may be asked for.
struct Pair {
    a: End,
    b: End,
    to_b: fi_addr_t,
    memory: Box<[u8; 16]>,
    mr: *mut fid_mr,
}

impl Pair {
    fn new(world: &World, access: u64) -> Self {
        let a = world.end(TAGGED, FI_WAIT_NONE);
        let b = world.end(TAGGED, FI_WAIT_NONE);
        let mut memory = Box::new(*b"0123456789abcdef");
        let mr = register(world, &[piece(&mut *memory)], access);
        Self {
            to_b: a.knows(&b),
            a,
            b,
            memory,
            mr,
        }
    }

    fn read(&self, into: &mut [u8], addr: u64, key: u64) -> isize {
        let (into, len) = (into.as_mut_ptr().cast(), into.len());
        let context = 5 as *mut c_void;
        let ep = self.a.ep;
        c!(fi_read(
            ep,
            into,
            len,
            null_mut(),
            self.to_b,
            addr,
            key,
            context
        ))
    }

    fn write(&self, bytes: &[u8], addr: u64, key: u64) -> isize {
        let (from, len) = (bytes.as_ptr().cast(), bytes.len());
        let context = 6 as *mut c_void;
        let ep = self.a.ep;
        c!(fi_write(
            ep,
            from,
            len,
            null_mut(),
            self.to_b,
            addr,
            key,
            context
        ))
    }

    /// Writes, and completes when the target has acknowledged.
    fn deliver(&self, bytes: &mut [u8], targets: &[fi_rma_iov]) -> isize {
        let pieces = [piece(bytes)];
        let msg = message(self.to_b, &pieces, targets);
        c!(fi_writemsg(self.a.ep, &msg, FI_DELIVERY_COMPLETE))
    }

    /// Lets the target do its part, which is to report nothing.
    fn serve(&self) {
        assert_eq!(self.b.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
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
        if !self.mr.is_null() {
            assert_eq!(close(self.mr), 0);
        }
    }
}

fn piece(bytes: &mut [u8]) -> iovec {
    iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

fn target(addr: u64, len: usize, key: u64) -> fi_rma_iov {
    fi_rma_iov { addr, len, key }
}

fn message(addr: fi_addr_t, pieces: &[iovec], targets: &[fi_rma_iov]) -> fi_msg_rma {
    fi_msg_rma {
        msg_iov: pieces.as_ptr(),
        iov_count: pieces.len(),
        addr,
        rma_iov: targets.as_ptr(),
        rma_iov_count: targets.len(),
        ..fi_msg_rma::ZERO
    }
}

fn register(world: &World, pieces: &[iovec], access: u64) -> *mut fid_mr {
    let (list, count) = (pieces.as_ptr(), pieces.len());
    let (domain, context) = (world.domain, null_mut());
    let mut mr = null_mut();
    let registered = c!(fi_mr_regv(
        domain, list, count, access, 0, KEY, 0, &mut mr, context
    ));
    assert_eq!(registered, 0);
    mr
}

#[test]
fn a_write_lands_in_the_region_unseen() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_WRITE);
    assert_eq!(pair.write(b"XYZ", 3, KEY), 0);
    pair.serve();
    assert_eq!(&pair.memory[..], b"012XYZ6789abcdef");
    let (done, source) = pair.a.next();
    assert_eq!(done.flags, FI_RMA | FI_WRITE);
    assert_eq!((done.op_context.addr(), source), (6, FI_ADDR_NOTAVAIL));
}

#[test]
fn a_read_brings_what_is_there() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_READ);
    let mut into = [0u8; 4];
    assert_eq!(pair.read(&mut into, 12, KEY), 0);
    pair.serve();
    let (done, source) = pair.a.next();
    assert_eq!(&into, b"cdef");
    assert_eq!((done.flags, done.len), (FI_RMA | FI_READ, 4));
    assert_eq!((done.op_context.addr(), source), (5, FI_ADDR_NOTAVAIL));
}

#[test]
fn written_data_is_announced_with_its_source() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_WRITE);
    let from_a = pair.b.knows(&pair.a);
    let (ep, to_b, context) = (pair.a.ep, pair.to_b, null_mut());
    let bytes = b"AB".as_ptr().cast();
    let desc = null_mut();
    assert_eq!(
        c!(fi_writedata(ep, bytes, 2, desc, 42, to_b, 0, KEY, context)),
        0
    );
    let (heard, source) = pair.b.next();
    let flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    assert_eq!((heard.flags, heard.data, heard.len), (flags, 42, 2));
    assert_eq!((heard.op_context.addr(), source), (0, from_a));
    assert_eq!(pair.a.next().0.flags, FI_RMA | FI_WRITE);
    assert_eq!(&pair.memory[..3], b"AB2");
}

/// Writes that make an entry at the target each.
fn announce(pair: &Pair, count: usize) {
    let bytes = b"x".as_ptr().cast();
    for _ in 0..count {
        let injected = c!(fi_inject_writedata(
            pair.a.ep, bytes, 1, 1, pair.to_b, 0, KEY
        ));
        assert_eq!(injected, 0);
    }
}

#[test]
fn a_queue_that_is_never_read_stops_growing_by_what_a_thread_of_the_library_does() {
    const BATCH: usize = 1 << 10;
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_WRITE);
    // SAFETY: both are open until the test ends.
    let (domain, queue) = unsafe { (object::<Domain>(world.domain), object::<Cq>(pair.b.cq)) };
    let progress = domain.progress();
    // As the thread of automatic progress does.
    let mut batches = 0;
    loop {
        announce(&pair, BATCH);
        let (_, is_one_left) = progress.drive_unattended();
        if is_one_left {
            break;
        }
        batches += 1;
        assert!(batches * BATCH <= UNREAD, "it grows without a bound");
    }
    assert_eq!(batches * BATCH, UNREAD);
    assert!(queue.is_left_unread());
    // What came since waits at its sender, and is there for the application that reads.
    let mut read = 0;
    while pair.b.read().is_ok() {
        read += 1;
    }
    assert_eq!(read, (batches + 1) * BATCH, "nothing is lost");
    announce(&pair, 1);
    assert_eq!(progress.drive_unattended(), (1, false));
    assert_eq!(pair.b.next().0.data, 1);
}

#[test]
fn a_queue_that_is_never_read_stops_growing_by_polls_of_another() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_WRITE);
    // SAFETY: both are open until the test ends.
    let (domain, queue) = unsafe { (object::<Domain>(world.domain), object::<Cq>(pair.b.cq)) };
    announce(&pair, UNREAD);
    domain.progress().drive_unattended();
    assert!(queue.is_left_unread());
    announce(&pair, 1);
    for _ in 0..10_000 {
        assert!(pair.a.read().is_err(), "injected writes have no entries");
    }
    assert_eq!(queue.queued(), UNREAD);
    for _ in 0..=UNREAD {
        assert_eq!(pair.b.next().0.data, 1, "it is here when the queue is read");
    }
}

#[test]
fn injected_writes_leave_no_entry() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_WRITE);
    let (ep, to_b) = (pair.a.ep, pair.to_b);
    let mut bytes = *b"ABCD";
    let injected = c!(fi_inject_write(ep, bytes.as_ptr().cast(), 4, to_b, 0, KEY));
    assert_eq!(injected, 0);
    bytes.fill(0);
    let bytes = b"EF".as_ptr().cast();
    assert_eq!(c!(fi_inject_writedata(ep, bytes, 2, 9, to_b, 4, KEY)), 0);
    assert_eq!(pair.b.next().0.data, 9);
    assert_eq!(&pair.memory[..7], b"ABCDEF6");
    assert_eq!(pair.a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
    let long = [0u8; 65];
    let injected = c!(fi_inject_write(ep, long.as_ptr().cast(), 65, to_b, 0, KEY));
    assert_eq!(injected, -(FI_EMSGSIZE as isize));
}

#[test]
fn delivery_waits_for_the_target() {
    let world = world();
    let pair = Pair::new(&world, FI_REMOTE_WRITE);
    assert_eq!(pair.deliver(&mut [1, 2], &[target(0, 2, KEY)]), 0);
    assert_eq!(pair.a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
    pair.serve();
    assert_eq!(pair.a.next().0.flags, FI_RMA | FI_WRITE);
}

#[test]
fn what_is_not_allowed_fails_at_its_initiator() {
    let world = world();
    for (access, addr, key, errno) in [
        (ANY, 0, KEY + 1, FI_ENOKEY),
        (ANY, 13, KEY, FI_EACCES),
        (ANY, u64::MAX, KEY, FI_EACCES),
        (FI_READ | FI_WRITE, 0, KEY, FI_ENOKEY),
    ] {
        let pair = Pair::new(&world, access);
        let mut bytes = [0u8; 4];
        assert_eq!(pair.read(&mut bytes, addr, key), 0);
        assert_eq!(pair.refused(), (errno, FI_RMA | FI_READ));
        assert_eq!(pair.deliver(&mut bytes, &[target(addr, 4, key)]), 0);
        assert_eq!(pair.refused(), (errno, FI_RMA | FI_WRITE));
        assert_eq!(&pair.memory[..], b"0123456789abcdef");
    }
}

#[test]
fn one_access_does_not_allow_the_other() {
    let world = world();
    for (access, reads) in [(FI_REMOTE_READ, true), (FI_REMOTE_WRITE, false)] {
        let pair = Pair::new(&world, access);
        let mut bytes = [0u8; 4];
        let asked = match reads {
            true => pair.deliver(&mut bytes, &[target(0, 4, KEY)]),
            false => pair.read(&mut bytes, 0, KEY),
        };
        assert_eq!((asked, pair.refused().0), (0, FI_EACCES));
    }
}

#[test]
fn a_closed_region_is_gone() {
    let world = world();
    let mut pair = Pair::new(&world, ANY);
    assert_eq!(close(pair.mr), 0);
    pair.mr = null_mut();
    let mut into = [0; 4];
    assert_eq!(pair.read(&mut into, 0, KEY), 0);
    assert_eq!(pair.refused().0, FI_ENOKEY);
}

#[test]
fn regions_may_be_named_by_address() {
    for mode in [MrMode::VIRT_ADDR | MrMode::PROV_KEY, MrMode::BASIC] {
        let world = world_with(|info| info.domain.mr_mode = mode);
        let pair = Pair::new(&world, ANY);
        let (addr, key) = (pair.memory.as_ptr().addr() as u64, c!(fi_mr_key(pair.mr)));
        let mut into = [0u8; 2];
        assert_eq!(pair.read(&mut into, addr + 10, key), 0);
        pair.serve();
        pair.a.next();
        assert_eq!(&into, b"ab");
        assert_eq!(pair.read(&mut into, 10, key), 0);
        assert_eq!(pair.refused().0, FI_EACCES);
    }
}

#[test]
fn scattered_memory_meets_scattered_memory() {
    let world = world();
    let mut pair = Pair::new(&world, ANY);
    assert_eq!(close(pair.mr), 0);
    let (head, tail) = pair.memory.split_at_mut(4);
    let pieces = [piece(head), piece(&mut tail[4..])];
    pair.mr = register(&world, &pieces, ANY);
    let targets = [target(2, 4, KEY), target(0, 2, KEY)];
    let (mut first, mut second) = ([0u8; 1], [0u8; 5]);
    let into = [piece(&mut first), piece(&mut second)];
    let msg = message(pair.to_b, &into, &targets);
    assert_eq!(c!(fi_readmsg(pair.a.ep, &msg, FI_COMPLETION)), 0);
    pair.serve();
    pair.a.next();
    assert_eq!((&first, &second), (b"2", b"38901"));
    let (ep, to_b, context) = (pair.a.ep, pair.to_b, null_mut());
    let (mut one, mut two) = (*b"AB", *b"CDE");
    let from = [piece(&mut one), piece(&mut two)];
    let list = from.as_ptr();
    assert_eq!(
        c!(fi_writev(ep, list, null_mut(), 2, to_b, 1, KEY, context)),
        0
    );
    pair.serve();
    assert_eq!(&pair.memory[..], b"0ABC4567DEabcdef");
    let into = into.as_ptr();
    assert_eq!(
        c!(fi_readv(ep, into, null_mut(), 2, to_b, 0, KEY, context)),
        0
    );
    pair.serve();
    let flags = [pair.a.next().0.flags, pair.a.next().0.flags];
    assert_eq!(flags, [FI_RMA | FI_WRITE, FI_RMA | FI_READ]);
    assert_eq!((&first, &second), (b"0", b"ABCDE"));
}

#[test]
fn both_sides_of_an_access_are_equally_long() {
    let world = world();
    let pair = Pair::new(&world, ANY);
    let invalid = -(FI_EINVAL as isize);
    let mut bytes = [0u8; 4];
    assert_eq!(pair.deliver(&mut bytes, &[target(0, 3, KEY)]), invalid);
    assert_eq!(pair.deliver(&mut bytes, &[]), invalid);
    assert_eq!(pair.deliver(&mut bytes, &[target(0, 1, KEY); 5]), invalid);
    let huge = [target(0, usize::MAX, KEY), target(0, 5, KEY)];
    assert_eq!(pair.deliver(&mut bytes, &huge), invalid);
    assert_eq!(c!(fi_writemsg(pair.a.ep, null(), 0)), invalid);
    assert_eq!(c!(fi_readmsg(pair.a.ep, null(), 0)), invalid);
    let long = vec![0u8; (1 << 20) + 1];
    assert_eq!(pair.write(&long, 0, KEY), -(FI_EMSGSIZE as isize));
}

#[test]
fn counters_count_accesses_on_both_sides() {
    let world = world();
    let kinds = [FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE];
    let counters = kinds.map(|_| world.cntr(FI_WAIT_NONE));
    let of_region = world.cntr(FI_WAIT_NONE);
    let counted = || {
        let counted = End {
            ep: world.bare(),
            cq: world.cq(TAGGED, FI_WAIT_NONE),
            av: world.av(0),
        };
        assert_eq!(bind(counted.ep, counted.cq, FI_SEND | FI_RECV), 0);
        assert_eq!(bind(counted.ep, counted.av, 0), 0);
        for (kind, cntr) in kinds.into_iter().zip(counters) {
            assert_eq!(bind(counted.ep, cntr, kind), 0);
        }
        assert_eq!(c!(fi_enable(counted.ep)), 0);
        counted
    };
    let mut pair = Pair::new(&world, ANY);
    (pair.a, pair.b) = (counted(), counted());
    pair.to_b = pair.a.knows(&pair.b);
    assert_eq!(
        c!(fi_mr_bind(pair.mr, of_region.cast(), FI_REMOTE_WRITE)),
        0
    );
    assert_eq!(pair.write(b"A", 0, KEY), 0);
    assert_eq!(pair.write(b"B", 1, KEY), 0);
    let (mut into, mut refused) = ([0; 4], [0; 4]);
    assert_eq!(pair.read(&mut into, 0, KEY), 0);
    assert_eq!(pair.read(&mut refused, 0, KEY + 1), 0);
    pair.serve();
    let values = counters.map(|cntr| c!(fi_cntr_read(cntr)));
    assert_eq!(values, [1, 2, 1, 2]);
    assert_eq!(c!(fi_cntr_readerr(counters[0])), 1);
    assert_eq!(c!(fi_cntr_read(of_region)), 2);
    drop(pair);
    for cntr in counters.into_iter().chain([of_region]) {
        assert_eq!(close(cntr), 0);
    }
}

#[test]
fn completions_are_selective_for_accesses_too() {
    let world = world();
    let mut pair = Pair::new(&world, ANY);
    pair.a = End {
        ep: world.bare(),
        cq: world.cq(TAGGED, FI_WAIT_NONE),
        av: world.av(0),
    };
    let flags = FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION;
    assert_eq!(bind(pair.a.ep, pair.a.cq, flags), 0);
    assert_eq!(bind(pair.a.ep, pair.a.av, 0), 0);
    assert_eq!(c!(fi_enable(pair.a.ep)), 0);
    pair.to_b = pair.a.knows(&pair.b);
    let mut unseen = [0; 4];
    assert_eq!(pair.write(b"A", 0, KEY), 0);
    assert_eq!(pair.read(&mut unseen, 0, KEY), 0);
    let mut bytes = [0u8; 2];
    let (pieces, targets) = ([piece(&mut bytes)], [target(0, 2, KEY)]);
    let msg = message(pair.to_b, &pieces, &targets);
    assert_eq!(c!(fi_readmsg(pair.a.ep, &msg, FI_COMPLETION)), 0);
    pair.serve();
    assert_eq!((pair.a.next().0.flags, &bytes), (FI_RMA | FI_READ, b"A1"));
    assert_eq!(pair.a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
}

#[test]
fn default_flags_of_sends_do_not_disturb_reads() {
    let flags = Flags::DELIVERY_COMPLETE | Flags::INJECT | Flags::REMOTE_CQ_DATA;
    let world = world_with(|info| info.tx.op_flags = flags);
    let pair = Pair::new(&world, ANY);
    let mut into = [0u8; 2];
    assert_eq!(pair.read(&mut into, 0, KEY), 0);
    pair.serve();
    assert_eq!((pair.a.next().0.flags, &into), (FI_RMA | FI_READ, b"01"));
}

#[test]
fn an_endpoint_accesses_memory_of_its_own() {
    let world = world();
    let mut pair = Pair::new(&world, ANY);
    pair.to_b = pair.a.knows(&pair.a);
    let mut into = [0u8; 2];
    assert_eq!(pair.read(&mut into, 4, KEY), 0);
    assert_eq!((pair.a.next().0.flags, &into), (FI_RMA | FI_READ, b"45"));
    assert_eq!(pair.write(b"X", 4, KEY), 0);
    assert_eq!(
        (pair.a.next().0.flags, pair.memory[4]),
        (FI_RMA | FI_WRITE, b'X')
    );
    assert_eq!(pair.write(b"X", 4, KEY + 1), 0);
    assert_eq!(pair.a.read().map(|_| ()), Err(-(FI_EAVAIL as isize)));
    assert_eq!(pair.a.error().err, FI_ENOKEY);
}

#[test]
fn endpoints_access_nothing_before_they_are_enabled_or_without_the_capability() {
    for (world, expected) in [(world(), FI_EOPBADSTATE), (World::new(), FI_ENOSYS)] {
        let expected = -(expected as isize);
        let ep = world.bare();
        let (bytes, context) = ([0u8; 1].as_ptr(), null_mut());
        assert_eq!(
            c!(fi_write(
                ep,
                bytes.cast(),
                1,
                null_mut(),
                0,
                0,
                KEY,
                context
            )),
            expected
        );
        assert_eq!(c!(fi_readmsg(ep, null(), 0)), expected);
        assert_eq!(
            c!(fi_inject_writedata(ep, bytes.cast(), 1, 0, 0, 0, KEY)),
            expected
        );
        assert_eq!(close(ep), 0);
    }
}
