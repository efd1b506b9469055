//! Endpoints by other names and in parts: aliases, shared contexts and scalable endpoints.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, bind, close};
use oxifabric_fixtures::rma_fixture::{ACCESS, BOTH};
use oxifabric_fixtures::traffic::{Read, TIMEOUT};
use oxifabric_fixtures::{Subject, c, refused};

use crate::requirements;

/// A scalable endpoint whose receive contexts have queues.
struct Scalable {
    ep: *mut fid_ep,
    av: *mut fid_av,
    rx: Vec<(*mut fid_ep, *mut fid_cq)>,
    fixture: Fixture,
}

impl Scalable {
    /// Opens a scalable endpoint with this number of contexts of each kind, where the provider has that many.
    fn new(subject: &Subject, count: usize) -> Option<Self> {
        let mut hints = subject.hints();
        hints.first_mut().caps |= FI_NAMED_RX_CTX;
        c!((*hints.first().ep_attr).tx_ctx_cnt = count);
        c!((*hints.first().ep_attr).rx_ctx_cnt = count);
        let fixture = Fixture::of(subject, subject.try_query(&hints, None, 0).ok()?);
        let (mut ep, mut av) = (null_mut(), null_mut());
        let opened = c!(fi_scalable_ep(
            fixture.domain,
            fixture.info.as_ptr(),
            &mut ep,
            null_mut()
        ));
        assert_eq!(opened, 0);
        let mut attr = fi_av_attr {
            rx_ctx_bits: 1,
            ..fi_av_attr::ZERO
        };
        let opened = c!(fi_av_open(fixture.domain, &mut attr, &mut av, null_mut()));
        assert_eq!((opened, c!(fi_scalable_ep_bind(ep, av.cast(), 0))), (0, 0));
        let rx = (0..count)
            .map(|index| {
                let (mut rx, cq) = (null_mut(), fixture.cq(|_| {}));
                let index = index as i32;
                let opened = c!(fi_rx_context(ep, index, null_mut(), &mut rx, null_mut()));
                assert_eq!((opened, bind(rx, cq, FI_RECV)), (0, 0));
                assert_eq!(c!(fi_enable(rx)), 0);
                (rx, cq)
            })
            .collect();
        assert_eq!(c!(fi_enable(ep)), 0);
        Some(Self {
            ep,
            av,
            rx,
            fixture,
        })
    }
}

impl Drop for Scalable {
    fn drop(&mut self) {
        let mut closed = Vec::new();
        for &(rx, cq) in &self.rx {
            closed.extend([close(rx), close(cq)]);
        }
        closed.extend([close(self.ep), close(self.av)]);
        if !std::thread::panicking() {
            assert!(closed.iter().all(|&code| code == 0), "{closed:?}");
        }
    }
}

/// A scalable endpoint for reads and writes, whose receive contexts have no queues.
struct Accessing<'a> {
    ep: *mut fid_ep,
    av: *mut fid_av,
    /// Transmit contexts with their queues, and receive contexts.
    parts: Vec<(*mut fid_ep, *mut fid_cq, *mut fid_ep)>,
    fixture: &'a Fixture,
}

impl<'a> Accessing<'a> {
    /// Returns what such endpoints are opened for, where the provider has two contexts of each kind.
    fn fixture(subject: &Subject) -> Option<Fixture> {
        let mut hints = subject.hints();
        hints.first_mut().caps = ACCESS;
        c!((*hints.first().ep_attr).tx_ctx_cnt = 2);
        c!((*hints.first().ep_attr).rx_ctx_cnt = 2);
        Some(Fixture::of(
            subject,
            subject.try_query(&hints, None, 0).ok()?,
        ))
    }

    fn new(fixture: &'a Fixture) -> Self {
        let (mut ep, av) = (null_mut(), fixture.av());
        let info = fixture.info.as_ptr();
        let opened = c!(fi_scalable_ep(fixture.domain, info, &mut ep, null_mut()));
        assert_eq!((opened, c!(fi_scalable_ep_bind(ep, av.cast(), 0))), (0, 0));
        let parts = (0..2)
            .map(|index| {
                let (mut tx, mut rx, cq) = (null_mut(), null_mut(), fixture.cq(|_| {}));
                assert_eq!(
                    c!(fi_tx_context(ep, index, null_mut(), &mut tx, null_mut())),
                    0
                );
                assert_eq!(
                    c!(fi_rx_context(ep, index, null_mut(), &mut rx, null_mut())),
                    0
                );
                assert_eq!((bind(tx, cq, FI_TRANSMIT), c!(fi_enable(tx))), (0, 0));
                assert_eq!(c!(fi_enable(rx)), 0);
                (tx, cq, rx)
            })
            .collect();
        assert_eq!(c!(fi_enable(ep)), 0);
        Self {
            ep,
            av,
            parts,
            fixture,
        }
    }

