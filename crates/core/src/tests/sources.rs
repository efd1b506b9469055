//! What completions say of sources: fi_av(3) "USER IDENTIFIERS FOR ADDRESSES", fi_cq(3) "FI_EADDRNOTAVAIL".

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_types::Caps;

use super::world::{End, World, c, close};

fn world(caps: Caps) -> World {
    World::with(FI_VERSION(2, 6), |info| {
        info.caps |= caps;
        info.domain.caps |= caps & Caps::AV_USER_ID;
    })
}

fn end(world: &World) -> End {
    world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE)
}

/// Sends four bytes from `a` to `b` and leaves what came of it in the queue of `b`.
fn pass(a: &End, b: &End, to: fi_addr_t) {
    let mut buffer = [0; 4];
    b.recv(&mut buffer, 1);
    assert_eq!(a.send(to, b"data", 2), 0);
    a.next();
    for _ in 0..1000 {
        c!(fi_cq_read(b.cq, null_mut(), 0));
    }
    assert_eq!(&buffer, b"data");
}

#[test]
fn a_message_from_an_unknown_peer_is_an_error_that_gives_the_address() {
    let world = world(Caps::SOURCE_ERR);
    let (a, b) = (end(&world), end(&world));
    let to = a.knows(&b);
    for _ in 0..2 {
        pass(&a, &b, to);
        assert_eq!(b.read().err(), Some(-(FI_EAVAIL as isize)));
        let error = b.error();
        assert_eq!((error.err, error.len), (FI_EADDRNOTAVAIL, 4));
        assert_eq!(
            (error.flags, error.src_addr),
            (FI_RECV | FI_MSG, FI_ADDR_NOTAVAIL)
        );
        let name = a.name();
        // SAFETY: the data stays until the next error is read.
        let data = unsafe {
            core::slice::from_raw_parts(error.err_data.cast::<u8>(), error.err_data_size)
        };
        assert_eq!(data, name);
    }
    let a_at_b = b.knows(&a);
    pass(&a, &b, to);
    assert_eq!(b.next().1, a_at_b);
}

/// All three are reported in one poll, the one in the middle by a way of its own.
#[test]
fn a_message_from_an_unknown_peer_keeps_its_place_among_others() {
    let world = world(Caps::SOURCE_ERR);
    let (a, unknown, b) = (end(&world), end(&world), end(&world));
    let (to, known) = (a.knows(&b), b.knows(&a));
    let mut buffers = [[0; 4]; 3];
    for (at, buffer) in buffers.iter_mut().enumerate() {
        b.recv(buffer, at);
    }
    for (end, to) in [(&a, to), (&unknown, unknown.knows(&b)), (&a, to)] {
        assert_eq!(end.send(to, b"data", 9), 0);
        end.next();
    }
    let next = || {
        let (entry, source) = b.next();
        (entry.op_context.addr(), source)
    };
    assert_eq!(next(), (0, known));
    assert_eq!(b.read().err(), Some(-(FI_EAVAIL as isize)));
    let error = b.error();
    assert_eq!((error.err, error.op_context.addr()), (FI_EADDRNOTAVAIL, 1));
    assert_eq!(next(), (2, known));
}

#[test]
fn without_the_capability_an_unknown_peer_has_no_name() {
    let world = world(Caps::empty());
    let (a, b) = (end(&world), end(&world));
    pass(&a, &b, a.knows(&b));
    assert_eq!(b.next().1, FI_ADDR_NOTAVAIL);
}

#[test]
fn sources_have_the_name_that_came_with_their_address() {
    let world = world(Caps::empty());
    let (a, b) = (end(&world), end(&world));
    let name = a.name();
    let mut at = 0xabcd;
    let inserted = c!(fi_av_insert(
        b.av,
        name.as_ptr().cast(),
        1,
        &mut at,
        FI_AV_USER_ID,
        null_mut()
    ));
    assert_eq!((inserted, at), (1, 0));
    pass(&a, &b, a.knows(&b));
    assert_eq!(b.next().1, 0xabcd);
    let missing = c!(fi_av_insert(
        b.av,
        name.as_ptr().cast(),
        1,
        null_mut(),
        FI_AV_USER_ID,
        null_mut()
    ));
    assert_eq!(missing, -FI_EINVAL);
    assert_eq!(c!(fi_av_set_user_id(b.av, 0, 1, 0)), -FI_EINVAL);
}

#[test]
fn sources_have_the_name_that_they_are_given_later() {
    let world = world(Caps::AV_USER_ID);
    let (a, mut b) = (end(&world), end(&world));
    assert_eq!((close(b.ep), close(b.av)), (0, 0));
    (b.ep, b.av) = (world.bare(), world.av(FI_AV_USER_ID));
    assert_eq!(super::world::bind(b.ep, b.cq, FI_SEND | FI_RECV), 0);
    assert_eq!(super::world::bind(b.ep, b.av, 0), 0);
    assert_eq!(c!(fi_enable(b.ep)), 0);
    let (to, at) = (a.knows(&b), b.knows(&a));
    pass(&a, &b, to);
    assert_eq!(b.next().1, FI_ADDR_NOTAVAIL);
    assert_eq!(c!(fi_av_set_user_id(b.av, at + 1, 5, 0)), -FI_EINVAL);
    assert_eq!(
        c!(fi_av_set_user_id(b.av, at, 5, FI_AUTH_KEY)),
        -FI_EBADFLAGS
    );
    assert_eq!(c!(fi_av_set_user_id(b.av, at, 5, 0)), 0);
    pass(&a, &b, to);
    assert_eq!(b.next().1, 5);
}

