//! A bench: one engine, a link that follows a script and remembers, and the completions.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use oxifabric_engine::{
    Announced, AtomicOp, Body, CollectiveOp, Completion, Completions, Config, Engine, Failure,
    Frame, GroupId, Header, HeaderFlags, Kind, Limits, Link, MAX_ATOMIC_BYTES, OneSided, Placement,
    PostError, Posted, RemoteIov, RmaOp, RxOp, RxToken, Sink, Target, TxOp, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, Instant, PeerId};

pub(crate) const ME: PeerId = PeerId(0);
pub(crate) const PEER: PeerId = PeerId(1);
pub(crate) const OTHER: PeerId = PeerId(2);

/// Longest atomic that peers send over a link that keeps no order, as those of efa do.
pub(crate) const LONG_ATOMIC: usize = 8904;

/// An engine between a script and a list of completions.
pub(crate) struct Bench<const IN_ORDER: bool = true> {
    pub(crate) engine: Engine,
    pub(crate) link: Script<IN_ORDER>,
    events: Events,
}

/// A link that does what it is told.
pub(crate) struct Script<const IN_ORDER: bool = true> {
    pub(crate) limits: Limits,
    /// Results of the next posts and pulls; afterwards posts are done at once, and pulls begin.
    pub(crate) answers: VecDeque<Result<Posted, PostError>>,
    pub(crate) posted: VecDeque<Sent>,
    pub(crate) pulls: VecDeque<(Iov, RxToken)>,
    pub(crate) resumed: Vec<PeerId>,
    /// Peers that were disconnected.
    pub(crate) disconnected: Vec<PeerId>,
    /// There are no connections that could end.
    pub(crate) is_apart: bool,
    /// Contexts of the accesses that the link was asked to carry out, if it does that.
    pub(crate) carried_out: Option<Vec<usize>>,
    /// How often the link was asked to carry out an access.
    pub(crate) asked_to_carry_out: usize,
    /// Longest write that is one frame though the link might carry it out, if not that of other frames.
    pub(crate) eager_write: Option<usize>,
    /// What was posted may be overtaken on its way.
    pub(crate) is_unsettled: bool,
    steps: Vec<Step>,
}

/// A frame as the link got it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) to: PeerId,
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) token: TxToken,
    pub(crate) targets: Vec<Target>,
    pub(crate) transient: bool,
    pub(crate) transmit_complete: bool,
    pub(crate) more: bool,
}

type Step = Box<dyn FnOnce(&mut dyn Sink)>;

#[derive(Default)]
struct Events(
    VecDeque<Result<Completion, Failure>>,
    Option<(u64, Iov)>,
    Vec<Vec<Target>>,
    VecDeque<Result<GroupId, Errno>>,
    Vec<PeerId>,
);

impl Completions for Events {
    fn complete(&mut self, completion: Completion) {
        self.0.push_back(Ok(completion));
    }

    fn fail(&mut self, failure: Failure) {
        self.0.push_back(Err(failure));
    }

    fn accessed(&mut self, access: Completion, targets: &[Target]) {
        self.2.push(targets.to_vec());
        self.complete(access);
    }

    fn joined(&mut self, _: usize, group: GroupId, result: Result<(), Errno>) {
        self.3.push_back(result.map(|()| group));
    }

    fn may_drop_left(&self, peer: PeerId) -> bool {
        self.4.contains(&peer)
    }

    fn region(&self, targets: &[Target], _: Flags) -> Result<Iov, Errno> {
        match (&self.1, targets) {
            (Some((key, region)), [target]) if target.key == *key => {
                Ok(region.slice(target.addr as usize, target.len as usize))
            }
            // Several pieces are one run of memory here, whatever their keys.
            (Some((_, region)), [first, _, ..]) => {
                let len = targets.iter().map(|target| target.len as usize).sum();
                Ok(region.slice(first.addr as usize, len))
            }
            _ => Err(Errno::NOKEY),
        }
    }
}

