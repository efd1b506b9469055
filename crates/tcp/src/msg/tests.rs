//! Connections over loopback: a listener and two ends in one thread, polled in turn. The tests set the time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use oxifabric_engine::{Frame, Header, Kind, Link, PostError, Posted, TxToken};
use oxifabric_mem::Iov;
use oxifabric_provider::connection::{
    Connection, ConnectionEvent, Incoming, Listener, MsgProvider, THE_PEER,
};
use oxifabric_provider::device::Device;
use oxifabric_types::{Address, Errno, Info, Instant};
use oxifabric_wire::tcp::cm::{CmKind, HEADER_LEN};

use super::{TcpConnection, TcpListener};
use crate::Tcp;
use crate::acceptor::ConnRequest;
use crate::cm::CmMessage;
use crate::link::tests::{Recorder, WATCHDOG, full_listener, message, pattern};
use crate::params::Params;
use crate::rx::LARGE_LEN;
use crate::sys::testing::{type_of_service, wait_readable};

/// Returns the bytes of a connection message.
fn encode(kind: CmKind, data: &[u8]) -> Vec<u8> {
    CmMessage::new(kind, data).bytes().to_vec()
}

const V4: &str = "127.0.0.1:0";

/// One end of a connection.
struct End {
    device: TcpConnection,
    sink: Recorder,
    now: Instant,
    events: Vec<ConnectionEvent>,
}

impl End {
    fn new() -> Self {
        Self::of(TcpConnection::open(&at(V4), &Arc::new(())).expect("loopback has ports"))
    }

    fn of(device: TcpConnection) -> Self {
        Self {
            device,
            sink: Recorder::default(),
            now: START,
            events: Vec::new(),
        }
    }

    /// Polls and flushes, as the engine does.
    fn poll(&mut self) {
        self.device.poll(self.now, &mut self.sink);
        self.device.flush();
        while let Some(event) = self.device.next_event() {
            self.events.push(event);
        }
    }

    /// Polls until an event comes, and returns it.
    fn event(&mut self) -> ConnectionEvent {
        let start = Clock::now();
        while self.events.is_empty() {
            self.poll();
            assert!(start.elapsed() < WATCHDOG, "no event came");
        }
        self.events.remove(0)
    }

    fn post(&mut self, id: u32, body: &Iov) -> Result<Posted, PostError> {
        self.device.post(THE_PEER, frame(id, body), TxToken(id))
    }
}

fn frame(id: u32, body: &Iov) -> Frame<'_> {
    Frame::whole(message(id, body.len()), body)
}

const START: Instant = Instant::from_nanos(1_000_000_000);

fn at(text: &str) -> Info {
    Info {
        src: Some(Address::Inet(text.parse().expect("a socket address"))),
        ..Info::default()
    }
}

fn listener() -> TcpListener {
    let mut listener = <TcpListener as Listener>::open(&at(V4)).expect("loopback has ports");
    listener.listen().expect("it can listen");
    listener
}

fn address(listener: &TcpListener) -> SocketAddr {
    match listener.name() {
        Address::Inet(at) => at,
        _ => panic!("an inet address"),
    }
}

fn poll(listener: &mut TcpListener, now: Instant) -> Vec<Incoming<ConnRequest>> {
    let mut requests = Vec::new();
    listener.poll(now, 1000, &mut requests);
    requests
}

/// Polls until a request comes, while the requester moves on too.
fn request(listener: &mut TcpListener, requester: &mut End) -> Incoming<ConnRequest> {
    let start = Clock::now();
    loop {
        requester.poll();
        // The listener may pause after what an untrusted peer did.
        if let Some(incoming) = poll(listener, START.after(start.elapsed())).pop() {
            return incoming;
        }
        assert!(start.elapsed() < WATCHDOG, "no request came");
    }
}

