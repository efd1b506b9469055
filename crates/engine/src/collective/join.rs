//! Joining: the members of a set exchange their ids of the group, fi_collective(3)
//! "Join Collective".

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use oxifabric_collectives::Collective;
use oxifabric_collectives::schedule::{Position, Schedule, schedule};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use super::GroupId;
use super::active::ActiveCollective;
use super::group::{Group, Stage};
use super::tag::GROUP_IDS;
use crate::engine::Engine;
use crate::peer::Peers;
use crate::{Completions, Link};

/// Maximum number of members of a group.
pub const MAX_MEMBERS: usize = 1 << 20;

/// Length of what each member sends: its id of the group, and how many members it expects.
const JOIN_RECORD: usize = 8;

impl Engine {
    /// Joins the group of these members, of which this endpoint is one, by rank.
    ///
    /// It is over when all members have joined, or one cannot: [`Completions::joined`] is called with `context`. Two
    /// endpoints join the groups that they both belong to in the same order.
    ///
    /// # Errors
    /// [`Errno::INVAL`] when this endpoint is not among the members, or one is twice; [`Errno::NOSPC`] when all ids
    /// are used up; [`Errno::NOMEM`].
    pub fn join(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        members: &[PeerId],
        context: usize,
    ) -> Result<GroupId, Errno> {
        let ranks = rank(members)?;
        let &me = ranks.get(&self.me).ok_or(Errno::INVAL)?;
        let position = Position {
            rank: me,
            size: members.len(),
            root: 0,
            len: JOIN_RECORD,
            element: 1,
        };
        let id = GroupId(self.collectives.named);
        let record = record(id, members.len()).ok_or(Errno::NOMEM)?;
        let records = Iov::zeroed(members.len() * JOIN_RECORD).ok_or(Errno::NOMEM)?;
        let mut active = ActiveCollective::new(
            id,
            schedule(Collective::Allgather, &position),
            record,
            records,
        )?;
        active.is_join = true;
        active.context = context;
        if id.0 >= GROUP_IDS - 1 {
            return Err(Errno::NOSPC);
        }
        let counts = members.iter().map(|&peer| self.count_join(peer)).collect();
        let group = Group {
            peers: members.to_vec(),
            ranks,
            me,
            stage: Stage::Joining { counts },
            broken: None,
            left: false,
            active: 1,
            serial: 0,
        };
        active.failure = self.was_given_up(&group);
        let key = self.collectives.active.insert(active).ok_or(Errno::AGAIN)?;
        self.collectives.named += 1;
        self.collectives.groups.insert(id, group);
        self.collectives.ready.push_back(key);
        self.settle_collectives(link, out);
        Ok(id)
    }

    /// Counts a join that a peer takes part in; returns how many there were before.
    fn count_join(&mut self, peer: PeerId) -> u32 {
        let count = self.collectives.joins.entry(peer).or_default();
        let before = *count;
        *count = (before + 1) % GROUP_IDS;
        before
    }

    /// Returns the error with which a join that begins is given up already.
    fn was_given_up(&mut self, group: &Group) -> Option<Errno> {
        let Stage::Joining { counts } = &group.stage else {
            return None;
        };
        let given_up = &mut self.collectives.given_up;
        let mut why = None;
        for (rank, peer) in group.others() {
            why = why.or(given_up.take(peer, counts[rank]));
        }
        why
    }

    /// Ends a join: all members have sent their id of the group.
    ///
    /// # Errors
    /// [`Errno::INVAL`] when they do not mean the same group.
    pub(super) fn complete_join(&mut self, id: GroupId, records: &Iov) -> Result<(), Errno> {
        let group = self.collectives.groups.get_mut(&id).ok_or(Errno::INVAL)?;
        let size = group.peers.len();
        let mut ids = Vec::with_capacity(size);
        for rank in 0..size {
            let (mut id, mut expected) = ([0; 4], [0; 4]);
            records.read(rank * JOIN_RECORD, &mut id);
            records.read(rank * JOIN_RECORD + 4, &mut expected);
            if u32::from_le_bytes(expected) as usize != size {
                return Err(Errno::INVAL);
            }
            ids.push(u32::from_le_bytes(id));
        }
        group.stage = Stage::Joined { ids };
        Ok(())
    }
}

impl ActiveCollective {
    /// Makes the part of a member in an operation of a group.
    ///
    /// # Errors
    /// [`Errno::NOMEM`].
    pub(super) fn new(
        group: GroupId,
        schedule: Schedule,
        input: Iov,
        result: Iov,
    ) -> Result<Self, Errno> {
        Ok(Self {
            group,
            serial: 0,
            at: 0,
            pending: 0,
            failure: None,
            input,
            result,
            scratch: Iov::zeroed(schedule.scratch).ok_or(Errno::NOMEM)?,
            partial: Iov::zeroed(schedule.partial).ok_or(Errno::NOMEM)?,
            schedule,
            arithmetic: None,
            is_join: false,
            flags: Flags::empty(),
            context: 0,
        })
    }
}

/// Numbers the members.
fn rank(members: &[PeerId]) -> Result<BTreeMap<PeerId, usize>, Errno> {
    let is_valid = members.iter().all(|&peer| Peers::is_valid(peer));
    let ranks: BTreeMap<_, _> = members.iter().copied().zip(0..).collect();
    if !is_valid || ranks.len() != members.len() || members.len() > MAX_MEMBERS {
        return Err(Errno::INVAL);
    }
    Ok(ranks)
}

fn record(id: GroupId, size: usize) -> Option<Iov> {
    let record = Iov::zeroed(JOIN_RECORD)?;
    record.write(0, &id.0.to_le_bytes());
    record.write(4, &(size as u32).to_le_bytes());
    Some(record)
}
