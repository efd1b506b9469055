//! Both endpoints with their link, and the operations that they are given at random.

use alloc::boxed::Box;
use alloc::vec::Vec;

use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_engine::{AtomicOp, Config, Engine, Limits, RmaOp, RxOp, Target, TxOp, Update};
use oxifabric_kernel_link::{LoopLink, PEER};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, Instant, PeerId};

use crate::access::{Contents, FLOAT, INTEGER, SLOT, STEP};
use crate::book::{Book, Sent, Wanted};
use crate::outcome::{KEY, Outcome, Outcomes};
use crate::random::{Random, pattern};

const CONFIG: Config = Config {
    tx_size: 32,
    rx_size: 64,
    // So little that senders are held up.
    unexpected_bytes: 8 << 10,
    unexpected_ceiling: 64 << 10,
    min_multi_recv: 64,
    directed_recv: true,
};

/// Number of messages that may be under way in one direction.
const MESSAGES: usize = 40;
/// Longest body that is in one frame. A write in several that is refused ends the connection.
pub(crate) const EAGER: usize = 64;
/// Number of accesses with a wrong key: an engine answers 16 of a peer before it takes them for an attack.
const WRONG_KEYS: u32 = 12;
/// Rounds in which everything has to end.
const ROUNDS: usize = 10_000;
const NO_MEMORY: &str = "there is not enough memory";

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Messages that were received whole.
    pub messages: u32,
    /// Messages that were longer than their receive.
    pub truncated: u32,
    /// Receives that were cancelled.
    pub cancelled: u32,
    /// Reads and writes.
    pub accesses: u32,
    /// Atomic operations.
    pub atomics: u32,
    /// Accesses with a wrong key.
    pub refused: u32,
}

/// An operation that has not ended.
#[derive(Debug)]
struct Pending {
    context: usize,
    body: Iov,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Send,
    Receive,
    Write { slot: usize, number: u64 },
    Read { slot: usize },
    Fetch { before: u64 },
    Add,
    WrongKey,
}

/// One endpoint.
#[derive(Debug)]
struct Side {
    /// On the heap: a kernel's stack is short.
    engine: Box<Engine>,
    link: LoopLink,
    outcomes: Outcomes,
    /// The messages to this endpoint.
    book: Book,
    /// What the other endpoint has done to this one's memory.
    contents: Contents,
    pending: Vec<Pending>,
}

impl Side {
    fn new(link: LoopLink) -> Option<Box<Self>> {
        let mut engine = Box::new(Engine::new(CONFIG));
        engine.name(PEER);
        Some(Box::new(Self {
            engine,
            link,
            outcomes: Outcomes {
                region: Contents::region()?,
                new: Vec::new(),
            },
            book: Book::default(),
            contents: Contents::new()?,
            pending: Vec::new(),
        }))
    }

    fn progress(&mut self) -> usize {
        let now = Instant::from_nanos(0);
        self.engine
            .progress(&mut self.link, &mut self.outcomes, now)
    }

    fn has_ended(&self) -> bool {
        self.pending.is_empty() && self.engine.idle() && self.link.is_idle()
    }
}

/// Two endpoints, a link between them, and a model of what they do.
#[derive(Debug)]
pub struct World {
    /// On the heap, too.
    sides: [Box<Side>; 2],
    random: Random,
    next: u64,
    wrong_keys: u32,
    summary: Summary,
}

