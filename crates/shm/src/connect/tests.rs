//! What comes through the socket when the other side is no endpoint of this library, or not any more.

mod admit;

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant as Clock};

use oxifabric_engine::{
    Body, Frame, Header, HeaderFlags, Kind, Link, Placement, PostError, Posted, RxToken, Sink,
    TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Device;
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};
use oxifabric_wire::shm::handshake::{Ability, Cause, Handshake, Hello, MAX_SIZE, Refuse};

use crate::handshake::socket_name;
use crate::link::ShmLink;
use crate::params::Params;
use crate::region::Spare;
use crate::sys::socket::{Received, Socket};

/// A bound on a hang, not an expectation.
const WATCHDOG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Downs(Vec<(PeerId, Errno)>);

impl Sink for Downs {
    fn arrival(&mut self, _: PeerId, _: &Header, _: Body<'_>) -> Placement {
        Placement::Done
    }
    fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}
    fn sent(&mut self, _: TxToken, _: Result<(), Errno>) {}
    fn pulled(&mut self, _: RxToken, _: Result<(), Errno>) {}
    fn writable(&mut self, _: PeerId) {}
    fn peer_down(&mut self, peer: PeerId, why: Errno) {
        self.0.push((peer, why));
    }
}

fn open() -> ShmLink {
    open_with(Params::of_environment())
}

/// Opens an endpoint that gives up peers that are there and do not answer.
fn impatient() -> ShmLink {
    open_with(&Params {
        connect_timeout: Some(Duration::from_secs(15)),
        ..Params::of_environment().clone()
    })
}

fn open_with(params: &Params) -> ShmLink {
    let mut link = ShmLink::open_with(&Info::default(), params).expect("an endpoint");
    link.enable(false).expect("a listener");
    link
}

/// Polls at a time this many milliseconds after the start.
fn poll(link: &mut ShmLink, milliseconds: u64) -> Vec<(PeerId, Errno)> {
    let mut sink = Downs::default();
    let now = Instant::default().after(Duration::from_millis(milliseconds));
    // More often than sockets are looked at.
    for _ in 0..600 {
        link.poll(now, &mut sink);
    }
    sink.0
}

fn want(link: &mut ShmLink, name: &str) -> PeerId {
    let peer = link.peer(&Address::Name(name.into())).expect("a name");
    assert!(post(link, peer).is_err());
    peer
}

/// Posts a message without a body.
fn post(link: &mut ShmLink, to: PeerId) -> Result<Posted, PostError> {
    let body = Iov::empty();
    let frame = Frame::whole(
        Header {
            kind: Kind::Msg,
            flags: HeaderFlags::empty(),
            id: 0,
            tag: 0,
            data: 0,
            len: 0,
        },
        &body,
    );
    link.post(to, frame, TxToken(0))
}

fn answer(socket: &Socket) -> Option<Handshake> {
    let mut bytes = [0; MAX_SIZE];
    match socket.receive_with_file(&mut bytes) {
        Ok((Received::Packet(len), _)) => Handshake::parse(&bytes[..len]).ok(),
        _ => None,
    }
}

fn is_closed(socket: &Socket) -> bool {
    matches!(socket.receive(&mut [0; 64]), Ok(Received::Closed))
}

fn connect(link: &ShmLink) -> Socket {
    Socket::connect(&socket_name(&link.table.name)).expect("it listens")
}

fn hello(link: &ShmLink) -> Hello {
    let layout = Params::of_environment().layout();
    Hello {
        ability: Ability::empty(),
        incarnation: 1,
        probe: 0,
        cells: layout.cells() as u32,
        bytes: layout.bytes() as u32,
        from: "initiator".into(),
        to: link.table.name.clone(),
    }
}

fn refusal(socket: &Socket) -> Option<Cause> {
    match answer(socket) {
        Some(Handshake::Refuse(refuse)) => Some(refuse.cause),
        _ => None,
    }
}

