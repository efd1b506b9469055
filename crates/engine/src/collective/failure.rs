//! Failure of a collective, and with it of its group.

use alloc::vec::Vec;

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};

use super::{Collectives, GroupId};
use crate::engine::Engine;
use crate::slab::Key;
use crate::transmit::Transmit;
use crate::{Completions, Link};

impl Engine {
    /// Ends a collective that has failed, as soon as nothing moves to or from its buffers.
    pub(super) fn abort_collective(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        key: Key,
        errno: Errno,
    ) {
        let state = &mut self.collectives;
        let taken = state.take_all(|_, posted| posted.active == key);
        let Some(active) = state.active.get_mut(key) else {
            return;
        };
        active.failure.get_or_insert(errno);
        active.pending = active.pending.saturating_sub(taken.len());
        let (group, is_over) = (active.group, active.pending == 0);
        self.break_group(link, out, group, errno, true);
        if is_over {
            self.report_collective(out, key, Err(errno));
        }
    }

    /// Ends the use of a group: all that is under way in it fails. With `tell`, the other members are notified.
    pub(super) fn break_group(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        id: GroupId,
        errno: Errno,
        tell: bool,
    ) {
        let Some(group) = self.collectives.groups.get(&id) else {
            return;
        };
        if group.broken.is_some() {
            return;
        }
        let notices: Vec<_> = group
            .others()
            .map(|(rank, peer)| (peer, group.notice_to(rank, errno)))
            .collect();
        self.mark_broken(out, id, errno);
        for (peer, tag) in notices.into_iter().filter(|_| tell) {
            // A member that cannot be notified has no connection, and notices by that.
            let _ = self.post_collective(link, out, peer, tag, Iov::empty(), Key::NONE);
        }
    }

    /// Fails all that is under way in a group.
    pub(super) fn mark_broken(&mut self, out: &mut impl Completions, id: GroupId, errno: Errno) {
        self.drop_messages(out, id);
        let state = &mut self.collectives;
        if let Some(group) = state.groups.get_mut(&id) {
            group.broken.get_or_insert(errno);
        }
        let active: Vec<Key> = state.active.iter().map(|(key, _)| key).collect();
        for key in active {
            if let Some(active) = state
                .active
                .get_mut(key)
                .filter(|active| active.group == id)
            {
                active.failure.get_or_insert(errno);
                state.ready.push_back(key);
            }
        }
    }

    /// Handles a message of a collective that was sent, or will not be.
    pub(crate) fn collective_sent(&mut self, active: Key, transmit: &Transmit) {
        match (active, transmit.failure) {
            (Key::NONE, None) => {}
            (Key::NONE, Some(errno)) => self.miss_member(transmit.peer, errno),
            (active, failure) => self.collectives.over(active, failure.map_or(Ok(()), Err)),
        }
    }

    /// Fails what waits for a member that no message could be sent to: it is not there, or does not support collectives.
    fn miss_member(&mut self, peer: PeerId, why: Errno) {
        let state = &mut self.collectives;
        state.reached.remove(&peer);
        for active in state.take_all(|from, _| from == peer) {
            state.over(active, Err(why));
        }
    }

    /// Fails the collectives that wait for a peer that is gone. Others go on: it may have done its part.
    pub(crate) fn lose_member(&mut self, peer: PeerId, why: Errno) {
        self.miss_member(peer, why);
        let state = &mut self.collectives;
        state.joins.remove(&peer);
    }
}

impl Collectives {
    /// Forgets the joins that a peer gave up in advance.
    pub(crate) fn forget_given_up(&mut self, peer: PeerId) {
        self.given_up.forget(peer);
    }
}
