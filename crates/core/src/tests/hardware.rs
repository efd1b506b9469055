//! Endpoints without an engine: what hardware queues carry out by themselves, and what is absent there.

use core::ffi::c_void;
use core::ptr::null_mut;

use libc::iovec;
use oxifabric_abi::*;
use oxifabric_provider::faults;

use super::nic::{INLINE, NIC, Nic, nic_offer};
use super::world::{End, World, bind, c, close};

const INVAL: isize = -(FI_EINVAL as isize);
const AGAIN: isize = -(FI_EAGAIN as isize);
const NOSYS: isize = -(FI_ENOSYS as isize);
const OPNOTSUPP: isize = -(FI_EOPNOTSUPP as isize);

const ALL: u64 = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// A buffer that the adapter knows.
struct Region {
    mr: *mut fid_mr,
    bytes: Box<[u8]>,
}

impl Region {
    fn new(world: &World, bytes: &[u8], access: u64) -> Self {
        let mut bytes: Box<[u8]> = bytes.into();
        let mut mr = null_mut();
        let registered = c!(fi_mr_reg(
            world.domain,
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            access,
            0,
            0,
            0,
            &mut mr,
            null_mut()
        ));
        assert_eq!(registered, 0);
        Self { mr, bytes }
    }

    fn at(&self) -> *mut c_void {
        self.bytes.as_ptr().cast_mut().cast()
    }

    fn desc(&self) -> *mut c_void {
        c!(fi_mr_desc(self.mr))
    }

    fn key(&self) -> u64 {
        c!(fi_mr_key(self.mr))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        assert_eq!(close(self.mr), 0);
    }
}

/// Two endpoints in a domain, of which the first sends and accesses.
struct Pair {
    a: End,
    b: End,
    b_at: fi_addr_t,
    a_at: fi_addr_t,
}

impl Pair {
    fn new(world: &World) -> Self {
        let end = || world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_FD);
        let (a, b) = (end(), end());
        let (b_at, a_at) = (a.knows(&b), b.knows(&a));
        Self { a, b, b_at, a_at }
    }

    fn send(&self, from: &Region, context: usize) -> isize {
        let (buf, len) = (from.at(), from.bytes.len());
        let context = context as *mut c_void;
        c!(fi_send(
            self.a.ep,
            buf,
            len,
            from.desc(),
            self.b_at,
            context
        ))
    }

    fn recv(&self, into: &Region, context: usize) -> isize {
        let (buf, len) = (into.at(), into.bytes.len());
        let context = context as *mut c_void;
        c!(fi_recv(
            self.b.ep,
            buf,
            len,
            into.desc(),
            FI_ADDR_UNSPEC,
            context
        ))
    }
}

fn world(name: &'static str) -> World {
    World::over(&NIC, FI_VERSION(2, 6), nic_offer(name))
}

#[test]
fn a_message_goes_from_queue_to_queue() {
    let world = world("adapter-messages");
    let (from, into) = (
        Region::new(&world, b"hello", FI_SEND),
        Region::new(&world, &[0; 8], FI_RECV),
    );
    let pair = Pair::new(&world);
    assert_eq!((pair.recv(&into, 7), pair.send(&from, 9)), (0, 0));
    let (sent, _) = pair.a.next();
    assert_eq!((sent.op_context.addr(), sent.flags), (9, FI_MSG | FI_SEND));
    let (got, source) = pair.b.next();
    assert_eq!((got.op_context.addr(), got.flags), (7, FI_MSG | FI_RECV));
    assert_eq!((got.len, source), (5, pair.a_at));
    assert_eq!(&into.bytes[..6], b"hello\0");
}

#[test]
fn a_message_may_be_in_pieces_and_bring_data() {
    let world = world("adapter-pieces");
    let (from, into) = (
        Region::new(&world, b"abcdefgh", FI_SEND),
        Region::new(&world, &[0; 8], FI_RECV),
    );
    let pair = Pair::new(&world);
    assert_eq!(pair.recv(&into, 7), 0);
    let piece = |at: usize, len| iovec {
        iov_base: from.at().wrapping_byte_add(at),
        iov_len: len,
    };
    let pieces = [piece(6, 2), piece(0, 3)];
    let mut desc = [from.desc(); 2];
    let msg = fi_msg {
        msg_iov: pieces.as_ptr(),
        desc: desc.as_mut_ptr(),
        iov_count: 2,
        addr: pair.b_at,
        data: 0x1234,
        ..fi_msg::ZERO
    };
    assert_eq!(c!(fi_sendmsg(pair.a.ep, &msg, FI_REMOTE_CQ_DATA)), 0);
    let (got, _) = pair.b.next();
    assert_eq!(
        (got.data, got.flags & FI_REMOTE_CQ_DATA),
        (0x1234, FI_REMOTE_CQ_DATA)
    );
    assert_eq!((got.len, &into.bytes[..6]), (5, b"ghabc\0".as_slice()));
}

