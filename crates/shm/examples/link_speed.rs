//! Measures the bare link between two processes of one host: ping-pong latency and bandwidth, without the engine.
//!
//! Run it with `cargo run --release --example link_speed -p oxifabric-shm`; it starts its own peer. Each process is
//! bound to a processor of its own.

use std::collections::VecDeque;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant as Clock;

use oxifabric_engine::{
    Body, Frame, Header, HeaderFlags, Kind, Link, Placement, PostError, RemoteIov, RxToken, Sink,
    TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Device;
use oxifabric_shm::{Params, ShmLink};
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};

const WINDOW: usize = 64;

/// A sink that counts what arrives, and copies it as an engine would.
struct Tally {
    buffer: Vec<u8>,
    messages: u64,
    announced: VecDeque<(u32, RemoteIov)>,
    ended: u64,
    last: u32,
    peer: Option<PeerId>,
    down: bool,
}

impl Sink for Tally {
    #[inline]
    fn arrival(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        self.peer = Some(from);
        match body {
            Body::Whole(bytes) => {
                let at = if matches!(header.kind, Kind::Segment) {
                    header.tag as usize
                } else {
                    0
                };
                self.buffer[at..at + bytes.len()].copy_from_slice(bytes);
                let whole = !matches!(header.kind, Kind::Segment);
                if whole || header.tag + bytes.len() as u64 == header.len {
                    self.messages += 1;
                }
            }
            Body::Remote(remote) => self.announced.push_back((header.id, remote)),
            Body::Stream(_) => return Placement::Refuse,
        }
        self.last = header.id;
        Placement::Done
    }

    fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}
    fn sent(&mut self, _: TxToken, _: Result<(), Errno>) {}

    fn pulled(&mut self, _: RxToken, result: Result<(), Errno>) {
        result.expect("the sender waits for the end");
        self.ended += 1;
    }

    fn writable(&mut self, _: PeerId) {}

    fn peer_down(&mut self, _: PeerId, _: Errno) {
        self.down = true;
    }
}

struct Side {
    link: ShmLink,
    tally: Tally,
    start: Clock,
    now: Instant,
    polls: u32,
}

impl Side {
    fn new() -> Self {
        let mut params = Params::of_environment().clone();
        if env::var_os("NO_PULL").is_some() {
            params.disable_cma = true;
        }
        let mut link = ShmLink::open_with(&Info::default(), &params).expect("an endpoint");
        link.enable(env::var_os("WAITS").is_some())
            .expect("a listener");
        Self {
            link,
            tally: Tally {
                buffer: vec![0; 8 << 20],
                messages: 0,
                announced: VecDeque::new(),
                ended: 0,
                last: 0,
                peer: None,
                down: false,
            },
            start: Clock::now(),
            now: Instant::default(),
            polls: 0,
        }
    }

    #[inline]
    fn poll(&mut self) {
        // Reading the clock costs as much as a tenth of a message.
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(64) {
            self.now = Instant::from_nanos(self.start.elapsed().as_nanos() as u64);
        }
        self.link.poll(self.now, &mut self.tally);
    }

    #[inline]
    fn post(&mut self, peer: PeerId, kind: Kind, id: u32, tag: u64, body: &Iov) {
        self.post_part(peer, kind, id, (tag, body.len() as u64), body);
    }

    #[inline]
    fn post_part(&mut self, peer: PeerId, kind: Kind, id: u32, (tag, len): (u64, u64), body: &Iov) {
        loop {
            let frame = frame(kind, id, (tag, len), body);
            match self.link.post(peer, frame, TxToken(0)) {
                Ok(_) => return,
                Err(PostError::Again) => self.poll(),
                Err(PostError::Down(why)) => panic!("down: {why:?}"),
            }
        }
    }

    fn wait(&mut self, mut until: impl FnMut(&Tally) -> bool) {
        while !until(&self.tally) && !self.tally.down {
            self.poll();
        }
    }
}

