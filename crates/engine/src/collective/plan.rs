//! What one member does in a collective, as a list of steps: pure data, made from the member's rank alone.
//!
//! All members make their plans independently, and they fit together: the k-th message that one plan sends to a member
//! is the k-th that the other plan takes from it. So a message needs no name beyond its collective's.

use alloc::vec::Vec;

use super::{Collective, doubling, pairwise, ring, tree};

/// Memory that a plan names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// What the member brings.
    Input,
    /// What the member gets.
    Result,
    /// Room of the operation's own, mostly for what arrives.
    Scratch,
    /// More of it, for partial results.
    Partial,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) buffer: Buffer,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// One step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
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
    /// Goes on when everything that has begun is over.
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
        /// From there.
        from: Span,
        /// To there.
        into: Span,
    },
}

/// What a member does, in order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// How long the scratch buffer is.
    pub(crate) scratch: usize,
    /// How long the buffer of partial results is.
    pub(crate) partial: usize,
}

/// A member's place in a collective.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    /// How many members there are.
    pub(crate) size: usize,
    /// The rank of the root, for those that have one.
    pub(crate) root: usize,
    /// Bytes of one slice: what one member contributes to a gather, or gets of a scatter; otherwise, of all.
    pub(crate) len: usize,
    /// Bytes of one element; reductions do not cut through them.
    pub(crate) element: usize,
}

impl Place {
    /// Returns the rank at a distance behind this one, in a circle of all.
    pub(crate) const fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.size
    }

    /// Returns the rank at a distance before this one, in a circle of all; the distance is at most the size.
    pub(crate) const fn before(&self, distance: usize) -> usize {
        (self.rank + self.size - distance) % self.size
    }

    /// Returns the rank in a circle that begins with the root.
    pub(crate) const fn relative(&self) -> usize {
        (self.rank + self.size - self.root) % self.size
    }

    /// Returns the rank of the member with that number in a circle that begins with the root.
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

/// Makes the plan of one member.
pub(crate) fn plan(what: Collective, place: &Place) -> Plan {
    let mut plan = Plan::default();
    if place.len == 0 && what != Collective::Barrier {
        return plan;
    }
    match what {
        Collective::Barrier => doubling::barrier(&mut plan, place),
        Collective::Broadcast => tree::broadcast(&mut plan, place),
        Collective::Alltoall => pairwise::alltoall(&mut plan, place),
        Collective::Allreduce if ring::suits_allreduce(place) => ring::allreduce(&mut plan, place),
        Collective::Allreduce => doubling::allreduce(&mut plan, place),
        Collective::Allgather if ring::suits_allgather(place) => ring::allgather(&mut plan, place),
        Collective::Allgather => doubling::allgather(&mut plan, place),
        Collective::ReduceScatter => pairwise::reduce_scatter(&mut plan, place),
        Collective::Reduce => tree::reduce(&mut plan, place),
        Collective::Scatter => tree::scatter(&mut plan, place),
        Collective::Gather => tree::gather(&mut plan, place),
    }
    plan.wait();
    plan
}

impl Plan {
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
        // A member that is sent something needs no greeting: the loss of the connection is noticed.
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