#[test]
fn a_send_waits_for_a_receive_and_keeps_its_place_in_the_queue() {
    let world = world("adapter-waits");
    let (from, into) = (
        Region::new(&world, b"again", FI_SEND),
        Region::new(&world, &[0; 8], FI_RECV),
    );
    let pair = Pair::new(&world);
    let left = || c!(fi_tx_size_left(pair.a.ep));
    assert_eq!(left(), 4);
    for context in 0..4 {
        assert_eq!(pair.send(&from, context), 0);
    }
    assert_eq!((left(), pair.send(&from, 4)), (0, AGAIN));
    assert_eq!(pair.a.read().err(), Some(AGAIN), "no send has ended");
    for context in 0..4 {
        assert_eq!(pair.recv(&into, context), 0);
        assert_eq!(pair.a.next().0.op_context.addr(), context);
        assert_eq!(pair.b.next().0.op_context.addr(), context);
    }
    assert_eq!(left(), 4);
    for context in 0..4 {
        assert_eq!(pair.recv(&into, context), 0);
    }
    assert_eq!(
        (c!(fi_rx_size_left(pair.b.ep)), pair.recv(&into, 4)),
        (0, AGAIN)
    );
}

#[test]
fn memory_of_a_peer_is_written_and_read_by_the_key_of_its_adapter() {
    let world = world("adapter-rma");
    let (own, there) = (
        Region::new(&world, b"abcdefgh", ALL),
        Region::new(&world, &[b'.'; 16], ALL),
    );
    let pair = Pair::new(&world);
    let (ep, to, key) = (pair.a.ep, pair.b_at, there.key());
    let write = |len, addr, key| {
        let context = 5 as *mut c_void;
        c!(fi_write(
            ep,
            own.at(),
            len,
            own.desc(),
            to,
            addr,
            key,
            context
        ))
    };
    assert_eq!(write(8, 4, key), 0);
    let (wrote, _) = pair.a.next();
    assert_eq!(
        (wrote.op_context.addr(), wrote.flags),
        (5, FI_RMA | FI_WRITE)
    );
    assert_eq!(&*there.bytes, b"....abcdefgh....");
    assert_eq!(
        c!(fi_read(ep, own.at(), 4, own.desc(), to, 6, key, null_mut())),
        0
    );
    assert_eq!(pair.a.next().0.flags, FI_RMA | FI_READ);
    assert_eq!(&*own.bytes, b"cdefefgh");
    for (len, addr, key, why) in [(8, 0, key + 77, FI_ENOKEY), (8, 9, key, FI_EACCES)] {
        assert_eq!(write(len, addr, key), 0);
        assert_eq!(pair.a.read().err(), Some(-(FI_EAVAIL as isize)));
        let error = pair.a.error();
        assert_eq!((error.err, error.op_context.addr()), (why, 5));
    }
    assert_eq!(&*there.bytes, b"....abcdefgh....");
}

#[test]
fn an_adapter_may_inject_messages_and_no_writes() {
    let world = world("adapter-inject");
    let own = Region::new(&world, b"abcd", ALL);
    let pair = Pair::new(&world);
    let (ep, to) = (pair.a.ep, pair.b_at);
    let size = |option| {
        let (mut size, mut len) = (77usize, size_of::<usize>());
        let at = (&raw mut size).cast();
        let got = c!(fi_getopt(ep.cast(), FI_OPT_ENDPOINT, option, at, &mut len));
        (got, size)
    };
    assert_eq!(size(FI_OPT_INJECT_MSG_SIZE), (0, INLINE));
    assert_eq!(size(FI_OPT_INJECT_RMA_SIZE), (0, 0));
    let wrote = c!(fi_inject_write(ep, own.at(), 1, to, 0, own.key()));
    assert_eq!(wrote, -(FI_EMSGSIZE as isize));
}