fn frame(kind: Kind, id: u32, (tag, len): (u64, u64), body: &Iov) -> Frame<'_> {
    Frame::whole(
        Header {
            kind,
            flags: HeaderFlags::empty(),
            id,
            tag,
            data: 0,
            len,
        },
        body,
    )
}

/// Serves as the peer: bounces what it is told to bounce.
fn serve() {
    pin(1);
    let mut side = Side::new();
    println!("{}", side.link.name());
    let mut target = vec![0u8; 64 << 20];
    let mut bounced = 0;
    let word = [0u8; 8];
    // SAFETY: the array lives as long as the loop.
    let small = unsafe { Iov::contiguous(word.as_ptr().cast_mut(), 8) };
    let mut pulling = VecDeque::new();
    let mut ended = 0;
    while !side.tally.down {
        side.poll();
        let peer = side.tally.peer.unwrap_or(PeerId(0));
        if side.tally.messages > bounced {
            bounced += 1;
            // SAFETY: the buffer outlives the call.
            let same = unsafe {
                Iov::contiguous(
                    side.tally.buffer.as_mut_ptr(),
                    side.tally.last as usize & 0xffffff,
                )
            };
            match side.tally.last >> 24 {
                0 => side.post(peer, Kind::Msg, 0, 0, &same),
                1 => {}
                _ => side.post(peer, Kind::Msg, 0, 0, &small),
            }
        }
        while let Some((id, remote)) = side.tally.announced.pop_front() {
            let len = remote.pieces()[0].len as usize;
            // SAFETY: the target outlives the loop.
            let into = unsafe { Iov::contiguous(target.as_mut_ptr(), len) };
            side.link
                .pull(peer, &remote, into, RxToken(id))
                .expect("a peer that lives");
            pulling.push_back(id);
        }
        while side.tally.ended > ended {
            ended += 1;
            let id = pulling.pop_front().expect("as many begun");
            side.post(peer, Kind::Fin, id, 0, &Iov::empty());
        }
    }
}

fn main() {
    if env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    pin(0);
    if env::args().nth(1).as_deref() == Some("path") {
        return path();
    }
    let this = env::current_exe().expect("the program's path");
    let mut child = Command::new(this)
        .arg("serve")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let mut name = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out)
        .read_line(&mut name)
        .expect("the peer's name");
    let mut side = Side::new();
    let peer = side
        .link
        .peer(&Address::Name(name.trim().into()))
        .expect("a name");
    let only = env::args().nth(1);
    let runs = |what: &str| only.as_deref().is_none_or(|only| only == what);
    if runs("latency") {
        for size in [8, 64, 8, 64, 32, 8, 64, 1024, 4096, 8192, 16384] {
            latency(&mut side, peer, size);
        }
    }
    if only.as_deref() == Some("small") {
        for _ in 0..5 {
            latency(&mut side, peer, 8);
        }
    }
    if runs("eager") {
        for size in [8, 64, 1024, 4096, 8192, 16384] {
            stream(&mut side, peer, size);
        }
    }
    if runs("segments") {
        for size in [65536, 262144, 1 << 20, 4 << 20] {
            segments(&mut side, peer, size);
        }
    }
    if runs("pull") && side.link.limits(peer).pull {
        for size in [
            16384,
            32768,
            65536,
            131072,
            262144,
            1 << 20,
            4 << 20,
            16 << 20,
        ] {
            pull(&mut side, peer, size);
        }
    }
    eprintln!("{:?}", side.link.directory().reason(peer));
    drop(side);
    child.wait().expect("the peer ends");
}

/// Measures the instructions of a post and a poll alone: both links are in one thread.
fn path() {
    let (mut a, mut b) = (Side::new(), Side::new());
    let peer = a.link.peer(&b.link.name()).expect("a name");
    let (_keep, body) = buffer(8);
    a.link
        .post(peer, frame(Kind::Msg, 0, (0, 8), &body), TxToken(0))
        .expect_err("there is no connection yet");
    while a.link.directory().reason(peer).is_none() && b.tally.messages == 0 {
        a.poll();
        b.poll();
        let _ = a
            .link
            .post(peer, frame(Kind::Msg, 0, (0, 8), &body), TxToken(0));
    }
    for size in [8, 32, 64] {
        let (_keep, body) = buffer(size);
        let mut best = f64::MAX;
        for _ in 0..100 {
            const TURNS: u32 = 2000;
            let start = Clock::now();
            for _ in 0..TURNS {
                a.post(peer, Kind::Msg, size as u32, 0, &body);
                b.poll();
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(TURNS));
        }
        println!("path     {size:>9} B {best:>9.1} ns");
    }
}