    /// Reads all queues once; returns whether there was an entry.
    fn progress(&self) -> bool {
        let mut entry = fi_cq_tagged_entry::ZERO;
        let read = |cq: *mut fid_cq| c!(fi_cq_read(cq, (&raw mut entry).cast(), 1));
        self.parts
            .iter()
            .map(|part| part.1)
            .map(read)
            .filter(|&read| read == 1)
            .count()
            > 0
    }
}

impl Drop for Accessing<'_> {
    fn drop(&mut self) {
        let mut closed = Vec::new();
        for &(tx, cq, rx) in &self.parts {
            closed.extend([close(rx), close(tx), close(cq)]);
        }
        closed.extend([close(self.ep), close(self.av)]);
        if !std::thread::panicking() {
            assert!(closed.iter().all(|&code| code == 0), "{closed:?}");
        }
    }
}

requirements! { "fi_endpoint(3), aliases and contexts";

/// An alias transfers over the endpoint that it stands for.
fn an_alias_transfers(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let mut alias = null_mut();
    assert_eq!(c!(fi_ep_alias(pair.a.ep, &mut alias, FI_TRANSMIT)), 0);
    let posted = pair.b.recv(1);
    let (place, context) = (pair.a.traffic.buffer(b"x"), pair.a.traffic.context());
    pair.start(|| c!(fi_send(alias, place.cast(), 1, null_mut(), pair.to_b, context)));
    assert_eq!(pair.done(&pair.b).op_context, posted.context);
    assert_eq!(pair.done(&pair.a).op_context, context);
    assert_eq!(close(alias), 0);
}

/// An alias has operation flags of its own; those of the endpoint stay.
fn an_alias_has_its_own_flags(subject) {
    let fixture = Fixture::new(subject);
    let a = fixture.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let pair = Pair::of(a, fixture.end());
    let mut silent = FI_TRANSMIT;
    assert_eq!(c!(fi_control(pair.a.ep.cast(), FI_SETOPSFLAG, (&raw mut silent).cast())), 0);
    let mut alias = null_mut();
    assert_eq!(c!(fi_ep_alias(pair.a.ep, &mut alias, FI_TRANSMIT | FI_COMPLETION)), 0);
    let _posted = (pair.b.recv(1), pair.b.recv(1));
    pair.send(b"x");
    let (place, context) = (pair.a.traffic.buffer(b"y"), pair.a.traffic.context());
    pair.start(|| c!(fi_send(alias, place.cast(), 1, null_mut(), pair.to_b, context)));
    assert_eq!(pair.done(&pair.a).op_context, context);
    let _ = (pair.done(&pair.b), pair.done(&pair.b));
    assert!(pair.a.read().is_none());
    assert_eq!(close(alias), 0);
}

/// The flags of an alias are for one direction.
fn an_alias_names_one_direction(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    for flags in [0, FI_TRANSMIT | FI_RECV] {
        let mut alias = null_mut();
        refused!(c!(fi_ep_alias(end.ep, &mut alias, flags)), FI_EINVAL);
    }
}

/// An endpoint is released only when its aliases are closed: -FI_EBUSY until then.
fn an_endpoint_with_aliases_stays_open(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let mut alias = null_mut();
    assert_eq!(c!(fi_ep_alias(end.ep, &mut alias, FI_RECV)), 0);
    assert_eq!(close(end.ep), -FI_EBUSY);
    assert_eq!(close(alias), 0);
}

/// Endpoints that share a receive context take its receives, for whichever endpoint the message is.
fn a_receive_context_is_shared(subject) {
    let fixture = Fixture::with(subject, |hints| c!((*hints.ep_attr).rx_ctx_cnt = FI_SHARED_CONTEXT));
    let mut srx = null_mut();
    let attr = fixture.info.first().rx_attr;
    assert_eq!(c!(fi_srx_context(fixture.domain, attr, &mut srx, null_mut())), 0);
    let ends: Vec<_> = (0..2)
        .map(|_| fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, srx, 0), 0)))
        .collect();
    let sender = Fixture::new(subject);
    let third = sender.end();
    let to: Vec<_> = ends.iter().map(|end| third.knows(end)).collect();
    let posted: Vec<_> = (0..2)
        .map(|_| {
            let posted = third.posted(1);
            let place = posted.place.cast();
            let code = c!(fi_recv(srx, place, 1, null_mut(), FI_ADDR_UNSPEC, posted.context));
            assert_eq!(code, 0);
            posted
        })
        .collect();
    for (at, end) in [1, 0].into_iter().zip(&posted) {
        let (place, context) = (third.traffic.buffer(&[b'0' + at as u8]), third.traffic.context());
        let begun = std::time::Instant::now();
        while c!(fi_send(third.ep, place.cast(), 1, null_mut(), to[at], context)) != 0 {
            assert!(begun.elapsed() < TIMEOUT);
            let _ = (third.read(), ends[0].read(), ends[1].read());
        }
        let done = loop {
            assert!(begun.elapsed() < TIMEOUT);
            let _ = third.read();
            if let Some(Read::Done(done)) = ends[at].read() {
                break done;
            }
        };
        assert_eq!((done.op_context, end.bytes()), (end.context, [b'0' + at as u8].as_slice()));
    }
    assert_eq!(close(srx), -FI_EBUSY);
    drop(ends);
    assert_eq!(close(srx), 0);
}

