//! What each peer has in the table of unexpected messages, and which peers are down and left messages there.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use oxifabric_types::PeerId;

use crate::list::{Linked, Links, List};
use crate::message::Message;
use crate::slab::{Key, Slab};

/// The purpose of lists of all messages of one peer.
#[derive(Clone, Copy, Debug)]
struct BySender;

/// What peers have in the table, by peer.
#[derive(Debug)]
pub(super) struct Shares {
    rows: Vec<Share>,
    /// Peers that are down, that the application does not know, and that left messages, in the order in which they went down. Some
    /// may have sent messages again since.
    gone: VecDeque<PeerId>,
}

/// What one peer has.
#[derive(Debug)]
struct Share {
    all: List<BySender>,
    /// What its waiting and claimed messages cost.
    bytes: usize,
    /// Number of its waiting and claimed messages.
    waiting: usize,
    /// Whether one of its messages may be of concern when the peer is lost ([`Message::needs_sender`]); false if it has none.
    may_need_peer: bool,
    /// Whether its waiting messages may be dropped: the peer is down and unknown.
    is_orphaned: bool,
    /// Whether the peer is in [`Shares::gone`].
    is_queued: bool,
}

impl Share {
    const NONE: Self = Self {
        all: List::new(),
        bytes: 0,
        waiting: 0,
        may_need_peer: false,
        is_orphaned: false,
        is_queued: false,
    };
}

impl Shares {
    pub(super) const fn new() -> Self {
        Self {
            rows: Vec::new(),
            gone: VecDeque::new(),
        }
    }

    /// Adds a message of the peer that has come into the table; `needs_peer` is [`Message::needs_sender`], which does not become true later.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        messages: &mut Slab<Message>,
        from: PeerId,
        key: Key,
        needs_peer: bool,
    ) {
        let row = self.row(from);
        row.is_orphaned = false;
        row.may_need_peer |= needs_peer;
        row.all.push_back(messages, key);
    }

    /// Takes a message of the peer out of the table.
    #[inline(always)]
    pub(super) fn remove(
        &mut self,
        messages: &mut Slab<Message>,
        from: PeerId,
        key: Key,
    ) -> Option<Message> {
        let row = self.rows.get_mut(from.index())?;
        let message = row.all.remove(messages, key);
        row.may_need_peer &= row.all.len() > 0;
        message
    }

    /// Drops a message of the peer, where it lies.
    #[inline(always)]
    pub(super) fn discard(&mut self, messages: &mut Slab<Message>, from: PeerId, key: Key) {
        if let Some(row) = self.rows.get_mut(from.index()) {
            row.all.discard(messages, key);
            row.may_need_peer &= row.all.len() > 0;
        }
    }

    /// Charges the peer for a message that waits from now on.
    pub(super) fn charge(&mut self, from: PeerId, cost: usize) {
        let row = self.row(from);
        row.bytes += cost;
        row.waiting += 1;
    }

    /// Takes back the charge for a message of the peer that waits no more.
    pub(super) fn uncharge(&mut self, from: PeerId, cost: usize) {
        if let Some(row) = self.rows.get_mut(from.index()) {
            row.bytes = row.bytes.saturating_sub(cost);
            row.waiting = row.waiting.saturating_sub(1);
        }
    }

    /// Returns what the waiting messages of a peer cost.
    pub(super) fn bytes(&self, from: PeerId) -> usize {
        self.rows.get(from.index()).map_or(0, |row| row.bytes)
    }

    /// Returns how many messages of a peer do not wait: they are matched, or dropped, and their data is on its way.
    pub(super) fn landing(&self, from: PeerId) -> usize {
        let row = self.rows.get(from.index());
        row.map_or(0, |row| row.all.len().saturating_sub(row.waiting))
    }

    /// Lists the messages of a peer.
    pub(super) fn keys(&self, messages: &Slab<Message>, from: PeerId) -> Vec<Key> {
        let Some(row) = self.rows.get(from.index()) else {
            return Vec::new();
        };
        row.all.iter(messages).map(|(key, _)| key).collect()
    }

    /// Lists the messages of a peer that is lost, if that may be of concern to one of them. What the caller leaves of them needs the peer no more.
    pub(super) fn keys_in_need(&mut self, messages: &Slab<Message>, from: PeerId) -> Vec<Key> {
        let Some(row) = self.rows.get_mut(from.index()) else {
            return Vec::new();
        };
        if core::mem::take(&mut row.may_need_peer) {
            return self.keys(messages, from);
        }
        let mut all = row.all.iter(messages);
        debug_assert!(all.all(|(_, message)| !message.needs_sender()));
        Vec::new()
    }

    /// Returns the peers that have messages.
    pub(super) fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.peers_with(|_, row| row.all.len() > 0)
    }

    /// Returns the peers that still owe parts of messages.
    pub(super) fn debtors(&self, messages: &Slab<Message>) -> impl Iterator<Item = PeerId> {
        self.peers_with(|peer, row| row.may_need_peer && self.any(messages, peer, Message::is_owed))
    }

    fn peers_with(&self, which: impl Fn(PeerId, &Share) -> bool) -> impl Iterator<Item = PeerId> {
        let peers = (0..).map(PeerId).zip(&self.rows);
        let chosen = peers.filter(move |(peer, row)| which(*peer, row));
        chosen.map(|(peer, _)| peer)
    }

    /// Returns whether a peer has a message that `which` chooses.
    pub(super) fn any(
        &self,
        messages: &Slab<Message>,
        from: PeerId,
        which: impl Fn(&Message) -> bool,
    ) -> bool {
        let row = self.rows.get(from.index());
        row.is_some_and(|row| row.all.iter(messages).any(|(_, message)| which(message)))
    }

    /// Marks the waiting messages of a peer that is down: they may be dropped.
    pub(super) fn orphan(&mut self, from: PeerId) {
        if self.bytes(from) == 0 {
            return;
        }
        let row = self.row(from);
        row.is_orphaned = true;
        if !core::mem::replace(&mut row.is_queued, true) {
            self.gone.push_back(from);
        }
    }

    /// Returns the peer that is down for longest, of those whose messages may be dropped.
    pub(super) fn next_orphan(&mut self) -> Option<PeerId> {
        while let Some(peer) = self.gone.pop_front() {
            let row = self.row(peer);
            row.is_queued = false;
            if row.is_orphaned && row.waiting > 0 {
                return Some(peer);
            }
        }
        None
    }

    fn row(&mut self, from: PeerId) -> &mut Share {
        let index = from.index();
        if self.rows.len() <= index {
            self.rows.resize_with(index + 1, || Share::NONE);
        }
        &mut self.rows[index]
    }
}

