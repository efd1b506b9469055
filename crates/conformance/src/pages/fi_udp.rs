//! Datagrams over UDP: fi_udp(7), and what fi_endpoint(3), fi_cq(3) and fi_cm(3) say of FI_EP_DGRAM.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use oxifabric_abi::*;

use crate::traffic::{PATIENCE, Posted, Read};
use crate::world::{End, Two, World, bind, close};
use crate::{Stage, c, sentences};

const V4: &CStr = c"127.0.0.1";
const V6: &CStr = c"::1";

/// Opens a world at an address of this host.
fn world_at(stage: &Stage, node: &CStr, change: impl FnOnce(&mut fi_info)) -> World {
    let mut hints = stage.hints();
    change(hints.first_mut());
    let info = stage.try_query(&hints, Some(node), FI_SOURCE);
    World::of(stage, info.expect("an endpoint on the loopback interface"))
}

/// Opens a world on the loopback interface, whose endpoints name sources.
fn world(stage: &Stage) -> World {
    world_at(stage, V4, |hints| hints.caps |= FI_SOURCE)
}

/// Where an endpoint is.
fn address(end: &End) -> SocketAddr {
    let name = end.name();
    let port = u16::from_be_bytes([name[2], name[3]]);
    match name.len() {
        16 => SocketAddr::from(([name[4], name[5], name[6], name[7]], port)),
        _ => SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
    }
}

/// Inserts the address of a plain socket.
fn insert(end: &End, at: SocketAddr) -> fi_addr_t {
    let raw = sockaddr(at);
    let mut name = 77;
    let inserted = c!(fi_av_insert(
        end.av,
        (&raw const raw).cast(),
        1,
        &mut name,
        0,
        null_mut()
    ));
    assert_eq!(inserted, 1);
    name
}

fn sockaddr(at: SocketAddr) -> libc::sockaddr_in {
    let SocketAddr::V4(at) = at else {
        panic!("an address of IPv4");
    };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(at.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

/// Sends from an endpoint, again as long as there is no room.
fn send(end: &End, bytes: &[u8], to: fi_addr_t) {
    let (place, context) = (end.traffic.buffer(bytes), end.traffic.context());
    loop {
        let code = c!(fi_send(
            end.ep,
            place.cast(),
            bytes.len(),
            null_mut(),
            to,
            context
        ));
        if code != -(FI_EAGAIN as isize) {
            assert_eq!(code, 0);
            return;
        }
        let read = end.read();
        assert!(!matches!(read, Some(Read::Failed(_))), "{read:?}");
    }
}

/// Waits for the next completion of one endpoint.
fn next(end: &End) -> Read {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(read) = end.read() {
            return read;
        }
    }
    panic!("no completion came");
}

/// Waits for the completion of a receive, skipping those of sends.
fn received(end: &End) -> fi_cq_tagged_entry {
    loop {
        match next(end) {
            Read::Done(entry) if entry.flags & FI_RECV != 0 => return entry,
            Read::Done(_) => {}
            Read::Failed(error) => panic!("{error:?}"),
        }
    }
}

/// Waits for a completion with its source.
fn from(end: &End) -> fi_addr_t {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let (mut entry, mut source) = (fi_cq_tagged_entry::ZERO, 77);
        let place = (&raw mut entry).cast();
        let code = c!(fi_cq_readfrom(end.cq, place, 1, &mut source));
        if code == 1 && entry.flags & FI_RECV != 0 {
            return source;
        }
        assert!(code == 1 || code == -(FI_EAGAIN as isize), "{code}");
    }
    panic!("no completion came");
}

fn plain_socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a positive time");
    socket
}

/// Sends with `fi_sendmsg`.
fn sendmsg(two: &Two, bytes: &[u8], flags: u64) -> isize {
    let iov = libc::iovec {
        iov_base: two.a.traffic.buffer(bytes).cast(),
        iov_len: bytes.len(),
    };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: two.to_b,
        context: two.a.traffic.context(),
        data: 0,
    };
    c!(fi_sendmsg(two.a.ep, &msg, flags))
}

