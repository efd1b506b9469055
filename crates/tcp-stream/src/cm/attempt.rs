//! The initiator's side of a connection without I/O, between endpoints of either kind (docs/protocol/tcp.md sections 1.4, 3.6
//! and 7.2). Set-up path.

use alloc::boxed::Box;
use core::time::Duration;

use oxifabric_types::{Errno, Instant};
use oxifabric_wire::tcp::ByteOrder;
use oxifabric_wire::tcp::cm::CmKind;

use super::{CmEvent, CmMessage, CmReader};

/// The first pause after a refusal; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(2);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// An attempt to connect: the host takes the connection, then the request leaves, then the endpoint answers.
#[derive(Debug)]
pub struct Attempt {
    request: CmMessage,
    /// Where the answer goes; `None` until the host has taken the connection.
    reader: Option<CmReader>,
    /// When the host, or then the endpoint, must have answered; `None` until the time is known.
    deadline: Option<Instant>,
}

/// The acceptor's answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection may be used, with frame headers in this byte order.
    Response {
        /// The byte order.
        order: ByteOrder,
        /// What the acceptor says with it.
        data: Box<[u8]>,
    },
    /// It may not.
    Refusal {
        /// What the acceptor says with it.
        data: Box<[u8]>,
    },
}

impl Attempt {
    /// Makes the state of an attempt with this request.
    pub const fn new(request: CmMessage) -> Self {
        Self {
            request,
            reader: None,
            deadline: None,
        }
    }

    /// Notes that the host has taken the connection; returns the request, which is to be sent now.
    pub fn connected(&mut self) -> &CmMessage {
        self.reader = Some(CmReader::default());
        // The endpoint answers when its process polls or its application accepts, which may be in a while.
        self.deadline = None;
        &self.request
    }

    /// Returns where the answer goes; `None` as long as the host has not taken the connection.
    pub fn reader(&mut self) -> Option<&mut CmReader> {
        self.reader.as_mut()
    }

    /// Takes what came of reading the answer.
    ///
    /// # Errors
    /// `PROTO` for what is no answer, `CONNRESET` where the peer went away.
    pub fn answered(event: CmEvent) -> Result<Answer, Errno> {
        let message = match event {
            CmEvent::Message(message) => message,
            CmEvent::Malformed(_) => return Err(Errno::PROTO),
            CmEvent::Closed { .. } => return Err(Errno::CONNRESET),
        };
        let (order, data) = (message.order, message.data);
        match message.kind {
            CmKind::Response => Ok(Answer::Response { order, data }),
            CmKind::Refusal => Ok(Answer::Refusal { data }),
            CmKind::Request => Err(Errno::PROTO),
        }
    }

    /// Sets the deadline of the step that is under way, unless it has one, and returns it: the host has to take the connection
    /// within one time, and the endpoint to answer within another, if that is limited.
    pub fn set_deadline(
        &mut self,
        now: Instant,
        reached: Duration,
        answered: Option<Duration>,
    ) -> Instant {
        let limit = match self.reader {
            None => Some(reached),
            Some(_) => answered,
        };
        let deadline = limit.map_or(Instant::END, |limit| now.after(limit));
        *self.deadline.get_or_insert(deadline)
    }

    /// Returns the deadline of the step that is under way, if it has one.
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// The refusals of a request so far: the peer's own connection is expected instead, and the request repeated if none comes
/// (protocol section 3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    refusals: u32,
    /// When to try no more.
    give_up_at: Option<Instant>,
    /// When to try again.
    pub at: Option<Instant>,
}

impl Retry {
    /// Counts a refusal; `None` when there were refusals for longer than `limit`.
    pub fn refused(self, now: Instant, limit: Duration) -> Option<Self> {
        let give_up_at = self.give_up_at.unwrap_or_else(|| now.after(limit));
        if give_up_at <= now {
            return None;
        }
        let pause = PAUSE.saturating_mul(1 << self.refusals.min(8));
        Some(Self {
            refusals: self.refusals + 1,
            give_up_at: Some(give_up_at),
            at: Some(now.after(pause.min(PAUSE_MAX))),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::cm::Message;

    const START: Instant = Instant::from_nanos(1_000_000_000);
    const REACHED: Duration = Duration::from_secs(15);

    fn attempt() -> Attempt {
        Attempt::new(CmMessage::new(CmKind::Request, b"hello"))
    }

    fn answer(kind: CmKind) -> Result<Answer, Errno> {
        Attempt::answered(CmEvent::Message(Message {
            kind,
            order: ByteOrder::Big,
            data: Box::from(*b"data"),
        }))
    }

    #[test]
    fn each_step_has_a_time_limit_of_its_own() {
        let mut attempt = attempt();
        assert!(attempt.reader().is_none() && attempt.deadline().is_none());
        let reached = attempt.set_deadline(START, REACHED, None);
        assert_eq!(reached, START.after(REACHED));
        let later = START.after(Duration::from_secs(1));
        assert_eq!(attempt.set_deadline(later, REACHED, None), reached);
        assert!(attempt.connected().bytes().ends_with(b"hello"));
        assert!(attempt.reader().is_some() && attempt.deadline().is_none());
        assert_eq!(attempt.set_deadline(later, REACHED, None), Instant::END);
        attempt.connected();
        let limit = Duration::from_secs(3);
        let answered = attempt.set_deadline(later, REACHED, Some(limit));
        assert_eq!(answered, later.after(limit));
    }

    #[test]
    fn only_responses_and_refusals_are_answers() {
        let data = || Box::from(*b"data");
        let order = ByteOrder::Big;
        let response = Answer::Response {
            order,
            data: data(),
        };
        assert_eq!(answer(CmKind::Response), Ok(response));
        let refusal = Answer::Refusal { data: data() };
        assert_eq!(answer(CmKind::Refusal), Ok(refusal));
        assert_eq!(answer(CmKind::Request), Err(Errno::PROTO));
        let closed = CmEvent::Closed { within: true };
        assert_eq!(Attempt::answered(closed), Err(Errno::CONNRESET));
    }

    #[test]
    fn pauses_between_requests_grow_until_there_were_enough() {
        let (mut now, mut retry, mut pauses) = (START, Retry::default(), Vec::new());
        while let Some(next) = retry.refused(now, REACHED) {
            let at = next.at.expect("it is tried again");
            pauses.push(at.since(now));
            (now, retry) = (at, next);
        }
        assert_eq!(pauses[..3], [PAUSE, 2 * PAUSE, 4 * PAUSE]);
        assert_eq!(pauses.last(), Some(&PAUSE_MAX));
        assert!(now >= START.after(REACHED));
    }
}
