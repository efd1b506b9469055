//! Groups: their members, and their ids at each of them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use oxifabric_types::{Errno, PeerId};

use super::tag::MessageTag;
use super::{Collectives, GroupId};
use crate::engine::Engine;
use crate::matching::Class;
use crate::{Completions, Link};

/// A group as one member knows it.
#[derive(Debug)]
pub(super) struct Group {
    /// The members by rank.
    pub(super) peers: Vec<PeerId>,
    pub(super) ranks: BTreeMap<PeerId, usize>,
    /// The rank of this endpoint.
    pub(super) me: usize,
    pub(super) stage: Stage,
    /// The error for which it is of no more use.
    pub(super) broken: Option<Errno>,
    /// Whether the application has left; the group goes with its last operation.
    pub(super) left: bool,
    /// Number of operations that are under way.
    pub(super) active: usize,
    /// Number of operations so far.
    pub(super) serial: u32,
}

/// State of a group.
#[derive(Debug)]
pub(super) enum Stage {
    /// The members meet. By rank, how many joins each of them had begun with us before.
    Joining { counts: Vec<u32> },
    /// They have met. By rank, the id that each of them gave the group.
    Joined { ids: Vec<u32> },
}

impl Group {
    /// Returns the tag of a message to a member.
    pub(super) fn tag_to(&self, rank: usize, serial: u32) -> MessageTag {
        match &self.stage {
            Stage::Joining { counts } => MessageTag::Join {
                count: counts[rank],
            },
            Stage::Joined { ids } => MessageTag::Data {
                group: ids[rank],
                serial,
            },
        }
    }

    /// Returns the tag of a message from a member to the group with our `id`.
    pub(super) fn tag_from(&self, rank: usize, id: GroupId, serial: u32) -> MessageTag {
        match &self.stage {
            Stage::Joining { counts } => MessageTag::Join {
                count: counts[rank],
            },
            Stage::Joined { .. } => MessageTag::Data {
                group: id.0,
                serial,
            },
        }
    }

    /// Returns the tag of a message that reports that we cannot go on.
    pub(super) fn notice_to(&self, rank: usize, errno: Errno) -> MessageTag {
        let errno = errno.raw().unsigned_abs();
        match &self.stage {
            Stage::Joining { counts } => MessageTag::GivenUp {
                count: counts[rank],
                errno,
            },
            Stage::Joined { ids } => MessageTag::Notice {
                group: ids[rank],
                errno,
            },
        }
    }

    /// Returns whether its members still are to meet, as the join with that count at that peer.
    pub(super) fn is_join(&self, peer: PeerId, count: u32) -> bool {
        match (&self.stage, self.ranks.get(&peer)) {
            (Stage::Joining { counts }, Some(&rank)) => counts[rank] == count,
            _ => false,
        }
    }

    /// Lists the other members.
    pub(super) fn others(&self) -> impl Iterator<Item = (usize, PeerId)> {
        let me = self.me;
        let all = self.peers.iter().copied().enumerate();
        all.filter(move |&(rank, _)| rank != me)
    }
}

impl Collectives {
    /// Finds the join to which a peer gave this count.
    pub(super) fn find_join(&self, peer: PeerId, count: u32) -> Option<GroupId> {
        let mut groups = self.groups.iter();
        let found = groups.find(|(_, group)| group.is_join(peer, count));
        found.map(|(&id, _)| id)
    }
}

impl Engine {
    /// Returns the rank of this endpoint in a group, and how many members that has.
    ///
    /// # Errors
    /// [`Errno::INVAL`] when there is no such group.
    pub fn group_shape(&self, id: GroupId) -> Result<(usize, usize), Errno> {
        let group = self.collectives.groups.get(&id).ok_or(Errno::INVAL)?;
        Ok((group.me, group.peers.len()))
    }

    /// Returns the rank of a peer in a group.
    pub fn rank_of(&self, id: GroupId, peer: PeerId) -> Option<usize> {
        let group = self.collectives.groups.get(&id)?;
        group.ranks.get(&peer).copied()
    }

    /// Leaves a group. What is under way in it fails with [`Errno::CANCELED`], here and at all other members.
    ///
    /// # Errors
    /// [`Errno::INVAL`] when there is no such group.
    pub fn leave(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        id: GroupId,
    ) -> Result<(), Errno> {
        let groups = &mut self.collectives.groups;
        let group = groups.get_mut(&id).filter(|group| !group.left);
        let group = group.ok_or(Errno::INVAL)?;
        group.left = true;
        if group.active > 0 {
            self.break_group(link, out, id, Errno::CANCELED, true);
        }
        self.forget_if_left(out, id);
        self.settle_collectives(link, out);
        Ok(())
    }

    /// Forgets a group that was left, when nothing is under way in it.
    pub(super) fn forget_if_left(&mut self, out: &mut impl Completions, id: GroupId) {
        let groups = &mut self.collectives.groups;
        if groups.get(&id).is_some_and(|g| g.left && g.active == 0) {
            self.drop_messages(out, id);
            self.collectives.groups.remove(&id);
        }
    }

    /// Drops the messages of a group that no operation will take.
    pub(super) fn drop_messages(&mut self, out: &mut impl Completions, id: GroupId) {
        let Some(group) = self.collectives.groups.get(&id) else {
            return;
        };
        let keys = self.unexpected.select(Class::Collective, |arrival| {
            match MessageTag::decode(arrival.tag) {
                MessageTag::Data { group, .. } => group == id.0,
                MessageTag::Join { count } => group.is_join(arrival.from, count),
                _ => true,
            }
        });
        for key in keys {
            self.discard(out, key);
        }
    }
}
