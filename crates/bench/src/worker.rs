//! A benchmark worker: one side of ping-pong and of streams, over an open endpoint.
//!
//! Every round posts exactly as many receives as there are messages, so that nothing is left over for the next.

use std::time::{Duration, Instant};

use oxifabric::{Buffer, Completion, CompletionQueue, Endpoint, Op, Operation, Peer, Refused};

use crate::Trouble;
use crate::commands::Round;
use crate::providers::Opened;

/// An endpoint that exchanges messages with one peer.
pub(crate) struct Worker {
    endpoint: Endpoint,
    queue: CompletionQueue,
    to: Peer,
    received: Vec<(Op, Buffer)>,
    sent: Vec<Buffer>,
    silence: SilenceLimit,
    /// Number of messages with a wrong length or wrong contents.
    wrong: usize,
}

/// Every 16th message of a ping-pong is checked byte by byte, and not measured.
const CHECK_EVERY: usize = 16;

impl Worker {
    /// Makes a worker; `alone` means that both processes share one processor, so that an empty poll must yield.
    pub(crate) fn new(opened: Opened, to: Peer, alone: bool) -> Self {
        Self {
            endpoint: opened.endpoint,
            queue: opened.queue,
            to,
            received: Vec::new(),
            sent: Vec::new(),
            silence: SilenceLimit::new(alone),
            wrong: 0,
        }
    }

    /// Returns the number of wrong messages since the last call.
    pub(crate) fn take_wrong(&mut self) -> usize {
        core::mem::take(&mut self.wrong)
    }

    /// Sends each message and waits for the answer; `sample` takes the time there and back of those that are measured.
    pub(crate) fn ping(
        &mut self,
        round: Round,
        mut sample: impl FnMut(Duration),
    ) -> Result<(), Trouble> {
        let (mut there, mut back) = (Buffer::zeroed(round.size), Buffer::zeroed(round.size));
        for at in 0..round.count {
            let checked = round.checks(at);
            if let Some(pattern) = checked {
                pattern.fill(&mut there);
            }
            let start = Instant::now();
            let returns = self.send(&mut there)?;
            self.receive(back)?;
            back = self.take_received()?.1;
            if returns {
                there = self.take_sent()?;
            }
            match checked {
                Some(pattern) => self.judge(pattern.matches(&back, round.size)),
                None => {
                    sample(start.elapsed());
                    self.judge(back.len() == round.size);
                }
            }
            back.resize(round.size);
        }
        Ok(())
    }

    /// Answers each message with one of the same contents.
    pub(crate) fn pong(&mut self, round: Round) -> Result<(), Trouble> {
        let mut answer = Buffer::zeroed(round.size);
        self.receive(Buffer::zeroed(round.size))?;
        for at in 0..round.count {
            let (_, mut message) = self.take_received()?;
            match round.checks(at) {
                Some(pattern) => {
                    self.judge(pattern.matches(&message, round.size));
                    answer.copy_from_slice(&message);
                }
                None => self.judge(message.len() == round.size),
            }
            let returns = self.send(&mut answer)?;
            if at + 1 < round.count {
                message.resize(round.size);
                self.receive(message)?;
            }
            if returns {
                answer = self.take_sent()?;
            }
        }
        Ok(())
    }

    /// Sends a stream of messages, at most `window` at once, and returns the time until the peer has them all.
    pub(crate) fn stream(&mut self, round: Round, window: usize) -> Result<Duration, Trouble> {
        let window = window.min(round.count);
        self.sent = (0..window).map(|_| Buffer::zeroed(round.size)).collect();
        if let Some(last) = self.sent.last_mut() {
            round.pattern(0).fill(last);
        }
        self.receive(Buffer::zeroed(SIGNAL.len()))?;
        self.take_received()?;
        self.receive(Buffer::zeroed(SIGNAL.len()))?;
        let start = Instant::now();
        for _ in 0..round.count {
            let buffer = self.take_sent()?;
            self.post(buffer, |endpoint, to, buffer| endpoint.send(to, buffer))?;
        }
        self.take_received()?;
        let time = start.elapsed();
        while self.sent.len() < window {
            self.poll()?;
        }
        self.sent.clear();
        Ok(time)
    }

    /// Receives a stream of messages with up to `window` receives posted.
    pub(crate) fn drain(&mut self, round: Round, window: usize) -> Result<(), Trouble> {
        let window = window.min(round.count);
        let first = self.receive(Buffer::zeroed(round.size))?;
        for _ in 1..window {
            self.receive(Buffer::zeroed(round.size))?;
        }
        self.signal()?;
        let mut kept = None;
        for at in 0..round.count {
            let (op, mut buffer) = self.take_received()?;
            self.judge(buffer.len() == round.size);
            if kept.is_none() && op == first {
                kept = Some(core::mem::replace(&mut buffer, Buffer::zeroed(0)));
            }
            if at + window < round.count {
                buffer.resize(round.size);
                self.receive(buffer)?;
            }
        }
        self.signal()?;
        let pattern = round.pattern(0);
        self.judge(kept.is_some_and(|first| pattern.matches(&first, round.size)));
        Ok(())
    }

    fn judge(&mut self, right: bool) {
        self.wrong += usize::from(!right);
    }

