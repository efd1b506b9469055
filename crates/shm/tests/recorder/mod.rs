//! A sink that records, and drivers that poll until a condition holds.
#![allow(dead_code, unreachable_pub)]

use std::collections::VecDeque;
use std::time::{Duration, Instant as Clock};

use oxifabric_engine::{
    Announced, Body, Frame, Header, HeaderFlags, Kind, Link, OpenRegion, Placement, PostError,
    Posted, RemoteIov, RxToken, Sink, Target, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Device;
use oxifabric_shm::{Params, ShmLink};
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};

/// What arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    pub from: PeerId,
    pub header: Header,
    pub body: Vec<u8>,
    pub remote: Option<RemoteIov>,
    /// Targets of an access.
    pub targets: Vec<Target>,
}

#[derive(Debug, Default)]
pub struct Recorder {
    pub arrived: VecDeque<Arrived>,
    pub pulled: Vec<(RxToken, Result<(), Errno>)>,
    pub writable: Vec<PeerId>,
    pub down: Vec<(PeerId, Errno)>,
    /// Arrivals to take before the sink stalls.
    pub room: Option<usize>,
    pub stalls: usize,
    /// Where messages go that the link offers to copy, and how many it has copied there.
    pub buffer: Option<Iov>,
    pub copied: usize,
    /// How often it was tried to copy a message into the buffer in the poll in which it arrived.
    pub tried: usize,
    /// Memory that peers may access without notice, by its key.
    pub open: Option<(u64, OpenRegion)>,
}

impl Sink for Recorder {
    fn open_region(&self, key: u64) -> Option<OpenRegion> {
        self.open
            .and_then(|(open, region)| (open == key).then_some(region))
    }

    fn arrival(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        self.access(from, header, &[], body)
    }

    fn access(
        &mut self,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        body: Body<'_>,
    ) -> Placement {
        if let Some(room) = &mut self.room {
            if *room == 0 {
                self.stalls += 1;
                return Placement::Stall;
            }
            *room -= 1;
        }
        let (body, remote) = match body {
            Body::Whole(bytes) => (bytes.to_vec(), None),
            Body::Remote(remote) => (Vec::new(), Some(remote)),
            Body::Stream(_) => return Placement::Refuse,
        };
        self.arrived.push_back(Arrived {
            from,
            header: *header,
            body,
            remote,
            targets: targets.to_vec(),
        });
        Placement::Done
    }

    fn announced(
        &mut self,
        from: PeerId,
        header: &Header,
        pieces: &[Target],
        copy: &mut dyn FnMut(&Iov) -> bool,
    ) -> Announced {
        self.tried += usize::from(self.buffer.is_some());
        if self.buffer.as_ref().is_some_and(copy) {
            self.copied += 1;
            return Announced::Copied;
        }
        let remote = RemoteIov::new(pieces).expect("one piece");
        Announced::Placed(self.arrival(from, header, Body::Remote(remote)))
    }

    fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}
    fn sent(&mut self, _: TxToken, _: Result<(), Errno>) {}

    fn pulled(&mut self, token: RxToken, result: Result<(), Errno>) {
        self.pulled.push((token, result));
    }

    fn writable(&mut self, peer: PeerId) {
        self.writable.push(peer);
    }

    fn peer_down(&mut self, peer: PeerId, why: Errno) {
        self.down.push((peer, why));
    }
}

/// A link with its sink and its time.
#[derive(Debug)]
pub struct Port {
    pub link: ShmLink,
    pub sink: Recorder,
    /// Added to the clock: makes deadlines pass.
    pub ahead: Duration,
    start: Clock,
}

pub fn params() -> Params {
    Params {
        absent_timeout: std::time::Duration::ZERO,
        ..Params::of_environment().clone()
    }
}

/// How long a test may take before it counts as hanging.
pub const WATCHDOG: Duration = Duration::from_secs(60);