/// Sends every length, and checks every byte.
fn play_every_length(two: &Two, longest: usize) {
    for len in [0, 1, 7, 8, 63, 64, 1000, longest - 1, longest] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
        let posted = two.b.recv(len);
        two.send(&bytes);
        assert_eq!(two.done(&two.b).len, len);
        assert!(posted.bytes() == bytes, "{len} bytes");
        let _ = two.done(&two.a);
    }
}

/// An endpoint with an event queue, in a group.
struct Member {
    end: Option<End>,
    eq: *mut fid_eq,
    mc: *mut fid_mc,
}

impl Member {
    fn new(world: &World, group: &libc::sockaddr_in, flags: u64) -> Self {
        let eq = world.eq();
        let end = world.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, eq, 0), 0));
        let (mut mc, context) = (null_mut(), end.traffic.context());
        let place = (&raw const *group).cast::<c_void>();
        assert_eq!(c!(fi_join(end.ep, place, flags, &mut mc, context)), 0);
        let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
        let room = size_of::<fi_eq_entry>();
        let read = c!(fi_eq_sread(
            eq,
            &mut event,
            (&raw mut entry).cast(),
            room,
            PATIENCE.as_millis() as i32,
            0
        ));
        assert_eq!(
            (read, event),
            (room as isize, FI_JOIN_COMPLETE),
            "the join is reported"
        );
        assert_eq!((entry.fid, entry.context), (mc.cast(), context));
        Self {
            end: Some(end),
            eq,
            mc,
        }
    }

    fn end(&self) -> &End {
        self.end.as_ref().expect("it is there until the end")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.mc.is_null() {
            close(self.mc);
        }
        drop(self.end.take());
        close(self.eq);
    }
}

/// A group on the loopback interface, at a port that nobody has.
fn group() -> libc::sockaddr_in {
    let port = plain_socket().local_addr().expect("a bound socket").port();
    sockaddr(SocketAddr::from(([239, 255, 17, 3], port)))
}

