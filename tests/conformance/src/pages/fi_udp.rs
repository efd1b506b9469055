//! Datagrams over UDP: fi_udp(7), and what fi_endpoint(3), fi_cq(3) and fi_cm(3) say of FI_EP_DGRAM.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, TestEndpoint, bind, close};
use oxifabric_fixtures::traffic::{Posted, Read, TIMEOUT};
use oxifabric_fixtures::{Subject, c, refused};

use crate::requirements;

const V4: &CStr = c"127.0.0.1";
const V6: &CStr = c"::1";

/// Opens a fixture at an address of this host.
fn world_at(subject: &Subject, node: &CStr, change: impl FnOnce(&mut fi_info)) -> Fixture {
    let mut hints = subject.hints();
    change(hints.first_mut());
    let info = subject.try_query(&hints, Some(node), FI_SOURCE);
    Fixture::of(
        subject,
        info.expect("an endpoint on the loopback interface"),
    )
}

/// Opens a fixture on the loopback interface, whose endpoints name sources.
fn fixture(subject: &Subject) -> Fixture {
    world_at(subject, V4, |hints| hints.caps |= FI_SOURCE)
}

/// Returns where an endpoint is.
fn address(end: &TestEndpoint) -> SocketAddr {
    let name = end.name();
    let port = u16::from_be_bytes([name[2], name[3]]);
    match name.len() {
        16 => SocketAddr::from(([name[4], name[5], name[6], name[7]], port)),
        _ => SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
    }
}

/// Inserts the address of a plain socket.
fn insert(end: &TestEndpoint, at: SocketAddr) -> fi_addr_t {
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
fn send(end: &TestEndpoint, bytes: &[u8], to: fi_addr_t) {
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
fn next(end: &TestEndpoint) -> Read {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        if let Some(read) = end.read() {
            return read;
        }
    }
    panic!("no completion came");
}

/// Waits for the completion of a receive, skipping those of sends.
fn received(end: &TestEndpoint) -> fi_cq_tagged_entry {
    loop {
        match next(end) {
            Read::Done(entry) if entry.flags & FI_RECV != 0 => return entry,
            Read::Done(_) => {}
            Read::Failed(error) => panic!("{error:?}"),
        }
    }
}

/// Waits for a completion with its source.
fn from(end: &TestEndpoint) -> fi_addr_t {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
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
        .set_read_timeout(Some(TIMEOUT))
        .expect("a positive time");
    socket
}

/// Sends with `fi_sendmsg`.
fn sendmsg(pair: &Pair, bytes: &[u8], flags: u64) -> isize {
    let iov = libc::iovec {
        iov_base: pair.a.traffic.buffer(bytes).cast(),
        iov_len: bytes.len(),
    };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: pair.to_b,
        context: pair.a.traffic.context(),
        data: 0,
    };
    c!(fi_sendmsg(pair.a.ep, &msg, flags))
}

/// Sends every length, and checks every byte.
fn play_every_length(pair: &Pair, longest: usize) {
    for len in [0, 1, 7, 8, 63, 64, 1000, longest - 1, longest] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
        let posted = pair.b.recv(len);
        pair.send(&bytes);
        assert_eq!(pair.done(&pair.b).len, len);
        assert!(posted.bytes() == bytes, "{len} bytes");
        let _ = pair.done(&pair.a);
    }
}

/// An endpoint with an event queue, in a group.
struct Member {
    end: Option<TestEndpoint>,
    eq: *mut fid_eq,
    mc: *mut fid_mc,
}

