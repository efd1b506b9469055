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
        // Posted before the endpoint that will take it knows anybody.
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

#[test]
fn what_belongs_to_one_endpoint_is_refused() {
    let world = World::new();
    let srx = srx(&world);
    let message = fi_msg {
        msg_iov: core::ptr::null(),
        desc: null_mut(),
        iov_count: 0,
        addr: FI_ADDR_UNSPEC,
        context: null_mut(),
        data: 0,
    };
    let posted = c!(fi_recvmsg(srx, &message, FI_MULTI_RECV));
    assert_eq!(posted, -(FI_EOPNOTSUPP as isize));
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
