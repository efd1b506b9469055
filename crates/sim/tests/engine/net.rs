//! The network between the engines, and the link that each of them has to it.
//!
//! Frames of one pair arrive in order, after random delays. Posting is refused at random and when a lane is full;
//! some frames stay pending, and their memory is read only when `sent` is reported.

mod pulls;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use oxifabric_engine::{
    Body, Frame, Header, Kind, Limits, Link, Placement, PostError, Posted, RemoteIov, RxToken,
    Sink, Target, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::access::Regions;
use crate::config::{Config, Sabotage};
use crate::in_flight::{InFlight, bytes, is_rts};
use crate::one_sided::{self, Access, Ended};
use crate::rng::Rng;
use pulls::Pull;

/// The error with which connections break.
pub(crate) const BROKEN: Errno = Errno::CONNRESET;

/// All lanes.
pub(crate) struct Net {
    config: Config,
    pub(crate) rng: Rng,
    now: u64,
    lanes: Vec<Lane>,
    dead: Vec<bool>,
    /// Memory that Rts frames named; its index is the address.
    remotes: Vec<Iov>,
    /// The addresses that pulls of messages may name, until these are over, by their sender, receiver and id.
    rndv_addresses: HashMap<(usize, usize, u32), u64>,
    /// The memory that peers may reach.
    regions: Regions,
    /// The first broken rule.
    pub(crate) broken_rule: Option<String>,
}

/// One direction between two endpoints, and what its sending end remembers of the other.
#[derive(Default)]
struct Lane {
    frames: VecDeque<InFlight>,
    state: LaneState,
    /// The sender was told to wait.
    blocked: bool,
    /// The receiver refused the first frame until it says so.
    stalled: bool,
    /// The receiver reads the first frame's body into this.
    streaming: Option<Streaming>,
    pulls: Vec<Pull>,
    /// Messages that were pulled, of whose end the peer was not told yet.
    untold: Vec<u32>,
    /// Accesses that were carried out, and of which the sender does not know yet.
    ended: Vec<Ended>,
    /// Results to report before the sender is told that the other end is gone.
    down: Option<Down>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LaneState {
    #[default]
    Closed,
    /// Open from then on.
    Connecting(u64),
    Open,
}

struct Streaming {
    into: Iov,
    token: RxToken,
    done: usize,
}

#[derive(Default)]
struct Down {
    sent: Vec<TxToken>,
    placed: Vec<RxToken>,
    pulled: Vec<RxToken>,
}

impl Net {
    pub(crate) fn new(config: &Config, rng: Rng, regions: &Regions) -> Self {
        let lanes = config.nodes * config.nodes;
        Self {
            config: config.clone(),
            rng,
            now: 0,
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            dead: vec![false; config.nodes],
            remotes: Vec::new(),
            rndv_addresses: HashMap::new(),
            regions: Regions::clone(regions),
            broken_rule: None,
        }
    }

    /// Breaks the connection of two endpoints: what is under way is lost, both will be told.
    pub(crate) fn break_pair(&mut self, a: usize, b: usize) {
        self.break_lane(a, b);
        self.break_lane(b, a);
    }

    /// Kills an endpoint: the others will be told, or those that were connected.
    pub(crate) fn kill(&mut self, node: usize) {
        for other in 0..self.config.nodes {
            let lanes = [self.index(node, other), self.index(other, node)];
            let is_closed = |lane: &usize| self.lanes[*lane].state == LaneState::Closed;
            let is_told = !self.config.silent_death || !lanes.iter().all(is_closed);
            if other != node && is_told {
                self.break_pair(node, other);
            }
        }
        self.dead[node] = true;
    }

    /// Returns whether nothing is under way between live endpoints.
    pub(crate) fn is_quiet_between(&self, alive: &dyn Fn(usize) -> bool) -> bool {
        let nodes = self.config.nodes;
        self.lanes.iter().enumerate().all(|(index, lane)| {
            let moved = lane.frames.is_empty() && lane.pulls.is_empty() && lane.ended.is_empty();
            let quiet = moved && lane.untold.is_empty() && lane.down.is_none();
            quiet || !alive(index / nodes) || !alive(index % nodes)
        })
    }

    fn index(&self, from: usize, to: usize) -> usize {
        from * self.config.nodes + to
    }

