//! What collectives compute, and in which messages: pure functions and data, without a link, memory of the application or peers.
//!
//! - [`arithmetic`]: what atomics and collectives compute with two elements.
//! - [`schedule`]: what one member does in a collective, as a list of steps. The algorithms: `doubling`, `pairwise`, `ring`, `tree`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arithmetic;
pub mod schedule;

mod doubling;
mod pairwise;
mod ring;
mod tree;

use arithmetic::{Datatype, Form, Operation};

/// A collective operation of a group: what its members do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// No member goes on before all have entered the barrier.
    Barrier,
    /// All get the root's data in their result buffer, which at the root holds the data to begin with.
    Broadcast,
    /// Each member gets one slice from each.
    Alltoall,
    /// All get the reduction of what all bring.
    Allreduce,
    /// All get what all bring, one slice of each.
    Allgather,
    /// Each gets one slice of the reduction of what all bring.
    ReduceScatter,
    /// The root gets the reduction of what all bring.
    Reduce,
    /// Each gets one slice of what the root brings.
    Scatter,
    /// The root gets one slice of each.
    Gather,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Alltoall,
        Self::Allreduce,
        Self::Allgather,
        Self::ReduceScatter,
        Self::Reduce,
        Self::Scatter,
        Self::Gather,
    ];

    /// Returns whether the collective combines data.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::Allreduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Returns whether one member is different from the others.
    pub const fn has_root(self) -> bool {
        matches!(
            self,
            Self::Broadcast | Self::Reduce | Self::Scatter | Self::Gather
        )
    }

    /// Returns how many slices a member brings, in a group of that size.
    pub const fn brings(self, size: usize, is_root: bool) -> usize {
        match self {
            Self::Barrier | Self::Broadcast => 0,
            Self::Scatter if !is_root => 0,
            Self::Alltoall | Self::ReduceScatter | Self::Scatter => size,
            Self::Allreduce | Self::Allgather | Self::Reduce | Self::Gather => 1,
        }
    }

    /// Returns how many slices a member gets, in a group of that size.
    pub const fn gets(self, size: usize, is_root: bool) -> usize {
        match self {
            Self::Barrier => 0,
            Self::Reduce | Self::Gather if !is_root => 0,
            Self::Alltoall | Self::Allgather | Self::Gather => size,
            Self::Broadcast | Self::Allreduce | Self::ReduceScatter => 1,
            Self::Reduce | Self::Scatter => 1,
        }
    }
}

/// The operation that combines elements of a datatype; [`Arithmetic::is_valid`] says whether a collective can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// What the elements are.
    pub datatype: Datatype,
    /// What is done with two of them.
    pub operation: Operation,
}

impl Arithmetic {
    /// The operations that reduce many numbers to one, in any order.
    pub const ASSOCIATIVE: [Operation; 10] = [
        Operation::Min,
        Operation::Max,
        Operation::Sum,
        Operation::Prod,
        Operation::Lor,
        Operation::Land,
        Operation::Bor,
        Operation::Band,
        Operation::Lxor,
        Operation::Bxor,
    ];

    /// Returns whether the operation reduces elements of the datatype.
    pub fn is_valid(self) -> bool {
        Self::ASSOCIATIVE.contains(&self.operation)
            && self.operation.is_valid(Form::Base, self.datatype)
    }
}