#[test]
fn a_write_with_data_is_reported_to_its_target() {
    let world = world("adapter-data");
    let (own, there) = (
        Region::new(&world, b"abcd", ALL),
        Region::new(&world, &[0; 4], ALL),
    );
    let pair = Pair::new(&world);
    let (ep, to) = (pair.a.ep, pair.b_at);
    let write = |data| {
        let (at, desc, key) = (own.at(), own.desc(), there.key());
        let none = null_mut();
        c!(fi_writedata(ep, at, 4, desc, data, to, 0, key, none))
    };
    assert_eq!(write(99), 0);
    let (seen, source) = pair.b.next();
    let flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    assert_eq!((seen.flags, seen.data, seen.len), (flags, 99, 4));
    assert!(seen.op_context.is_null());
    // One that the adapter lets use up a receive has the receive's context (FI_RX_CQ_DATA).
    let into = Region::new(&world, &[0; 8], FI_RECV);
    assert_eq!((pair.recv(&into, 7), write(98)), (0, 0));
    let (seen, _) = pair.b.next();
    assert_eq!((seen.flags, seen.data, seen.len), (flags, 98, 4));
    assert_eq!(
        (seen.op_context.addr(), &*into.bytes),
        (7, [0; 8].as_slice())
    );
    assert_eq!((source, &*there.bytes), (pair.a_at, b"abcd".as_slice()));
}

#[test]
fn an_atomic_is_carried_out_by_the_adapter_if_it_knows_it() {
    let world = world("adapter-atomic");
    let (own, there) = (
        Region::new(&world, &[3u64.to_ne_bytes(), [0; 8]].concat(), ALL),
        Region::new(&world, &40u64.to_ne_bytes(), ALL),
    );
    let pair = Pair::new(&world);
    let (ep, to) = (pair.a.ep, pair.b_at);
    let result = own.at().wrapping_byte_add(8);
    let (desc, key) = (own.desc(), there.key());
    let update = |op| {
        let at = own.at();
        let context = null_mut();
        c!(fi_fetch_atomic(
            ep, at, 1, desc, result, desc, to, 0, key, FI_UINT64, op, context
        ))
    };
    assert_eq!(update(FI_BXOR), OPNOTSUPP);
    assert_eq!(update(FI_SUM), 0);
    assert_eq!(pair.a.next().0.flags, FI_ATOMIC | FI_READ);
    assert_eq!(own.bytes[8..], 40u64.to_ne_bytes());
    assert_eq!(*there.bytes, 43u64.to_ne_bytes());
}

#[test]
fn counters_count_what_the_queues_do() {
    let world = world("adapter-counters");
    let (own, into) = (
        Region::new(&world, b"abcd", ALL),
        Region::new(&world, &[0; 4], ALL),
    );
    let pair = Pair::new(&world);
    let counter = |ep, flags| {
        let cntr = world.cntr(FI_WAIT_NONE);
        assert_eq!(bind(ep, cntr, flags), 0);
        cntr
    };
    let (sends, receives, writes) = (
        counter(pair.a.ep, FI_SEND),
        counter(pair.b.ep, FI_RECV),
        counter(pair.a.ep, FI_WRITE),
    );
    assert_eq!((pair.recv(&into, 0), pair.send(&own, 0)), (0, 0));
    let (ep, to) = (pair.a.ep, pair.b_at);
    let write = |key| {
        c!(fi_write(
            ep,
            own.at(),
            4,
            own.desc(),
            to,
            0,
            key,
            null_mut()
        ))
    };
    assert_eq!((write(into.key()), write(into.key() + 9)), (0, 0));
    pair.a.next();
    pair.b.next();
    let read = |cntr| (c!(fi_cntr_read(cntr)), c!(fi_cntr_readerr(cntr)));
    assert_eq!(
        (read(sends), read(receives), read(writes)),
        ((1, 0), (1, 0), (1, 1))
    );
    drop(pair);
    for cntr in [sends, receives, writes] {
        assert_eq!(close(cntr), 0);
    }
}