sentences! { "fi_udp(7)" on &["udp"];

/// A message of any length up to max_msg_size arrives as it was sent, over IPv4 and over IPv6.
fn messages_of_every_length_arrive(stage) {
    for node in [V4, V6] {
        let world = world_at(stage, node, |_| {});
        let longest = c!((*world.info.first().ep_attr).max_msg_size);
        play_every_length(&world.two(), longest);
    }
}

/// Messages are gathered, scattered, injected, and described by structures.
fn every_form_of_call_sends_and_receives(stage) {
    let world = world(stage);
    let two = world.two();
    let iov = |place: *mut u8, len| libc::iovec { iov_base: place.cast(), iov_len: len };
    let into = two.b.posted(10);
    let pieces = [iov(into.place, 3), iov(into.place.wrapping_add(3), 7)];
    let code = c!(fi_recvv(two.b.ep, pieces.as_ptr(), null_mut(), 2, FI_ADDR_UNSPEC, into.context));
    assert_eq!(code, 0);
    let (one, other) = (two.a.traffic.buffer(b"01234"), two.a.traffic.buffer(b"56789"));
    let (gathered, context) = ([iov(one, 5), iov(other, 5)], two.a.traffic.context());
    assert_eq!(c!(fi_sendv(two.a.ep, gathered.as_ptr(), null_mut(), 2, two.to_b, context)), 0);
    let done = two.done(&two.b);
    assert_eq!((done.len, done.op_context, into.bytes()), (10, into.context, b"0123456789".as_slice()));
    assert_eq!(two.done(&two.a).op_context, context);

    let into = two.b.posted(4);
    let piece = iov(into.place, 4);
    let msg = fi_msg { msg_iov: &piece, desc: null_mut(), iov_count: 1, addr: FI_ADDR_UNSPEC, context: into.context, data: 0 };
    assert_eq!(c!(fi_recvmsg(two.b.ep, &msg, 0)), 0);
    assert_eq!(sendmsg(&two, b"four", FI_COMPLETION), 0);
    assert_eq!(two.done(&two.b).op_context, into.context);
    assert_eq!(into.bytes(), b"four");
    let _ = two.done(&two.a);

    let posted = two.b.recv(6);
    assert_eq!(c!(fi_inject(two.a.ep, b"inject".as_ptr().cast(), 6, two.to_b)), 0);
    let _ = two.done(&two.b);
    assert_eq!(posted.bytes(), b"inject");
    assert!(two.a.read().is_none());
}

/// A message longer than max_msg_size is refused.
fn too_long_a_message_is_refused(stage) {
    let world = world(stage);
    let two = world.two();
    let longest = c!((*world.info.first().ep_attr).max_msg_size);
    let place = two.a.traffic.buffer(&vec![0; longest + 1]);
    let context = two.a.traffic.context();
    let code = c!(fi_send(two.a.ep, place.cast(), longest + 1, null_mut(), two.to_b, context));
    assert_eq!(code, -(FI_EMSGSIZE as isize));
}

/// A message longer than its receive is cut off, and the receive fails with FI_ETRUNC.
fn what_does_not_fit_is_cut_off(stage) {
    let world = world(stage);
    let two = world.two();
    let posted = two.b.recv(10);
    two.send(&[7; 100]);
    let error = two.failed(&two.b);
    assert_eq!((error.err, error.len, error.olen), (FI_ETRUNC, 10, 90));
    assert_eq!((error.op_context, posted.bytes()), (posted.context, [7; 10].as_slice()));
}

/// A message that comes before its receive is kept for a while.
fn an_early_message_is_kept(stage) {
    let world = world(stage);
    let two = world.two();
    for at in 0..5 {
        two.send(&[at; 100]);
    }
    for at in 0..5 {
        let posted = two.b.recv(100);
        assert_eq!(received(&two.b).op_context, posted.context);
        assert_eq!(posted.bytes(), [at; 100]);
    }
}

/// What nobody can keep is dropped, and the endpoint goes on.
fn a_flood_is_dropped(stage) {
    let world = world(stage);
    let two = world.two();
    let flood = [1; 1000];
    for _ in 0..8000 {
        send(&two.a, &flood, two.to_b);
        two.progress(&two.b);
        let _ = two.a.read();
    }
    let mut kept = 0;
    loop {
        let posted = two.b.recv(1000);
        send(&two.a, &[2; 8], two.to_b);
        assert_eq!(received(&two.b).op_context, posted.context);
        kept += 1;
        if posted.bytes()[0] == 2 {
            break;
        }
    }
    assert!(kept > 100, "{kept}");
    assert!(kept < 8000, "nothing was dropped");
}

/// A peer that is not there is no error, and the endpoint goes on.
fn a_peer_that_is_gone_hurts_nobody(stage) {
    let world = world(stage);
    let two = world.two();
    let nobody = insert(&two.a, plain_socket().local_addr().expect("a bound socket"));
    for _ in 0..3 {
        send(&two.a, b"is there anybody", nobody);
        assert!(matches!(next(&two.a), Read::Done(_)));
        play_every_length(&two, 64);
    }
}

/// The wire carries the message and nothing else: plain sockets are peers.
fn plain_sockets_are_peers(stage) {
    let world = world(stage);
    let end = world.end();
    let sockets = [plain_socket(), plain_socket()];
    let names = sockets.each_ref().map(|socket| insert(&end, socket.local_addr().expect("a bound socket")));
    for (socket, name) in sockets.iter().zip(names) {
        let posted = end.recv(64);
        socket.send_to(b"question", address(&end)).expect("a datagram sent");
        assert_eq!(from(&end), name);
        assert_eq!(&posted.bytes()[..8], b"question");
        send(&end, b"an answer", name);
        let mut bytes = [0; 64];
        let (len, at) = socket.recv_from(&mut bytes).expect("a datagram");
        assert_eq!((&bytes[..len], at), (b"an answer".as_slice(), address(&end)));
    }
}

/// Longer datagrams than one may send are received.
fn longer_datagrams_of_others_are_received(stage) {
    let world = world(stage);
    let end = world.end();
    let posted = end.recv(60_000);
    let sent: Vec<u8> = (0..60_000_u32).map(|at| (at % 251) as u8).collect();
    plain_socket().send_to(&sent, address(&end)).expect("a datagram sent");
    assert_eq!(received(&end).len, sent.len());
    assert!(posted.bytes() == sent);
}

/// Completions name the sources that are in the address vector; a stranger has no name.
fn sources_are_named(stage) {
    let world = world(stage);
    let two = world.two();
    let posted: Vec<Posted> = (0..3).map(|_| two.b.recv(8)).collect();
    send(&two.a, b"known", two.to_b);
    assert_eq!(from(&two.b), two.to_a);
    let stranger = plain_socket();
    stranger.send_to(b"unknown", address(&two.b)).expect("a datagram sent");
    assert_eq!(from(&two.b), FI_ADDR_NOTAVAIL);
    let name = insert(&two.b, stranger.local_addr().expect("a bound socket"));
    stranger.send_to(b"known", address(&two.b)).expect("a datagram sent");
    assert_eq!(from(&two.b), name);
    assert_eq!(&posted[2].bytes()[..5], b"known");
}

/// A directed receive takes the messages of its source only.
fn a_receive_may_name_its_source(stage) {
    let world = world_at(stage, V4, |hints| hints.caps |= FI_DIRECTED_RECV | FI_SOURCE);
    let two = world.two();
    let (named, other) = (two.b.posted(8), two.b.posted(8));
    let place = named.place.cast();
    assert_eq!(c!(fi_recv(two.b.ep, place, 8, null_mut(), two.to_a, named.context)), 0);
    let stranger = plain_socket();
    stranger.send_to(b"stranger", address(&two.b)).expect("a datagram sent");
    send(&two.a, b"named it", two.to_b);
    assert_eq!(received(&two.b).op_context, named.context);
    assert_eq!(named.bytes(), b"named it");
    let place = other.place.cast();
    assert_eq!(c!(fi_recv(two.b.ep, place, 8, null_mut(), FI_ADDR_UNSPEC, other.context)), 0);
    assert_eq!(received(&two.b).op_context, other.context);
    assert_eq!(other.bytes(), b"stranger");
}

/// A multi-receive buffer takes many messages.
fn one_buffer_takes_many_messages(stage) {
    let world = world_at(stage, V4, |hints| hints.caps |= FI_MULTI_RECV);
    let two = world.two();
    let into = two.b.posted(65_536);
    let piece = libc::iovec { iov_base: into.place.cast(), iov_len: into.len };
    let msg = fi_msg { msg_iov: &piece, desc: null_mut(), iov_count: 1, addr: FI_ADDR_UNSPEC, context: into.context, data: 0 };
    assert_eq!(c!(fi_recvmsg(two.b.ep, &msg, FI_MULTI_RECV)), 0);
    for at in 0..10_u8 {
        two.send(&[at; 100]);
        let done = received(&two.b);
        let got = c!(core::slice::from_raw_parts(done.buf.cast::<u8>(), done.len));
        assert_eq!(got, [at; 100]);
    }
}

/// Sends with FI_MORE arrive, all of them, once a send without it follows.
fn sends_are_gathered_by_more(stage) {
    let world = world(stage);
    let two = world.two();
    let posted: Vec<Posted> = (0..200).map(|_| two.b.recv(64)).collect();
    for at in 0..posted.len() {
        let more = if at + 1 < posted.len() { FI_MORE } else { 0 };
        assert_eq!(sendmsg(&two, &vec![at as u8; at % 64], more | FI_COMPLETION), 0);
    }
    for (at, posted) in posted.iter().enumerate() {
        let done = received(&two.b);
        assert_eq!((done.op_context, done.len), (posted.context, at % 64));
        assert!(posted.bytes()[..done.len].iter().all(|&byte| byte == at as u8));
    }
    for _ in &posted {
        let _ = two.done(&two.a);
    }
}

/// What was held back by FI_MORE leaves when the endpoint is driven, or closed.
fn nothing_is_held_back_for_ever(stage) {
    let world = world(stage);
    let two = world.two();
    let posted = [two.b.recv(8), two.b.recv(8)];
    assert_eq!(sendmsg(&two, b"driven", FI_MORE | FI_COMPLETION), 0);
    let _ = two.done(&two.a);
    assert_eq!(two.done(&two.b).op_context, posted[0].context);
    assert_eq!(sendmsg(&two, b"closed", FI_MORE | FI_COMPLETION), 0);
    let Two { a, b, .. } = two;
    drop(a);
    assert_eq!(received(&b).op_context, posted[1].context);
    assert_eq!(&posted[1].bytes()[..6], b"closed");
}

/// There are no tags and no remote data, and a send cannot ask its receiver for an answer.
fn there_is_nothing_but_the_message(stage) {
    let world = world(stage);
    let two = world.two();
    let (place, context) = (two.a.traffic.buffer(b"12345678").cast(), two.a.traffic.context());
    let absent = -(FI_ENOSYS as isize);
    assert_eq!(c!(fi_senddata(two.a.ep, place, 8, null_mut(), 1, two.to_b, context)), absent);
    assert_eq!(c!(fi_injectdata(two.a.ep, place, 8, 1, two.to_b)), absent);
    assert_eq!(c!(fi_tsend(two.a.ep, place, 8, null_mut(), two.to_b, 1, context)), absent);
    for flag in [FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE, FI_REMOTE_CQ_DATA] {
        assert!(sendmsg(&two, b"12345678", flag) < 0, "{flag:#x}");
    }
    assert!(two.a.read().is_none() && two.b.read().is_none());
}

/// A receive that is cancelled ends with FI_ECANCELED, and the next message takes the next one.
fn receives_are_cancelled(stage) {
    let world = world(stage);
    let two = world.two();
    let (first, second) = (two.b.recv(8), two.b.recv(8));
    assert_eq!(c!(fi_cancel(two.b.ep.cast(), first.context)), 0);
    let error = two.failed(&two.b);
    assert_eq!((error.err, error.op_context), (FI_ECANCELED, first.context));
    two.send(b"goes on");
    assert_eq!(two.done(&two.b).op_context, second.context);
}

/// Counters count messages.
fn counters_count_messages(stage) {
    let world = world(stage);
    let (sent, got) = (world.cntr(FI_WAIT_UNSPEC), world.cntr(FI_WAIT_UNSPEC));
    {
        let a = world.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, sent, FI_SEND), 0));
        let b = world.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, got, FI_RECV), 0));
        let two = Two::of(a, b);
        for _ in 0..5 {
            let _posted = two.b.recv(8);
            two.send(b"counted");
        }
        assert_eq!(c!(fi_cntr_wait(got, 5, PATIENCE.as_millis() as i32)), 0);
        assert_eq!((c!(fi_cntr_read(sent)), c!(fi_cntr_read(got))), (5, 5));
    }
    assert_eq!((close(sent), close(got)), (0, 0));
}