impl<const IN_ORDER: bool> Link for Script<IN_ORDER> {
    const IN_ORDER: bool = IN_ORDER;
    const LONGEST_ATOMIC: usize = if IN_ORDER {
        MAX_ATOMIC_BYTES
    } else {
        LONG_ATOMIC
    };

    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn post(&mut self, to: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        let answer = self.answers.pop_front().unwrap_or(Ok(Posted::Done));
        if answer.is_ok() {
            let is_rts = matches!(frame.header.kind, Kind::MsgRts | Kind::TaggedRts);
            let mut body = vec![0; if is_rts { 0 } else { frame.len }];
            frame.body.slice(frame.offset, frame.len).read(0, &mut body);
            self.posted.push_back(Sent {
                to,
                header: frame.header,
                body,
                token,
                targets: frame.targets.to_vec(),
                transient: frame.transient,
                transmit_complete: frame.transmit_complete,
                more: frame.more,
            });
        }
        answer
    }

    fn eager_write(&self, limits: &Limits) -> usize {
        self.eager_write.unwrap_or(limits.eager)
    }

    fn settles(&mut self, _: PeerId) -> bool {
        !self.is_unsettled
    }

    fn carry_out(&mut self, access: &RmaOp<'_>) -> bool {
        self.asked_to_carry_out += 1;
        let Some(contexts) = &mut self.carried_out else {
            return false;
        };
        contexts.push(access.context);
        true
    }

    fn pull(
        &mut self,
        _: PeerId,
        _: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        let answer = self.answers.pop_front().unwrap_or(Ok(Posted::Pending));
        if answer.is_ok() {
            self.pulls.push_back((into, token));
        }
        answer
    }

    fn flush(&mut self) {}

    fn poll(&mut self, _: Instant, sink: &mut impl Sink) -> usize {
        let steps = std::mem::take(&mut self.steps);
        let count = steps.len();
        for step in steps {
            step(sink);
        }
        count
    }

    fn resume(&mut self, peer: PeerId) {
        self.resumed.push(peer);
    }

    fn disconnect(&mut self, peer: PeerId, _: &'static str) -> bool {
        if !self.is_apart {
            self.disconnected.push(peer);
            self.steps
                .push(Box::new(move |sink| sink.peer_down(peer, Errno::CONNRESET)));
        }
        !self.is_apart
    }
}

/// The link, if it cuts messages itself.
struct Cutting<'a, const IN_ORDER: bool>(&'a mut Script<IN_ORDER>);

impl<const IN_ORDER: bool> Link for Cutting<'_, IN_ORDER> {
    const IN_ORDER: bool = IN_ORDER;
    const CUTS_MESSAGES: bool = true;

    fn limits(&self, peer: PeerId) -> &Limits {
        self.0.limits(peer)
    }

    fn post(&mut self, to: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        self.0.post(to, frame, token)
    }

    fn pull(
        &mut self,
        from: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        self.0.pull(from, remote, into, token)
    }

    fn flush(&mut self) {}

    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.0.poll(now, sink)
    }

    fn resume(&mut self, peer: PeerId) {
        self.0.resume(peer);
    }
}

impl Bench {
    /// Returns an engine over a link with tiny frames that cannot pull.
    pub(crate) fn new() -> Self {
        Self::with(|_| {}, |_| {})
    }

    pub(crate) fn with(limits: impl Fn(&mut Limits), config: impl Fn(&mut Config)) -> Self {
        Self::made(limits, config)
    }
}

impl<const IN_ORDER: bool> Bench<IN_ORDER> {
    pub(crate) fn made(limits: impl Fn(&mut Limits), config: impl Fn(&mut Config)) -> Self {
        let mut link = Script {
            limits: Limits {
                eager: 8,
                segmented: 20,
                segmented_rma: true,
                segment: 6,
                rndv_msg: true,
                rndv_tagged: true,
                rndv_rma: true,
                pull: false,
                ack_on_arrival: false,
                one_sided: OneSided::empty(),
            },
            answers: VecDeque::new(),
            posted: VecDeque::new(),
            pulls: VecDeque::new(),
            resumed: Vec::new(),
            disconnected: Vec::new(),
            is_apart: false,
            carried_out: None,
            asked_to_carry_out: 0,
            eager_write: None,
            is_unsettled: false,
            steps: Vec::new(),
        };
        let mut engine_config = Config {
            tx_size: 4,
            rx_size: 4,
            unexpected_bytes: 1 << 20,
            unexpected_ceiling: 1 << 24,
            min_multi_recv: 4,
            directed_recv: true,
        };
        limits(&mut link.limits);
        config(&mut engine_config);
        let mut engine = Engine::over::<Script<IN_ORDER>>(engine_config);
        engine.set_self(ME);
        Self {
            engine,
            link,
            events: Events::default(),
        }
    }