fn connected() -> (End, End) {
    let (mut listener, mut a) = (listener(), End::new());
    assert_eq!(a.device.connect(&listener.name(), b"hello"), Ok(()));
    let incoming = request(&mut listener, &mut a);
    assert_eq!(&*incoming.data, b"hello");
    let mut b = End::of(TcpConnection::invited(incoming.request).expect("descriptors"));
    assert_eq!(b.device.accept(b"welcome"), Ok(()));
    assert_eq!(b.event(), ConnectionEvent::Connected(Box::default()));
    let welcome = ConnectionEvent::Connected(Box::from(*b"welcome"));
    assert_eq!(a.event(), welcome);
    (a, b)
}

#[test]
fn both_ends_know_each_other_and_messages_travel_both_ways() {
    let (mut a, mut b) = connected();
    assert_eq!(a.device.peer_name(), Ok(b.device.name()));
    assert_eq!(b.device.peer_name(), Ok(a.device.name()));
    let (body, bytes) = pattern(&[100_000], 3);
    for (from, to) in [(&mut a, true), (&mut b, false)] {
        assert!(from.post(1, &body).is_ok(), "{to}");
    }
    let start = Clock::now();
    while a.sink.arrived.is_empty() || b.sink.arrived.is_empty() {
        a.poll();
        b.poll();
        assert!(start.elapsed() < WATCHDOG, "nothing moves any more");
    }
    for end in [&mut a, &mut b] {
        let arrived = end.sink.arrived.pop_front().map(|(_, _, bytes)| bytes);
        assert_eq!(arrived.as_ref(), Some(&bytes));
    }
}

#[test]
fn posts_wait_for_the_connection_and_fail_without_one() {
    let (mut listener, mut a) = (listener(), End::new());
    let empty = Iov::empty();
    assert_eq!(a.post(1, &empty), Err(PostError::Down(Errno::NOTCONN)));
    assert_eq!(a.device.connect(&listener.name(), b""), Ok(()));
    assert_eq!(a.device.connect(&listener.name(), b""), Err(Errno::INVAL));
    assert_eq!(a.post(1, &empty), Err(PostError::Again));
    let incoming = request(&mut listener, &mut a);
    let mut b = End::of(TcpConnection::invited(incoming.request).expect("descriptors"));
    assert_eq!(b.device.accept(b""), Ok(()));
    assert_eq!(b.device.accept(b""), Err(Errno::INVAL));
    a.event();
    assert_eq!(a.sink.writable, [THE_PEER]);
    assert_eq!(a.post(1, &empty), Ok(Posted::Done));
}

#[test]
fn a_rejection_brings_its_words() {
    let (mut listener, mut a) = (listener(), End::new());
    assert_eq!(a.device.connect(&listener.name(), b""), Ok(()));
    let incoming = request(&mut listener, &mut a);
    TcpListener::reject(incoming.request, b"not you");
    let refused = ConnectionEvent::Failed(Errno::CONNREFUSED, Box::from(*b"not you"));
    assert_eq!(a.event(), refused);
    assert_eq!(a.sink.down, [(THE_PEER, Errno::CONNREFUSED)]);
    assert!(a.device.directory().reason(THE_PEER).is_some());
    let over = a.post(1, &Iov::empty());
    assert_eq!(over, Err(PostError::Down(Errno::NOTCONN)));
}

#[test]
fn an_attempt_fails_where_no_socket_listens_or_the_peer_goes_away() {
    let mut a = End::new();
    let unused = listener().name();
    assert_eq!(a.device.connect(&unused, b""), Ok(()));
    let refused = ConnectionEvent::Failed(Errno::CONNREFUSED, Box::default());
    assert_eq!(a.event(), refused);

    let (mut listener, mut a) = (listener(), End::new());
    assert_eq!(a.device.connect(&listener.name(), b""), Ok(()));
    drop(request(&mut listener, &mut a));
    let reset = ConnectionEvent::Failed(Errno::CONNRESET, Box::default());
    assert_eq!(a.event(), reset);
}

#[test]
fn the_socket_of_a_connection_is_known_as_long_as_there_is_one() {
    let fresh = End::new();
    assert!(fresh.device.socket().is_ok_and(|fd| fd >= 0));
    let (mut a, mut b) = connected();
    let (fd, other) = (a.device.socket(), b.device.socket());
    assert!(fd.is_ok() && other.is_ok() && fd != other);
    assert_eq!(a.device.shutdown(), Ok(()));
    a.poll();
    assert_eq!(b.event(), ConnectionEvent::Ended);
    assert_eq!(b.device.socket(), Err(Errno::NOTCONN));
}

