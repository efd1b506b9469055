//! Collectives: operations of all members of a group, fi_collective(3). Path class: setup for groups, large for
//! operations.
//!
//! A member's part in a collective is a [`schedule`](oxifabric_collectives::schedule): a list of messages to send, to await and to combine. The engine works
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
mod failure;
mod given_up;
mod group;
mod join;
mod tag;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use oxifabric_collectives::{Arithmetic, Collective};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::slab::{Key, Slab};
use active::ActiveCollective;
use given_up::GivenUp;
use group::Group;

pub use join::MAX_MEMBERS;

/// Names a group at this endpoint. It is never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

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