    pub(crate) fn send(&mut self, op: TxOp) -> Result<(), Errno> {
        self.engine.name(op.peer);
        self.engine.send(&mut self.link, &mut self.events, op)
    }

    /// Sends over a link that cuts messages itself, and is otherwise the same.
    pub(crate) fn send_cut(&mut self, op: TxOp) -> Result<(), Errno> {
        self.engine.name(op.peer);
        let mut link = Cutting(&mut self.link);
        self.engine.send(&mut link, &mut self.events, op)
    }

    pub(crate) fn recv(&mut self, op: RxOp) -> Result<(), Errno> {
        self.engine.name(op.from);
        self.engine.recv(&mut self.link, &mut self.events, op)
    }

    pub(crate) fn rma(&mut self, op: RmaOp<'_>) -> Result<(), Errno> {
        self.engine.name(op.peer);
        self.engine.rma(&mut self.link, &mut self.events, op)
    }

    pub(crate) fn atomic(&mut self, op: AtomicOp) -> Result<(), Errno> {
        self.engine.name(op.peer);
        self.engine.atomic(&mut self.link, &mut self.events, op)
    }

    /// Joins a group; its end is told by [`Bench::joined`].
    pub(crate) fn join(&mut self, members: &[PeerId]) -> Result<GroupId, Errno> {
        members.iter().for_each(|&member| self.engine.name(member));
        self.engine
            .join(&mut self.link, &mut self.events, members, 0)
    }

    /// Returns the result of the first join that was not taken yet.
    pub(crate) fn joined(&mut self) -> Option<Result<GroupId, Errno>> {
        self.events.3.pop_front()
    }

    /// Lets messages be dropped that a peer leaves behind: the application does not know it.
    pub(crate) fn let_drop_left(&mut self, peer: PeerId) {
        self.events.4.push(peer);
    }

    pub(crate) fn collective(&mut self, op: CollectiveOp) -> Result<(), Errno> {
        self.engine.collective(&mut self.link, &mut self.events, op)
    }

    /// Lets peers reach this memory by a key.
    pub(crate) fn register(&mut self, key: u64, region: &Iov) {
        self.events.1 = Some((key, region.clone()));
    }

    pub(crate) fn cancel(&mut self, context: usize) -> Result<(), Errno> {
        self.engine.cancel(&mut self.events, context)
    }

    pub(crate) fn abandon(&mut self) {
        self.engine.abandon(&mut self.events);
    }

    /// Lets the link report something.
    pub(crate) fn tell(&mut self, step: impl FnOnce(&mut dyn Sink) + 'static) {
        self.link.steps.push(Box::new(step));
        self.poll();
    }

    /// Lets the link report what it has; returns how many events there were.
    pub(crate) fn poll(&mut self) -> usize {
        let now = Instant::from_nanos(0);
        self.engine.progress(&mut self.link, &mut self.events, now)
    }

    /// Lets a frame arrive whole.
    pub(crate) fn arrive(&mut self, from: PeerId, header: Header, body: &[u8]) -> Answer {
        let body = body.to_vec();
        self.arrive_with(from, header, move |sink| {
            sink.arrival(from, &header, Body::Whole(&body))
        })
    }

    /// Lets a segment arrive whose place in its message is its own, from a link without order.
    pub(crate) fn arrive_unordered(&mut self, segment: Header, body: &[u8]) -> Answer {
        let body = body.to_vec();
        self.arrive_with(PEER, segment, move |sink| {
            sink.unordered_segment(PEER, &segment, Body::Whole(&body))
        })
    }

    /// Lets a frame arrive whose body follows in the stream.
    pub(crate) fn arrive_stream(&mut self, from: PeerId, header: Header, len: usize) -> Answer {
        self.arrive_with(from, header, move |sink| {
            sink.arrival(from, &header, Body::Stream(len))
        })
    }

    /// Delivers an Rts whose memory can be pulled.
    pub(crate) fn arrive_remote(&mut self, from: PeerId, header: Header, len: u64) -> Answer {
        let remote = RemoteIov::new(&[Target::unkeyed(0x1000, len)]).expect("one piece is allowed");
        self.arrive_with(from, header, move |sink| {
            sink.arrival(from, &header, Body::Remote(remote))
        })
    }