fn buffer(size: usize) -> (Vec<u8>, Iov) {
    let mut bytes = vec![7u8; size];
    // SAFETY: the vector is returned along and outlives the use of the Iov.
    let iov = unsafe { Iov::contiguous(bytes.as_mut_ptr(), size) };
    (bytes, iov)
}

fn latency(side: &mut Side, peer: PeerId, size: usize) {
    let (_keep, body) = buffer(size);
    let mut best = f64::MAX;
    for _ in 0..200 {
        const TURNS: u64 = 500;
        let start = Clock::now();
        for _ in 0..TURNS {
            let before = side.tally.messages;
            side.post(peer, Kind::Msg, size as u32, 0, &body);
            side.wait(|tally| tally.messages > before);
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / TURNS as f64 / 2.0;
        best = best.min(each);
    }
    println!("latency  {size:>9} B {best:>9.3} us");
}

/// Streams messages; the last of each round is answered.
fn stream(side: &mut Side, peer: PeerId, size: usize) {
    let (_keep, body) = buffer(size);
    let rounds = 100;
    let count = (16 << 20) / size.max(512) / 8;
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = Clock::now();
        let before = side.tally.messages;
        for turn in 0..count {
            let id = if turn + 1 == count { 2 << 24 } else { 1 << 24 };
            side.post(peer, Kind::Msg, id, 0, &body);
        }
        side.wait(|tally| tally.messages > before);
        best = best.min(start.elapsed().as_secs_f64() / count as f64);
    }
    report("eager", size, best);
}

fn segments(side: &mut Side, peer: PeerId, size: usize) {
    let (_keep, body) = buffer(size);
    let segment = side.link.limits(peer).segment;
    let count = ((16 << 20) / size).clamp(4, 400);
    let mut best = f64::MAX;
    for _ in 0..40 {
        let start = Clock::now();
        for _ in 0..count {
            let before = side.tally.messages;
            let mut sent = 0;
            while sent < size {
                let at = sent;
                let part = body.slice(at, segment);
                sent += part.len();
                side.post_part(
                    peer,
                    Kind::Segment,
                    2 << 24,
                    (at as u64, size as u64),
                    &part,
                );
            }
            side.wait(|tally| tally.messages > before);
        }
        best = best.min(start.elapsed().as_secs_f64() / count as f64);
    }
    report("segments", size, best);
}

fn pull(side: &mut Side, peer: PeerId, size: usize) {
    let (_keep, body) = buffer(size);
    let count = ((32 << 20) / size).clamp(8, 200) as u64;
    let mut best = f64::MAX;
    for _ in 0..40 {
        let before = side.tally.messages;
        let start = Clock::now();
        for turn in 0..count {
            side.post(peer, Kind::MsgRts, 1, 0, &body);
            let open = (turn + 1).saturating_sub(WINDOW as u64);
            side.wait(|tally| tally.messages >= before + open);
        }
        side.wait(|tally| tally.messages >= before + count);
        best = best.min(start.elapsed().as_secs_f64() / count as f64);
    }
    report("pull", size, best);
}

fn report(what: &str, size: usize, seconds: f64) {
    let gigabytes = size as f64 / seconds / 1e9;
    let rate = 1e-6 / seconds;
    println!("{what:<8} {size:>9} B {gigabytes:>9.2} GB/s {rate:>9.3} M/s");
}

fn pin(cpu: usize) {
    // SAFETY: the set is initialised and the call reads it; failing leaves the process where it is.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set);
    }
}