#[test]
fn memory_must_be_registered_for_what_is_done_with_it() {
    let world = world("adapter-local-nic");
    let (own, read_only) = (
        Region::new(&world, b"abcdefgh", FI_SEND),
        Region::new(&world, b"abcdefgh", FI_RECV),
    );
    let pair = Pair::new(&world);
    let (ep, to) = (pair.a.ep, pair.b_at);
    let send = |desc| c!(fi_send(ep, own.at(), 8, desc, to, null_mut()));
    assert_eq!(send(null_mut()), INVAL, "FI_MR_LOCAL was promised");
    assert_eq!(
        pair.send(&read_only, 1),
        0,
        "the adapter looks at the access"
    );
    assert_eq!(pair.a.read().err(), Some(-(FI_EAVAIL as isize)));
    assert_eq!(pair.a.error().err, FI_EACCES);
    // The descriptor of one region does not make another memory reachable.
    assert_eq!(
        c!(fi_send(ep, read_only.at(), 8, own.desc(), to, null_mut())),
        0
    );
    assert_eq!(pair.a.read().err(), Some(-(FI_EAVAIL as isize)));
    assert_eq!(pair.a.error().err, FI_EACCES);
}

#[test]
fn what_is_injected_needs_no_registration_but_fits_into_the_request() {
    let world = world("adapter-inject");
    let into = Region::new(&world, &[0; 64], FI_RECV);
    let pair = Pair::new(&world);
    let inject = |bytes: &[u8]| {
        let (buf, len) = (bytes.as_ptr().cast(), bytes.len());
        c!(fi_inject(pair.a.ep, buf, len, pair.b_at))
    };
    assert_eq!(inject(&[7; INLINE + 1]), -(FI_EMSGSIZE as isize));
    let mut bytes = [7; INLINE];
    assert_eq!(inject(&bytes), 0, "there is no receive yet");
    bytes.fill(8);
    assert_eq!(pair.recv(&into, 3), 0);
    assert_eq!(
        pair.a.read().err(),
        Some(AGAIN),
        "no completion was asked for"
    );
    assert_eq!(pair.b.next().0.len, INLINE);
    assert_eq!((into.bytes[INLINE - 1], into.bytes[INLINE]), (7, 0));
}

#[test]
fn a_message_that_is_longer_than_its_buffer_is_an_error_of_the_receive() {
    let world = world("adapter-long");
    let (from, into) = (
        Region::new(&world, b"abcdefgh", FI_SEND),
        Region::new(&world, &[0; 4], FI_RECV),
    );
    let pair = Pair::new(&world);
    assert_eq!((pair.recv(&into, 6), pair.send(&from, 1)), (0, 0));
    assert_eq!(pair.b.read().err(), Some(-(FI_EAVAIL as isize)));
    let error = pair.b.error();
    assert_eq!((error.err, error.op_context.addr()), (FI_ETRUNC, 6));
}

#[test]
fn a_receive_is_cancelled_by_the_queue_that_has_it() {
    let world = world("adapter-cancel");
    let (from, into) = (
        Region::new(&world, b"abcd", FI_SEND),
        Region::new(&world, &[0; 4], FI_RECV),
    );
    let pair = Pair::new(&world);
    let cancel = |ep: *mut fid_ep, context: usize| c!(fi_cancel(ep.cast(), context as *mut c_void));
    assert_eq!((pair.recv(&into, 6), pair.recv(&into, 7)), (0, 0));
    assert_eq!(close(into.mr), -FI_EBUSY, "the queue has its memory");
    assert_eq!(cancel(pair.b.ep, 6), 0);
    assert_eq!(cancel(pair.b.ep, 66), -(FI_ENOENT as isize));
    assert_eq!(pair.b.read().err(), Some(-(FI_EAVAIL as isize)));
    let error = pair.b.error();
    assert_eq!((error.err, error.op_context.addr()), (FI_ECANCELED, 6));
    assert_eq!((pair.send(&from, 1), pair.send(&from, 2)), (0, 0));
    assert_eq!(pair.b.next().0.op_context.addr(), 7);
    assert_eq!(
        cancel(pair.a.ep, 2),
        NOSYS,
        "what the queue was given it keeps"
    );
}