impl World {
    /// Makes the endpoints.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(limits: Limits, seed: u64) -> Result<Self, &'static str> {
        let [left, right] = LoopLink::pair(limits).ok_or(NO_MEMORY)?;
        let sides = [
            Side::new(left).ok_or(NO_MEMORY)?,
            Side::new(right).ok_or(NO_MEMORY)?,
        ];
        Ok(Self {
            sides,
            random: Random::new(seed),
            next: 1,
            wrong_keys: 0,
            summary: Summary::default(),
        })
    }

    /// Does one thing at random, and checks what ended.
    ///
    /// # Errors
    /// Says what was not as the model has it.
    pub fn step(&mut self) -> Result<(), &'static str> {
        let side = self.random.below(2) as usize;
        match self.random.below(20) {
            0..5 => self.send(side)?,
            5..10 => self.receive(side)?,
            10 | 11 => self.write(side)?,
            12 | 13 => self.read(side)?,
            14 => self.add(side)?,
            15 if self.wrong_keys < WRONG_KEYS => self.wrong_key(side)?,
            16 => self.cancel(side),
            _ => {
                self.sides[side].progress();
            }
        }
        self.check()
    }

    /// Lets everything end, and checks that nothing is left.
    ///
    /// # Errors
    /// Says what was not as the model has it.
    pub fn finish(mut self) -> Result<Summary, &'static str> {
        for _ in 0..ROUNDS {
            let mut events = 0;
            for side in 0..2 {
                self.receive_the_rest(side)?;
                events += self.sides[side].progress();
            }
            self.check()?;
            let messages: usize = self.sides.iter().map(|side| side.book.messages()).sum();
            if messages == 0 && events == 0 {
                self.cancel_receives();
                self.check()?;
            }
            if self.sides.iter().all(|side| side.has_ended()) {
                return self.judge();
            }
        }
        Err("operations never end")
    }

    fn judge(&self) -> Result<Summary, &'static str> {
        for side in &self.sides {
            if side.engine.unexpected() != 0 || side.engine.pending_rx() != 0 {
                return Err("messages or receives are left");
            }
            if !side.contents.is_in(&side.outcomes.region) {
                return Err("registered memory has other contents");
            }
        }
        Ok(self.summary)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Makes a body with the pattern of a number.
    fn body(number: u64, len: usize) -> Result<Iov, &'static str> {
        let body = Iov::zeroed(len).ok_or(NO_MEMORY)?;
        for at in 0..len {
            body.write(at, &[pattern(number, at)]);
        }
        Ok(body)
    }

    /// Sends. Apart, as the others that describe an operation: its memory is long, and a kernel's stack is short.
    #[inline(never)]
    fn send(&mut self, side: usize) -> Result<(), &'static str> {
        if self.sides[1 - side].book.messages() >= MESSAGES {
            return Ok(());
        }
        let (number, len) = (self.number(), self.random.length());
        let tag = (!self.random.one_in(4)).then(|| self.random.below(4));
        let mut flags = Flags::COMPLETION | class(tag.is_some());
        if self.random.one_in(8) {
            flags |= Flags::DELIVERY_COMPLETE;
        } else if len <= 64 && self.random.one_in(4) {
            flags |= Flags::INJECT;
        }
        let body = Self::body(number, len)?;
        let op = TxOp {
            peer: PEER,
            tag: tag.unwrap_or(0),
            data: 0,
            body: body.clone(),
            flags,
            context: number as usize,
        };
        let from = &mut self.sides[side];
        let sent = from.engine.send(&mut from.link, &mut from.outcomes, op);
        if self.is_started(side, sent, number, body, What::Send)? {
            self.sides[1 - side].book.sent(Sent { number, tag, len });
        }
        Ok(())
    }

    fn receive(&mut self, side: usize) -> Result<(), &'static str> {
        if self.sides[side].engine.posted() >= MESSAGES {
            return Ok(());
        }
        let len = self.random.length().max(self.random.length());
        let is_tagged = !self.random.one_in(4);
        let ignore = if self.random.one_in(3) { 3 } else { 0 };
        let tag = is_tagged.then(|| (self.random.below(4), ignore));
        self.post_receive(side, tag, len)
    }

    #[inline(never)]
    fn post_receive(
        &mut self,
        side: usize,
        tag: Option<(u64, u64)>,
        len: usize,
    ) -> Result<(), &'static str> {
        let number = self.number();
        let body = Iov::zeroed(len).ok_or(NO_MEMORY)?;
        let (wanted, ignore) = tag.unwrap_or((0, 0));
        let op = RxOp {
            from: if self.random.one_in(2) {
                PEER
            } else {
                PeerId::ANY
            },
            tag: wanted,
            ignore,
            body: body.clone(),
            flags: Flags::COMPLETION | class(tag.is_some()),
            context: number as usize,
        };
        let to = &mut self.sides[side];
        let context = number as usize;
        // The receive may end within the call, before anything else does.
        to.book.wanted(Wanted { context, tag });
        let posted = to.engine.recv(&mut to.link, &mut to.outcomes, op);
        if !self.is_started(side, posted, number, body, What::Receive)? {
            self.sides[side].book.cancel(context);
        }
        Ok(())
    }

    /// Posts receives for messages that none takes.
    fn receive_the_rest(&mut self, side: usize) -> Result<(), &'static str> {
        while let Some(message) = self.sides[side].book.first_unreceived() {
            self.post_receive(side, message.tag.map(|tag| (tag, 0)), message.len)?;
        }
        Ok(())
    }

    fn write(&mut self, side: usize) -> Result<(), &'static str> {
        let random = self.random.below(64);
        let Some(slot) = self.sides[1 - side].contents.reserve(random) else {
            return Ok(());
        };
        let (number, len) = (self.number(), self.random.length());
        let body = Self::body(number, len)?;
        let flags = Flags::RMA | Flags::WRITE | Flags::DELIVERY_COMPLETE;
        let what = What::Write { slot, number };
        if !self.access(side, number, (slot * SLOT) as u64, KEY, &body, flags, what)? {
            self.sides[1 - side].contents.release(slot);
        }
        Ok(())
    }

    fn read(&mut self, side: usize) -> Result<(), &'static str> {
        let random = self.random.below(64);
        let Some(slot) = self.sides[1 - side].contents.reserve(random) else {
            return Ok(());
        };
        let (number, len) = (self.number(), self.random.length());
        let body = Iov::zeroed(len).ok_or(NO_MEMORY)?;
        let (flags, what) = (Flags::RMA | Flags::READ, What::Read { slot });
        if !self.access(side, number, (slot * SLOT) as u64, KEY, &body, flags, what)? {
            self.sides[1 - side].contents.release(slot);
        }
        Ok(())
    }

    fn wrong_key(&mut self, side: usize) -> Result<(), &'static str> {
        self.wrong_keys += 1;
        let (number, len) = (self.number(), 1 + self.random.below(EAGER as u64) as usize);
        let body = Self::body(number, len)?;
        let flags = Flags::RMA | Flags::WRITE | Flags::DELIVERY_COMPLETE;
        self.access(side, number, 0, KEY + 1, &body, flags, What::WrongKey)?;
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of fi_rma(3)'s calls")]
    #[inline(never)]
    fn access(
        &mut self,
        side: usize,
        number: u64,
        addr: u64,
        key: u64,
        body: &Iov,
        flags: Flags,
        what: What,
    ) -> Result<bool, &'static str> {
        let target = Target {
            addr,
            len: body.len() as u64,
            key,
        };
        let op = RmaOp {
            peer: PEER,
            targets: &[target],
            body: body.clone(),
            data: 0,
            flags: flags | Flags::COMPLETION,
            context: number as usize,
        };
        let from = &mut self.sides[side];
        let started = from.engine.rma(&mut from.link, &mut from.outcomes, op);
        self.is_started(side, started, number, body.clone(), what)
    }

    #[inline(never)]
    fn add(&mut self, side: usize) -> Result<(), &'static str> {
        let number = self.number();
        let is_fetch = self.random.one_in(2);
        let (form, datatype, addr, operand) = match is_fetch {
            true => (Form::Fetch, Datatype::Uint64, INTEGER, number),
            false => (Form::Base, Datatype::Double, FLOAT, STEP.to_bits()),
        };
        let memory = |value: u64| {
            let memory = Iov::zeroed(8)?;
            memory.write(0, &value.to_le_bytes());
            Some(memory)
        };
        let result = match is_fetch {
            true => memory(0).ok_or(NO_MEMORY)?,
            false => Iov::empty(),
        };
        let direction = if is_fetch { Flags::READ } else { Flags::WRITE };
        let op = AtomicOp {
            peer: PEER,
            update: Update {
                form,
                datatype,
                operation: Operation::Sum,
            },
            targets: [Target {
                addr,
                len: 8,
                key: KEY,
            }]
            .into(),
            operand: memory(operand).ok_or(NO_MEMORY)?,
            compare: Iov::empty(),
            result: result.clone(),
            data: 0,
            flags: Flags::ATOMIC | Flags::COMPLETION | Flags::DELIVERY_COMPLETE | direction,
            context: number as usize,
        };
        let from = &mut self.sides[side];
        let started = from.engine.atomic(&mut from.link, &mut from.outcomes, op);
        let contents = &mut self.sides[1 - side].contents;
        let what = match (started, is_fetch) {
            (Ok(()), true) => What::Fetch {
                before: contents.added(operand),
            },
            (Ok(()), false) => {
                contents.added_float();
                What::Add
            }
            (Err(_), _) => What::Add,
        };
        self.is_started(side, started, number, result, what)?;
        Ok(())
    }

    /// Notes an operation that was started; returns false for one that has to wait.
    fn is_started(
        &mut self,
        side: usize,
        started: Result<(), Errno>,
        number: u64,
        body: Iov,
        what: What,
    ) -> Result<bool, &'static str> {
        match started {
            Ok(()) => {
                let context = number as usize;
                let pending = &mut self.sides[side].pending;
                pending.push(Pending {
                    context,
                    body,
                    what,
                });
                Ok(true)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(_) => Err("an operation is refused"),
        }
    }

    fn cancel(&mut self, side: usize) {
        let from = &mut self.sides[side];
        let count = from.pending.len().max(1) as u64;
        let at = self.random.below(count) as usize;
        let receive = from.pending.get(at);
        if let Some(pending) = receive.filter(|pending| matches!(pending.what, What::Receive)) {
            let context = pending.context;
            // Without effect on one that a message is arriving in.
            let _ = from.engine.cancel(&mut from.outcomes, context);
        }
    }

    fn cancel_receives(&mut self) {
        for side in &mut self.sides {
            side.engine.cancel_receives(&mut side.outcomes);
        }
    }

    /// Compares what ended with the model.
    fn check(&mut self) -> Result<(), &'static str> {
        for side in 0..2 {
            if self.sides[side].link.breach().is_some() {
                return Err("an engine refuses a frame of the other one");
            }
            for outcome in core::mem::take(&mut self.sides[side].outcomes.new) {
                self.check_one(side, &outcome)?;
            }
        }
        Ok(())
    }

    fn check_one(&mut self, side: usize, outcome: &Outcome) -> Result<(), &'static str> {
        let context = outcome.of.context;
        let of_target = Flags::REMOTE_READ | Flags::REMOTE_WRITE;
        if outcome.of.flags.intersects(of_target) {
            return Ok(());
        }
        let pending = &mut self.sides[side].pending;
        let is_it = |pending: &Pending| pending.context == context;
        let at = pending.iter().position(is_it);
        let at = at.ok_or("an operation ends that was not started, or twice")?;
        let pending = pending.swap_remove(at);
        match pending.what {
            What::Receive => return self.check_receive(side, &pending, outcome),
            What::WrongKey => {
                self.summary.refused += 1;
                return match outcome.result {
                    Err(_) => Ok(()),
                    Ok(()) => Err("an access with a wrong key ends well"),
                };
            }
            _ => outcome.result.map_err(|_| "an operation fails")?,
        }
        self.check_access(1 - side, &pending)
    }

    fn check_receive(
        &mut self,
        side: usize,
        pending: &Pending,
        outcome: &Outcome,
    ) -> Result<(), &'static str> {
        let book = &mut self.sides[side].book;
        if outcome.result == Err(Errno::CANCELED) {
            self.summary.cancelled += 1;
            return book
                .cancel(pending.context)
                .then_some(())
                .ok_or("it was no receive");
        }
        let message = book.take(pending.context);
        let message = message.ok_or("a receive gets a message that is not for it")?;
        let fitting = message.len.min(pending.body.len());
        let expected = match fitting < message.len {
            true => Err(Errno::TRUNC),
            false => Ok(()),
        };
        if outcome.result != expected || outcome.of.len != fitting as u64 {
            return Err("a receive reports another length or error");
        }
        if !has_pattern(&pending.body, message.number, fitting) {
            return Err("a message arrives with other contents");
        }
        match expected {
            Ok(()) => self.summary.messages += 1,
            Err(_) => self.summary.truncated += 1,
        }
        Ok(())
    }

    fn check_access(&mut self, target: usize, pending: &Pending) -> Result<(), &'static str> {
        let contents = &mut self.sides[target].contents;
        match pending.what {
            What::Write { slot, number } => {
                contents.written(slot, number, pending.body.len());
                contents.release(slot);
                self.summary.accesses += 1;
            }
            What::Read { slot } => {
                if !contents.is_read(slot, &pending.body) {
                    return Err("a read brings other data");
                }
                contents.release(slot);
                self.summary.accesses += 1;
            }
            What::Fetch { before } => {
                let mut found = [0; 8];
                pending.body.read(0, &mut found);
                if u64::from_le_bytes(found) != before {
                    return Err("a sum fetches another number");
                }
                self.summary.atomics += 1;
            }
            What::Add => self.summary.atomics += 1,
            What::Send | What::Receive | What::WrongKey => {}
        }
        Ok(())
    }
}

const fn class(is_tagged: bool) -> Flags {
    if is_tagged { Flags::TAGGED } else { Flags::MSG }
}

fn has_pattern(body: &Iov, number: u64, len: usize) -> bool {
    (0..len).all(|at| {
        let mut byte = [0];
        body.read(at, &mut byte);
        byte[0] == pattern(number, at)
    })
}