#[test]
fn vectors_for_user_names_need_the_capability() {
    let world = world(Caps::empty());
    let mut attr = fi_av_attr {
        flags: FI_AV_USER_ID,
        ..fi_av_attr::ZERO
    };
    let mut av = null_mut();
    let opened = c!(fi_av_open(world.domain, &mut attr, &mut av, null_mut()));
    assert_eq!(opened, -FI_EINVAL);
}

/// Posts a receive of that kind that names a source; returns whether the message of another one lands in it.
fn takes_from_another(caps: Caps, tagged: bool) -> bool {
    let world = world(caps);
    let (a, b) = (end(&world), end(&world));
    let (to, _) = (a.knows(&b), b.knows(&a));
    let named = b.knows(&b);
    let mut buffer = [0u8; 4];
    let buf = buffer.as_mut_ptr().cast();
    let posted = c!(match tagged {
        true => fi_trecv(b.ep, buf, 4, null_mut(), named, 7, 0, null_mut()),
        false => fi_recv(b.ep, buf, 4, null_mut(), named, null_mut()),
    });
    assert_eq!(posted, 0);
    let data = c"data".as_ptr().cast();
    let sent = c!(match tagged {
        true => fi_tsend(a.ep, data, 4, null_mut(), to, 7, null_mut()),
        false => fi_send(a.ep, data, 4, null_mut(), to, null_mut()),
    });
    assert_eq!(sent, 0);
    a.next();
    for _ in 0..1000 {
        c!(fi_cq_read(b.cq, null_mut(), 0));
    }
    &buffer == b"data"
}

#[test]
fn which_receives_are_directed_follows_from_the_capability() {
    for (caps, msg, tagged) in [
        (Caps::empty(), true, true),
        (Caps::TAGGED_DIRECTED_RECV, true, false),
        (Caps::DIRECTED_RECV, false, false),
        (Caps::EXACT_DIRECTED_RECV, false, false),
    ] {
        assert_eq!(takes_from_another(caps, false), msg, "{caps:?}");
        assert_eq!(takes_from_another(caps, true), tagged, "{caps:?}");
    }
}

#[test]
fn exact_receives_name_their_source() {
    let exact = Caps::EXACT_DIRECTED_RECV;
    for (caps, msg, tagged) in [
        (exact, false, false),
        (exact | Caps::DIRECTED_RECV, false, false),
        (exact | Caps::TAGGED_DIRECTED_RECV, true, false),
        (Caps::DIRECTED_RECV, true, true),
    ] {
        let world = world(caps);
        let end = end(&world);
        let mut buffer = [0u8; 4];
        let buf = buffer.as_mut_ptr().cast();
        let (any, refused) = (FI_ADDR_UNSPEC, -(FI_EINVAL as isize));
        let posted = c!(fi_recv(end.ep, buf, 4, null_mut(), any, null_mut()));
        assert_eq!(posted, if msg { 0 } else { refused }, "{caps:?}");
        let posted = c!(fi_trecv(end.ep, buf, 4, null_mut(), any, 7, 0, null_mut()));
        assert_eq!(posted, if tagged { 0 } else { refused }, "{caps:?}");
    }
}

#[test]
fn one_tagged_buffer_takes_several_messages() {
    let world = world(Caps::TAGGED_MULTI_RECV);
    let (a, b) = (end(&world), end(&world));
    let to = a.knows(&b);
    let min = 4usize;
    let at = (&raw const min).cast();
    let set = c!(fi_setopt(
        b.ep.cast(),
        FI_OPT_ENDPOINT,
        FI_OPT_MIN_MULTI_RECV,
        at,
        8
    ));
    assert_eq!(set, 0);
    let mut buffer = [0u8; 8];
    let iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: 8,
    };
    let msg = fi_msg_tagged {
        msg_iov: &iov,
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        tag: 7,
        ..fi_msg_tagged::ZERO
    };
    assert_eq!(c!(fi_trecvmsg(b.ep, &msg, FI_MULTI_RECV)), 0);
    for text in [c"left", c"rest"] {
        let sent = c!(fi_tsend(
            a.ep,
            text.as_ptr().cast(),
            4,
            null_mut(),
            to,
            7,
            null_mut()
        ));
        assert_eq!(sent, 0);
        a.next();
    }
    assert_eq!(b.next().0.flags & FI_MULTI_RECV, 0);
    let last = b.next().0;
    assert_eq!(last.flags, FI_RECV | FI_TAGGED | FI_MULTI_RECV);
    assert_eq!(last.buf, buffer[4..].as_mut_ptr().cast());
    assert_eq!(&buffer, b"leftrest");
}