    /// Signals the peer to go on.
    fn signal(&mut self) -> Result<(), Trouble> {
        let mut signal = Buffer::from(SIGNAL);
        if self.send(&mut signal)? {
            self.take_sent()?;
        }
        Ok(())
    }

    /// Sends the bytes; returns whether the operation owns the buffer, which then comes back with its completion. An injected one does not.
    fn send(&mut self, buffer: &mut Buffer) -> Result<bool, Trouble> {
        if buffer.len() > self.endpoint.info().inject_size() {
            let buffer = core::mem::take(buffer);
            self.post(buffer, |endpoint, to, buffer| endpoint.send(to, buffer))?;
            return Ok(true);
        }
        while let Err(error) = self.endpoint.inject(self.to, buffer) {
            if !error.is_again() {
                return Err(error.into());
            }
            self.poll()?;
        }
        Ok(false)
    }

    fn receive(&mut self, buffer: Buffer) -> Result<Op, Trouble> {
        self.post(buffer, |endpoint, _, buffer| endpoint.receive(buffer))
    }

    /// Posts an operation, and reads completions as long as the endpoint refuses it with `FI_EAGAIN`.
    fn post(
        &mut self,
        mut buffer: Buffer,
        post: impl Fn(&Endpoint, Peer, Buffer) -> Result<Op, Refused>,
    ) -> Result<Op, Trouble> {
        loop {
            match post(&self.endpoint, self.to, buffer) {
                Ok(op) => return Ok(op),
                Err(refused) if refused.is_again() => buffer = refused.buffer,
                Err(refused) => return Err(refused.error.into()),
            }
            self.poll()?;
        }
    }

    fn take_received(&mut self) -> Result<(Op, Buffer), Trouble> {
        loop {
            if let Some(received) = self.received.pop() {
                return Ok(received);
            }
            self.poll()?;
        }
    }

    fn take_sent(&mut self) -> Result<Buffer, Trouble> {
        loop {
            if let Some(buffer) = self.sent.pop() {
                return Ok(buffer);
            }
            self.poll()?;
        }
    }

    fn poll(&mut self) -> Result<(), Trouble> {
        let Some(Completion {
            op,
            buffer,
            outcome,
        }) = self.queue.poll()?
        else {
            return self.silence.wait();
        };
        self.silence.reset();
        match outcome?.operation {
            Operation::Receive => self.received.push((op, buffer)),
            _ => self.sent.push(buffer),
        }
        Ok(())
    }
}

/// The message by which the receiver of a stream says that its receives are posted, and that all messages have arrived.
const SIGNAL: &[u8; 1] = b"!";

/// The time since the last completion, bounded by [`LONGEST_WAIT`].
struct SilenceLimit {
    alone: bool,
    polls: u32,
    since: Option<Instant>,
}

/// Longer than any connect timeout of a provider, so that its error comes first.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Polls between two reads of the clock.
const POLLS_PER_LOOK: u32 = 1 << 14;

impl SilenceLimit {
    fn new(alone: bool) -> Self {
        Self {
            alone,
            polls: 0,
            since: None,
        }
    }

    fn reset(&mut self) {
        self.polls = 0;
        self.since = None;
    }

    fn wait(&mut self) -> Result<(), Trouble> {
        if self.alone {
            std::thread::yield_now();
        }
        self.polls += 1;
        if self.polls < POLLS_PER_LOOK {
            return Ok(());
        }
        self.polls = 0;
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > LONGEST_WAIT {
            return Err("the other process has been silent for 30 seconds".into());
        }
        Ok(())
    }
}

impl Round {
    /// Returns the pattern of a message of a ping-pong, if the message is one that is checked.
    fn checks(&self, at: usize) -> Option<Pattern> {
        at.is_multiple_of(CHECK_EVERY).then(|| self.pattern(at))
    }

    fn pattern(&self, at: usize) -> Pattern {
        Pattern((self.seed as u8).wrapping_mul(31).wrapping_add(at as u8))
    }
}

/// The contents of a checked message.
#[derive(Clone, Copy)]
struct Pattern(u8);

impl Pattern {
    fn byte(self, at: usize) -> u8 {
        // The second term tells pages apart, so that a page out of place is noticed.
        self.0
            .wrapping_add((at as u8).wrapping_mul(7))
            .wrapping_add((at >> 8) as u8)
    }

    fn fill(self, bytes: &mut [u8]) {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(at);
        }
    }

    fn matches(self, bytes: &[u8], len: usize) -> bool {
        let mut pairs = bytes.iter().enumerate();
        bytes.len() == len && pairs.all(|(at, byte)| *byte == self.byte(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_notices_a_wrong_byte_and_a_wrong_length() {
        let mut bytes = [0; 10_000];
        Pattern(3).fill(&mut bytes);
        assert!(Pattern(3).matches(&bytes, 10_000));
        assert!(!Pattern(4).matches(&bytes, 10_000));
        assert!(!Pattern(3).matches(&bytes[..9_999], 10_000));
        bytes[9_999] ^= 1;
        assert!(!Pattern(3).matches(&bytes, 10_000));
    }

    #[test]
    fn a_pattern_notices_pages_out_of_place() {
        let mut bytes = [0; 8192];
        Pattern(0).fill(&mut bytes);
        let (one, other) = bytes.split_at_mut(4096);
        one.swap_with_slice(other);
        assert!(!Pattern(0).matches(&bytes, 8192));
    }
}