impl Linked<BySender> for Message {
    fn links(&self) -> &Links {
        &self.index_links.sender
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.index_links.sender
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::matching::{Arrival, Class};
    use crate::message::{MatchState, RxData};
    use crate::rndv::answer;

    fn message(from: PeerId) -> Message {
        let arrival = Arrival::new(from, Class::Msg, &answer(Kind::Msg, 0, 0));
        let arrival = arrival.expect("it has a length");
        Message::new(arrival, RxData::Nothing, MatchState::Waiting)
    }

    #[test]
    fn a_peer_that_leaves_costs_what_it_has_here_and_not_what_others_have() {
        const OTHERS: u32 = 1000;
        let (leaver, mut shares) = (PeerId(OTHERS), Shares::new());
        let mut messages = Slab::with_capacity(0);
        for from in (0..OTHERS).map(PeerId).chain([leaver; 3]) {
            let key = messages.insert(message(from)).expect("there is room");
            shares.push(&mut messages, from, key, false);
        }
        assert_eq!(messages.len(), OTHERS as usize + 3);
        // The walk that `keys` makes.
        let steps = shares.rows[leaver.index()].all.iter(&messages).count();
        assert_eq!(steps, 3);
        let keys = shares.keys(&messages, leaver);
        assert_eq!(keys.len(), steps);
        for key in keys {
            shares.remove(&mut messages, leaver, key);
        }
        assert_eq!(shares.keys(&messages, leaver), []);
    }

    #[test]
    fn complete_messages_that_wait_are_not_looked_at_when_their_peer_is_lost() {
        let (complete, owing) = (PeerId(1), PeerId(2));
        let (mut messages, mut shares) = (Slab::with_capacity(0), Shares::new());
        let mut push = |shares: &mut Shares, message: Message| {
            let (from, needs) = (message.arrival.from, message.needs_sender());
            let key = messages.insert(message).expect("there is room");
            shares.push(&mut messages, from, key, needs);
            key
        };
        push(&mut shares, message(complete));
        let remote = Message::new(
            message(owing).arrival,
            RxData::Remote(None),
            MatchState::Waiting,
        );
        let remote = push(&mut shares, remote);
        assert_eq!(shares.peers().collect::<Vec<_>>(), [complete, owing]);
        assert_eq!(shares.keys_in_need(&messages, complete), []);
        assert_eq!(shares.keys_in_need(&messages, owing), [remote]);
        shares.remove(&mut messages, owing, remote);
        assert_eq!(shares.peers().collect::<Vec<_>>(), [complete]);
    }
}
