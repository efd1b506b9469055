//! Shared contexts: fi_srx_context(3), fi_stx_context(3).

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_types::Caps;

use super::world::*;

/// A context for receives.
fn srx(world: &World) -> *mut fid_ep {
    let mut attr = fi_rx_attr::ZERO;
    let mut srx = null_mut();
    let opened = c!(fi_srx_context(
        world.domain,
        &mut attr,
        &mut srx,
        null_mut()
    ));
    assert_eq!(opened, 0);
    srx
}

/// An endpoint that takes its receives from a context.
fn sharing(world: &World, srx: *mut fid_ep) -> End {
    let end = End {
        ep: world.bare(),
        cq: world.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
        av: world.av(0),
    };
    assert_eq!(bind(end.ep, end.cq, FI_SEND | FI_RECV), 0);
    assert_eq!(bind(end.ep, end.av, 0), 0);
    assert_eq!(bind(end.ep, srx, 0), 0);
    assert_eq!(c!(fi_enable(end.ep)), 0);
    end
}

fn post(srx: *mut fid_ep, into: &mut [u8], context: usize) -> isize {
    c!(fi_recv(
        srx,
        into.as_mut_ptr().cast(),
        into.len(),
        null_mut(),
        FI_ADDR_UNSPEC,
        context as *mut _
    ))
}

#[test]
fn endpoints_take_receives_in_the_order_of_their_messages() {
    let world = World::new();
    let srx = srx(&world);
    let ends = [sharing(&world, srx), sharing(&world, srx)];
    let sender = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    let mut buffers = [[0u8; 4]; 2];
    assert_eq!(post(srx, &mut buffers[0], 1), 0);
    assert_eq!(post(srx, &mut buffers[1], 2), 0);
    let (first, second) = (sender.knows(&ends[1]), sender.knows(&ends[0]));
    assert_eq!(sender.send(first, b"one", 0), 0);
    let (entry, _) = ends[1].next();
    assert_eq!((entry.op_context as usize, entry.len), (1, 3));
    assert_eq!(sender.send(second, b"two!", 0), 0);
    let (entry, _) = ends[0].next();
    assert_eq!((entry.op_context as usize, entry.len), (2, 4));
    assert_eq!((&buffers[0][..3], &buffers[1]), (&b"one"[..], b"two!"));
    drop(ends);
    assert_eq!(close(srx), 0);
}

#[test]
fn a_message_that_found_nothing_is_fed_by_the_next_receive() {
    let world = World::new();
    let srx = srx(&world);
    let end = sharing(&world, srx);
    let sender = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    let to = sender.knows(&end);
    assert_eq!(sender.send(to, b"early", 0), 0);
    assert!(end.read().is_err(), "it waits");
    let mut buffer = [0u8; 5];
    assert_eq!(post(srx, &mut buffer, 9), 0);
    let (entry, _) = end.next();
    assert_eq!((entry.op_context as usize, &buffer), (9, b"early"));
    drop(end);
    assert_eq!(close(srx), 0);
}

fn post_many(srx: *mut fid_ep, into: &mut [u8], context: usize) -> isize {
    let iov = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: context as *mut _,
        data: 0,
    };
    c!(fi_recvmsg(srx, &msg, FI_MULTI_RECV))
}

#[test]
fn a_shared_buffer_takes_messages_of_several_endpoints() {
    let world = World::new();
    let srx = srx(&world);
    let (mut min, mut len) = (4usize, size_of::<usize>());
    let option = FI_OPT_MIN_MULTI_RECV;
    let place = (&raw mut min).cast();
    assert_eq!(
        c!(fi_setopt(srx.cast(), FI_OPT_ENDPOINT, option, place, 8)),
        0
    );
    min = 0;
    assert_eq!(
        c!(fi_getopt(
            srx.cast(),
            FI_OPT_ENDPOINT,
            option,
            place,
            &mut len
        )),
        0
    );
    assert_eq!((min, len), (4, 8));
    let ends = [sharing(&world, srx), sharing(&world, srx)];
    let sender = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    let to = ends.each_ref().map(|end| sender.knows(end));
    // The first message comes before the buffer.
    assert_eq!(sender.send(to[0], b"early", 0), 0);
    assert!(ends[0].read().is_err());
    let (mut first, mut second) = ([0u8; 12], [0u8; 12]);
    assert_eq!(post_many(srx, &mut first, 1), 0);
    assert_eq!(post_many(srx, &mut second, 2), 0);
    let (entry, _) = ends[0].next();
    assert_eq!(
        (entry.op_context as usize, entry.buf),
        (1, first.as_mut_ptr().cast())
    );
    assert_eq!(entry.flags, FI_RECV | FI_MSG);
    assert_eq!(sender.send(to[1], b"four", 0), 0);
    let (entry, _) = ends[1].next();
    assert_eq!(entry.buf, first[5..].as_mut_ptr().cast());
    assert_eq!(
        entry.flags,
        FI_RECV | FI_MSG | FI_MULTI_RECV,
        "3 bytes are left"
    );
    assert_eq!(sender.send(to[0], b"more", 0), 0);
    assert_eq!(ends[0].next().0.op_context as usize, 2);
    // What does not fit releases the buffer, and waits for another one.
    assert_eq!(sender.send(to[1], b"much longer", 0), 0);
    let (entry, _) = ends[1].next();
    assert_eq!((entry.op_context as usize, entry.flags), (2, FI_MULTI_RECV));
    assert!(ends[1].read().is_err());
    let mut third = [0u8; 16];
    assert_eq!(post_many(srx, &mut third, 3), 0);
    let (entry, _) = ends[1].next();
    assert_eq!((entry.op_context as usize, entry.len), (3, 11));
    let context = 3 as *mut core::ffi::c_void;
    assert_eq!(c!(fi_cancel(srx.cast(), context)), 0);
    assert!(ends[0].read().is_err());
    assert_eq!(ends[0].error().flags & FI_MULTI_RECV, FI_MULTI_RECV);
    assert_eq!(
        (&first[..9], &second[..4]),
        (&b"earlyfour"[..], &b"more"[..])
    );
    drop(ends);
    assert_eq!(close(srx), 0);
}