    /// Delivers an Rts with so many bytes of its message, which the link keeps.
    pub(crate) fn announce_in_part(&mut self, header: Header, held: usize) -> Answer {
        self.arrive_with(PEER, header, move |sink| {
            sink.announced_in_part(PEER, &header, held)
        })
    }

    /// Delivers an Rts, of a message or a write, from a link that pulls so much memory of the sender without being asked to.
    pub(crate) fn begin_pull(&mut self, header: Header, targets: &[Target], len: u64) -> Answer {
        let remote = RemoteIov::new(&[Target::unkeyed(0x1000, len)]).expect("one piece is allowed");
        let targets = targets.to_vec();
        self.arrive_with(PEER, header, move |sink| {
            sink.begin_pull(PEER, &header, &targets, &remote)
        })
    }

    /// Lets a pull end that the link has begun without being asked to; returns the id of the message whose end it tells the peer.
    pub(crate) fn end_pull(&mut self, token: RxToken, result: Result<(), Errno>) -> Option<u32> {
        let told = Rc::new(Cell::new(None));
        let slot = Rc::clone(&told);
        self.tell(move |sink| slot.set(sink.end_pull(token, result)));
        told.take()
    }

    /// Delivers an Rts whose message the link could copy at once; returns where it was asked to, which it then did or could not do, and the placement unless it
    /// did.
    pub(crate) fn announce(
        &mut self,
        header: Header,
        piece: u64,
        can_copy: bool,
    ) -> (Option<Iov>, Option<Answer>) {
        let (asked, answer) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(None)));
        let (asked_of, slot) = (Rc::clone(&asked), Rc::clone(&answer));
        self.tell(move |sink| {
            let mut copy = |into: &Iov| {
                asked_of.set(Some(into.slice(0, into.len())));
                can_copy
            };
            let pieces = [Target::unkeyed(0x1000, piece)];
            slot.set(match sink.announced(PEER, &header, &pieces, &mut copy) {
                Announced::Copied => None,
                Announced::Placed(placement) => Some(Answer::from(placement)),
            });
        });
        (asked.take(), answer.take())
    }

    /// Lets a frame arrive that names memory of this endpoint.
    pub(crate) fn arrive_at(&mut self, header: Header, target: Target, body: &[u8]) -> Answer {
        let body = body.to_vec();
        self.arrive_with(PEER, header, move |sink| {
            sink.access(PEER, &header, &[target], Body::Whole(&body))
        })
    }

    /// Lets a frame arrive that names memory of this endpoint, and whose body follows in the stream.
    pub(crate) fn arrive_at_stream(
        &mut self,
        header: Header,
        target: Target,
        len: usize,
    ) -> Answer {
        self.arrive_with(PEER, header, move |sink| {
            sink.access(PEER, &header, &[target], Body::Stream(len))
        })
    }

    /// Lets a frame arrive that names several pieces of memory of this endpoint.
    pub(crate) fn arrive_at_all(
        &mut self,
        header: Header,
        targets: &[Target],
        body: &[u8],
    ) -> Answer {
        let (targets, body) = (targets.to_vec(), body.to_vec());
        self.arrive_with(PEER, header, move |sink| {
            sink.access(PEER, &header, &targets, Body::Whole(&body))
        })
    }

    /// Returns the targets of peers' accesses that have ended, in their order, and forgets them.
    pub(crate) fn accessed(&mut self) -> Vec<Vec<Target>> {
        std::mem::take(&mut self.events.2)
    }

    /// Delivers an Rts for memory of this endpoint, whose own memory can be pulled.
    pub(crate) fn arrive_at_remote(&mut self, header: Header, target: Target) -> Answer {
        let remote =
            RemoteIov::new(&[Target::unkeyed(0x1000, header.len)]).expect("one piece is allowed");
        self.arrive_with(PEER, header, move |sink| {
            sink.access(PEER, &header, &[target], Body::Remote(remote))
        })
    }

    fn arrive_with(
        &mut self,
        _: PeerId,
        _: Header,
        call: impl FnOnce(&mut dyn Sink) -> Placement + 'static,
    ) -> Answer {
        let answer = Rc::new(Cell::new(None));
        let slot = Rc::clone(&answer);
        self.tell(move |sink| slot.set(Some(Answer::from(call(sink)))));
        answer.take().expect("the step ran")
    }

    /// Returns the next completion.
    pub(crate) fn event(&mut self) -> Option<Result<Completion, Failure>> {
        self.events.0.pop_front()
    }

    /// Returns the next completion, which must be a good one.
    pub(crate) fn done(&mut self) -> Completion {
        let event = self.event().expect("a completion");
        event.expect("a completion without error")
    }

    /// Returns the next completion, which must be a failure.
    pub(crate) fn failed(&mut self) -> Failure {
        let event = self.event().expect("a completion");
        event.expect_err("a failure")
    }

    /// Returns the next frame that was posted.
    pub(crate) fn frame(&mut self) -> Sent {
        self.link.posted.pop_front().expect("a frame")
    }

    /// Nothing is left of anything.
    pub(crate) fn assert_empty(&mut self) {
        assert_eq!(self.event(), None);
        assert!(self.engine.idle());
        let engine = &self.engine;
        assert_eq!((engine.pending_tx(), engine.pending_rx()), (0, 0));
        assert_eq!((engine.unexpected(), engine.unexpected_bytes()), (0, 0));
    }
}