#[test]
fn both_sides_mark_their_packets_as_their_endpoints_say() {
    let classed = |dscp: u32| {
        let mut info = at(V4);
        info.tx.tclass = 0x100 | dscp;
        info
    };
    let mut listener = listener();
    let mut a =
        End::of(TcpConnection::open(&classed(12), &Arc::new(())).expect("loopback has ports"));
    assert_eq!(a.device.connect(&listener.name(), b""), Ok(()));
    let incoming = request(&mut listener, &mut a);
    let answering = <Tcp as MsgProvider>::answer(&classed(34), &Arc::new(()), incoming.request);
    let mut b = End::of(answering.expect("descriptors"));
    assert_eq!(b.device.accept(b""), Ok(()));
    a.event();
    for (end, dscp) in [(&a, 12), (&b, 34)] {
        let fd = end.device.socket().expect("it is connected");
        assert_eq!(type_of_service(fd), dscp << 2);
    }
}

/// Returns an end that asks a listener which takes the connection and does not answer.
fn unanswered(mut a: End) -> (End, StdListener) {
    let busy = StdListener::bind(V4).expect("loopback has ports");
    let to = Address::Inet(busy.local_addr().expect("it is bound"));
    assert_eq!(a.device.connect(&to, b""), Ok(()));
    assert!(!a.device.arm(), "the attempt has no deadline yet");
    assert!(wait_readable(a.device.fd(), 10_000), "the host answers");
    a.poll();
    a.poll();
    assert!(a.device.arm());
    (a, busy)
}

#[test]
fn a_listener_accepts_when_it_likes() {
    let (mut a, busy) = unanswered(End::new());
    a.now = a.now.after(Duration::from_secs(3600));
    a.poll();
    assert!(a.events.is_empty());
    assert!(!wait_readable(a.device.fd(), 0), "its timer is silent");
    drop(busy);
    let ended = ConnectionEvent::Failed(Errno::CONNRESET, Box::default());
    assert_eq!(a.event(), ended);
}

#[test]
fn an_attempt_without_an_answer_ends_at_its_deadline() {
    let mut a = End::new();
    a.device.conns.reactor.params = Box::leak(Box::new(Params {
        answer_timeout: Some(Duration::from_secs(15)),
        ..a.device.conns.reactor.params.clone()
    }));
    let (mut a, _silent) = unanswered(a);
    a.now = a.now.after(Duration::from_secs(14));
    a.poll();
    assert!(a.events.is_empty());
    a.now = a.now.after(Duration::from_secs(2));
    let overdue = ConnectionEvent::Failed(Errno::TIMEDOUT, Box::default());
    assert_eq!(a.event(), overdue);
    assert!(!wait_readable(a.device.fd(), 0), "its timer is silent");
}

#[test]
fn an_attempt_whose_host_does_not_answer_ends_at_its_deadline() {
    let (full, _callers) = full_listener();
    let mut a = End::new();
    assert_eq!(a.device.connect(&Address::Inet(full), b""), Ok(()));
    a.poll();
    assert!(a.device.arm() && a.events.is_empty());
    a.now = a.now.after(Duration::from_secs(16));
    let overdue = ConnectionEvent::Failed(Errno::TIMEDOUT, Box::default());
    assert_eq!(a.event(), overdue);
}

#[test]
fn answers_that_are_none_end_an_attempt() {
    for answer in [
        vec![0xff; HEADER_LEN],
        encode(CmKind::Request, b"me too"),
        vec![3, 1, 255, 255, 0, 0, 0, 0]
            .into_iter()
            .chain([0; 24])
            .collect(),
    ] {
        let untrusted = StdListener::bind(V4).expect("loopback has ports");
        let to = Address::Inet(untrusted.local_addr().expect("it is bound"));
        let mut a = End::new();
        assert_eq!(a.device.connect(&to, b""), Ok(()));
        let (mut stream, _) = untrusted.accept().expect("it connects");
        stream.write_all(&answer).expect("it takes it");
        let broken = ConnectionEvent::Failed(Errno::PROTO, Box::default());
        assert_eq!(a.event(), broken);
    }
}