/// A world whose receives name their source, or must.
fn directed(caps: Caps) -> World {
    World::with(FI_VERSION(2, 6), |info| {
        info.caps |= caps;
        info.rx.caps |= caps;
    })
}

fn post_from(srx: *mut fid_ep, into: &mut [u8], from: fi_addr_t, context: usize) -> isize {
    c!(fi_recv(
        srx,
        into.as_mut_ptr().cast(),
        into.len(),
        null_mut(),
        from,
        context as *mut _
    ))
}

#[test]
fn a_shared_receive_that_names_a_source_waits_for_it() {
    for caps in [Caps::DIRECTED_RECV, Caps::EXACT_DIRECTED_RECV] {
        let world = directed(caps);
        let srx = srx(&world);
        let mut early = [0u8; 5];
        // Posted before the endpoint that will take it has any peer.
        assert_eq!(post_from(srx, &mut early, 1, 7), 0);
        let end = End {
            ep: world.bare(),
            cq: world.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
            av: world.av(0),
        };
        let senders = [(); 2].map(|()| world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE));
        assert_eq!(senders.each_ref().map(|from| end.knows(from)), [0, 1]);
        assert_eq!(bind(end.ep, end.cq, FI_SEND | FI_RECV), 0);
        assert_eq!((bind(end.ep, end.av, 0), bind(end.ep, srx, 0)), (0, 0));
        assert_eq!(c!(fi_enable(end.ep)), 0);
        let to = senders.each_ref().map(|from| from.knows(&end));
        assert_eq!(senders[0].send(to[0], b"first", 0), 0);
        assert!(end.read().is_err(), "the receive is for the other one");
        assert_eq!(senders[1].send(to[1], b"other", 0), 0);
        let (entry, _) = end.next();
        assert_eq!((entry.op_context as usize, &early), (7, b"other"));
        // One that waits is found behind one that is not meant.
        assert_eq!(senders[1].send(to[1], b"third", 0), 0);
        assert!(end.read().is_err());
        let mut late = [0u8; 5];
        assert_eq!(post_from(srx, &mut late, 1, 8), 0);
        let (entry, _) = end.next();
        assert_eq!((entry.op_context as usize, &late), (8, b"third"));
        assert_eq!(post_from(srx, &mut late, 0, 9), 0);
        let (entry, _) = end.next();
        assert_eq!((entry.op_context as usize, &late), (9, b"first"));
        drop((end, senders));
        assert_eq!(close(srx), 0);
    }
}

#[test]
fn shared_receives_must_name_their_source_if_it_is_exact() {
    let refused = -(FI_EINVAL as isize);
    for (caps, expected) in [
        (Caps::EXACT_DIRECTED_RECV, refused),
        (Caps::DIRECTED_RECV, 0),
        (Caps::empty(), 0),
    ] {
        let world = directed(caps);
        let srx = srx(&world);
        let mut buffer = [0u8; 4];
        assert_eq!(post(srx, &mut buffer, 1), expected, "{caps:?}");
        assert_eq!(close(srx), 0);
    }
}

#[test]
fn a_receive_that_no_message_took_is_cancelled_once() {
    let world = World::new();
    let srx = srx(&world);
    let end = sharing(&world, srx);
    let mut buffer = [0u8; 5];
    assert_eq!(post(srx, &mut buffer, 9), 0);
    assert_eq!(c!(fi_cancel(srx.cast(), 9 as *mut _)), 0);
    let gone = c!(fi_cancel(srx.cast(), 9 as *mut _));
    assert_eq!(gone, -(FI_ENOENT as isize));
    assert_eq!(end.read().err(), Some(-(FI_EAVAIL as isize)));
    let error = end.error();
    assert_eq!((error.err, error.op_context as usize), (FI_ECANCELED, 9));
    drop(end);
    assert_eq!(close(srx), 0);
}