/// A thread that sleeps on a queue is woken by a datagram, even if the endpoint had no place for what came before.
fn sleepers_are_woken(stage) {
    let world = world(stage);
    let two = world.two();
    let cq = two.b.cq as usize;
    for early in [0, 5000] {
        for _ in 0..early {
            send(&two.a, &[1; 1000], two.to_b);
            two.progress(&two.b);
            let _ = two.a.read();
        }
        // It sleeps now, or soon; either way the receive is its wake-up.
        let sleeper = std::thread::spawn(move || {
            let mut entry = fi_cq_tagged_entry::ZERO;
            let (cq, place) = (cq as *mut fid_cq, (&raw mut entry).cast());
            let read = c!(fi_cq_sread(cq, place, 1, core::ptr::null(), PATIENCE.as_millis() as i32));
            (read, entry.len)
        });
        let _posted = two.b.recv(1000);
        if early == 0 {
            send(&two.a, &[2; 8], two.to_b);
        }
        let (read, len) = sleeper.join().expect("a thread that ends");
        assert_eq!((read, len), (1, if early == 0 { 8 } else { 1000 }));
    }
}

/// The descriptor of a queue is readable when there is something to read.
fn descriptors_tell_of_datagrams(stage) {
    let world = world(stage);
    let end = world.end();
    let mut fd = -1;
    assert_eq!(c!(fi_control(end.cq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    let socket = plain_socket();
    for _ in 0..3 {
        let _posted = end.recv(8);
        let mut fids = [end.cq.cast::<fid>()];
        assert_eq!(c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1)), 0);
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        assert_eq!(c!(libc::poll(&mut poll, 1, 0)), 0);
        socket.send_to(b"wake up", address(&end)).expect("a datagram sent");
        assert_eq!(c!(libc::poll(&mut poll, 1, PATIENCE.as_millis() as i32)), 1);
        assert_eq!(received(&end).len, 7);
    }
}

/// What is sent to a multicast group reaches all its members, the sender among them, and nobody else.
fn groups_hear_what_is_sent_to_them(stage) {
    let world = world_at(stage, V4, |hints| hints.caps |= FI_MULTICAST | FI_SOURCE);
    let group = group();
    let mut members = [(); 3].map(|()| Member::new(&world, &group, 0));
    let outsider = world.end();
    for (at, sender) in members.iter().enumerate() {
        let text = [at as u8; 20];
        let posted = members.each_ref().map(|member| member.end().recv(20));
        send(sender.end(), &text, c!(fi_mc_addr(sender.mc)));
        for (member, posted) in members.iter().zip(&posted) {
            assert_eq!(received(member.end()).op_context, posted.context);
            assert_eq!(posted.bytes(), text);
        }
    }
    let _posted = outsider.recv(20);
    assert!(outsider.read().is_none());
    // Who has left hears no more.
    let left = &mut members[0];
    assert_eq!(close(std::mem::replace(&mut left.mc, null_mut())), 0);
    let posted = members.each_ref().map(|member| member.end().recv(20));
    send(members[1].end(), b"who is still here", c!(fi_mc_addr(members[1].mc)));
    for (member, posted) in members.iter().zip(&posted).skip(1) {
        assert_eq!(received(member.end()).op_context, posted.context);
    }
    while let Some(read) = members[0].end().read() {
        assert!(matches!(read, Read::Done(entry) if entry.flags & FI_SEND != 0), "{read:?}");
    }
}

/// An endpoint may join a group for sending only; FI_MULTICAST in a send is understood.
fn a_group_may_be_joined_for_sending_only(stage) {
    let world = world_at(stage, V4, |hints| hints.caps |= FI_MULTICAST);
    let group = group();
    let (speaker, listener) = (Member::new(&world, &group, FI_SEND), Member::new(&world, &group, FI_RECV));
    let posted = [speaker.end().recv(8), listener.end().recv(8)];
    let iov = libc::iovec { iov_base: speaker.end().traffic.buffer(b"attention").cast(), iov_len: 8 };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: c!(fi_mc_addr(speaker.mc)),
        context: speaker.end().traffic.context(),
        data: 0,
    };
    assert_eq!(c!(fi_sendmsg(speaker.end().ep, &msg, FI_MULTICAST | FI_COMPLETION)), 0);
    assert_eq!(received(listener.end()).op_context, posted[1].context);
    assert!(matches!(next(speaker.end()), Read::Done(entry) if entry.flags & FI_SEND != 0));
    assert!(speaker.end().read().is_none());
}

