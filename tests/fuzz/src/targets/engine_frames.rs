//! Frames of hostile peers to an engine with operations under way: messages, Rts, segments, answers, accesses, atomics
//! and collectives, with bodies as every link has them. The link keeps its contract; the peers keep none.

use std::collections::VecDeque;

use arbitrary::{Arbitrary, Unstructured};
use oxifabric_engine::{
    Body, Frame, Header, HeaderFlags, Kind, Limits, Link, OneSided, Placement, PostError, Posted,
    RemoteIov, RxToken, Sink, Target, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::world::{Call, KEY, PEERS, World, peer};

#[derive(Arbitrary, Debug)]
enum Step {
    Call(Call),
    Arrive(Arrival),
    /// The oldest body that streams, pull or frame under way is done.
    Finish {
        what: u8,
        well: bool,
    },
    Writable(u8),
    Down(u8),
    /// The next frames are not taken.
    Refuse(u8),
}

#[derive(Arbitrary, Clone, Debug)]
struct Arrival {
    from: u8,
    kind: u8,
    flags: u8,
    id: Name,
    tag: Number,
    data: u8,
    len: Number,
    body: Form,
    targets: Option<(u8, Number, Number)>,
}

/// An id: one that the engine gave out, or any.
#[derive(Arbitrary, Clone, Debug)]
enum Name {
    Known(u8),
    Small(u8),
    Any(u32),
}

#[derive(Arbitrary, Clone, Debug)]
enum Number {
    Small(u8),
    Middle(u16),
    /// The tag of a frame that the engine sent.
    Known(u8),
    Most(u8),
    Any(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Form {
    Whole(u16),
    Stream(u16),
    Remote(u16),
    /// As long as the header says.
    Fitting,
}

/// A link that the input plays.
struct Played {
    limits: Limits,
    steps: VecDeque<Step>,
    /// Number of frames that are not taken.
    refused: u8,
    sent: Vec<Header>,
    frames: VecDeque<(PeerId, TxToken)>,
    pulls: VecDeque<(PeerId, Iov, RxToken)>,
    streams: VecDeque<(PeerId, Iov, usize, RxToken)>,
    stalled: Vec<(PeerId, Arrival)>,
    resumed: Vec<PeerId>,
}

impl Link for Played {
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn post(&mut self, to: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        if self.refused > 0 {
            self.refused -= 1;
            return Err(PostError::Again);
        }
        self.sent.push(frame.header);
        let mut body = vec![0; frame.len];
        frame.body.read(frame.offset, &mut body);
        if frame.transient || self.sent.len().is_multiple_of(2) {
            return Ok(Posted::Done);
        }
        self.frames.push_back((to, token));
        Ok(Posted::Pending)
    }

    fn pull(
        &mut self,
        from: PeerId,
        _: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        if self.refused > 0 {
            self.refused -= 1;
            return Err(PostError::Again);
        }
        self.pulls.push_back((from, into, token));
        Ok(Posted::Pending)
    }

    fn flush(&mut self) {}

    fn poll(&mut self, _: Instant, sink: &mut impl Sink) -> usize {
        for peer in std::mem::take(&mut self.resumed) {
            let at = self
                .stalled
                .iter()
                .position(|(stalled, _)| *stalled == peer);
            if let Some(at) = at {
                let (from, arrival) = self.stalled.swap_remove(at);
                self.arrive(from, &arrival, sink);
            }
        }
        let Some(step) = self.steps.pop_front() else {
            return 0;
        };
        match step {
            Step::Call(_) => {}
            Step::Arrive(arrival) => {
                let from = peer(arrival.from);
                let waits = self.stalled.iter().any(|(stalled, _)| *stalled == from)
                    || self.streams.iter().any(|(streams, ..)| *streams == from);
                if !waits {
                    self.arrive(from, &arrival, sink);
                }
            }
            Step::Finish { what, well } => self.finish(what, well, sink),
            Step::Writable(number) => sink.writable(peer(number)),
            Step::Down(number) => self.lose(peer(number), sink),
            Step::Refuse(count) => self.refused = count % 8,
        }
        1
    }

    fn resume(&mut self, peer: PeerId) {
        self.resumed.push(peer);
    }
}

impl Played {
    fn arrive(&mut self, from: PeerId, arrival: &Arrival, sink: &mut impl Sink) {
        let header = self.header(arrival);
        let len = match arrival.body {
            Form::Whole(len) | Form::Stream(len) | Form::Remote(len) => usize::from(len) % 4096,
            Form::Fitting => usize::try_from(header.len).unwrap_or(0).min(4096),
        };
        // Of exactly this length, so that reading beyond it is noticed.
        let bytes = vec![0xa1; len].into_boxed_slice();
        let body = match arrival.body {
            Form::Stream(_) => Body::Stream(len),
            Form::Remote(_) if self.limits.pull => {
                let remote = RemoteIov::new(&[Target::unkeyed(4096, len as u64)]);
                remote.map_or(Body::Stream(0), Body::Remote)
            }
            _ => Body::Whole(&bytes),
        };
        let is_stream = matches!(body, Body::Stream(1..));
        let placement = match &arrival.targets {
            None => sink.arrival(from, &header, body),
            Some((count, addr, len)) => {
                let (addr, len) = (self.number(addr), self.number(len));
                let target = Target {
                    addr,
                    len,
                    key: KEY,
                };
                let targets = [target; 4];
                sink.access(from, &header, &targets[..usize::from(count % 5)], body)
            }
        };
        match placement {
            Placement::Done | Placement::Discard => {}
            Placement::Into(iov, token) if is_stream => {
                self.streams.push_back((from, iov, len, token));
            }
            Placement::Into(iov, token) => {
                iov.write(0, &bytes);
                sink.placed(token, Ok(()));
            }
            Placement::Stall => self.stalled.push((from, arrival.clone())),
            Placement::Refuse => self.lose(from, sink),
        }
    }

    fn header(&self, arrival: &Arrival) -> Header {
        let known = |index: u8| self.sent.get(usize::from(index) % self.sent.len().max(1));
        Header {
            kind: Kind::ALL[usize::from(arrival.kind) % Kind::ALL.len()],
            flags: HeaderFlags::from_bits_truncate(arrival.flags),
            id: match arrival.id {
                Name::Known(index) => known(index).map_or(0, |header| header.id),
                Name::Small(id) => id.into(),
                Name::Any(id) => id,
            },
            tag: self.number(&arrival.tag),
            data: arrival.data.into(),
            len: self.number(&arrival.len),
        }
    }

    fn number(&self, number: &Number) -> u64 {
        match *number {
            Number::Small(value) => value.into(),
            Number::Middle(value) => value.into(),
            Number::Known(index) => {
                let at = usize::from(index) % self.sent.len().max(1);
                let header = self.sent.get(at);
                header.map_or(
                    0,
                    |header| if index >= 128 { header.len } else { header.tag },
                )
            }
            Number::Most(less) => u64::MAX - u64::from(less),
            Number::Any(value) => value,
        }
    }

    fn finish(&mut self, what: u8, well: bool, sink: &mut impl Sink) {
        let result = if well { Ok(()) } else { Err(Errno::IO) };
        match what % 3 {
            0 => {
                if let Some((_, iov, len, token)) = self.streams.pop_front() {
                    iov.write(0, &vec![0xc2; len]);
                    sink.placed(token, Ok(()));
                }
            }
            1 => {
                if let Some((_, into, token)) = self.pulls.pop_front() {
                    into.write(0, &vec![0xd3; into.len()]);
                    sink.pulled(token, result);
                }
            }
            _ => {
                if let Some((_, token)) = self.frames.pop_front() {
                    sink.sent(token, Ok(()));
                }
            }
        }
    }

    /// Takes a peer down, after everything that is under way with it.
    fn lose(&mut self, lost: PeerId, sink: &mut impl Sink) {
        let why = Errno::CONNRESET;
        self.stalled.retain(|(peer, _)| *peer != lost);
        for (peer, token) in std::mem::take(&mut self.frames) {
            match peer == lost {
                true => sink.sent(token, Err(why)),
                false => self.frames.push_back((peer, token)),
            }
        }
        for (peer, iov, len, token) in std::mem::take(&mut self.streams) {
            match peer == lost {
                true => sink.placed(token, Err(why)),
                false => self.streams.push_back((peer, iov, len, token)),
            }
        }
        for (peer, into, token) in std::mem::take(&mut self.pulls) {
            match peer == lost {
                true => sink.pulled(token, Err(why)),
                false => self.pulls.push_back((peer, into, token)),
            }
        }
        sink.peer_down(lost, why);
    }
}

pub(super) fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let how: u8 = input.arbitrary().unwrap_or(0);
    let is_set = |bit: u8| how >> bit & 1 != 0;
    let mut link = Played {
        limits: Limits {
            eager: 512,
            segmented: if is_set(0) { 512 } else { 2048 },
            segmented_rma: true,
            segment: 512,
            rndv_msg: is_set(1),
            rndv_tagged: is_set(2),
            rndv_rma: is_set(3),
            pull: is_set(4),
            ack_on_arrival: is_set(5),
            one_sided: OneSided::empty(),
        },
        steps: VecDeque::new(),
        refused: 0,
        sent: Vec::new(),
        frames: VecDeque::new(),
        pulls: VecDeque::new(),
        streams: VecDeque::new(),
        stalled: Vec::new(),
        resumed: Vec::new(),
    };
    let mut world = World::default();
    let mut steps = 0;
    while !input.is_empty() && steps < 200 {
        steps += 1;
        let Ok(step) = input.arbitrary() else {
            break;
        };
        match step {
            Step::Call(call) => world.call(&mut link, &call),
            step => link.steps.push_back(step),
        }
        progress(&mut world, &mut link);
    }
    // Twice: a peer that is answered after the loss of another is lost as well.
    for _ in 0..2 {
        link.refused = 0;
        for number in 0..PEERS as u8 {
            link.steps.push_back(Step::Down(number));
            progress(&mut world, &mut link);
        }
    }
    world.close();
}

fn progress(world: &mut World, link: &mut Played) {
    let now = Instant::from_nanos(1);
    world.engine.progress(link, &mut world.ledger, now);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let fill = |len: usize, step: usize| (0..len).map(|at| (at * step) as u8).collect();
    vec![
        vec![0; 64],
        fill(128, 3),
        fill(256, 29),
        fill(512, 101),
        fill(900, 211),
    ]
}
