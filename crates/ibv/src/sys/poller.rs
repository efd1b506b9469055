//! Polls that handle each completion where it is, in the queue, instead of taking a number of them out of it first.

use std::marker::PhantomData;
use std::sync::Arc;

use super::cq::Cq;
use super::structures::ibv_poll_cq_attr;
use crate::{Completion, Received, Status};

/// What polls a queue, one completion after the other.
#[derive(Debug)]
pub struct Poller {
    cq: Arc<Cq>,
}

/// A poll that is at a completion, which it has taken off the queue.
///
/// As long as there is one the library locks the queue: another poll, or a queue pair that is closed, would wait for it.
#[derive(Debug)]
pub struct Poll<'a> {
    cq: &'a Cq,
    /// The thread that has locked the queue unlocks it.
    of_thread: PhantomData<*const ()>,
}

impl Poller {
    /// Makes what polls a queue.
    pub fn new(cq: &Arc<Cq>) -> Self {
        Self { cq: Arc::clone(cq) }
    }

    /// Begins a poll; `None` if the queue is empty.
    #[inline(always)]
    pub fn begin(&mut self) -> Option<Poll<'_>> {
        let mut attributes = ibv_poll_cq_attr { comp_mask: 0 };
        // SAFETY: the queue lives; a start that succeeds is followed by steps of the poll that is returned and by its end.
        let result = unsafe { (self.cq.polls.start)(self.cq.cq.as_ptr(), &raw mut attributes) };
        // Not made where the start fails, since its drop ends the poll.
        (result == 0).then(|| Poll {
            cq: &self.cq,
            of_thread: PhantomData,
        })
    }
}

impl Drop for Poll<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this is a poll that is under way.
        unsafe { (self.cq.polls.end)(self.cq.cq.as_ptr()) };
    }
}

impl Poll<'_> {
    /// Goes on to the next completion; returns whether there is one. If not, the poll has to end, and is at the last one still.
    #[inline(always)]
    #[must_use = "a completion that is moved to is taken off the queue"]
    pub fn step(&mut self) -> bool {
        // SAFETY: this is a poll that is under way.
        unsafe { (self.cq.polls.next)(self.cq.cq.as_ptr()) == 0 }
    }

    /// Returns the id and the status of the completion.
    #[inline(always)]
    pub fn ended(&self) -> (u64, Status) {
        let cq = self.cq.cq.as_ptr();
        // SAFETY: this is a poll that is under way, so nothing else polls the queue.
        unsafe { ((*cq).wr_id, Status((*cq).status)) }
    }

    /// Returns whether the completion is that of a peer's write which used up no receive.
    #[inline(always)]
    pub fn is_unsolicited(&self) -> bool {
        // SAFETY: this is a poll that is under way.
        unsafe { self.cq.is_unsolicited() }
    }

    /// Returns what there is to know of the message that was received, if that is the completion.
    #[inline(always)]
    pub fn received(&self) -> Option<Received> {
        if self.is_unsolicited() {
            return None;
        }
        // SAFETY: this is a poll that is under way.
        unsafe { self.cq.read_received() }
    }

    /// Returns everything that the completion says.
    #[inline(always)]
    pub fn completion(&self) -> Completion {
        let mut completion = Completion::NONE;
        // SAFETY: this is a poll that is under way.
        unsafe { self.cq.read_current(&mut completion) };
        completion
    }
}