impl Member {
    fn new(fixture: &Fixture, group: &libc::sockaddr_in, flags: u64) -> Self {
        let eq = fixture.eq();
        let end = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, eq, 0), 0));
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
            TIMEOUT.as_millis() as i32,
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

    fn end(&self) -> &TestEndpoint {
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

/// Returns a group on the loopback interface, at a free port.
fn group() -> libc::sockaddr_in {
    let port = plain_socket().local_addr().expect("a bound socket").port();
    sockaddr(SocketAddr::from(([239, 255, 17, 3], port)))
}

requirements! { "fi_udp(7)" on &["udp"];

/// A message of any length up to max_msg_size arrives as it was sent, over IPv4 and over IPv6.
fn messages_of_every_length_arrive(subject) {
    for node in [V4, V6] {
        let fixture = world_at(subject, node, |_| {});
        let longest = c!((*fixture.info.first().ep_attr).max_msg_size);
        play_every_length(&fixture.pair(), longest);
    }
}

/// Messages are gathered, scattered, injected, and described by structures.
fn every_form_of_call_sends_and_receives(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let iov = |place: *mut u8, len| libc::iovec { iov_base: place.cast(), iov_len: len };
    let into = pair.b.posted(10);
    let pieces = [iov(into.place, 3), iov(into.place.wrapping_add(3), 7)];
    let code = c!(fi_recvv(pair.b.ep, pieces.as_ptr(), null_mut(), 2, FI_ADDR_UNSPEC, into.context));
    assert_eq!(code, 0);
    let (one, other) = (pair.a.traffic.buffer(b"01234"), pair.a.traffic.buffer(b"56789"));
    let (gathered, context) = ([iov(one, 5), iov(other, 5)], pair.a.traffic.context());
    assert_eq!(c!(fi_sendv(pair.a.ep, gathered.as_ptr(), null_mut(), 2, pair.to_b, context)), 0);
    let done = pair.done(&pair.b);
    assert_eq!((done.len, done.op_context, into.bytes()), (10, into.context, b"0123456789".as_slice()));
    assert_eq!(pair.done(&pair.a).op_context, context);

    let into = pair.b.posted(4);
    let piece = iov(into.place, 4);
    let msg = fi_msg { msg_iov: &piece, desc: null_mut(), iov_count: 1, addr: FI_ADDR_UNSPEC, context: into.context, data: 0 };
    assert_eq!(c!(fi_recvmsg(pair.b.ep, &msg, 0)), 0);
    assert_eq!(sendmsg(&pair, b"four", FI_COMPLETION), 0);
    assert_eq!(pair.done(&pair.b).op_context, into.context);
    assert_eq!(into.bytes(), b"four");
    let _ = pair.done(&pair.a);

    let posted = pair.b.recv(6);
    assert_eq!(c!(fi_inject(pair.a.ep, b"inject".as_ptr().cast(), 6, pair.to_b)), 0);
    let _ = pair.done(&pair.b);
    assert_eq!(posted.bytes(), b"inject");
    assert!(pair.a.read().is_none());
}

/// A message longer than max_msg_size is refused.
fn too_long_a_message_is_refused(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let longest = c!((*fixture.info.first().ep_attr).max_msg_size);
    let place = pair.a.traffic.buffer(&vec![0; longest + 1]);
    let context = pair.a.traffic.context();
    let code = c!(fi_send(pair.a.ep, place.cast(), longest + 1, null_mut(), pair.to_b, context));
    assert_eq!(code, -(FI_EMSGSIZE as isize));
}

/// A message longer than its receive is cut off, and the receive fails with FI_ETRUNC.
fn what_does_not_fit_is_cut_off(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(10);
    pair.send(&[7; 100]);
    let error = pair.failed(&pair.b);
    assert_eq!((error.err, error.len, error.olen), (FI_ETRUNC, 10, 90));
    assert_eq!((error.op_context, posted.bytes()), (posted.context, [7; 10].as_slice()));
}

/// A message that comes before its receive is kept for a while.
fn an_early_message_is_kept(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    for at in 0..5 {
        pair.send(&[at; 100]);
    }
    for at in 0..5 {
        let posted = pair.b.recv(100);
        assert_eq!(received(&pair.b).op_context, posted.context);
        assert_eq!(posted.bytes(), [at; 100]);
    }
}

/// A datagram for which there is no space is dropped, and the endpoint goes on.
fn a_flood_is_dropped(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let flood = [1; 1000];
    for _ in 0..8000 {
        send(&pair.a, &flood, pair.to_b);
        pair.progress(&pair.b);
        let _ = pair.a.read();
    }
    let mut kept = 0;
    loop {
        let posted = pair.b.recv(1000);
        send(&pair.a, &[2; 8], pair.to_b);
        assert_eq!(received(&pair.b).op_context, posted.context);
        kept += 1;
        if posted.bytes()[0] == 2 {
            break;
        }
    }
    assert!(kept > 100, "{kept}");
    assert!(kept < 8000, "nothing was dropped");
}

/// A peer that is not there is no error, and the endpoint goes on.
fn a_peer_that_is_gone_is_no_error(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let absent = insert(&pair.a, plain_socket().local_addr().expect("a bound socket"));
    for _ in 0..3 {
        send(&pair.a, b"is there a peer", absent);
        assert!(matches!(next(&pair.a), Read::Done(_)));
        play_every_length(&pair, 64);
    }
}

/// The wire carries the message and nothing else: plain sockets are peers.
fn plain_sockets_are_peers(subject) {
    let fixture = fixture(subject);
    let end = fixture.end();
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
fn longer_datagrams_of_others_are_received(subject) {
    let fixture = fixture(subject);
    let end = fixture.end();
    let posted = end.recv(60_000);
    let sent: Vec<u8> = (0..60_000_u32).map(|at| (at % 251) as u8).collect();
    plain_socket().send_to(&sent, address(&end)).expect("a datagram sent");
    assert_eq!(received(&end).len, sent.len());
    assert!(posted.bytes() == sent);
}

/// Completions name the sources that are in the address vector; an unknown peer has no name.
fn sources_are_named(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let posted: Vec<Posted> = (0..3).map(|_| pair.b.recv(8)).collect();
    send(&pair.a, b"known", pair.to_b);
    assert_eq!(from(&pair.b), pair.to_a);
    let unknown = plain_socket();
    unknown.send_to(b"unknown!", address(&pair.b)).expect("a datagram sent");
    assert_eq!(from(&pair.b), FI_ADDR_NOTAVAIL);
    let name = insert(&pair.b, unknown.local_addr().expect("a bound socket"));
    unknown.send_to(b"known", address(&pair.b)).expect("a datagram sent");
    assert_eq!(from(&pair.b), name);
    assert_eq!(&posted[2].bytes()[..5], b"known");
}

/// A directed receive takes the messages of its source only.
fn a_receive_may_name_its_source(subject) {
    let fixture = world_at(subject, V4, |hints| hints.caps |= FI_DIRECTED_RECV | FI_SOURCE);
    let pair = fixture.pair();
    let (named, other) = (pair.b.posted(8), pair.b.posted(8));
    let place = named.place.cast();
    assert_eq!(c!(fi_recv(pair.b.ep, place, 8, null_mut(), pair.to_a, named.context)), 0);
    let unknown = plain_socket();
    unknown.send_to(b"unknown!", address(&pair.b)).expect("a datagram sent");
    send(&pair.a, b"named it", pair.to_b);
    assert_eq!(received(&pair.b).op_context, named.context);
    assert_eq!(named.bytes(), b"named it");
    let place = other.place.cast();
    assert_eq!(c!(fi_recv(pair.b.ep, place, 8, null_mut(), FI_ADDR_UNSPEC, other.context)), 0);
    assert_eq!(received(&pair.b).op_context, other.context);
    assert_eq!(other.bytes(), b"unknown!");
}

/// A multi-receive buffer takes many messages.
fn one_buffer_takes_many_messages(subject) {
    let fixture = world_at(subject, V4, |hints| hints.caps |= FI_MULTI_RECV);
    let pair = fixture.pair();
    let into = pair.b.posted(65_536);
    let piece = libc::iovec { iov_base: into.place.cast(), iov_len: into.len };
    let msg = fi_msg { msg_iov: &piece, desc: null_mut(), iov_count: 1, addr: FI_ADDR_UNSPEC, context: into.context, data: 0 };
    assert_eq!(c!(fi_recvmsg(pair.b.ep, &msg, FI_MULTI_RECV)), 0);
    for at in 0..10_u8 {
        pair.send(&[at; 100]);
        let done = received(&pair.b);
        let got = c!(core::slice::from_raw_parts(done.buf.cast::<u8>(), done.len));
        assert_eq!(got, [at; 100]);
    }
}

/// Sends with FI_MORE arrive, all of them, once a send without it follows.
fn sends_are_gathered_by_more(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let posted: Vec<Posted> = (0..200).map(|_| pair.b.recv(64)).collect();
    for at in 0..posted.len() {
        let more = if at + 1 < posted.len() { FI_MORE } else { 0 };
        assert_eq!(sendmsg(&pair, &vec![at as u8; at % 64], more | FI_COMPLETION), 0);
    }
    for (at, posted) in posted.iter().enumerate() {
        let done = received(&pair.b);
        assert_eq!((done.op_context, done.len), (posted.context, at % 64));
        assert!(posted.bytes()[..done.len].iter().all(|&byte| byte == at as u8));
    }
    for _ in &posted {
        let _ = pair.done(&pair.a);
    }
}

/// What was held back by FI_MORE leaves when the endpoint is driven, or closed.
fn nothing_is_held_back_for_ever(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let posted = [pair.b.recv(8), pair.b.recv(8)];
    assert_eq!(sendmsg(&pair, b"driven", FI_MORE | FI_COMPLETION), 0);
    let _ = pair.done(&pair.a);
    assert_eq!(pair.done(&pair.b).op_context, posted[0].context);
    assert_eq!(sendmsg(&pair, b"closed", FI_MORE | FI_COMPLETION), 0);
    let Pair { a, b, .. } = pair;
    drop(a);
    assert_eq!(received(&b).op_context, posted[1].context);
    assert_eq!(&posted[1].bytes()[..6], b"closed");
}

/// There are no tags and no remote data, and a send cannot ask its receiver for an answer.
fn there_is_nothing_but_the_message(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let (place, context) = (pair.a.traffic.buffer(b"12345678").cast(), pair.a.traffic.context());
    let absent = -(FI_ENOSYS as isize);
    assert_eq!(c!(fi_senddata(pair.a.ep, place, 8, null_mut(), 1, pair.to_b, context)), absent);
    assert_eq!(c!(fi_injectdata(pair.a.ep, place, 8, 1, pair.to_b)), absent);
    assert_eq!(c!(fi_tsend(pair.a.ep, place, 8, null_mut(), pair.to_b, 1, context)), absent);
    for flag in [FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE, FI_REMOTE_CQ_DATA] {
        refused!(sendmsg(&pair, b"12345678", flag), FI_EOPNOTSUPP);
    }
    assert!(pair.a.read().is_none() && pair.b.read().is_none());
}

/// A receive that is cancelled ends with FI_ECANCELED, and the next message takes the next one.
fn receives_are_cancelled(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let (first, second) = (pair.b.recv(8), pair.b.recv(8));
    assert_eq!(c!(fi_cancel(pair.b.ep.cast(), first.context)), 0);
    let error = pair.failed(&pair.b);
    assert_eq!((error.err, error.op_context), (FI_ECANCELED, first.context));
    pair.send(b"goes on");
    assert_eq!(pair.done(&pair.b).op_context, second.context);
}

/// Counters count messages.
fn counters_count_messages(subject) {
    let fixture = fixture(subject);
    let (sent, got) = (fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
    {
        let a = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, sent, FI_SEND), 0));
        let b = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, got, FI_RECV), 0));
        let pair = Pair::of(a, b);
        for _ in 0..5 {
            let _posted = pair.b.recv(8);
            pair.send(b"counted");
        }
        assert_eq!(c!(fi_cntr_wait(got, 5, TIMEOUT.as_millis() as i32)), 0);
        assert_eq!((c!(fi_cntr_read(sent)), c!(fi_cntr_read(got))), (5, 5));
    }
    assert_eq!((close(sent), close(got)), (0, 0));
}

