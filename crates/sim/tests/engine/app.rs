//! What the applications do: operations at random, noted in the book.

use std::sync::Arc;

use oxifabric_engine::{Completion, Completions, Engine, Failure, RxOp, Target, TxOp};
use oxifabric_mem::Iov;
use oxifabric_sim::SimDomain;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::access::{self, Regions};
use crate::check::{self, BLANK, Book, Fate, Message, Op, POISON, Receive, Verdict};
use crate::config::Config;
use crate::nic;
use crate::packets::AnyLink;
use crate::rng::Rng;

/// One endpoint with its application.
pub(crate) struct Node {
    pub(crate) me: usize,
    pub(crate) engine: Engine,
    pub(crate) link: AnyLink,
    /// The longest message.
    pub(crate) longest: usize,
    pub(crate) events: Events,
    pub(crate) alive: bool,
}

/// The completion queue, and the memory that peers may reach.
pub(crate) struct Events {
    queue: Vec<Result<Completion, Failure>>,
    regions: Regions,
    /// Where adapters find them.
    domain: Option<Arc<SimDomain>>,
}

impl Events {
    pub(crate) fn new(regions: &Regions, domain: Option<&Arc<SimDomain>>) -> Self {
        Self {
            queue: Vec::new(),
            regions: Regions::clone(regions),
            domain: domain.map(Arc::clone),
        }
    }

    /// Gives memory a key.
    pub(crate) fn register(&mut self, region: &Iov) -> u64 {
        let mut regions = self.regions.borrow_mut();
        regions.push(region.clone());
        let key = regions.len() as u64 - 1;
        if let Some(domain) = &self.domain {
            nic::register(domain, region, key);
        }
        key
    }
}

impl Completions for Events {
    fn complete(&mut self, completion: Completion) {
        self.queue.push(Ok(completion));
    }

    fn fail(&mut self, failure: Failure) {
        self.queue.push(Err(failure));
    }

    fn region(&self, targets: &[Target], _: Flags) -> Result<Iov, Errno> {
        access::find(&self.regions, targets)
    }
}

impl Node {
    /// Reads the completion queue.
    pub(crate) fn read_events(&mut self, book: &mut Book) -> Verdict {
        for event in std::mem::take(&mut self.events.queue) {
            match event {
                Ok(completion) => book.complete(self.me, &completion)?,
                Err(failure) => book.fail(self.me, &failure)?,
            }
        }
        Ok(())
    }

    /// Does something.
    pub(crate) fn act(
        &mut self,
        config: &Config,
        rng: &mut Rng,
        book: &mut Book,
        step: usize,
    ) -> Verdict {
        match rng.below(100) {
            0..=31 => self.send(config, rng, book, step)?,
            32..=36 => self.update(config, rng, book, step)?,
            37..=44 => self.access(config, rng, book, step)?,
            45..=79 => self.receive(rng, book)?,
            80..=89 => self.peek(rng, book)?,
            90..=94 => self.take_claimed(rng, book)?,
            _ => self.cancel(rng, book)?,
        }
        self.read_events(book)
    }

    fn send(&mut self, config: &Config, rng: &mut Rng, book: &mut Book, step: usize) -> Verdict {
        let dst = rng.below(config.nodes);
        if dst == self.me && !config.loopback {
            return Ok(());
        }
        let longest = rng.pick(&config.sizes);
        let len = rng.below(longest + 1);
        let tag = rng.below(4) as u64;
        let mut flags = send_flags(config, rng, len);
        if book.has_silent_like(self.me, dst, tag, len, flags) {
            flags |= Flags::REMOTE_CQ_DATA;
        }
        let index = book.messages.len();
        let memory = Iov::zeroed(len).expect("messages are short");
        let content: Vec<u8> = (0..len).map(|at| check::byte(index, at)).collect();
        memory.write(0, &content);
        let op = TxOp {
            peer: PeerId(dst as u32),
            tag,
            data: index as u64,
            body: memory.clone(),
            flags,
            context: book.ops.len() + 1,
        };
        let context = op.context;
        book.ops.insert(context, Op::Send(index));
        book.messages.push(Message {
            src: self.me,
            dst,
            tag,
            len,
            flags,
            memory: memory.clone(),
            step,
            sent: None,
            fate: Fate::Unknown,
            cancelled: false,
        });
        let result = self.engine.send(&mut self.link, &mut self.events, op);
        if flags.contains(Flags::INJECT) {
            check::fill(&memory, POISON);
        }
        match result {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => {
                let full = self.may_refuse(config, flags);
                book.messages.pop();
                book.ops.insert(context, Op::Over);
                match full {
                    true => Ok(()),
                    false => Err("refused a send although there was room".to_owned()),
                }
            }
            Err(other) => Err(format!("send: {other}")),
        }
    }