fn look(srx: *mut fid_ep, tag: u64, into: &mut [u8], context: usize, flags: u64) -> isize {
    let iov = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let msg = fi_msg_tagged {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        tag,
        ignore: 0,
        context: context as *mut _,
        data: 0,
    };
    c!(fi_trecvmsg(srx, &msg, flags))
}

#[test]
fn messages_are_looked_for_at_all_endpoints() {
    let world = World::new();
    let srx = srx(&world);
    let ends = [sharing(&world, srx), sharing(&world, srx)];
    let sender = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    let to = ends.each_ref().map(|end| sender.knows(end));
    for (at, tag) in [(1, 7), (0, 8)] {
        let sent = c!(fi_tsend(
            sender.ep,
            c"text".as_ptr().cast(),
            4,
            null_mut(),
            to[at],
            tag,
            null_mut()
        ));
        assert_eq!(sent, 0);
        assert!(ends[at].read().is_err(), "it waits");
    }
    let mut into = [0u8; 4];
    assert_eq!(look(srx, 9, &mut into, 1, FI_PEEK), 0);
    assert!(ends[0].read().is_err(), "there is no such message");
    assert_eq!(ends[0].error().err, FI_ENOMSG);
    assert_eq!(look(srx, 7, &mut into, 2, FI_PEEK | FI_CLAIM), 0);
    let (entry, _) = ends[1].next();
    assert_eq!((entry.op_context as usize, entry.len, entry.tag), (2, 4, 7));
    assert_eq!(look(srx, 7, &mut into, 3, FI_PEEK), 0);
    assert!(ends[0].read().is_err(), "it is claimed");
    assert_eq!(ends[0].error().err, FI_ENOMSG);
    assert_eq!(look(srx, 7, &mut into, 2, FI_CLAIM), 0);
    assert_eq!((ends[1].next().0.op_context as usize, &into), (2, b"text"));
    assert_eq!(look(srx, 8, &mut into, 4, FI_PEEK | FI_DISCARD), 0);
    assert_eq!(ends[0].next().0.op_context as usize, 4);
    assert_eq!(look(srx, 8, &mut into, 5, FI_PEEK), 0);
    assert!(ends[0].read().is_err(), "it is gone");
    assert_eq!(ends[0].error().err, FI_ENOMSG);
    let alone = look(srx, 8, &mut into, 6, FI_DISCARD);
    assert_eq!(alone, -(FI_EINVAL as isize));
    drop(ends);
    assert_eq!(close(srx), 0);
}

#[test]
fn a_context_for_receives_sends_nothing() {
    let world = World::new();
    let srx = srx(&world);
    let sent = c!(fi_send(
        srx,
        core::ptr::null(),
        0,
        null_mut(),
        0,
        null_mut()
    ));
    assert_eq!(sent, -(FI_ENOSYS as isize));
    assert_eq!(close(srx), 0);
}

#[test]
fn receive_contexts_stay_while_bound_and_transmit_contexts_need_not() {
    let world = World::new();
    let (srx, mut stx) = (srx(&world), null_mut());
    let mut attr = fi_tx_attr::ZERO;
    let opened = c!(fi_stx_context(
        world.domain,
        &mut attr,
        &mut stx,
        null_mut()
    ));
    assert_eq!(opened, 0);
    let ep = world.bare();
    assert_eq!((bind(ep, srx, 0), bind(ep, stx, 0)), (0, 0));
    assert_eq!(bind(ep, srx, 0), -FI_EINVAL, "once");
    assert_eq!(bind(ep, stx, 0), -FI_EINVAL, "once");
    assert_eq!((close(srx), close(stx)), (-FI_EBUSY, 0));
    assert_eq!(close(ep), 0);
    assert_eq!(close(srx), 0);
}

#[test]
fn a_receive_without_memory_takes_messages_without_data() {
    let world = World::new();
    let srx = srx(&world);
    let end = sharing(&world, srx);
    let sender = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    let to = sender.knows(&end);
    let bare = |context: usize| {
        c!(fi_recv(
            srx,
            null_mut(),
            1024,
            null_mut(),
            FI_ADDR_UNSPEC,
            context as *mut _
        ))
    };
    assert_eq!((bare(1), bare(2)), (0, 0));
    assert_eq!(sender.send(to, b"", 0), 0);
    let (entry, _) = end.next();
    assert_eq!((entry.op_context as usize, entry.len), (1, 0));
    assert_eq!(sender.send(to, b"data", 0), 0);
    assert_eq!(end.read().err(), Some(-(FI_EAVAIL as isize)));
    assert_eq!(end.error().err, FI_ETRUNC);
    drop(end);
    assert_eq!(close(srx), 0);
}