/// A multi-receive buffer of a shared receive context takes messages of several endpoints, and the last one releases it.
fn a_shared_buffer_takes_many_messages(subject) {
    let fixture = Fixture::with(subject, |hints| {
        hints.caps |= FI_MULTI_RECV;
        c!((*hints.ep_attr).rx_ctx_cnt = FI_SHARED_CONTEXT);
    });
    let mut srx = null_mut();
    let attr = fixture.info.first().rx_attr;
    assert_eq!(c!(fi_srx_context(fixture.domain, attr, &mut srx, null_mut())), 0);
    let min = 4_usize;
    let place = (&raw const min).cast();
    assert_eq!(c!(fi_setopt(srx.cast(), FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, place, 8)), 0);
    let sharing = || fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, srx, 0), 0));
    let receivers = [sharing(), sharing()];
    let pairs = receivers.map(|end| Pair::of(fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, srx, 0), 0)), end));
    let many = pairs[0].b.posted(10);
    let iov = libc::iovec { iov_base: many.place.cast(), iov_len: many.len };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: many.context,
        data: 0,
    };
    assert_eq!(c!(fi_recvmsg(srx, &msg, FI_MULTI_RECV)), 0);
    for (pair, at) in [(&pairs[0], 0), (&pairs[1], 4)] {
        pair.send(b"text");
        let done = pair.done(&pair.b);
        assert_eq!((done.op_context, done.len), (many.context, 4));
        assert_eq!(done.buf, c!(many.place.add(at)).cast());
        assert_eq!(done.flags & FI_MULTI_RECV != 0, at == 4);
        let _ = pair.done(&pair.a);
    }
    assert_eq!(&many.bytes()[..8], b"texttext");
    drop(pairs);
    assert_eq!(close(srx), 0);
}

/// A message that waits at one of the endpoints is found by a look through the shared receive context, and claimed.
fn a_look_finds_messages_of_a_shared_context(subject) {
    let fixture = Fixture::with(subject, |hints| c!((*hints.ep_attr).rx_ctx_cnt = FI_SHARED_CONTEXT));
    let mut srx = null_mut();
    let attr = fixture.info.first().rx_attr;
    assert_eq!(c!(fi_srx_context(fixture.domain, attr, &mut srx, null_mut())), 0);
    let share = |ep| assert_eq!(bind(ep, srx, 0), 0);
    let pair = Pair::of(fixture.end_with(FI_SEND | FI_RECV, share), fixture.end_with(FI_SEND | FI_RECV, share));
    let claimed = pair.b.posted(8);
    let look = |flags| {
        let iov = libc::iovec { iov_base: claimed.place.cast(), iov_len: claimed.len };
        let msg = fi_msg_tagged {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: FI_ADDR_UNSPEC,
            tag: 5,
            ignore: 0,
            context: claimed.context,
            data: 0,
        };
        assert_eq!(c!(fi_trecvmsg(srx, &msg, flags)), 0);
    };
    pair.tsend(b"tagged", 5);
    let begun = std::time::Instant::now();
    // Until it has come, looks say that it has not, at whichever endpoint.
    let found = loop {
        assert!(begun.elapsed() < TIMEOUT);
        look(FI_PEEK | FI_CLAIM);
        let seen = [pair.b.read(), pair.a.read()];
        let done = seen.into_iter().flatten().find_map(|read| match read {
            Read::Done(done) if done.op_context == claimed.context => Some(done),
            _ => None,
        });
        if let Some(done) = done {
            break done;
        }
    };
    assert_eq!((found.len, found.tag), (6, 5));
    look(FI_CLAIM);
    loop {
        assert!(begun.elapsed() < TIMEOUT);
        match pair.b.read() {
            Some(Read::Done(done)) if done.op_context == claimed.context => break,
            _ => pair.progress(&pair.a),
        }
    }
    assert_eq!(&claimed.bytes()[..6], b"tagged");
    drop(pair);
    assert_eq!(close(srx), 0);
}