#[test]
fn the_listener_drops_untrusted_peers_and_serves_on() {
    let mut listener = listener();
    let mut untrusted = Vec::new();
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        encode(CmKind::Response, b"here I am"),
        // Longer than data may be.
        [3, 0, 1, 1].into_iter().chain([0; 28]).collect(),
    ] {
        let mut stream = TcpStream::connect(address(&listener)).expect("it listens");
        stream.write_all(&bytes).expect("it takes it");
        untrusted.push(stream);
    }
    // One breaks off, one sends nothing.
    let mut broken = TcpStream::connect(address(&listener)).expect("it listens");
    broken.write_all(&[3, 0]).expect("it takes it");
    drop(broken);
    let mut mute = TcpStream::connect(address(&listener)).expect("it listens");

    let mut a = End::new();
    assert_eq!(a.device.connect(&listener.name(), b"friend"), Ok(()));
    let incoming = request(&mut listener, &mut a);
    assert_eq!(&*incoming.data, b"friend");
    for stream in &mut untrusted {
        stream
            .set_read_timeout(Some(WATCHDOG))
            .expect("a nonzero time");
        // Closed or reset, but not served.
        assert!(matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_)));
    }
    assert!(poll(&mut listener, START.after(Duration::from_secs(16))).is_empty());
    mute.set_read_timeout(Some(WATCHDOG))
        .expect("a nonzero time");
    assert!(matches!(mute.read(&mut [0; 64]), Ok(0) | Err(_)));
}

#[test]
fn requests_may_come_in_pieces() {
    let mut listener = listener();
    let mut stream = TcpStream::connect(address(&listener)).expect("it listens");
    stream.set_nodelay(true).expect("a TCP socket");
    let cm_message = encode(CmKind::Request, &[7; 256]);
    let mut came = Vec::new();
    for byte in &cm_message {
        stream.write_all(&[*byte]).expect("it takes it");
        came.extend(poll(&mut listener, START));
    }
    let start = Clock::now();
    while came.is_empty() {
        came.extend(poll(&mut listener, START));
        assert!(start.elapsed() < WATCHDOG, "no request came");
    }
    assert_eq!(*came[0].data, [7; 256]);
}

#[test]
fn a_full_house_lets_others_wait_outside() {
    let (mut listener, mut a) = (listener(), End::new());
    assert_eq!(a.device.connect(&listener.name(), b""), Ok(()));
    let mut requests = Vec::new();
    for _ in 0..100 {
        a.poll();
        listener.poll(START, 0, &mut requests);
    }
    assert!(requests.is_empty() && !wait_readable(listener.fd(), 0));
    request(&mut listener, &mut a);
}

#[test]
fn connections_without_a_request_take_no_room() {
    let (mut listener, mut a) = (listener(), End::new());
    let knock = || TcpStream::connect(address(&listener)).expect("it listens");
    let silent: Vec<TcpStream> = (0..8).map(|_| knock()).collect();
    assert_eq!(a.device.connect(&listener.name(), b"friend"), Ok(()));
    let mut requests = Vec::new();
    let start = Clock::now();
    while requests.is_empty() {
        a.poll();
        listener.poll(START, 1, &mut requests);
        assert!(start.elapsed() < WATCHDOG, "the request waits outside");
    }
    assert_eq!(*requests[0].data, *b"friend");
    drop(silent);
}