    /// Loses what is under way on one lane, and notes what its ends have to be told.
    fn break_lane(&mut self, from: usize, to: usize) {
        let (there, back) = (self.index(from, to), self.index(to, from));
        let lane = &mut self.lanes[there];
        let streaming = lane.streaming.take();
        let mut sent: Vec<_> = lane.frames.drain(..).filter_map(|f| f.token()).collect();
        sent.extend(lane.ended.drain(..).map(|ended| ended.token));
        let pulled: Vec<_> = lane.pulls.drain(..).map(|pull| pull.token).collect();
        lane.untold.clear();
        lane.stalled = false;
        lane.blocked = false;
        lane.state = LaneState::Closed;
        let down = lane.down.get_or_insert_default();
        down.sent.extend(sent);
        down.pulled.extend(pulled);
        let down = self.lanes[back].down.get_or_insert_default();
        down.placed
            .extend(streaming.map(|streaming| streaming.token));
    }

    fn delay(&mut self) -> u64 {
        match self.rng.below(10) {
            0 => 3000 + self.rng.below(5000) as u64,
            _ => self.rng.below(300) as u64,
        }
    }

    /// Returns whether the lane can take a frame, or opens it.
    fn admit(&mut self, from: usize, to: usize) -> Result<(), PostError> {
        let (now, delay) = (self.now, self.delay());
        let refuse = self.rng.chance(10);
        let index = self.index(from, to);
        let (dead, room) = (self.dead[to], self.config.lane_frames);
        let lane = &mut self.lanes[index];
        if lane.down.is_some() {
            lane.blocked = true;
            return Err(PostError::Again);
        }
        if dead {
            return Err(PostError::Down(BROKEN));
        }
        if lane.state == LaneState::Closed {
            lane.state = LaneState::Connecting(now + delay);
        }
        if lane.state != LaneState::Open || lane.frames.len() >= room || refuse {
            lane.blocked = true;
            return Err(PostError::Again);
        }
        Ok(())
    }

    fn post(
        &mut self,
        from: usize,
        to: usize,
        frame: &Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        self.admit(from, to)?;
        let has_rts = is_rts(frame.header.kind);
        let part = if has_rts {
            Iov::empty()
        } else {
            frame.body.slice(frame.offset, frame.len)
        };
        let remote = (has_rts && self.config.limits.pull).then(|| {
            self.remotes.push(frame.body.clone());
            let address = self.remotes.len() as u64 - 1;
            self.rndv_addresses
                .insert((from, to, frame.header.id), address);
            let piece = Target::unkeyed(self.remotes.len() as u64 - 1, frame.body.len() as u64);
            RemoteIov::new(&[piece]).expect("one piece is allowed")
        });
        let access = Access::of(frame, token, &self.config.limits);
        let pending = !frame.transient && !has_rts && access.is_none() && self.rng.chance(30);
        let arrives = self.now + self.delay();
        let mut in_flight = InFlight {
            header: frame.header,
            body: Vec::new(),
            remote,
            targets: frame.targets.to_vec(),
            pending: pending.then(|| (part.clone(), token)),
            access,
            arrives,
        };
        if !pending && in_flight.access.is_none() {
            in_flight.body = bytes(&part);
        }
        let is_open = pending || in_flight.access.is_some();
        self.sabotage(&mut in_flight);
        let index = self.index(from, to);
        self.grant(index, &mut in_flight);
        self.push(index, in_flight);
        Ok(if is_open {
            Posted::Pending
        } else {
            Posted::Done
        })
    }

    /// Grants what a Cts asks for bit by bit, if the peer does so: the last of several frames grants the rest.
    fn grant(&mut self, lane: usize, cts: &mut InFlight) {
        let Some(window) = self.config.window else {
            return;
        };
        if cts.header.kind != Kind::Cts {
            return;
        }
        for granted in (window..cts.header.len as usize).step_by(window) {
            cts.arrives += self.delay();
            self.lanes[lane].frames.push_back(InFlight {
                header: Header {
                    data: granted as u64,
                    ..cts.header
                },
                ..InFlight::bare(cts.header, cts.arrives)
            });
        }
    }

    fn push(&mut self, lane: usize, in_flight: InFlight) {
        let strike = self.rng.chance(3);
        let frames = &mut self.lanes[lane].frames;
        match self.config.sabotage {
            Some(Sabotage::Lose) if strike && in_flight.token().is_none() => {}
            Some(Sabotage::Duplicate) if strike && in_flight.token().is_none() => {
                frames.push_back(InFlight {
                    body: in_flight.body.clone(),
                    remote: in_flight.remote,
                    targets: in_flight.targets.clone(),
                    ..InFlight::bare(in_flight.header, in_flight.arrives)
                });
                frames.push_back(in_flight);
            }
            Some(Sabotage::Reorder) if strike && frames.len() > 1 => {
                frames.insert(frames.len() - 1, in_flight);
            }
            _ => frames.push_back(in_flight),
        }
    }