/// Endpoints that share a transmit context send through it.
fn a_transmit_context_is_shared(subject) {
    let fixture = Fixture::with(subject, |hints| c!((*hints.ep_attr).tx_ctx_cnt = FI_SHARED_CONTEXT));
    let mut stx = null_mut();
    let attr = fixture.info.first().tx_attr;
    assert_eq!(c!(fi_stx_context(fixture.domain, attr, &mut stx, null_mut())), 0);
    let a = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, stx, 0), 0));
    let b = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, stx, 0), 0));
    let pair = Pair::of(a, b);
    let posted = pair.b.recv(1);
    let context = pair.send(b"x");
    assert_eq!(pair.done(&pair.b).op_context, posted.context);
    assert_eq!(pair.done(&pair.a).op_context, context);
    assert_eq!(close(stx), 0, "before the endpoints, as Sandia OpenSHMEM does");
}

/// A message reaches the receive context of a scalable endpoint that the address names.
fn a_scalable_endpoint_has_contexts(subject) {
    let Some(sep) = Scalable::new(subject, 2) else {
        return;
    };
    let sender = sep.fixture.end();
    let name = oxifabric_fixtures::cm_fixture::name_of(sep.ep.cast());
    let mut to = 77;
    let mut attr = fi_av_attr { rx_ctx_bits: 1, ..fi_av_attr::ZERO };
    let mut av = null_mut();
    assert_eq!(c!(fi_av_open(sep.fixture.domain, &mut attr, &mut av, null_mut())), 0);
    let (ep, cq) = (sep.fixture.bare(), sep.fixture.cq(|_| {}));
    assert_eq!((bind(ep, cq, FI_SEND | FI_RECV), bind(ep, av, 0), c!(fi_enable(ep))), (0, 0, 0));
    assert_eq!(c!(fi_av_insert(av, name.as_ptr().cast(), 1, &mut to, 0, null_mut())), 1);
    for index in [1, 0] {
        let posted = sender.posted(1);
        let place = posted.place.cast();
        let rx = sep.rx[index].0;
        assert_eq!(c!(fi_recv(rx, place, 1, null_mut(), FI_ADDR_UNSPEC, posted.context)), 0);
        let byte = sender.traffic.buffer(&[b'0' + index as u8]);
        let address = fi_rx_addr(to, index as i32, 1);
        let begun = std::time::Instant::now();
        let mut entry = fi_cq_tagged_entry::ZERO;
        let mut sent = false;
        loop {
            assert!(begun.elapsed() < TIMEOUT);
            sent = sent || c!(fi_send(ep, byte.cast(), 1, null_mut(), address, sender.traffic.context())) == 0;
            let mut own = fi_cq_tagged_entry::ZERO;
            c!(fi_cq_read(cq, (&raw mut own).cast(), 1));
            if c!(fi_cq_read(sep.rx[index].1, (&raw mut entry).cast(), 1)) == 1 {
                break;
            }
        }
        assert_eq!((entry.op_context, posted.bytes()), (posted.context, [b'0' + index as u8].as_slice()));
    }
    assert_eq!((close(ep), close(cq), close(av)), (0, 0, 0));
    drop(sender);
}

/// A receive context of an endpoint that receives no messages needs no queue; that of the transmit context drives both.
fn a_context_for_accesses_needs_no_queue(subject) {
    let Some(fixture) = Accessing::fixture(subject) else {
        return;
    };
    let (a, b) = (Accessing::new(&fixture), Accessing::new(&fixture));
    let mut memory = *b"................";
    let mr = a.fixture.register(memory.as_mut_ptr(), memory.len(), BOTH, 7).expect("a region");
    let name = oxifabric_fixtures::cm_fixture::name_of(b.ep.cast());
    let mut to = 77;
    assert_eq!(c!(fi_av_insert(a.av, name.as_ptr().cast(), 1, &mut to, 0, null_mut())), 1);
    let (mut bytes, begun) = (*b"written!", std::time::Instant::now());
    for (at, part) in a.parts.iter().enumerate() {
        let remote = fixture.remote(memory.as_mut_ptr()) + 8 * at as u64;
        let (place, mut context) = (bytes.as_mut_ptr().cast(), [0_u64; 8]);
        let mut call = || {
            let (key, context) = (c!(fi_mr_key(mr)), context.as_mut_ptr().cast());
            c!(fi_write(part.0, place, 8, null_mut(), to, remote, key, context))
        };
        while call() == -(FI_EAGAIN as isize) {
            assert!(begun.elapsed() < TIMEOUT);
            let _ = (a.progress(), b.progress());
        }
        while !a.progress() {
            assert!(begun.elapsed() < TIMEOUT);
            b.progress();
        }
    }
    // Written is written when the target has seen it.
    while c!(core::ptr::read_volatile(&raw const memory)) != *b"written!written!" {
        assert!(begun.elapsed() < TIMEOUT);
        let _ = (a.progress(), b.progress());
    }
    drop((a, b));
    assert_eq!(close(mr), 0);
}