    /// Returns whether there may be no room for an operation. An injected one may also have to come again because its link is
    /// blocked; when, the rules say.
    pub(crate) fn may_refuse(&self, config: &Config, flags: Flags) -> bool {
        self.engine.pending_tx() >= config.engine.tx_size || flags.contains(Flags::INJECT)
    }

    fn receive(&mut self, rng: &mut Rng, book: &mut Book) -> Verdict {
        let tagged = rng.chance(60);
        let multi = rng.chance(if tagged { 5 } else { 20 });
        let len = if multi {
            200.max(self.longest / 2)
        } else {
            rng.below(self.longest + 1)
        };
        let mut flags = class(tagged) | wanted(rng);
        flags.set(Flags::MULTI_RECV, multi);
        let receive = Receive {
            from: self.some_source(rng, book),
            tag: rng.below(4) as u64,
            ignore: rng.pick(&[0, 0, 1, 3]),
            ..self.blank(flags, len)
        };
        self.post(book, receive)
    }

    /// Posts a receive that takes any message of one class, unless there is one.
    pub(crate) fn take_anything(&mut self, tagged: bool, book: &mut Book) -> Verdict {
        let any = |r: &&Receive| {
            r.node == self.me
                && !r.ended
                && !r.is_multi()
                && r.from.is_none()
                && r.flags.contains(Flags::TAGGED) == tagged
                && (!tagged || r.ignore == u64::MAX)
        };
        if book.receives.iter().any(|r| any(&r)) {
            return Ok(());
        }
        let receive = Receive {
            ignore: u64::MAX,
            ..self.blank(class(tagged) | Flags::COMPLETION, self.longest)
        };
        self.post(book, receive)
    }

    fn blank(&self, flags: Flags, len: usize) -> Receive {
        let memory = Iov::zeroed(len).expect("messages are short");
        check::fill(&memory, BLANK);
        Receive {
            node: self.me,
            from: None,
            tag: 0,
            ignore: 0,
            flags,
            memory,
            ended: false,
            cancelled: false,
            parts: Vec::new(),
        }
    }

    fn post(&mut self, book: &mut Book, receive: Receive) -> Verdict {
        let context = book.ops.len() + 1;
        self.post_as(book, receive, context)
    }

    fn post_as(&mut self, book: &mut Book, receive: Receive, context: usize) -> Verdict {
        let op = RxOp {
            from: receive.from.map_or(PeerId::ANY, |from| PeerId(from as u32)),
            tag: receive.tag,
            ignore: receive.ignore,
            body: receive.memory.clone(),
            flags: receive.flags,
            context,
        };
        book.ops.insert(context, Op::Receive(book.receives.len()));
        book.receives.push(receive);
        let result = self.engine.recv(&mut self.link, &mut self.events, op);
        result.map_err(|errno| format!("recv: {errno}"))?;
        self.read_events(book)
    }

