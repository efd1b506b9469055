//! Joining: the members of a set meet and tell each other what they call the group, fi_collective(3)
//! "Join Collective".

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use super::group::{Group, Stage};
use super::name::NAMES;
use super::plan::{Place, plan};
use super::run::Run;
use super::{Collective, GroupId};
use crate::engine::Engine;
use crate::peer::Peers;
use crate::{Completions, Link};

/// How many members a group may have.
pub const MAX_MEMBERS: usize = 1 << 20;

/// What a member tells of itself: its name for the group, and how many members it expects.
const CARD: usize = 8;

impl Engine {
    /// Joins the group of these members, of which this endpoint is one, by rank.
    ///
    /// It is over when all members have joined, or one cannot: [`Completions::joined`] tells, with `context`. Two
    /// endpoints join the groups that they both belong to in the same order.
    ///
    /// # Errors
    /// [`Errno::INVAL`] when this endpoint is not among the members, or one is twice; [`Errno::NOSPC`] when all names
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
        let place = Place {
            rank: me,
            size: members.len(),
            root: 0,
            len: CARD,
            element: 1,
        };
        let id = GroupId(self.collectives.named);
        let card = card(id, members.len()).ok_or(Errno::NOMEM)?;
        let cards = Iov::zeroed(members.len() * CARD).ok_or(Errno::NOMEM)?;
        let mut run = Run::new(id, plan(Collective::Allgather, &place), card, cards)?;
        run.is_join = true;
        run.context = context;
        if id.0 >= NAMES - 1 {
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
            runs: 1,
            serial: 0,
        };
        run.failure = self.was_given_up(&group);
        let key = self.collectives.runs.insert(run).ok_or(Errno::AGAIN)?;
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
        *count = (before + 1) % NAMES;
        before
    }

    /// Tells why a join that begins is given up already.
    fn was_given_up(&mut self, group: &Group) -> Option<Errno> {
        let Stage::Joining { counts } = &group.stage else {
            return None;
        };
        let given_up = &mut self.collectives.given_up;
        let mut why = None;
        for (rank, peer) in group.others() {
            why = why.or(given_up.remove(&(peer, counts[rank])));
        }
        why
    }

    /// All members have told what they call the group.
    ///
    /// # Errors
    /// [`Errno::INVAL`] when they do not mean the same group.
    pub(super) fn meet(&mut self, id: GroupId, cards: &Iov) -> Result<(), Errno> {
        let group = self.collectives.groups.get_mut(&id).ok_or(Errno::INVAL)?;
        let size = group.peers.len();
        let mut names = Vec::with_capacity(size);
        for rank in 0..size {
            let (mut name, mut expected) = ([0; 4], [0; 4]);
            cards.read(rank * CARD, &mut name);
            cards.read(rank * CARD + 4, &mut expected);
            if u32::from_le_bytes(expected) as usize != size {
                return Err(Errno::INVAL);
            }
            names.push(u32::from_le_bytes(name));
        }
        group.stage = Stage::Joined { names };
        Ok(())
    }
}

impl Run {
    /// Makes the part of a member in an operation of a group.
    ///
    /// # Errors
    /// [`Errno::NOMEM`].
    pub(super) fn new(
        group: GroupId,
        plan: super::plan::Plan,
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
            scratch: Iov::zeroed(plan.scratch).ok_or(Errno::NOMEM)?,
            partial: Iov::zeroed(plan.partial).ok_or(Errno::NOMEM)?,
            plan,
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

fn card(id: GroupId, size: usize) -> Option<Iov> {
    let card = Iov::zeroed(CARD)?;
    card.write(0, &id.0.to_le_bytes());
    card.write(4, &(size as u32).to_le_bytes());
    Some(card)
}