/// A scalable endpoint with open contexts cannot be closed: -FI_EBUSY.
fn a_scalable_endpoint_with_contexts_stays_open(subject) {
    let Some(sep) = Scalable::new(subject, 1) else {
        return;
    };
    assert_eq!(close(sep.ep), -FI_EBUSY);
}

/// A context that the scalable endpoint has not is refused.
fn a_context_beyond_the_last_is_refused(subject) {
    let Some(sep) = Scalable::new(subject, 1) else {
        return;
    };
    let mut ep = null_mut();
    refused!(c!(fi_tx_context(sep.ep, 1, null_mut(), &mut ep, null_mut())), FI_EINVAL);
    refused!(c!(fi_rx_context(sep.ep, -1, null_mut(), &mut ep, null_mut())), FI_EINVAL);
}

/// A transmit context does not receive, and a receive context does not send.
fn a_context_has_one_direction(subject) {
    let Some(sep) = Scalable::new(subject, 1) else {
        return;
    };
    let (mut byte, mut tx) = (0_u8, null_mut());
    assert_eq!(c!(fi_tx_context(sep.ep, 0, null_mut(), &mut tx, null_mut())), 0);
    let place = (&raw mut byte).cast();
    refused!(c!(fi_recv(tx, place, 1, null_mut(), FI_ADDR_UNSPEC, null_mut())), FI_EOPBADSTATE);
    refused!(c!(fi_send(sep.rx[0].0, place.cast_const(), 1, null_mut(), 0, null_mut())), FI_ENOSYS);
    assert_eq!(close(tx), 0);
}

/// An object that another provider would own is refused, unless FI_PEER is a capability: domains, endpoints, shared receive
/// contexts, vectors, queues and counters (fi_peer(3)).
fn objects_of_a_peer_provider_are_refused(subject) {
    let fixture = Fixture::new(subject);
    if fixture.info.first().caps & FI_PEER != 0 {
        return;
    }
    let (info, none) = (fixture.info.as_ptr(), null_mut());
    let (mut domain, mut ep) = (null_mut(), null_mut());
    refused!(c!(fi_domain2(fixture.fabric, info, &mut domain, FI_PEER, none)), FI_EBADFLAGS);
    refused!(c!(fi_endpoint2(fixture.domain, info, &mut ep, FI_PEER_TRANSFER, none)), FI_EBADFLAGS);
    let mut attr = fi_rx_attr { op_flags: FI_PEER, ..fi_rx_attr::ZERO };
    refused!(c!(fi_srx_context(fixture.domain, &mut attr, &mut ep, none)), FI_EBADFLAGS);
    let (mut attr, mut av) = (fi_av_attr { flags: FI_PEER, ..fi_av_attr::ZERO }, null_mut());
    refused!(c!(fi_av_open(fixture.domain, &mut attr, &mut av, none)), FI_EINVAL);
    let (mut attr, mut cq) = (fi_cq_attr { flags: FI_PEER, ..fi_cq_attr::ZERO }, null_mut());
    refused!(c!(fi_cq_open(fixture.domain, &mut attr, &mut cq, none)), FI_EINVAL);
    let (mut attr, mut cntr) = (fi_cntr_attr { flags: FI_PEER, ..fi_cntr_attr::ZERO }, null_mut());
    refused!(c!(fi_cntr_open(fixture.domain, &mut attr, &mut cntr, none)), FI_EBADFLAGS);
    let (mut attr, mut eq) = (fi_eq_attr { flags: FI_PEER, ..fi_eq_attr::ZERO }, null_mut());
    refused!(c!(fi_eq_open(fixture.fabric, &mut attr, &mut eq, none)), FI_EINVAL);
}
}
