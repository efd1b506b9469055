//! The matcher against a list that is searched from the front.

use oxifabric_engine::RxOp;
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};
use proptest::prelude::*;

use crate::script::*;

/// What may be done to the two queues.
#[derive(Clone, Debug)]
enum Operation {
    Arrive { from: u32, tag: Option<u64> },
    Receive(Pattern),
    Peek(Pattern),
    PeekAndDiscard(Pattern),
    Cancel { context: usize },
}

/// What a receive takes.
#[derive(Clone, Debug)]
struct Pattern {
    from: Option<u32>,
    tag: Option<u64>,
    ignore: u64,
}

/// Messages and receives as two lists.
#[derive(Default)]
struct Oracle {
    messages: Vec<Waiting>,
    receives: Vec<(usize, Pattern)>,
}

#[derive(Clone, Debug)]
struct Waiting {
    from: u32,
    tag: Option<u64>,
    number: u64,
}

/// What is expected of one operation: (context, number of the message), or an errno.
type Expected = Option<(usize, Result<u64, Errno>)>;

impl Pattern {
    fn takes(&self, message: &Waiting) -> bool {
        let tags_agree = match (self.tag, message.tag) {
            (Some(mine), Some(its)) => mine | self.ignore == its | self.ignore,
            (None, None) => true,
            _ => false,
        };
        tags_agree && self.from.is_none_or(|from| from == message.from)
    }

    fn op(&self, context: usize) -> RxOp {
        let op = tagged_rx(&Iov::empty(), self.tag.unwrap_or(0), context);
        RxOp {
            from: self.from.map_or(PeerId::ANY, PeerId),
            ignore: self.ignore,
            flags: match self.tag {
                Some(_) => op.flags,
                None => Flags::MSG,
            },
            ..op
        }
    }
}

impl Oracle {
    fn arrive(&mut self, message: Waiting) -> Expected {
        let found = self.receives.iter().position(|(_, r)| r.takes(&message));
        match found {
            Some(at) => Some((self.receives.remove(at).0, Ok(message.number))),
            None => {
                self.messages.push(message);
                None
            }
        }
    }

    fn find(&self, pattern: &Pattern) -> Option<usize> {
        self.messages
            .iter()
            .position(|message| pattern.takes(message))
    }

    fn receive(&mut self, context: usize, pattern: Pattern) -> Expected {
        match self.find(&pattern) {
            Some(at) => Some((context, Ok(self.messages.remove(at).number))),
            None => {
                self.receives.push((context, pattern));
                None
            }
        }
    }

    fn peek(&mut self, context: usize, pattern: &Pattern, discard: bool) -> Expected {
        let Some(at) = self.find(pattern) else {
            return Some((context, Err(Errno::NOMSG)));
        };
        let number = self.messages[at].number;
        if discard {
            self.messages.remove(at);
        }
        Some((context, Ok(number)))
    }

    fn cancel(&mut self, context: usize) -> Expected {
        let at = self.receives.iter().position(|r| r.0 == context)?;
        self.receives.remove(at);
        Some((context, Err(Errno::CANCELED)))
    }
}

/// Number of tags and of peers.
#[derive(Clone, Copy)]
struct Scale {
    tags: u64,
    peers: u32,
}

/// Most receives find a message and most messages a receive.
const FEW: Scale = Scale { tags: 6, peers: 3 };

/// Queues become so long that they are indexed.
const MANY: Scale = Scale {
    tags: 50,
    peers: 12,
};

impl Scale {
    fn tag(self) -> impl Strategy<Value = Option<u64>> {
        prop_oneof![1 => Just(None), 6 => (0..self.tags).prop_map(Some)]
    }

    fn peer(self) -> impl Strategy<Value = u32> {
        1..=self.peers
    }

    fn pattern(self) -> impl Strategy<Value = Pattern> {
        let from = prop::option::weighted(0.7, self.peer());
        let ignore = prop_oneof![6 => Just(0), 1 => 0..8u64, 1 => Just(u64::MAX)];
        (from, self.tag(), ignore).prop_map(|(from, tag, ignore)| Pattern { from, tag, ignore })
    }

    fn operation(self) -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => (self.peer(), self.tag()).prop_map(|(from, tag)| Operation::Arrive { from, tag }),
            4 => self.pattern().prop_map(Operation::Receive),
            1 => self.pattern().prop_map(Operation::Peek),
            1 => self.pattern().prop_map(Operation::PeekAndDiscard),
            1 => (0..1000usize).prop_map(|context| Operation::Cancel { context }),
        ]
    }

    /// Many of one kind, then many of the other.
    fn waves(self) -> impl Strategy<Value = Vec<Operation>> {
        let arrive =
            (self.peer(), self.tag()).prop_map(|(from, tag)| Operation::Arrive { from, tag });
        let arrivals = prop::collection::vec(arrive, 0..150);
        let receives = prop::collection::vec(self.pattern().prop_map(Operation::Receive), 0..150);
        let mixed = prop::collection::vec(self.operation(), 0..150);
        let wave = prop_oneof![arrivals, receives, mixed];
        prop::collection::vec(wave, 1..6).prop_map(|waves| waves.concat())
    }
}

/// Does the same to both.
fn step(b: &mut Bench, oracle: &mut Oracle, context: usize, operation: Operation) -> Expected {
    match operation {
        Operation::Arrive { from, tag } => {
            let number = context as u64;
            let mut header = match tag {
                Some(tag) => tagged(0, tag),
                None => msg(0),
            };
            header.data = number;
            b.arrive(PeerId(from), header, b"");
            oracle.arrive(Waiting { from, tag, number })
        }
        Operation::Receive(pattern) => {
            b.recv(pattern.op(context)).expect("room");
            oracle.receive(context, pattern)
        }
        Operation::Peek(pattern) => {
            look(b, &pattern, context, Flags::PEEK);
            oracle.peek(context, &pattern, false)
        }
        Operation::PeekAndDiscard(pattern) => {
            look(b, &pattern, context, Flags::PEEK | Flags::DISCARD);
            oracle.peek(context, &pattern, true)
        }
        Operation::Cancel { context } => {
            let expected = oracle.cancel(context);
            assert_eq!(b.cancel(context).is_ok(), expected.is_some());
            expected
        }
    }
}

fn look(b: &mut Bench, pattern: &Pattern, context: usize, flags: Flags) {
    let mut op = pattern.op(context);
    op.flags |= flags;
    b.recv(op).expect("room");
}

/// Does all operations to both, and compares what they say.
fn compare(operations: Vec<Operation>) -> Result<(), TestCaseError> {
    let mut b = Bench::new();
    let mut oracle = Oracle::default();
    for (context, operation) in operations.into_iter().enumerate() {
        let expected = step(&mut b, &mut oracle, context, operation);
        let got = b.event().map(|event| match event {
            Ok(done) => (done.context, Ok(done.data)),
            Err(failure) => (failure.op.context, Err(failure.errno)),
        });
        prop_assert_eq!(got, expected);
        prop_assert_eq!(b.event(), None);
        prop_assert_eq!(b.engine.unexpected(), oracle.messages.len());
        prop_assert_eq!(b.engine.pending_rx(), oracle.receives.len());
    }
    Ok(())
}

proptest! {
    #[test]
    fn matches_as_a_naive_list_does(
        operations in prop::collection::vec(FEW.operation(), 0..120)
    ) {
        compare(operations)?;
    }

    #[test]
    fn long_queues_match_as_a_naive_list_does(operations in MANY.waves()) {
        compare(operations)?;
    }
}