impl Port {
    pub fn named(name: Option<&str>, params: &Params) -> Result<Self, Errno> {
        let info = Info {
            src: name.map(|name| Address::Name(name.into())),
            ..Info::default()
        };
        Ok(Self {
            link: ShmLink::open_with(&info, params)?,
            sink: Recorder::default(),
            ahead: Duration::ZERO,
            start: Clock::now(),
        })
    }

    /// Opens an endpoint that others can reach.
    pub fn open(params: &Params) -> Self {
        let mut port = Self::named(None, params).expect("an endpoint");
        port.link.enable(true).expect("a listener");
        port
    }

    pub fn peer(&mut self, other: &Self) -> PeerId {
        self.link.peer(&other.link.name()).expect("a name")
    }

    pub fn poll(&mut self) -> usize {
        let now = Instant::from_nanos((self.start.elapsed() + self.ahead).as_nanos() as u64);
        self.link.poll(now, &mut self.sink)
    }

    /// Polls until a condition holds.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Recorder) -> bool) {
        let start = Clock::now();
        while !done(&self.sink) {
            self.poll();
            assert!(start.elapsed() < WATCHDOG, "{what}: {:?}", self.sink);
            std::thread::yield_now();
        }
    }

    pub fn try_post(
        &mut self,
        peer: PeerId,
        header: Header,
        body: &Iov,
    ) -> Result<Posted, PostError> {
        self.try_access(peer, header, &[], body)
    }

    pub fn try_access(
        &mut self,
        peer: PeerId,
        header: Header,
        targets: &[Target],
        body: &Iov,
    ) -> Result<Posted, PostError> {
        let frame = Frame {
            targets,
            transient: true,
            ..Frame::whole(header, body)
        };
        self.link.post(peer, frame, TxToken(0))
    }

    /// Posts a message with bytes of its own.
    pub fn send(&mut self, peer: PeerId, id: u32, bytes: &[u8]) -> Result<Posted, PostError> {
        let body = lend(bytes);
        self.try_post(peer, header(Kind::Tagged, id, bytes.len()), &body)
    }
}

/// Polls both until a condition holds.
pub fn both(
    what: &str,
    a: &mut Port,
    b: &mut Port,
    mut done: impl FnMut(&mut Port, &mut Port) -> bool,
) {
    let start = Clock::now();
    while !done(a, b) {
        a.poll();
        b.poll();
        assert!(
            start.elapsed() < WATCHDOG,
            "{what}: {:?} {:?}",
            a.sink,
            b.sink
        );
        std::thread::yield_now();
    }
}

/// Opens two endpoints and a connection between them; the first is the initiator. Returns how each names the other.
pub fn pair(params: &Params) -> (Port, Port, PeerId, PeerId) {
    let (mut a, mut b) = (Port::open(params), Port::open(params));
    let b_at_a = a.peer(&b);
    both("a connection opens", &mut a, &mut b, |a, b| {
        (a.send(b_at_a, 0, b"first") == Ok(Posted::Done)) || !b.sink.arrived.is_empty()
    });
    b.until("the first message arrives", |sink| !sink.arrived.is_empty());
    let a_at_b = b.sink.arrived.pop_front().expect("just seen").from;
    a.sink.writable.clear();
    (a, b, b_at_a, a_at_b)
}

pub fn header(kind: Kind, id: u32, len: usize) -> Header {
    Header {
        kind,
        flags: HeaderFlags::DATA,
        id,
        tag: !u64::from(id),
        data: u64::from(id) << 32,
        len: len as u64,
    }
}

/// Lends bytes that outlive every use of the result, as the tests see to.
pub fn lend(bytes: &[u8]) -> Iov {
    // SAFETY: the tests keep the bytes, and write through Iovs made from mutable memory only.
    unsafe { Iov::contiguous(bytes.as_ptr().cast_mut(), bytes.len()) }
}

pub fn lend_for_writing(bytes: &mut [u8]) -> Iov {
    // SAFETY: as above.
    unsafe { Iov::contiguous(bytes.as_mut_ptr(), bytes.len()) }
}

/// Bytes that differ by place and by seed.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed) as u8)
        .collect()
}