    fn sabotage(&mut self, in_flight: &mut InFlight) {
        if self.config.sabotage == Some(Sabotage::Corrupt)
            && self.rng.chance(3)
            && let Some(byte) = in_flight.body.last_mut()
        {
            *byte ^= 1;
        }
    }

    /// Notifies one end that the other is gone.
    fn report_down(&mut self, me: usize, peer: usize, sink: &mut impl Sink) -> usize {
        let index = self.index(me, peer);
        let Some(down) = self.lanes[index].down.take() else {
            return 0;
        };
        self.lanes[index].blocked = false;
        let Down {
            sent,
            placed,
            pulled,
        } = down;
        sent.into_iter().for_each(|t| sink.sent(t, Err(BROKEN)));
        placed.into_iter().for_each(|t| sink.placed(t, Err(BROKEN)));
        pulled.into_iter().for_each(|t| sink.pulled(t, Err(BROKEN)));
        sink.peer_down(PeerId(peer as u32), BROKEN);
        1
    }

    /// Moves what one end has posted.
    fn move_out(&mut self, me: usize, peer: usize, sink: &mut impl Sink) -> usize {
        let (index, now) = (self.index(me, peer), self.now);
        let lucky = self.rng.chance(60);
        let room = self.config.lane_frames;
        let mut events = match lucky {
            true => one_sided::report(&mut self.lanes[index].ended, PeerId(peer as u32), sink),
            false => 0,
        };
        let lane = &mut self.lanes[index];
        if matches!(lane.state, LaneState::Connecting(open) if open <= now) {
            lane.state = LaneState::Open;
        }
        if lucky {
            for frame in &mut lane.frames {
                if let Some((part, token)) = frame.pending.take() {
                    frame.body = bytes(&part);
                    sink.sent(token, Ok(()));
                    events += 1;
                }
            }
            events += self.end_pulls(me, peer, sink);
        }
        let lane = &mut self.lanes[index];
        if lane.blocked && lane.state == LaneState::Open && lane.frames.len() < room {
            lane.blocked = false;
            sink.writable(PeerId(peer as u32));
            events += 1;
        }
        events
    }

    /// Delivers what has arrived from one peer.
    fn move_in(&mut self, me: usize, peer: usize, sink: &mut impl Sink) -> usize {
        let index = self.index(peer, me);
        let mut events = 0;
        while self.deliver(index, peer, sink) {
            events += 1;
        }
        events
    }

    /// Finds the frame that arrives next: the first, or any that may overtake those before it.
    fn next_to_arrive(&mut self, index: usize) -> Option<usize> {
        let (now, overtake) = (self.now, self.config.sabotage == Some(Sabotage::Overtake));
        let lane = &self.lanes[index];
        let is_here = |frame: &InFlight| frame.pending.is_none() && frame.arrives <= now;
        if lane.stalled || lane.frames.is_empty() {
            return None;
        }
        if !self.config.unordered {
            return is_here(&lane.frames[0]).then_some(0);
        }
        let may_come = |&at: &usize| {
            let frame = &lane.frames[at];
            let mut before = lane.frames.range(..at);
            is_here(frame) && (overtake || !before.any(|earlier| earlier.precedes(frame)))
        };
        let ready: Vec<_> = (0..lane.frames.len()).filter(may_come).collect();
        (!ready.is_empty()).then(|| self.rng.pick(&ready))
    }