#[test]
fn requests_beyond_the_room_wait_and_come_in_their_turn() {
    let mut listener = listener();
    let mut untrusted: Vec<TcpStream> = (0..4)
        .map(|_| TcpStream::connect(address(&listener)).expect("it listens"))
        .collect();
    // Accepted before they send, so that all of them send when there is room for one.
    let mut requests = Vec::new();
    let start = Clock::now();
    while listener.pending() < untrusted.len() {
        listener.poll(START, 1, &mut requests);
        assert!(start.elapsed() < WATCHDOG, "they wait outside");
    }
    for (stream, number) in untrusted.iter_mut().zip(0..) {
        let cm_message = encode(CmKind::Request, &[number]);
        stream.write_all(&cm_message).expect("it takes it");
        assert!(wait_readable(listener.fd(), WATCHDOG.as_millis() as i32));
        listener.poll(START, 0, &mut requests);
        assert!(requests.is_empty());
    }
    for number in 0..4 {
        listener.poll(START, 1, &mut requests);
        let came: Vec<Incoming<ConnRequest>> = std::mem::take(&mut requests);
        let [incoming] = came.as_slice() else {
            panic!("one request at a time, not {}", came.len());
        };
        assert_eq!(*incoming.data, [number]);
    }
}

#[test]
fn either_side_ends_a_connection_and_what_is_pending_fails() {
    let (mut a, mut b) = connected();
    let (body, _) = pattern(&[1 << 24], 1);
    assert_eq!(a.post(9, &body), Ok(Posted::Pending));
    assert_eq!(a.device.shutdown(), Ok(()));
    assert_eq!(a.event(), ConnectionEvent::Ended);
    assert!(a.sink.unsent.contains(&TxToken(9)));
    assert_eq!(a.sink.down, [(THE_PEER, Errno::CANCELED)]);
    assert_eq!(b.event(), ConnectionEvent::Ended);
    assert_eq!(b.sink.down, [(THE_PEER, Errno::CONNRESET)]);
    assert_eq!(b.device.peer_name(), Err(Errno::NOTCONN));
    assert_eq!(a.device.shutdown(), Ok(()), "once more changes nothing");
    assert_eq!(End::new().device.shutdown(), Err(Errno::NOTCONN));
}

#[test]
fn a_requester_that_is_gone_is_noticed_on_acceptance_or_right_after() {
    let (mut listener, mut a) = (listener(), End::new());
    assert_eq!(a.device.connect(&listener.name(), b""), Ok(()));
    let incoming = request(&mut listener, &mut a);
    drop(a);
    let mut b = End::of(TcpConnection::invited(incoming.request).expect("descriptors"));
    if b.device.accept(b"").is_ok() {
        assert!(matches!(b.event(), ConnectionEvent::Connected(_)));
        assert_eq!(b.event(), ConnectionEvent::Ended);
    }
}

#[test]
fn an_address_passes_from_a_listener_to_a_connection() {
    let info = at(V4);
    let passive = <TcpListener as Listener>::open(&info).expect("loopback has ports");
    let name = passive.name();
    let mut listener = listener();
    assert!(listener.listen().is_err(), "it listens already");
    let socket = passive.into_socket().expect("it does not listen");
    let mut a = End::of(TcpConnection::at(socket).expect("descriptors"));
    assert_eq!(a.device.name(), name);
    assert_eq!(a.device.connect(&listener.name(), b""), Ok(()));
    assert_eq!(request(&mut listener, &mut a).from, name);
    assert_eq!(listener.into_socket().err(), Some(Errno::INVAL));
}

#[test]
fn a_stalled_message_that_can_never_be_complete_ends_its_connection() {
    let mut listener = listener();
    let mut stream = TcpStream::connect(address(&listener)).expect("it listens");
    stream
        .write_all(&encode(CmKind::Request, b""))
        .expect("a fresh socket");
    let start = Clock::now();
    let incoming = loop {
        if let Some(incoming) = poll(&mut listener, START).pop() {
            break incoming;
        }
        assert!(start.elapsed() < WATCHDOG, "no request came");
    };
    let mut end = End::of(TcpConnection::invited(incoming.request).expect("descriptors"));
    assert_eq!(end.device.accept(b""), Ok(()));
    assert_eq!(end.event(), ConnectionEvent::Connected(Box::default()));
    end.sink.full = true;
    // A message of a gibibyte, of which 84 bytes come.
    let mut words = vec![3, 0, 0, 0, 0, 0, 16, 0];
    words.extend((1u64 << 30).to_ne_bytes());
    words.resize(100, 0);
    stream.write_all(&words).expect("a fresh socket");
    drop(stream);
    assert_eq!(end.event(), ConnectionEvent::Ended);
}