#[test]
fn an_endpoint_closes_with_operations_in_its_queues() {
    let world = world("adapter-close");
    let (from, into) = (
        Region::new(&world, b"abcd", FI_SEND),
        Region::new(&world, &[0; 4], FI_RECV),
    );
    let pair = Pair::new(&world);
    assert_eq!(pair.recv(&into, 1), 0);
    assert_eq!((pair.send(&from, 1), pair.send(&from, 2)), (0, 0));
    assert_eq!(pair.recv(&into, 2), 0);
    assert_eq!(pair.recv(&into, 3), 0);
    let more = [
        pair.send(&from, 3),
        pair.send(&from, 4),
        pair.send(&from, 5),
    ];
    assert!(more.contains(&0));
    // The regions close afterwards, which they could not if an operation still had their memory.
    drop(pair);
}

#[test]
fn a_peer_that_is_gone_fails_the_send() {
    let world = world("adapter-gone");
    let from = Region::new(&world, b"abcd", FI_SEND);
    let pair = Pair::new(&world);
    assert_eq!(pair.send(&from, 4), 0);
    let Pair { a, b, .. } = pair;
    drop(b);
    assert_eq!(a.read().err(), Some(-(FI_EAVAIL as isize)));
    let error = a.error();
    assert_eq!((error.err, error.op_context.addr()), (FI_ECONNREFUSED, 4));
}

#[test]
fn a_thread_may_sleep_until_the_queue_has_something() {
    let world = world("adapter-sleep");
    let (from, into) = (
        Region::new(&world, b"abcd", FI_SEND),
        Region::new(&world, &[0; 4], FI_RECV),
    );
    let pair = Pair::new(&world);
    assert_eq!(pair.recv(&into, 1), 0);
    let mut entry = fi_cq_tagged_entry::ZERO;
    std::thread::scope(|scope| {
        let (a, b_at) = (&pair.a, pair.b_at);
        let (buf, desc) = (
            from.at().expose_provenance(),
            from.desc().expose_provenance(),
        );
        scope.spawn(move || {
            let at = |address| core::ptr::with_exposed_provenance_mut(address);
            assert_eq!(c!(fi_send(a.ep, at(buf), 4, at(desc), b_at, null_mut())), 0);
        });
        let read = c!(fi_cq_sread(
            pair.b.cq,
            (&raw mut entry).cast(),
            1,
            core::ptr::null(),
            10_000
        ));
        assert_eq!((read, entry.op_context.addr()), (1, 1));
    });
}

#[test]
fn what_needs_an_engine_is_absent() {
    let world = world("adapter-absent");
    let (from, into) = (
        Region::new(&world, b"abcd", FI_SEND),
        Region::new(&world, &[0; 4], FI_RECV),
    );
    let pair = Pair::new(&world);
    let (ep, buf, desc) = (pair.a.ep, from.at(), from.desc());
    assert_eq!(
        c!(fi_tsend(ep, buf, 4, desc, pair.b_at, 1, null_mut())),
        NOSYS
    );
    let (b, at) = (pair.b.ep, into.at());
    let receive = c!(fi_trecv(
        b,
        at,
        4,
        into.desc(),
        FI_ADDR_UNSPEC,
        1,
        0,
        null_mut()
    ));
    assert_eq!(receive, NOSYS);
    let msg = fi_msg {
        addr: FI_ADDR_UNSPEC,
        ..fi_msg::ZERO
    };
    for flags in [FI_MULTI_RECV, FI_PEEK, FI_PEEK | FI_CLAIM, FI_CLAIM] {
        assert_eq!(c!(fi_recvmsg(b, &msg, flags)), OPNOTSUPP, "{flags:x}");
    }
    let mut srx = null_mut();
    let opened = c!(fi_srx_context(
        world.domain,
        null_mut(),
        &mut srx,
        null_mut()
    ));
    assert_eq!(opened as isize, NOSYS);
    let (mut size, mut len) = (0usize, size_of::<usize>());
    let mut option = |name| {
        let value = (&raw mut size).cast();
        c!(fi_getopt(ep.cast(), FI_OPT_ENDPOINT, name, value, &mut len))
    };
    assert_eq!(option(FI_OPT_MIN_MULTI_RECV), -FI_ENOPROTOOPT);
    assert_eq!(option(FI_OPT_TX_SIZE), 0);
    assert_eq!(c!(fi_barrier(ep, 0, null_mut())), NOSYS);
}

#[test]
fn no_fault_is_injected_where_no_engine_posts() {
    assert!(faults::possible::<Nic>().is_empty());
}