    /// Delivers one frame, or a part of one; returns whether to go on.
    fn deliver(&mut self, index: usize, from: usize, sink: &mut impl Sink) -> bool {
        let (chunk, stop) = (1 + self.rng.below(40), self.rng.chance(20));
        let (stream, unordered) = (self.config.stream, self.config.unordered);
        let to = index % self.config.nodes;
        let Some(at) = self.next_to_arrive(index).filter(|_| !stop) else {
            return false;
        };
        let skip = self.config.sabotage == Some(Sabotage::SkipAccesses);
        let lane = &mut self.lanes[index];
        if let Some(access) = lane.frames[at].access.take() {
            let frame = lane.frames.remove(at).expect("it was just seen");
            let from = PeerId(from as u32);
            let ended = access.carry_out(&frame.header, &frame.targets, &self.regions, skip);
            ended.notify(&frame.header, &frame.targets, from, sink);
            lane.ended.push(ended);
            return true;
        }
        let frame = &lane.frames[at];
        if self.config.pulls_unasked
            && let Some(remote) = frame.remote
            && matches!(
                frame.header.kind,
                Kind::MsgRts | Kind::TaggedRts | Kind::WriteRts
            )
        {
            let (header, targets) = (frame.header, frame.targets.clone());
            let answer = self.begin_pull(to, from, (&header, &targets), &remote, sink);
            return self.take_answer(index, at, answer);
        }
        let lane = &mut self.lanes[index];
        let frame = &lane.frames[at];
        if let Some(streaming) = &mut lane.streaming {
            let end = frame.body.len().min(streaming.done + chunk);
            let part = &frame.body[streaming.done..end];
            streaming.into.write(streaming.done, part);
            streaming.done = end;
            if end == frame.body.len() {
                let token = streaming.token;
                lane.streaming = None;
                lane.frames.pop_front();
                sink.placed(token, Ok(()));
            }
            return true;
        }
        let body = match frame.remote {
            Some(remote) => Body::Remote(remote),
            None if stream => Body::Stream(frame.body.len()),
            None => Body::Whole(&frame.body),
        };
        let streamed = matches!(body, Body::Stream(1..));
        let (from, header) = (PeerId(from as u32), &frame.header);
        let answer = match header.kind {
            Kind::Write | Kind::WriteRts | Kind::Read => {
                sink.access(from, header, &frame.targets, body)
            }
            kind if kind.is_atomic() => sink.access(from, header, &frame.targets, body),
            Kind::Segment if unordered => sink.unordered_segment(from, header, body),
            _ => sink.arrival(from, header, body),
        };
        let ends_rndv = matches!(header.kind, Kind::Cts | Kind::Fin).then_some(header.id);
        match answer {
            Placement::Done if !streamed => {
                lane.frames.remove(at);
                if let Some(id) = ends_rndv {
                    self.rndv_addresses.remove(&(to, from.index(), id));
                }
            }
            Placement::Discard if streamed => {
                lane.frames.remove(at);
            }
            Placement::Into(into, token) if streamed => {
                lane.streaming = Some(Streaming {
                    into,
                    token,
                    done: 0,
                });
            }
            Placement::Stall => {
                lane.stalled = true;
                return false;
            }
            answer => {
                let header = frame.header;
                self.broken_rule = Some(format!("{answer:?} for {header:?}"));
                return false;
            }
        }
        true
    }

    /// Handles what an endpoint makes of an announcement; returns whether to go on.
    fn take_answer(&mut self, index: usize, at: usize, answer: Placement) -> bool {
        let lane = &mut self.lanes[index];
        match answer {
            Placement::Done => drop(lane.frames.remove(at)),
            Placement::Stall => lane.stalled = true,
            answer => {
                let header = lane.frames[at].header;
                self.broken_rule = Some(format!("{answer:?} for {header:?}"));
            }
        }
        self.broken_rule.is_none() && !self.lanes[index].stalled
    }
}

/// One endpoint's end of the network.
pub(crate) struct SimLink {
    me: usize,
    net: Rc<RefCell<Net>>,
    /// While closed or connecting, and once open.
    limits: [Limits; 2],
    open: Vec<bool>,
    /// Peers that were reported to be gone and not yet taken.
    pub(crate) lost: Vec<usize>,
}

impl SimLink {
    pub(crate) fn new(me: usize, net: &Rc<RefCell<Net>>) -> Self {
        let config = net.borrow().config.clone();
        let careful = Limits {
            eager: config.limits.eager / 2,
            ..config.limits
        };
        Self {
            me,
            net: Rc::clone(net),
            limits: [careful, config.limits],
            open: vec![false; config.nodes],
            lost: Vec::new(),
        }
    }
}

impl Link for SimLink {
    fn limits(&self, peer: PeerId) -> &Limits {
        &self.limits[usize::from(self.open[peer.index()])]
    }

    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        let mut net = self.net.borrow_mut();
        net.post(self.me, peer.index(), &frame, token)
    }

    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        let mut net = self.net.borrow_mut();
        net.pull(self.me, peer.index(), remote, into, token)
    }

    fn flush(&mut self) {}

    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        let mut net = self.net.borrow_mut();
        net.now = now.as_nanos();
        let nodes = net.config.nodes;
        let first = net.rng.below(nodes);
        let mut events = 0;
        for peer in (first..first + nodes).map(|peer| peer % nodes) {
            if peer == self.me {
                continue;
            }
            if net.report_down(self.me, peer, sink) > 0 {
                self.lost.push(peer);
                events += 1;
            }
            events += net.move_out(self.me, peer, sink);
            events += net.move_in(self.me, peer, sink);
            let index = net.index(self.me, peer);
            self.open[peer] = net.lanes[index].state == LaneState::Open;
        }
        events
    }

    fn resume(&mut self, peer: PeerId) {
        let mut net = self.net.borrow_mut();
        let index = net.index(peer.index(), self.me);
        net.lanes[index].stalled = false;
    }
}