/// A thread that sleeps on a queue is woken by a datagram, even if the endpoint had no place for what came before.
fn sleepers_are_woken(subject) {
    let fixture = fixture(subject);
    let pair = fixture.pair();
    let cq = pair.b.cq as usize;
    for early in [0, 5000] {
        for _ in 0..early {
            send(&pair.a, &[1; 1000], pair.to_b);
            pair.progress(&pair.b);
            let _ = pair.a.read();
        }
        // It sleeps now, or soon; either way the receive is its wake-up.
        let sleeper = std::thread::spawn(move || {
            let mut entry = fi_cq_tagged_entry::ZERO;
            let (cq, place) = (cq as *mut fid_cq, (&raw mut entry).cast());
            let read = c!(fi_cq_sread(cq, place, 1, core::ptr::null(), TIMEOUT.as_millis() as i32));
            (read, entry.len)
        });
        let _posted = pair.b.recv(1000);
        if early == 0 {
            send(&pair.a, &[2; 8], pair.to_b);
        }
        let (read, len) = sleeper.join().expect("a thread that ends");
        assert_eq!((read, len), (1, if early == 0 { 8 } else { 1000 }));
    }
}

/// The descriptor of a queue is readable when there is something to read.
fn descriptors_tell_of_datagrams(subject) {
    let fixture = fixture(subject);
    let end = fixture.end();
    let mut fd = -1;
    assert_eq!(c!(fi_control(end.cq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    let socket = plain_socket();
    for _ in 0..3 {
        let _posted = end.recv(8);
        let mut fids = [end.cq.cast::<fid>()];
        assert_eq!(c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 1)), 0);
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        assert_eq!(c!(libc::poll(&mut poll, 1, 0)), 0);
        socket.send_to(b"wake up", address(&end)).expect("a datagram sent");
        assert_eq!(c!(libc::poll(&mut poll, 1, TIMEOUT.as_millis() as i32)), 1);
        assert_eq!(received(&end).len, 7);
    }
}

/// What is sent to a multicast group reaches all its members, the sender among them, and no other endpoint.
fn groups_hear_what_is_sent_to_them(subject) {
    let fixture = world_at(subject, V4, |hints| hints.caps |= FI_MULTICAST | FI_SOURCE);
    let group = group();
    let mut members = [(); 3].map(|()| Member::new(&fixture, &group, 0));
    let outsider = fixture.end();
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
    // A member that has left receives no more.
    let left = &mut members[0];
    assert_eq!(close(std::mem::replace(&mut left.mc, null_mut())), 0);
    let posted = members.each_ref().map(|member| member.end().recv(20));
    send(members[1].end(), b"still here", c!(fi_mc_addr(members[1].mc)));
    for (member, posted) in members.iter().zip(&posted).skip(1) {
        assert_eq!(received(member.end()).op_context, posted.context);
    }
    while let Some(read) = members[0].end().read() {
        assert!(matches!(read, Read::Done(entry) if entry.flags & FI_SEND != 0), "{read:?}");
    }
}

/// An endpoint may join a group for sending only; FI_MULTICAST in a send is understood.
fn a_group_may_be_joined_for_sending_only(subject) {
    let fixture = world_at(subject, V4, |hints| hints.caps |= FI_MULTICAST);
    let group = group();
    let (speaker, listener) = (Member::new(&fixture, &group, FI_SEND), Member::new(&fixture, &group, FI_RECV));
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
fn joins_have_their_conditions(subject) {
    let fixture = world_at(subject, V4, |hints| hints.caps |= FI_MULTICAST);
    let (group, mut mc) = (group(), null_mut());
    let lonely = fixture.end();
    let place = (&raw const group).cast();
    assert_eq!(c!(fi_join(lonely.ep, place, 0, &mut mc, null_mut())), -FI_ENOEQ);
    let member = Member::new(&fixture, &group, 0);
    let one = sockaddr(address(&lonely));
    let place = (&raw const one).cast();
    assert_eq!(c!(fi_join(member.end().ep, place, 0, &mut mc, null_mut())), -FI_EINVAL);
    assert_eq!(close(member.end().ep), -FI_EBUSY);
}

/// An application that is ready for a prefix before its messages gets one of no bytes.
fn a_prefix_has_no_bytes(subject) {
    let fixture = world_at(subject, V4, |hints| hints.mode |= FI_MSG_PREFIX);
    let info = fixture.info.first();
    let (tx, rx) = c!(((*info.tx_attr).mode, (*info.rx_attr).mode));
    for mode in [info.mode, tx, rx] {
        assert_ne!(mode & FI_MSG_PREFIX, 0);
    }
    assert_eq!(c!((*fixture.info.first().ep_attr).msg_prefix_size), 0);
    play_every_length(&fixture.pair(), 64);
}

}