#[test]
fn large_bodies_wait_for_a_poll_after_a_burst() {
    // As `BURST_MAX` of a connection.
    const MOST: usize = 16;
    let (mut a, mut b) = connected();
    a.poll();
    let (body, _) = pattern(&[LARGE_LEN], 8);
    let is_taken = |id: &u32| {
        // The socket has room again before the next one.
        let start = Clock::now();
        while b.sink.arrived.len() < *id as usize {
            b.poll();
            assert!(start.elapsed() < WATCHDOG, "nothing moves any more");
        }
        a.post(*id, &body).is_ok()
    };
    assert_eq!((0..40).take_while(is_taken).count(), MOST);
    assert!(!a.device.arm(), "it must not sleep");
    a.sink.writable.clear();
    a.poll();
    assert_eq!(a.sink.writable, [THE_PEER]);
    assert!(a.post(40, &body).is_ok());
}

#[test]
fn an_atomic_says_why_it_fails() {
    let (mut a, _b) = connected();
    let (body, _) = pattern(&[8], 1);
    let frame = Frame {
        header: Header {
            kind: Kind::Atomic,
            ..message(1, 8)
        },
        ..frame(1, &body)
    };
    let refused = a.device.post(THE_PEER, frame, TxToken(1));
    assert_eq!(refused, Err(PostError::Down(Errno::OPNOTSUPP)));
    let reason = a.device.directory().reason(THE_PEER).expect("it is known");
    assert!(reason.contains("no atomics"), "{reason}");
}

#[test]
fn a_listener_takes_connections_that_say_nothing_some_at_a_time() {
    // As `WASTED_PER_POLL` of the acceptor.
    const MOST: usize = 16;
    let mut listener = listener();
    let silent = |_| TcpStream::connect(address(&listener)).expect("it listens");
    let mut crowd: Vec<TcpStream> = (0..300).map(silent).collect();
    let mut now = START;
    let mut settle = |listener: &mut TcpListener| {
        (0..100).for_each(|_| assert!(poll(listener, now).is_empty()));
        now = now.after(Duration::from_millis(1));
    };
    settle(&mut listener);
    let waiting = crowd.len() - listener.pending();
    let is_gone = |stream: &mut &mut TcpStream| {
        stream.set_nonblocking(true).expect("possible");
        !matches!(stream.read(&mut [0; 1]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    let mut gone = 0;
    while gone < waiting {
        let then = crowd
            .iter_mut()
            .filter_map(|mut stream| is_gone(&mut stream).then_some(()));
        let then = then.count();
        assert!(
            then > gone && then <= gone + MOST,
            "{gone} {then} of {waiting}"
        );
        gone = then;
        settle(&mut listener);
    }
}

#[test]
fn after_many_empty_polls_only_the_poller_is_asked_until_it_has_an_event() {
    let (mut a, mut b) = connected();
    for id in 1..=2 {
        (0..1000).for_each(|_| b.poll());
        assert!(b.device.conns.empty_polls >= 1000);
        a.post(id, &Iov::empty()).expect("it is connected");
        let start = Clock::now();
        while b.sink.arrived.pop_front().is_none() {
            b.poll();
            assert!(start.elapsed() < WATCHDOG, "it is lost");
        }
        assert_eq!(b.device.conns.empty_polls, 0);
    }
}

#[test]
fn a_connection_that_this_end_gives_up_wakes_a_sleeper_once() {
    let (mut a, mut b) = connected();
    while b.device.poll(b.now, &mut b.sink) > 0 {}
    assert!(b.device.arm() && !wait_readable(b.device.fd(), 0));
    assert!(b.device.disconnect(THE_PEER, "as a test wants it"));
    assert!(wait_readable(b.device.fd(), 10_000), "it wakes");
    assert_eq!(b.event(), ConnectionEvent::Ended);
    assert_eq!(a.event(), ConnectionEvent::Ended);
    assert_eq!(b.sink.down, [(THE_PEER, Errno::CONNRESET)]);
    b.poll();
    assert!(b.device.arm() && !wait_readable(b.device.fd(), 0));
}
