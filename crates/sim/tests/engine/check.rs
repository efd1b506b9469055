//! What must hold: the book of all operations, and the checks made whenever one of them ends.

use std::collections::HashMap;

use oxifabric_engine::{Completion, Failure};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::access::Access;
use crate::atomic::Atomic;
use crate::config::Config;
use crate::net::BROKEN;

/// What receive buffers hold before anything arrives.
pub(crate) const BLANK: u8 = 0x5a;
/// What send buffers hold once their memory is the application's again.
pub(crate) const POISON: u8 = 0xee;

pub(crate) type Verdict = Result<(), String>;

/// A message that was sent.
pub(crate) struct Message {
    pub(crate) src: usize,
    pub(crate) dst: usize,
    pub(crate) tag: u64,
    pub(crate) len: usize,
    pub(crate) flags: Flags,
    pub(crate) memory: Iov,
    /// When it was sent, in steps.
    pub(crate) step: usize,
    pub(crate) sent: Option<Result<(), Errno>>,
    pub(crate) fate: Fate,
    pub(crate) cancelled: bool,
}

/// What became of a message at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Unknown,
    Claimed,
    Received,
    Discarded,
}

/// A receive that was posted.
pub(crate) struct Receive {
    pub(crate) node: usize,
    pub(crate) from: Option<usize>,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) flags: Flags,
    pub(crate) memory: Iov,
    pub(crate) ended: bool,
    pub(crate) cancelled: bool,
    /// What was placed in a multi-receive buffer, as (offset, length).
    pub(crate) parts: Vec<(usize, usize)>,
}

/// A message met a receive.
struct Match {
    message: usize,
    receive: usize,
    offset: usize,
}

/// An operation, by its context.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    Send(usize),
    Receive(usize),
    Access(usize),
    Atomic(usize),
    /// A peek, with its flags.
    Peek(Flags),
    /// It has ended.
    Over,
}

/// All operations.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) messages: Vec<Message>,
    pub(crate) receives: Vec<Receive>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) atomics: Vec<Atomic>,
    pub(crate) ops: HashMap<usize, Op>,
    matches: Vec<Match>,
    /// The last step in which the connection of two endpoints broke.
    pub(crate) broken: HashMap<(usize, usize), usize>,
    /// The last step in which the first endpoint was told that it lost the second.
    pub(crate) lost: HashMap<(usize, usize), usize>,
    /// What peeks claimed, as (endpoint, context, message).
    pub(crate) claims: Vec<(usize, usize, usize)>,
    /// Acknowledgements say only that a message has arrived.
    pub(crate) ack_on_arrival: bool,
    /// Only messages keep their order.
    pub(crate) unordered: bool,
}

/// Returns the byte at `at` of a message.
pub(crate) fn byte(message: usize, at: usize) -> u8 {
    let mixed = (message as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 8);
    (mixed >> 24) as u8 ^ at as u8
}

pub(crate) fn fill(memory: &Iov, with: u8) {
    memory.write(0, &vec![with; memory.len()]);
}

pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

impl Message {
    pub(crate) fn is_tagged(&self) -> bool {
        self.flags.contains(Flags::TAGGED)
    }
}

impl Receive {
    fn accepts(&self, message: &Message) -> bool {
        self.flags.contains(Flags::TAGGED) == message.is_tagged()
            && self.from.is_none_or(|from| from == message.src)
            && (!message.is_tagged() || (self.tag ^ message.tag) & !self.ignore == 0)
    }

    pub(crate) fn is_multi(&self) -> bool {
        self.flags.contains(Flags::MULTI_RECV)
    }
}