/// A [`Placement`] that can be kept.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Done,
    Into(Iov, RxToken),
    Discard,
    Stall,
    Refuse,
}

impl From<Placement> for Answer {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Done => Self::Done,
            Placement::Into(iov, token) => Self::Into(iov, token),
            Placement::Discard => Self::Discard,
            Placement::Stall => Self::Stall,
            Placement::Refuse => Self::Refuse,
        }
    }
}

impl Answer {
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    pub(crate) fn is_stall(&self) -> bool {
        matches!(self, Self::Stall)
    }

    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refuse)
    }

    pub(crate) fn is_into(&self) -> bool {
        matches!(self, Self::Into(..))
    }

    pub(crate) fn into_parts(self) -> (Iov, RxToken) {
        match self {
            Self::Into(iov, token) => (iov, token),
            other => panic!("expected memory to read into, got {other:?}"),
        }
    }
}

/// Returns memory with this content.
pub(crate) fn memory(content: &[u8]) -> Iov {
    let iov = Iov::zeroed(content.len()).expect("tests are small");
    iov.write(0, content);
    iov
}

pub(crate) fn content(iov: &Iov) -> Vec<u8> {
    let mut bytes = vec![0; iov.len()];
    iov.read(0, &mut bytes);
    bytes
}

/// Returns an untagged send that wants a completion.
pub(crate) fn tx(body: &Iov, context: usize) -> TxOp {
    TxOp {
        peer: PEER,
        tag: 0,
        data: 0,
        body: body.clone(),
        flags: Flags::MSG | Flags::COMPLETION,
        context,
    }
}

/// Returns an untagged receive that wants a completion.
pub(crate) fn rx(body: &Iov, context: usize) -> RxOp {
    RxOp {
        from: PeerId::ANY,
        tag: 0,
        ignore: 0,
        body: body.clone(),
        flags: Flags::MSG | Flags::COMPLETION,
        context,
    }
}

/// Returns a tagged receive that wants a completion.
pub(crate) fn tagged_rx(body: &Iov, tag: u64, context: usize) -> RxOp {
    RxOp {
        tag,
        flags: Flags::TAGGED | Flags::COMPLETION,
        ..rx(body, context)
    }
}

pub(crate) fn msg(len: usize) -> Header {
    Header {
        kind: Kind::Msg,
        flags: HeaderFlags::empty(),
        id: 0,
        tag: 0,
        data: 0,
        len: len as u64,
    }
}

pub(crate) fn tagged(len: usize, tag: u64) -> Header {
    Header {
        kind: Kind::Tagged,
        tag,
        ..msg(len)
    }
}

pub(crate) fn rts(len: usize, id: u32) -> Header {
    Header {
        kind: Kind::MsgRts,
        id,
        ..msg(len)
    }
}

pub(crate) fn segment(len: usize, id: u32, offset: u64) -> Header {
    Header {
        kind: Kind::Segment,
        id,
        tag: offset,
        ..msg(len)
    }
}

pub(crate) fn answer(kind: Kind, id: u32) -> Header {
    Header { kind, id, ..msg(0) }
}

/// Names memory for as long as the test runs.
pub(crate) fn lasting(target: Target) -> &'static [Target] {
    Box::leak(Box::new([target]))
}