#[test]
fn garbage_is_dropped_and_others_are_served() {
    let mut link = open();
    let (silent, noisy, good) = (connect(&link), connect(&link), connect(&link));
    noisy.send(b"GET / HTTP/1.0\r\n\r\n", None).expect("room");
    let spare = Spare::new(Params::of_environment()).expect("memory");
    let bytes = Handshake::Hello(hello(&link)).emit();
    good.send(&bytes, Some(spare.file.as_fd())).expect("room");
    poll(&mut link, 0);
    assert!(is_closed(&noisy));
    assert!(matches!(answer(&good), Some(Handshake::Accept(_))));
    assert!(!is_closed(&silent));
    let _late = connect(&link);
    poll(&mut link, 1_000_000);
    assert!(is_closed(&silent), "it had its time");
}

#[test]
fn a_hello_that_waited_for_this_side_is_read_however_late() {
    let mut link = open();
    let socket = connect(&link);
    poll(&mut link, 0);
    let spare = Spare::new(Params::of_environment()).expect("memory");
    let bytes = Handshake::Hello(hello(&link)).emit();
    socket.send(&bytes, Some(spare.file.as_fd())).expect("room");
    let _another = connect(&link);
    poll(&mut link, 1_000_000);
    assert!(matches!(answer(&socket), Some(Handshake::Accept(_))));
}

#[test]
fn another_version_is_told_so() {
    let mut link = open();
    let socket = connect(&link);
    let mut bytes = Handshake::Hello(hello(&link)).emit();
    bytes[8] = 99;
    socket.send(&bytes, None).expect("room");
    poll(&mut link, 0);
    assert_eq!(refusal(&socket), Some(Cause::Version));
    assert!(is_closed(&socket));
}

#[test]
fn a_hello_must_bring_the_memory_that_it_describes() {
    let mut link = open();
    let (none, wrong) = (connect(&link), connect(&link));
    none.send(&Handshake::Hello(hello(&link)).emit(), None)
        .expect("room");
    let large = Hello {
        cells: 1 << 20,
        ..hello(&link)
    };
    let spare = Spare::new(Params::of_environment()).expect("memory");
    let bytes = Handshake::Hello(large).emit();
    wrong.send(&bytes, Some(spare.file.as_fd())).expect("room");
    poll(&mut link, 0);
    assert!(is_closed(&none));
    assert_eq!(refusal(&wrong), Some(Cause::Memory));
}

#[test]
fn a_hello_for_another_endpoint_is_refused_with_the_cause() {
    let mut link = open();
    let socket = connect(&link);
    let lost = Hello {
        to: "another endpoint".into(),
        ..hello(&link)
    };
    let spare = Spare::new(Params::of_environment()).expect("memory");
    let bytes = Handshake::Hello(lost).emit();
    socket.send(&bytes, Some(spare.file.as_fd())).expect("room");
    poll(&mut link, 0);
    assert_eq!(refusal(&socket), Some(Cause::Name));
}

#[test]
fn an_initiator_that_is_never_ready_is_given_up_where_time_is_limited() {
    let mut link = impatient();
    let socket = connect(&link);
    let spare = Spare::new(Params::of_environment()).expect("memory");
    let bytes = Handshake::Hello(hello(&link)).emit();
    socket.send(&bytes, Some(spare.file.as_fd())).expect("room");
    poll(&mut link, 0);
    assert!(matches!(answer(&socket), Some(Handshake::Accept(_))));
    assert_eq!(poll(&mut link, 1_000_000), [], "no operation waited for it");
    assert!(is_closed(&socket));
}

/// Returns a listener that is no endpoint.
fn impostor(name: &str) -> Socket {
    let socket = Socket::bind(&socket_name(name)).expect("a free name");
    socket.listen().expect("a socket");
    socket
}

#[test]
fn a_peer_that_lives_is_waited_for_and_one_that_ends_is_not() {
    let name = format!("computing-{}", std::process::id());
    let computing = impostor(&name);
    let mut link = open();
    let peer = want(&mut link, &name);
    assert_eq!(poll(&mut link, 0), []);
    assert_eq!(poll(&mut link, 1_000_000), []);
    drop(computing);
    assert_eq!(poll(&mut link, 1_000_001), [(peer, Errno::CONNREFUSED)]);
}

