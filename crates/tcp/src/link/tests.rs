//! Links over loopback: two or three endpoints in one thread, polled in turn. The tests set the time.

mod coalescing;
mod endings;
mod faults;
mod identity;
mod setup;
mod transfer;
mod unknown_peers;

use std::collections::{HashSet, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use oxifabric_engine::{
    Body, Frame, Header, HeaderFlags, Kind, Link, Placement, PostError, Posted, RxToken, Sink,
    TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Device;
use oxifabric_types::{Address, Errno, Info};

use super::*;
use crate::driver::ConnState;
use crate::endpoint::EndpointKind;
use crate::params::Params;
use crate::sys::Socket;
use crate::sys::testing::memory;

/// How long a test may take at most.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

/// Returns the address of a listener whose backlog is full, with the connections that fill it.
pub(crate) fn full_listener() -> (SocketAddr, (Socket, Vec<TcpStream>)) {
    let at = V4.parse().expect("an address");
    let socket = Socket::open(&at).expect("a socket");
    socket.bind(&at).expect("a port");
    socket.listen(0).expect("a port");
    let at = socket.local().expect("an address");
    let filling = vec![TcpStream::connect(at).expect("room for one")];
    (at, (socket, filling))
}

/// An endpoint: a link with a sink that keeps everything.
struct Node {
    link: TcpLink,
    sink: Recorder,
    now: Instant,
}

/// A sink that places every body into fresh memory.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) arrived: VecDeque<(PeerId, Header, Vec<u8>)>,
    coming: Vec<(RxToken, PeerId, Header, Iov)>,
    next_token: u32,
    pub(crate) sent: HashSet<TxToken>,
    pub(crate) unsent: HashSet<TxToken>,
    unplaced: usize,
    pub(crate) writable: Vec<PeerId>,
    pub(crate) down: Vec<(PeerId, Errno)>,
    /// Whether it answers with a stall.
    pub(crate) full: bool,
    /// Whether it answers with a refusal.
    hostile: bool,
    /// Maximum room that it gives to a body.
    room: Option<usize>,
}

impl Sink for Recorder {
    fn arrival(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        if self.full {
            return Placement::Stall;
        }
        if self.hostile {
            return Placement::Refuse;
        }
        match body {
            Body::Whole(bytes) => {
                self.arrived.push_back((from, *header, bytes.to_vec()));
                Placement::Done
            }
            Body::Stream(len) => {
                let token = RxToken(self.next_token);
                self.next_token += 1;
                let len = len.min(self.room.unwrap_or(len));
                let iov = memory(&[len / 3, len - len / 3]);
                self.coming.push((token, from, *header, iov.clone()));
                Placement::Into(iov, token)
            }
            Body::Remote(_) => Placement::Refuse,
        }
    }

    fn placed(&mut self, token: RxToken, result: Result<(), Errno>) {
        let at = self
            .coming
            .iter()
            .position(|(known, ..)| *known == token)
            .expect("placed bodies were asked for");
        let (_, from, header, iov) = self.coming.remove(at);
        match result {
            Ok(()) => {
                let mut bytes = vec![0; iov.len()];
                iov.read(0, &mut bytes);
                self.arrived.push_back((from, header, bytes));
            }
            Err(_) => self.unplaced += 1,
        }
    }

    fn sent(&mut self, token: TxToken, result: Result<(), Errno>) {
        let list = match result {
            Ok(()) => &mut self.sent,
            Err(_) => &mut self.unsent,
        };
        assert!(list.insert(token), "each token is returned once");
    }

    fn pulled(&mut self, _: RxToken, _: Result<(), Errno>) {
        unreachable!("tcp does not pull")
    }

    fn writable(&mut self, peer: PeerId) {
        self.writable.push(peer);
    }

    fn peer_down(&mut self, peer: PeerId, why: Errno) {
        self.down.push((peer, why));
    }
}

impl Node {
    fn new(at: &str) -> Self {
        let info = Info {
            src: Some(Address::Inet(at.parse().expect("a socket address"))),
            ..Info::default()
        };
        let mut link = TcpLink::open(&info, &Arc::new(())).expect("loopback has ports");
        link.enable(true).expect("it can listen");
        Self {
            link,
            sink: Recorder::default(),
            now: Instant::from_nanos(1_000_000_000),
        }
    }

    /// Opens an endpoint that speaks upstream's protocol only.
    fn plain(at: &str) -> Self {
        let mut node = Self::new(at);
        node.link.kind.local_params.names = false;
        node
    }

    fn at(&self) -> SocketAddr {
        *self.link.kind.acceptor.listener.name()
    }

    fn knows(&mut self, other: &Self) -> PeerId {
        let address = other.link.name();
        self.link.peer(&address).expect("of the same kind")
    }

    /// Polls and flushes, as the engine does.
    fn poll(&mut self) -> usize {
        let events = self.link.poll(self.now, &mut self.sink);
        self.link.flush();
        events
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    fn try_post(&mut self, to: PeerId, header: Header, body: &Iov) -> Result<Posted, PostError> {
        let frame = Frame::whole(header, body);
        self.link.post(to, frame, TxToken(header.id))
    }

    fn pop(&mut self) -> Option<(Header, Vec<u8>)> {
        let (_, header, bytes) = self.sink.arrived.pop_front()?;
        Some((header, bytes))
    }
}

/// Polls both until `done`.
fn drive(a: &mut Node, b: &mut Node, mut done: impl FnMut(&mut Node, &mut Node) -> bool) {
    let start = Clock::now();
    while !done(a, b) {
        a.poll();
        b.poll();
        assert!(start.elapsed() < WATCHDOG, "nothing moves any more");
    }
}

/// Posts a frame, polling both until it is taken.
fn post(a: &mut Node, b: &mut Node, to: PeerId, header: Header, body: &Iov) -> Posted {
    let mut posted = None;
    drive(a, b, |a, _| {
        posted = match a.try_post(to, header, body) {
            Ok(posted) => Some(posted),
            Err(PostError::Again) => None,
            Err(PostError::Down(why)) => panic!("down: {why}"),
        };
        posted.is_some()
    });
    posted.expect("it was taken")
}

pub(crate) fn message(id: u32, len: usize) -> Header {
    Header {
        kind: Kind::Tagged,
        flags: HeaderFlags::empty(),
        id,
        tag: u64::from(id) << 40 | 7,
        data: 0,
        len: len as u64,
    }
}

/// Returns memory with a pattern that depends on `seed`.
pub(crate) fn pattern(lengths: &[usize], seed: u32) -> (Iov, Vec<u8>) {
    let iov = memory(lengths);
    let bytes: Vec<u8> = (0..iov.len())
        .map(|at| {
            (at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) as u8 ^ (at >> 8) as u8
        })
        .collect();
    iov.write(0, &bytes);
    (iov, bytes)
}

/// Opens two endpoints with a connection.
fn pair(at: &str) -> (Node, Node, PeerId, PeerId) {
    connected(Node::new(at), Node::new(at))
}

fn connected(mut a: Node, mut b: Node) -> (Node, Node, PeerId, PeerId) {
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    post(&mut a, &mut b, to_b, message(0, 0), &Iov::empty());
    drive(&mut a, &mut b, |_, b| b.pop().is_some());
    (a, b, to_b, to_a)
}