    fn peek(&mut self, rng: &mut Rng, book: &mut Book) -> Verdict {
        let extra = [Flags::empty(), Flags::empty(), Flags::CLAIM, Flags::DISCARD];
        let flags = class(rng.chance(60)) | wanted(rng) | Flags::PEEK | rng.pick(&extra);
        let from = self.some_source(rng, book);
        let from = from.map_or(PeerId::ANY, |from| PeerId(from as u32));
        self.look(book, flags, from, rng.below(4) as u64, book.ops.len() + 1)
    }

    fn look(
        &mut self,
        book: &mut Book,
        flags: Flags,
        from: PeerId,
        tag: u64,
        context: usize,
    ) -> Verdict {
        let op = RxOp {
            from,
            tag,
            ignore: 1,
            body: Iov::empty(),
            flags,
            context,
        };
        book.ops.insert(context, Op::Peek(flags));
        let result = self.engine.recv(&mut self.link, &mut self.events, op);
        result.map_err(|errno| format!("peek: {errno}"))?;
        self.read_events(book)?;
        match book.ops.get(&context) {
            Some(Op::Over) => Ok(()),
            _ => Err("a peek did not end at once".to_owned()),
        }
    }

    /// Receives or drops a message that was claimed.
    pub(crate) fn take_claimed(&mut self, rng: &mut Rng, book: &mut Book) -> Verdict {
        let mine = |claim: &(usize, usize, usize)| claim.0 == self.me;
        let Some(at) = book.claims.iter().position(mine) else {
            return Ok(());
        };
        let (_, context, message) = book.claims.remove(at);
        let class = class(book.messages[message].is_tagged());
        let flags = class | wanted(rng) | Flags::CLAIM;
        if rng.chance(30) {
            self.look(book, flags | Flags::DISCARD, PeerId::ANY, 0, context)?;
        } else {
            let receive = self.blank(flags, rng.below(self.longest + 1));
            self.post_as(book, receive, context)?;
        }
        Ok(())
    }

    fn cancel(&mut self, rng: &mut Rng, book: &mut Book) -> Verdict {
        let mut contexts: Vec<usize> = book.ops.keys().copied().collect();
        contexts.sort_unstable();
        let context = match contexts.as_slice() {
            [] => return Ok(()),
            contexts => rng.pick(contexts),
        };
        self.cancel_one(context, book)
    }

    /// Cancels one operation of this endpoint; it either ends at once, is being filled, or cannot be.
    pub(crate) fn cancel_one(&mut self, context: usize, book: &mut Book) -> Verdict {
        match book.ops.get(&context) {
            Some(&Op::Send(m)) if book.messages[m].src == self.me => {
                book.messages[m].cancelled = true;
            }
            Some(&Op::Receive(r)) if book.receives[r].node == self.me => {
                book.receives[r].cancelled = true;
            }
            _ => return Ok(()),
        }
        // NOENT: it will end by itself.
        let _ = self.engine.cancel(&mut self.events, context);
        self.read_events(book)
    }

    /// Returns any source, or a peer that may have been lost but is alive.
    fn some_source(&self, rng: &mut Rng, book: &Book) -> Option<usize> {
        let known = book.messages.last()?;
        rng.chance(30)
            .then_some(if rng.chance(50) { known.src } else { known.dst })
    }
}

fn class(tagged: bool) -> Flags {
    if tagged { Flags::TAGGED } else { Flags::MSG }
}

fn wanted(rng: &mut Rng) -> Flags {
    if rng.chance(80) {
        Flags::COMPLETION
    } else {
        Flags::empty()
    }
}

fn send_flags(config: &Config, rng: &mut Rng, len: usize) -> Flags {
    let mut flags = class(rng.chance(60)) | wanted(rng);
    flags.set(Flags::INJECT, len <= 100 && rng.chance(25));
    flags.set(Flags::REMOTE_CQ_DATA, rng.chance(90));
    flags.set(Flags::MORE, rng.chance(20));
    flags.set(Flags::DELIVERY_COMPLETE, rng.chance(15));
    let match_complete = rng.chance(10) && !config.limits.ack_on_arrival;
    flags.set(Flags::MATCH_COMPLETE, match_complete);
    flags
}