#[test]
fn a_peer_that_never_answers_is_given_up_where_time_is_limited() {
    let name = format!("deaf-{}", std::process::id());
    let _deaf = impostor(&name);
    let mut link = impatient();
    let peer = want(&mut link, &name);
    assert_eq!(poll(&mut link, 0), []);
    assert_eq!(poll(&mut link, 14_999), []);
    assert_eq!(poll(&mut link, 15_000), [(peer, Errno::TIMEDOUT)]);
    assert!(
        link.directory()
            .reason(peer)
            .is_some_and(|reason| reason.contains(&name))
    );
}

#[test]
fn every_answer_but_accept_ends_the_handshake_with_its_cause() {
    let refuse = |cause| {
        Handshake::Refuse(Refuse {
            cause,
            text: "because".into(),
        })
        .emit()
    };
    let mut other_version = Handshake::Ready(Ability::empty()).emit();
    other_version[8] = 99;
    let cases = [
        (refuse(Cause::Version), Errno::PROTO),
        (refuse(Cause::Owner), Errno::ACCES),
        (refuse(Cause::Limit), Errno::CONNREFUSED),
        (other_version, Errno::PROTO),
        (Handshake::Ready(Ability::empty()).emit(), Errno::PROTO),
        (b"hello?".to_vec(), Errno::PROTO),
    ];
    let name = format!("rude-{}", std::process::id());
    let rude = impostor(&name);
    let mut link = open();
    let peer = link
        .peer(&Address::Name(name.as_str().into()))
        .expect("a name");
    for (bytes, errno) in cases {
        want(&mut link, &name);
        poll(&mut link, 0);
        let socket = rude.accept().expect("a listener").expect("an initiator");
        assert!(matches!(answer(&socket), Some(Handshake::Hello(_))));
        socket.send(&bytes, None).expect("room");
        assert_eq!(poll(&mut link, 1), [(peer, errno)], "{bytes:?}");
        assert!(is_closed(&socket));
    }
    want(&mut link, &name);
    poll(&mut link, 2);
    drop(rude.accept());
    assert_eq!(poll(&mut link, 3), [(peer, Errno::CONNREFUSED)]);
}

#[test]
fn a_hello_that_yields_is_sent_again_if_the_other_one_is_lost() {
    let name = format!("crossed-{}", std::process::id());
    let rude = impostor(&name);
    let mut link = open();
    let peer = want(&mut link, &name);
    poll(&mut link, 0);
    let socket = rude.accept().expect("a listener").expect("an initiator");
    let crossed = Handshake::Refuse(Refuse {
        cause: Cause::Crossed,
        text: String::new(),
    });
    socket.send(&crossed.emit(), None).expect("room");
    assert_eq!(poll(&mut link, 1), []);
    assert!(matches!(rude.accept(), Ok(None)), "the other hello counts");
    assert_eq!(poll(&mut link, 2_000), []);
    let again = rude.accept().expect("a listener").expect("an initiator");
    assert!(matches!(answer(&again), Some(Handshake::Hello(_))));
    drop(again);
    assert_eq!(poll(&mut link, 2_001), [(peer, Errno::CONNREFUSED)]);
}

#[test]
fn a_full_backlog_is_tried_again() {
    let name = format!("full-{}", std::process::id());
    let busy = impostor(&name);
    busy.listen_with(0).expect("a socket");
    let first = Socket::connect(&socket_name(&name)).expect("room for one");
    let mut link = open();
    want(&mut link, &name);
    assert_eq!(poll(&mut link, 0), []);
    let accepted = busy.accept().expect("a listener");
    assert!(accepted.is_some());
    poll(&mut link, 1);
    let second = busy.accept().expect("a listener").expect("it connects");
    assert!(matches!(answer(&second), Some(Handshake::Hello(_))));
    drop(first);
}