impl Book {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            ack_on_arrival: config.limits.ack_on_arrival,
            unordered: config.unordered,
            ..Self::default()
        }
    }

    /// Operations of an endpoint that died end with it.
    pub(crate) fn forget_ops_of(&mut self, node: usize) {
        for op in self.ops.values_mut() {
            let owner = match *op {
                Op::Send(message) => self.messages[message].src,
                Op::Receive(receive) => self.receives[receive].node,
                Op::Access(access) => self.accesses[access].node,
                Op::Atomic(atomic) => self.atomics[atomic].node,
                Op::Peek(_) | Op::Over => continue,
            };
            if owner == node {
                *op = Op::Over;
            }
        }
    }

    /// An operation ended well.
    pub(crate) fn complete(&mut self, node: usize, c: &Completion) -> Verdict {
        if c.flags.intersects(Flags::REMOTE_READ | Flags::REMOTE_WRITE) {
            if c.flags.contains(Flags::ATOMIC) {
                return self.updated(node, c);
            }
            return self.accessed(node, c);
        }
        match self.ops.get(&c.context).copied() {
            Some(Op::Send(message)) => self.send_ended(c, message, Ok(())),
            Some(Op::Access(access)) => self.access_ended(c, access, Ok(())),
            Some(Op::Atomic(atomic)) => self.atomic_ended(c, atomic, Ok(())),
            Some(Op::Receive(receive)) if c.flags == Flags::MULTI_RECV => {
                self.buffer_ended(c.context, receive)
            }
            Some(Op::Receive(receive)) => self.received(node, c, receive, 0),
            Some(Op::Peek(flags)) => self.peeked(node, c, flags),
            Some(Op::Over) | None => Err(format!("completion after the end: {c:?}")),
        }
    }

    /// An operation failed.
    pub(crate) fn fail(&mut self, node: usize, f: &Failure) -> Verdict {
        let c = &f.op;
        match self.ops.get(&c.context).copied() {
            Some(Op::Send(message)) => self.send_ended(c, message, Err(f.errno)),
            Some(Op::Access(access)) => self.access_ended(c, access, Err(f.errno)),
            Some(Op::Atomic(atomic)) => self.atomic_ended(c, atomic, Err(f.errno)),
            Some(Op::Receive(receive)) => match f.errno {
                Errno::TRUNC => self.received(node, c, receive, f.overflow as usize),
                errno => self.receive_failed(c, receive, errno),
            },
            Some(Op::Peek(_)) if f.errno == Errno::NOMSG => {
                self.ops.insert(c.context, Op::Over);
                Ok(())
            }
            Some(Op::Peek(_) | Op::Over) | None => Err(format!("failure after the end: {f:?}")),
        }
    }

    fn send_ended(&mut self, c: &Completion, index: usize, result: Result<(), Errno>) -> Verdict {
        self.ops.insert(c.context, Op::Over);
        let broken = self.may_be_lost(index) || self.may_fail(index);
        let message = &mut self.messages[index];
        message.sent = Some(result);
        fill(&message.memory, POISON);
        let class = message.flags & (Flags::MSG | Flags::TAGGED);
        ensure(c.flags == class | Flags::SEND, || {
            format!("flags of a send: {c:?}")
        })?;
        let wanted = message.flags.contains(Flags::COMPLETION);
        ensure(c.wanted == wanted && c.len == message.len as u64, || {
            format!("send of {} bytes, wanted {wanted}: {c:?}", message.len)
        })?;
        let arrived = matches!(message.fate, Fate::Received | Fate::Discarded);
        match result {
            Ok(()) if message.flags.contains(Flags::DELIVERY_COMPLETE) => {
                ensure(arrived || self.ack_on_arrival, || {
                    format!("message {index} is said to be delivered, and is not")
                })
            }
            Ok(()) => Ok(()),
            Err(Errno::CANCELED) => ensure(message.cancelled, || {
                format!("message {index} was not cancelled")
            }),
            Err(BROKEN) => ensure(broken, || format!("message {index} failed without cause")),
            Err(other) => Err(format!("message {index} failed: {other}")),
        }
    }

    fn received(
        &mut self,
        node: usize,
        c: &Completion,
        receive: usize,
        overflow: usize,
    ) -> Verdict {
        let index = self.identify(node, c, c.len as usize + overflow)?;
        let (message, r) = (&mut self.messages[index], &mut self.receives[receive]);
        let claimed = r.flags.contains(Flags::CLAIM);
        ensure(!r.ended && r.node == node, || {
            format!("receive {receive} has ended")
        })?;
        ensure(claimed || r.accepts(message), || {
            format!("receive {receive} does not take message {index}")
        })?;
        ensure((message.fate == Fate::Claimed) == claimed, || {
            format!("message {index} is {:?}", message.fate)
        })?;
        message.fate = Fate::Received;
        let offset = c.buf.wrapping_sub(r.memory.base() as usize);
        let (len, room) = (c.len as usize, r.memory.len());
        let cut = message.len.saturating_sub(room);
        ensure(
            overflow == cut && len + overflow == message.len && (cut == 0 || offset == 0),
            || {
                format!(
                    "message of {} in {room} bytes: {c:?}, {overflow}",
                    message.len
                )
            },
        )?;
        check_data(index, &r.memory, offset, len)?;
        if r.is_multi() {
            let free = r
                .parts
                .iter()
                .all(|&(at, n)| at + n <= offset || offset + len <= at);
            ensure(free, || format!("messages overlap in receive {receive}"))?;
            r.parts.push((offset, len));
        } else {
            let mut rest = vec![0; room - len];
            r.memory.slice(len, room).read(0, &mut rest);
            ensure(rest.iter().all(|&byte| byte == BLANK), || {
                format!("bytes beyond the message in receive {receive}")
            })?;
        }
        if !claimed {
            self.matches.push(Match {
                message: index,
                receive,
                offset,
            });
        }
        self.message_landed(c, receive)
    }

    /// A receive has got a message, or lost it: unless it is a multi-receive buffer, that was it.
    fn message_landed(&mut self, c: &Completion, receive: usize) -> Verdict {
        let r = &mut self.receives[receive];
        let released = c.flags.contains(Flags::MULTI_RECV);
        let wanted = r.flags.contains(Flags::COMPLETION) || released;
        ensure(c.wanted == wanted, || format!("wanted {wanted}: {c:?}"))?;
        if r.is_multi() && !released {
            return Ok(());
        }
        ensure(r.is_multi() == released, || format!("released: {c:?}"))?;
        r.ended = true;
        self.ops.insert(c.context, Op::Over);
        Ok(())
    }

    fn buffer_ended(&mut self, context: usize, receive: usize) -> Verdict {
        let r = &mut self.receives[receive];
        r.ended = true;
        self.ops.insert(context, Op::Over);
        ensure(r.is_multi(), || format!("receive {receive} was released"))
    }

    fn receive_failed(&mut self, c: &Completion, receive: usize, errno: Errno) -> Verdict {
        let r = &mut self.receives[receive];
        let claim = r.flags.contains(Flags::CLAIM);
        match errno {
            Errno::CANCELED => ensure(r.cancelled, || format!("receive {receive} failed"))?,
            Errno::NOMSG => ensure(claim && !self.broken.is_empty(), || {
                format!("the claimed message of receive {receive} is gone")
            })?,
            BROKEN => ensure(!self.broken.is_empty(), || {
                format!("receive {receive} failed without cause")
            })?,
            other => return Err(format!("receive {receive} failed: {other}")),
        }
        let about_a_message = errno == BROKEN && c.from != PeerId::ANY;
        if about_a_message && r.is_multi() && !c.flags.contains(Flags::MULTI_RECV) {
            return Ok(());
        }
        r.ended = true;
        self.ops.insert(c.context, Op::Over);
        Ok(())
    }

    fn peeked(&mut self, node: usize, c: &Completion, flags: Flags) -> Verdict {
        self.ops.insert(c.context, Op::Over);
        if flags.contains(Flags::CLAIM) && flags.contains(Flags::DISCARD) {
            return self.claimed_dropped(node, c);
        }
        let index = self.identify(node, c, c.len as usize)?;
        let message = &mut self.messages[index];
        ensure(message.fate == Fate::Unknown, || {
            format!("a peek found message {index}: {:?}", message.fate)
        })?;
        if flags.contains(Flags::DISCARD) {
            message.fate = Fate::Discarded;
        } else if flags.contains(Flags::CLAIM) {
            message.fate = Fate::Claimed;
            self.claims.push((node, c.context, index));
        }
        Ok(())
    }

    fn claimed_dropped(&mut self, node: usize, c: &Completion) -> Verdict {
        let index = self.identify(node, c, c.len as usize)?;
        let message = &mut self.messages[index];
        let claimed = message.fate == Fate::Claimed;
        message.fate = Fate::Discarded;
        ensure(claimed, || format!("message {index} was not claimed"))
    }

    /// Finds out which message a completion is about.
    fn identify(&self, node: usize, c: &Completion, len: usize) -> Result<usize, String> {
        let fits = |m: &Message| {
            let tag = if m.is_tagged() { m.tag } else { 0 };
            m.dst == node
                && m.src == c.from.index()
                && m.len == len
                && (tag, m.is_tagged()) == (c.tag, c.flags.contains(Flags::TAGGED))
                && matches!(m.fate, Fate::Unknown | Fate::Claimed)
        };
        if c.flags.contains(Flags::REMOTE_CQ_DATA) {
            let index = c.data as usize;
            let message = self.messages.get(index).filter(|m| fits(m));
            return match message {
                Some(m) if m.flags.contains(Flags::REMOTE_CQ_DATA) => Ok(index),
                _ => Err(format!(
                    "nothing like this was sent, or it came twice: {c:?}"
                )),
            };
        }
        let silent = |m: &Message| !m.flags.contains(Flags::REMOTE_CQ_DATA) && fits(m);
        self.messages
            .iter()
            .position(silent)
            .ok_or_else(|| format!("nothing like this was sent, or it came twice: {c:?}"))
    }

    /// Returns whether an open message without data could not be told from such a one.
    pub(crate) fn has_silent_like(
        &self,
        src: usize,
        dst: usize,
        tag: u64,
        len: usize,
        flags: Flags,
    ) -> bool {
        let tagged = flags.contains(Flags::TAGGED);
        self.messages.iter().any(|m| {
            !m.flags.contains(Flags::REMOTE_CQ_DATA)
                && (m.src, m.dst, m.len, m.is_tagged()) == (src, dst, len, tagged)
                && (!tagged || m.tag == tag)
                && matches!(m.fate, Fate::Unknown | Fate::Claimed)
        })
    }

    /// Returns whether the connection of its endpoints broke since the message was sent.
    fn may_be_lost(&self, message: usize) -> bool {
        let m = &self.messages[message];
        let pair = (m.src.min(m.dst), m.src.max(m.dst));
        self.broken.get(&pair).is_some_and(|&step| step >= m.step)
    }

    /// Returns whether its sender was told, since it was sent, that the receiver is gone.
    fn may_fail(&self, message: usize) -> bool {
        let m = &self.messages[message];
        self.is_told((m.src, m.dst), m.step, m.flags)
    }

    /// Returns whether a node may be told that its operation of this step failed: its peer was reported to be gone since. An injected
    /// one may learn it afterwards, if one before it had to come again.
    pub(crate) fn is_told(&self, pair: (usize, usize), step: usize, flags: Flags) -> bool {
        let lost = self.lost.get(&pair);
        lost.is_some_and(|&at| at >= step || flags.contains(Flags::INJECT))
    }

    /// Returns whether something is still to happen to a message.
    pub(crate) fn is_open(&self, message: usize) -> bool {
        let m = &self.messages[message];
        match m.sent {
            None => true,
            Some(Err(_)) => false,
            Some(Ok(())) => m.fate == Fate::Unknown && !self.may_be_lost(message),
        }
    }

    /// After a peer was reported to be gone, nothing may wait for it any more.
    pub(crate) fn nothing_waits_for(&self, node: usize, peer: usize) -> Verdict {
        let send = |m: &&Message| m.src == node && m.dst == peer && m.sent.is_none();
        let receive = |r: &&Receive| r.node == node && r.from == Some(peer) && !r.ended;
        let access = |a: &&Access| a.node == node && a.peer == peer && a.ended.is_none();
        let atomic = |a: &&Atomic| a.node == node && a.peer == peer && a.ended.is_none();
        ensure(self.atomics.iter().find(atomic).is_none(), || {
            format!("an atomic of {node} still waits for {peer}")
        })?;
        ensure(self.accesses.iter().find(access).is_none(), || {
            format!("an access of {node} still waits for {peer}")
        })?;
        ensure(self.messages.iter().find(send).is_none(), || {
            format!("a send of {node} still waits for {peer}")
        })?;
        ensure(self.receives.iter().find(receive).is_none(), || {
            format!("a receive of {node} still waits for {peer}")
        })
    }

    /// Messages of one pair and class are matched in the order of sending: if an earlier-posted receive takes
    /// a message, it must not have been passed by for a later message.
    pub(crate) fn order_holds(&self) -> Verdict {
        let mut matches: Vec<&Match> = self.matches.iter().collect();
        matches.sort_by_key(|m| m.message);
        for (i, first) in matches.iter().enumerate() {
            let a = &self.messages[first.message];
            for second in &matches[i + 1..] {
                let b = &self.messages[second.message];
                let related = (a.src, a.dst, a.is_tagged()) == (b.src, b.dst, b.is_tagged());
                if !related {
                    continue;
                }
                let overtaken = match second.receive.cmp(&first.receive) {
                    std::cmp::Ordering::Less => self.receives[second.receive].accepts(a),
                    std::cmp::Ordering::Equal => second.offset < first.offset,
                    std::cmp::Ordering::Greater => false,
                };
                ensure(!overtaken, || {
                    let (a, b) = (first.message, second.message);
                    format!("message {b} overtook message {a}")
                })?;
            }
        }
        Ok(())
    }
}

fn check_data(message: usize, memory: &Iov, offset: usize, len: usize) -> Verdict {
    let mut got = vec![0; len];
    ensure(memory.slice(offset, len).read(0, &mut got) == len, || {
        format!("message {message} lies outside its buffer")
    })?;
    let wrong = (0..len).find(|&at| got[at] != byte(message, at));
    match wrong {
        None => Ok(()),
        Some(at) => Err(format!(
            "message {message} is damaged at byte {at} of {len}"
        )),
    }
}