/// An endpoint does not close while it is in a group, and joins none without an event queue or that is no group.
fn joins_have_their_conditions(stage) {
    let world = world_at(stage, V4, |hints| hints.caps |= FI_MULTICAST);
    let (group, mut mc) = (group(), null_mut());
    let lonely = world.end();
    let place = (&raw const group).cast();
    assert_eq!(c!(fi_join(lonely.ep, place, 0, &mut mc, null_mut())), -FI_ENOEQ);
    let member = Member::new(&world, &group, 0);
    let one = sockaddr(address(&lonely));
    let place = (&raw const one).cast();
    assert_eq!(c!(fi_join(member.end().ep, place, 0, &mut mc, null_mut())), -FI_EINVAL);
    assert_eq!(close(member.end().ep), -FI_EBUSY);
}

/// An application that is ready for a prefix before its messages gets one of no bytes.
fn a_prefix_has_no_bytes(stage) {
    let world = world_at(stage, V4, |hints| hints.mode |= FI_MSG_PREFIX);
    let info = world.info.first();
    let (tx, rx) = c!(((*info.tx_attr).mode, (*info.rx_attr).mode));
    for mode in [info.mode, tx, rx] {
        assert_ne!(mode & FI_MSG_PREFIX, 0);
    }
    assert_eq!(c!((*world.info.first().ep_attr).msg_prefix_size), 0);
    play_every_length(&world.two(), 64);
}

}
