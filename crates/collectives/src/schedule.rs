//! What one member does in a collective, as a list of steps: pure data, made from the member's rank alone.
//!
//! All members make their schedules independently, and they fit together: the k-th message that one schedule sends to a
//! member is the k-th that the other schedule takes from it. So a message needs no id beyond its collective's.

use alloc::vec::Vec;

use crate::{Collective, doubling, pairwise, ring, tree};

/// Memory that a schedule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// What the member brings.
    Input,
    /// What the member gets.
    Result,
    /// Memory of the operation's own, mostly for data that arrives.
    Scratch,
    /// Memory of the operation's own for partial results.
    Partial,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The buffer.
    pub buffer: Buffer,
    /// Where the part begins.
    pub offset: usize,
    /// Bytes of the part.
    pub len: usize,
}

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begins to send to a member.
    Send {
        /// The rank of the receiver.
        to: usize,
        /// The message.
        from: Span,
    },
    /// Begins to receive from a member.
    Recv {
        /// The rank of the sender.
        from: usize,
        /// Where the message goes; it is as long as this.
        into: Span,
    },
    /// Waits until all sends and receives that have begun are complete.
    Wait,
    /// Reduces one part into another of the same length.
    Combine {
        /// The operand.
        from: Span,
        /// The other operand, and the result.
        into: Span,
    },
    /// Copies one part to another of the same length in another buffer.
    Copy {
        /// The source.
        from: Span,
        /// The destination.
        into: Span,
    },
}

/// What a member does, in order.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Length of the scratch buffer.
    pub scratch: usize,
    /// Length of the buffer of partial results.
    pub partial: usize,
}

/// A member's position in a collective.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The rank of the member.
    pub rank: usize,
    /// Number of members.
    pub size: usize,
    /// The rank of the root, for those that have one.
    pub root: usize,
    /// Bytes of one slice: what one member contributes to a gather, gets of a scatter, or exchanges with one other in an alltoall; of a
    /// broadcast, reduce or allreduce, the whole buffer.
    pub len: usize,
    /// Bytes of one element; a schedule that reduces cuts buffers only between elements.
    pub element: usize,
}

impl Position {
    /// Returns the rank that is this distance higher, in the ring of all ranks.
    pub(crate) const fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.size
    }

    /// Returns the rank that is this distance lower, in the ring of all ranks; the distance is at most the size.
    pub(crate) const fn before(&self, distance: usize) -> usize {
        (self.rank + self.size - distance) % self.size
    }

    /// Returns the relative rank, which counts from the root on in the ring of all ranks.
    pub(crate) const fn relative(&self) -> usize {
        (self.rank + self.size - self.root) % self.size
    }

    /// Returns the rank of the member with this relative rank.
    pub(crate) const fn absolute(&self, relative: usize) -> usize {
        (self.root + relative) % self.size
    }

    /// Returns slice number `at` of a buffer.
    pub(crate) const fn slice(&self, buffer: Buffer, at: usize) -> Span {
        self.slices(buffer, at, 1)
    }

    /// Returns `count` slices of a buffer.
    pub(crate) const fn slices(&self, buffer: Buffer, at: usize, count: usize) -> Span {
        Span {
            buffer,
            offset: at * self.len,
            len: count * self.len,
        }
    }
}

/// Makes the schedule of one member.
pub fn schedule(what: Collective, position: &Position) -> Schedule {
    let mut schedule = Schedule::default();
    if position.len == 0 && what != Collective::Barrier {
        return schedule;
    }
    match what {
        Collective::Barrier => doubling::barrier(&mut schedule, position),
        Collective::Broadcast => tree::broadcast(&mut schedule, position),
        Collective::Alltoall => pairwise::alltoall(&mut schedule, position),
        Collective::Allreduce if ring::suits_allreduce(position) => {
            ring::allreduce(&mut schedule, position)
        }
        Collective::Allreduce => doubling::allreduce(&mut schedule, position),
        Collective::Allgather if ring::suits_allgather(position) => {
            ring::allgather(&mut schedule, position)
        }
        Collective::Allgather => doubling::allgather(&mut schedule, position),
        Collective::ReduceScatter => pairwise::reduce_scatter(&mut schedule, position),
        Collective::Reduce => tree::reduce(&mut schedule, position),
        Collective::Scatter => tree::scatter(&mut schedule, position),
        Collective::Gather => tree::gather(&mut schedule, position),
    }
    schedule.wait();
    schedule
}

impl Schedule {
    pub(crate) fn send(&mut self, to: usize, from: Span) {
        self.steps.push(Step::Send { to, from });
    }

    pub(crate) fn recv(&mut self, from: usize, into: Span) {
        self.reserve(into);
        self.steps.push(Step::Recv { from, into });
    }

    pub(crate) fn combine(&mut self, from: Span, into: Span) {
        self.steps.push(Step::Combine { from, into });
    }

    pub(crate) fn copy(&mut self, from: Span, into: Span) {
        self.reserve(into);
        self.steps.push(Step::Copy { from, into });
    }

    pub(crate) fn wait(&mut self) {
        self.steps.push(Step::Wait);
    }

    /// Sends one part and receives another at the same time.
    pub(crate) fn exchange(&mut self, to: usize, out: Span, from: usize, into: Span) {
        // The send is first: it opens the connection that notices when the peer is lost. Without one the engine sends its `HELLO`.
        self.send(to, out);
        self.recv(from, into);
        self.wait();
    }

    /// Makes the operation's own buffers as long as they are used.
    fn reserve(&mut self, span: Span) {
        let end = span.offset + span.len;
        match span.buffer {
            Buffer::Scratch => self.scratch = self.scratch.max(end),
            Buffer::Partial => self.partial = self.partial.max(end),
            Buffer::Input | Buffer::Result => {}
        }
    }
}

#[cfg(test)]
mod tests;
