//! Collectives: operations of all members of a group, fi_collective(3). Path class: setup for groups, large for
//! operations.
//!
//! A member's part in a collective is a [`schedule`]: a list of messages to send, to await and to combine. The engine works
//! it off with its own messages, in a class beside those of the application, so that the two never meet; long ones move
//! as any long message does. Schedules of one operation wait for nothing else, so that many may be under way, on one group
//! or on several.
//!
//! A member gives the group an id of its own when it joins, and sends it to the others: every message carries the id that
//! its receiver gave. The join itself has no id yet: the two ends of each message count the groups that they have
//! both joined, which is why they have to do so in the same order.
//!
//! A member that cannot go on notifies all other members, whose operations then fail too, and the group is of no more use. A
//! member that is gone is noticed by those that wait for it: before they wait they make sure that there is a connection to lose.

mod active;
mod arrival;
mod begin;
mod doubling;
mod failure;
mod given_up;
mod group;
mod join;
mod pairwise;
mod ring;
mod schedule;
mod tag;
mod tree;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::arithmetic::{Datatype, Form, Operation};
use crate::slab::{Key, Slab};
use active::ActiveCollective;
use given_up::GivenUp;
use group::Group;

pub use join::MAX_MEMBERS;

/// What the members of a group do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// No member goes on before all have come.
    Barrier,
    /// All get what the root has, in their result buffer, where it also is at the root.
    Broadcast,
    /// Each gets one slice of each.
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

    /// Returns whether it combines data.
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

/// Names a group at this endpoint. It is never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// The operation that combines elements: one of [`Arithmetic::ASSOCIATIVE`] on numbers that have it.
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

    /// Returns whether such numbers can be reduced so.
    pub fn is_valid(self) -> bool {
        Self::ASSOCIATIVE.contains(&self.operation)
            && self.operation.is_valid(Form::Base, self.datatype)
    }
}

/// One member's part in a collective.
#[derive(Debug)]
pub struct CollectiveOp {
    /// The group that takes part.
    pub group: GroupId,
    /// The kind of collective.
    pub what: Collective,
    /// The root, for those that have one.
    pub root: PeerId,
    /// Bytes of one slice; the same at all members.
    pub len: usize,
    /// What the member brings: [`Collective::brings`] slices. It stays as it is.
    pub input: Iov,
    /// What it gets: [`Collective::gets`] slices.
    pub result: Iov,
    /// The operation and datatype that combine data, for kinds that do.
    pub arithmetic: Option<Arithmetic>,
    /// `COMPLETION`.
    pub flags: Flags,
    /// The application's pointer, repeated in the completion.
    pub context: usize,
}

/// The groups of an endpoint and what is under way in them.
#[derive(Debug)]
pub(crate) struct Collectives {
    groups: BTreeMap<GroupId, Group>,
    /// Number of groups so far.
    named: u32,
    active: Slab<ActiveCollective>,
    /// Receives, by source and tag, in order.
    posted: BTreeMap<(PeerId, u64), VecDeque<Posted>>,
    /// Collectives that can go on.
    ready: VecDeque<Key>,
    /// Peers that were sent something: the link reports it if they go.
    reached: BTreeSet<PeerId>,
    /// Number of joins that have begun that a peer takes part in.
    joins: BTreeMap<PeerId, u32>,
    /// Joins that a peer has given up before they began here.
    given_up: GivenUp,
}

/// A receive of a collective under way.
#[derive(Debug)]
struct Posted {
    into: Iov,
    active: Key,
}

impl Collectives {
    pub(crate) fn new() -> Self {
        Self {
            groups: BTreeMap::new(),
            named: 0,
            active: Slab::with_capacity(0),
            posted: BTreeMap::new(),
            ready: VecDeque::new(),
            reached: BTreeSet::new(),
            joins: BTreeMap::new(),
            given_up: GivenUp::default(),
        }
    }

    /// Returns whether a collective can go on.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns whether a collective waits for a message of that peer.
    pub(crate) fn waits_for(&self, peer: PeerId) -> bool {
        let all = (peer, 0)..=(peer, u64::MAX);
        self.posted.range(all).next().is_some()
    }

    /// Takes the first receive for a message.
    fn take(&mut self, from: PeerId, tag: u64) -> Option<Posted> {
        let queue = self.posted.get_mut(&(from, tag))?;
        let posted = queue.pop_front();
        if queue.is_empty() {
            self.posted.remove(&(from, tag));
        }
        posted
    }

    /// Returns the peers from which collectives wait for messages.
    pub(crate) fn peers_with_pending(&self) -> impl Iterator<Item = PeerId> {
        self.posted.keys().map(|&(from, _)| from)
    }

    /// Returns the peers that have given up joins which may begin here.
    pub(crate) fn peers_that_gave_up(&self) -> impl Iterator<Item = PeerId> {
        self.given_up.peers()
    }

    /// Takes all receives that `which` chooses; returns their collectives, once for each.
    fn take_all(&mut self, which: impl Fn(PeerId, &Posted) -> bool) -> Vec<Key> {
        let mut active = Vec::new();
        self.posted.retain(|&(from, _), queue| {
            queue.retain(|posted| {
                let is_taken = which(from, posted);
                if is_taken {
                    active.push(posted.active);
                }
                !is_taken
            });
            !queue.is_empty()
        });
        active
    }

    /// Counts one message of a collective as over: sent, or here.
    pub(crate) fn over(&mut self, active: Key, result: Result<(), Errno>) {
        let Some(row) = self.active.get_mut(active) else {
            return;
        };
        row.pending = row.pending.saturating_sub(1);
        if let Err(errno) = result {
            row.failure.get_or_insert(errno);
        }
        if row.pending == 0 || row.failure.is_some() {
            self.ready.push_back(active);
        }
    }
}
