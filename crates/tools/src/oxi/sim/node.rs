//! One node: an endpoint with its queue, and its messages.
//!
//! A message begins with its sender, its number among those of the pair, and the time at which it was sent.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use oxifabric::{
    Address, AddressVector, Buffer, CompletionQueue, Domain, Endpoint, Local, Op, Operation, Peer,
    Rdm,
};

use oxifabric_bench::histogram::Histogram;

use super::super::Trouble;
use super::heard::Heard;

/// Least length of a message, in bytes.
pub(super) const HEAD: usize = 16;

/// Number of posted receives.
pub(super) const RECEIVES: usize = 4;

/// Bits of the time in nanoseconds that a message carries.
const TIME_BITS: u32 = 40;

pub(super) struct Node {
    endpoint: Endpoint<Rdm, Local>,
    queue: CompletionQueue<Local>,
    peers: AddressVector<Local>,
    /// The targets of this node: their peers, and how many messages they were sent.
    known: HashMap<u32, (Peer, u32)>,
    heard: Heard,
    /// The receives that are posted, with their numbers, and how many there have been.
    receives: Vec<(Op, u32)>,
    posted: u32,
    /// Messages that could not be posted yet, oldest first: the target, and when they were to be sent.
    waiting: VecDeque<(u32, Duration)>,
    size: usize,
    inject: usize,
    /// Number of messages that this node has begun to send.
    pub(super) begun: u64,
}

/// Counts of received messages, and what nodes share.
pub(super) struct Tally {
    pub(super) times: Histogram,
    pub(super) arrived: u64,
    /// Messages that were damaged, doubled or out of order.
    pub(super) wrong: u64,
    /// Buffers for messages that are sent, of all nodes.
    pub(super) spare: Vec<Buffer>,
}

impl Node {
    pub(super) fn open(domain: &Domain<Local>, size: usize) -> Result<Self, Trouble> {
        let peers = AddressVector::open(domain)?;
        let queue = CompletionQueue::polled(domain, 2 * RECEIVES)?;
        let endpoint = Endpoint::builder(domain)
            .address_vector(&peers)
            .queue(&queue)
            .enable()?;
        let mut node = Self {
            inject: endpoint.info().inject_size(),
            endpoint,
            queue,
            peers,
            known: HashMap::new(),
            heard: Heard::default(),
            receives: Vec::with_capacity(RECEIVES),
            posted: 0,
            waiting: VecDeque::new(),
            size,
            begun: 0,
        };
        for _ in 0..RECEIVES {
            node.receive(Buffer::zeroed(size))?;
        }
        Ok(node)
    }

    fn receive(&mut self, buffer: Buffer) -> Result<(), Trouble> {
        self.receives
            .push((self.endpoint.receive(buffer)?, self.posted));
        self.posted += 1;
        Ok(())
    }

    pub(super) fn endpoint(&self) -> &Endpoint<Rdm, Local> {
        &self.endpoint
    }

    pub(super) fn address(&self) -> Result<Address, Trouble> {
        Ok(self.endpoint.address()?)
    }

    /// Returns how many other nodes this node has sent to or received from.
    pub(super) fn peers(&self) -> usize {
        let only_heard = self
            .heard
            .senders()
            .filter(|node| !self.known.contains_key(node));
        self.known.len() + only_heard.count()
    }

    /// Returns how many messages wait to be posted.
    pub(super) fn waits(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn knows(&self, node: u32) -> bool {
        self.known.contains_key(&node)
    }

    pub(super) fn learn(&mut self, node: u32, address: &Address) -> Result<(), Trouble> {
        self.known.insert(node, (self.peers.insert(address)?, 0));
        Ok(())
    }

    /// Begins to send a message to a target that it has opened.
    pub(super) fn send(
        &mut self,
        me: u32,
        to: u32,
        now: Duration,
        spare: &mut Vec<Buffer>,
    ) -> Result<(), Trouble> {
        self.begun += 1;
        self.waiting.push_back((to, now));
        self.post(me, spare)
    }

    /// Takes received messages, and posts waiting ones.
    pub(super) fn step(
        &mut self,
        me: u32,
        now: Duration,
        tally: &mut Tally,
    ) -> Result<(), Trouble> {
        while let Some(completion) = self.queue.poll()? {
            let op = completion.op;
            let (mut buffer, transfer) = completion.ok()?;
            if transfer.operation != Operation::Receive {
                tally.spare.push(buffer);
                continue;
            }
            let posted = self.receives.iter().position(|posted| posted.0 == op);
            let posted = posted.ok_or("a receive ended that was not posted")?;
            let (_, receive) = self.receives.swap_remove(posted);
            self.take(me, &buffer, receive, now, tally);
            buffer.resize(self.size);
            self.receive(buffer)?;
        }
        self.post(me, &mut tally.spare)
    }

    fn post(&mut self, me: u32, spare: &mut Vec<Buffer>) -> Result<(), Trouble> {
        while let Some(&(to, since)) = self.waiting.front() {
            let Some(&(peer, number)) = self.known.get(&to) else {
                return Err("a message to a node that was not opened".into());
            };
            let mut buffer = spare.pop().unwrap_or_else(|| Buffer::zeroed(self.size));
            write(&mut buffer, me, number, since);
            let posted = if self.size <= self.inject {
                let posted = self.endpoint.inject(peer, &buffer);
                spare.push(buffer);
                posted
            } else {
                self.endpoint
                    .send(peer, buffer)
                    .map(|_| ())
                    .map_err(|refused| refused.error)
            };
            match posted {
                Err(error) if error.is_again() => return Ok(()),
                posted => posted?,
            }
            self.waiting.pop_front();
            self.known.insert(to, (peer, number + 1));
        }
        Ok(())
    }

    fn take(&mut self, me: u32, message: &[u8], receive: u32, now: Duration, tally: &mut Tally) {
        tally.arrived += 1;
        let Some((from, number, since)) = read(message).filter(|_| message.len() == self.size)
        else {
            tally.wrong += 1;
            return;
        };
        let in_turn = self.heard.note(from, number, receive);
        tally.wrong += u64::from(from == me || !in_turn);
        tally.times.add(now.saturating_sub(since));
    }
}

/// Writes a message.
fn write(message: &mut [u8], from: u32, number: u32, since: Duration) {
    let nanos = since.as_nanos() as u64 & ((1 << TIME_BITS) - 1);
    let check = u64::from(from.wrapping_mul(31) ^ number) << TIME_BITS;
    message[..4].copy_from_slice(&from.to_le_bytes());
    message[4..8].copy_from_slice(&number.to_le_bytes());
    message[8..16].copy_from_slice(&(nanos | check).to_le_bytes());
    if let Some(last) = message[HEAD..].last_mut() {
        *last = number as u8;
    }
}

/// Reads a message: its sender, its number, and since when it is under way; `None` if it is damaged.
fn read(message: &[u8]) -> Option<(u32, u32, Duration)> {
    let (from, rest) = message.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (time, rest) = rest.split_first_chunk()?;
    let (from, number) = (u32::from_le_bytes(*from), u32::from_le_bytes(*number));
    let time = u64::from_le_bytes(*time);
    let check = u64::from(from.wrapping_mul(31) ^ number) << TIME_BITS;
    let nanos = time & ((1 << TIME_BITS) - 1);
    let whole = time == nanos | check && rest.last().is_none_or(|last| *last == number as u8);
    whole.then_some((from, number, Duration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_changed_is_damaged() {
        let mut message = [0; 32];
        let since = Duration::from_micros(77);
        write(&mut message, 3, 9, since);
        assert_eq!(read(&message), Some((3, 9, since)));
        for at in [0, 4, 14, 31] {
            let mut damaged = message;
            damaged[at] ^= 1;
            assert_eq!(read(&damaged), None, "{at}");
        }
        assert_eq!(read(&message[..12]), None);
    }
}
