//! The unexpected queue: messages that no receive matched when they arrived, in order of arrival, and all
//! others whose data is still on its way.
//!
//! Waiting messages cost a budget, which is kept here per queue and per peer; which peer may exceed it is decided in
//! `budget`. Messages that come in several frames are found by peer and id.

mod shares;
mod waiting_index;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use oxifabric_types::PeerId;

use crate::index::LONG_WALK;
use crate::list::List;
use crate::matching::{Arrival, Class, Pattern};
use crate::message::{MatchState, Message, RxData};
use crate::rx_placement::RxPlacement;
use crate::slab::{Key, Slab};
use shares::Shares;
use waiting_index::WaitingIndex;

/// Maximum number of messages of one peer that are matched and whose data is not placed yet: rendezvous, writes and atomics whose
/// data is on its way. As many as a peer may have operations under way, so that it never has to wait for data that is behind.
const LANDING_OF_PEER: usize = 1 << 16;

/// Maximum number of such messages of all peers together. They cost some hundred bytes each.
const LANDING_IN_ALL: usize = 1 << 19;

/// Number of such messages that each peer may have, whatever others have.
const LANDING_ALWAYS: usize = 64;

/// Messages that are not over.
#[derive(Debug)]
pub(crate) struct UnexpectedQueue {
    messages: Slab<Message>,
    waiting: [List; Class::WAITING],
    /// Those on the lists above, once a receive had to walk past many.
    waiting_index: Option<Box<WaitingIndex>>,
    claimed: List,
    /// Messages of which more frames will come.
    by_id: BTreeMap<(PeerId, u32), Key>,
    /// What waiting and claimed messages cost, in all.
    held_bytes: usize,
    /// What each peer has here.
    shares: Shares,
}

impl UnexpectedQueue {
    /// Makes a queue without messages.
    pub(crate) fn new() -> Self {
        Self {
            messages: Slab::with_capacity(0),
            waiting: [List::new(); Class::WAITING],
            waiting_index: None,
            claimed: List::new(),
            by_id: BTreeMap::new(),
            held_bytes: 0,
            shares: Shares::new(),
        }
    }

    /// Returns how many messages wait for a receive.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.iter().map(List::len).sum::<usize>() + self.claimed.len()
    }

    /// Returns how many receives wait for the data of a message that they matched.
    pub(crate) fn matched(&self) -> usize {
        let matched = |message: &Message| matches!(message.match_state, MatchState::Matched(_));
        self.messages.iter().filter(|(_, m)| matched(m)).count()
    }

    /// Returns what the waiting messages cost.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns what the waiting messages of one peer cost.
    pub(crate) fn held_from(&self, peer: PeerId) -> usize {
        self.shares.bytes(peer)
    }

    /// Returns whether no more messages of a peer can be taken in: too many are matched and not placed yet, or the
    /// table is full.
    pub(crate) fn is_full(&self, from: PeerId) -> bool {
        let own = self.shares.landing(from);
        let crowded = || self.messages.len().saturating_sub(self.waiting()) >= LANDING_IN_ALL;
        own >= LANDING_OF_PEER || (own >= LANDING_ALWAYS && crowded()) || self.messages.is_full()
    }

    /// Returns whether the id names a message already.
    pub(crate) fn knows(&self, from: PeerId, id: u32) -> bool {
        self.by_id.contains_key(&(from, id))
    }

    /// Adds a message; one that waits goes to the end of its queue. `None` when no more can be kept.
    pub(crate) fn insert(&mut self, message: Message) -> Option<Key> {
        let waits = matches!(message.match_state, MatchState::Waiting);
        let (class, from, cost) = (message.arrival.class, message.arrival.from, message.cost());
        let needs_peer = message.needs_sender();
        let key = self.messages.insert(message)?;
        self.shares.push(&mut self.messages, from, key, needs_peer);
        if waits {
            self.waiting[class.index()].push_back(&mut self.messages, key);
            if let Some(waiting_index) = &mut self.waiting_index {
                waiting_index.push(&mut self.messages, key);
            }
            self.charge(from, cost);
        }
        Some(key)
    }

    /// Adds a message that does not wait. `None` when no more can be kept.
    #[inline(always)]
    pub(crate) fn land(&mut self, message: Message) -> Option<Key> {
        let from = message.arrival.from;
        let key = self.messages.insert(message)?;
        self.shares.push(&mut self.messages, from, key, true);
        Some(key)
    }

    /// Drops a message that does not wait, and that was never named; returns where it went.
    #[inline(always)]
    pub(crate) fn end_landed(&mut self, from: PeerId, key: Key) -> Option<RxPlacement> {
        let message = self.messages.get_mut(key)?;
        let match_state = core::mem::replace(&mut message.match_state, MatchState::Dropped);
        self.drop_landed(from, key);
        match match_state {
            MatchState::Matched(placement) => Some(placement),
            _ => None,
        }
    }

    /// Drops such a message where it lies.
    #[inline(always)]
    pub(crate) fn drop_landed(&mut self, from: PeerId, key: Key) {
        debug_assert!(
            self.messages
                .get(key)
                .is_some_and(|message| !message.waits())
        );
        self.shares.discard(&mut self.messages, from, key);
    }

    /// Lets a message be found by its sender's id.
    pub(crate) fn name(&mut self, key: Key) {
        if let Some(message) = self.messages.get(key) {
            let name = (message.arrival.from, message.arrival.id);
            self.by_id.insert(name, key);
        }
    }

    /// Takes note that the sender of a message was asked for its data, which comes in segments.
    pub(crate) fn await_segments(&mut self, key: Key) {
        self.name(key);
        if let Some(message) = self.messages.get_mut(key) {
            message.rx_data = RxData::Nothing;
        }
    }

    /// Forgets the sender's id of a message.
    pub(crate) fn unname(&mut self, key: Key) {
        if self.by_id.is_empty() {
            return;
        }
        if let Some(message) = self.messages.get(key) {
            let name = (message.arrival.from, message.arrival.id);
            if self.by_id.get(&name) == Some(&key) {
                self.by_id.remove(&name);
            }
        }
    }

    /// Finds a message by its sender's id.
    pub(crate) fn named(&self, from: PeerId, id: u32) -> Option<Key> {
        self.by_id.get(&(from, id)).copied()
    }

    /// Finds a message by its key.
    pub(crate) fn get(&self, key: Key) -> Option<&Message> {
        self.messages.get(key)
    }

    /// Finds a message by its key, to change it; its match state is changed by [`UnexpectedQueue::settle`] only.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Message> {
        self.messages.get_mut(key)
    }

    /// Finds the first waiting message that a receive takes.
    #[inline(always)]
    pub(crate) fn find(&mut self, pattern: &Pattern) -> Option<Key> {
        match self.waiting[pattern.class.index()].len() {
            0 => None,
            _ => self.search(&{ *pattern }),
        }
    }

    /// Finds the first message for a pattern where there are any of its class.
    #[inline(never)]
    fn search(&mut self, pattern: &Pattern) -> Option<Key> {
        let order = &self.waiting[pattern.class.index()];
        if let Some(waiting_index) = &self.waiting_index {
            return waiting_index.first(&self.messages, order, pattern);
        }
        let mut passed = 0;
        let found = order.iter(&self.messages).find(|(_, message)| {
            passed += 1;
            pattern.accepts(&message.arrival)
        });
        let found = found.map(|(key, _)| key);
        if passed > LONG_WALK {
            let waiting_index = WaitingIndex::of(&mut self.messages, &self.waiting);
            self.waiting_index = Some(Box::new(waiting_index));
        }
        found
    }

    /// Returns the keys of the waiting messages of a class that `which` chooses.
    pub(crate) fn select(&self, class: Class, which: impl Fn(&Arrival) -> bool) -> Vec<Key> {
        let waiting = self.waiting[class.index()].iter(&self.messages);
        let chosen = waiting.filter(|(_, message)| which(&message.arrival));
        chosen.map(|(key, _)| key).collect()
    }

    /// Lists the waiting messages of a class with their tags and senders, in order.
    pub(crate) fn waiting_of(
        &self,
        class: Class,
    ) -> impl Iterator<Item = (Key, u64, PeerId, usize)> + '_ {
        self.waiting[class.index()]
            .iter(&self.messages)
            .map(|(key, Message { arrival, .. })| (key, arrival.tag, arrival.from, arrival.len))
    }

    /// Lists the messages that wait, class by class and in order, and then those that are claimed.
    pub(crate) fn all_waiting(&self) -> impl Iterator<Item = &Arrival> + '_ {
        let lists = self.waiting.iter().chain([&self.claimed]);
        lists.flat_map(|list| {
            list.iter(&self.messages)
                .map(|(_, message)| &message.arrival)
        })
    }

    /// Finds the message that a peek with this context claimed.
    pub(crate) fn find_claimed(&self, context: usize) -> Option<Key> {
        self.claimed
            .iter(&self.messages)
            .find(|(_, message)| matches!(message.match_state, MatchState::Claimed(c) if c == context))
            .map(|(key, _)| key)
    }

    /// Claims a waiting message for a later receive; it still costs what it did.
    pub(crate) fn claim(&mut self, key: Key, context: usize) {
        self.leave_queue(key);
        if let Some(message) = self.messages.get_mut(key) {
            message.match_state = MatchState::Claimed(context);
            self.claimed.push_back(&mut self.messages, key);
        }
    }

    /// Takes a message out of its queue and sets its match state; it no longer costs anything.
    pub(crate) fn settle(&mut self, key: Key, match_state: MatchState) {
        self.leave_queue(key);
        self.uncharge(key);
        if let Some(message) = self.messages.get_mut(key) {
            message.match_state = match_state;
        }
    }

    /// Changes where the data of a message is, and what it costs by that.
    pub(crate) fn set_rx_data(&mut self, key: Key, rx_data: RxData) {
        self.uncharge(key);
        let Some(message) = self.messages.get_mut(key) else {
            return;
        };
        message.rx_data = rx_data;
        if message.waits() {
            let (from, cost) = (message.arrival.from, message.cost());
            self.charge(from, cost);
        }
    }

    /// Takes a message out altogether.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Message> {
        let message = self.messages.get(key)?;
        let (waits, from) = (message.waits(), message.arrival.from);
        if waits {
            self.leave_queue(key);
            self.uncharge(key);
        }
        self.unname(key);
        self.shares.remove(&mut self.messages, from, key)
    }

    /// Returns the keys of all messages from a peer.
    pub(crate) fn keys_from(&self, peer: PeerId) -> Vec<Key> {
        self.shares.keys(&self.messages, peer)
    }

    /// Returns the keys of the messages from a peer that is lost, if that may be of concern to any of them: where all wait and are complete they are not
    /// looked at, however many there are. The caller ends those that need the peer, and has the others need it no more.
    pub(crate) fn keys_in_need_of(&mut self, peer: PeerId) -> Vec<Key> {
        self.shares.keys_in_need(&self.messages, peer)
    }

    /// Lets what a peer that is gone left behind be dropped, where room is needed.
    pub(crate) fn orphan(&mut self, peer: PeerId) {
        self.shares.orphan(peer);
    }

    /// Returns the peer that is gone longest, of those whose messages may be dropped.
    pub(crate) fn next_orphan(&mut self) -> Option<PeerId> {
        self.shares.next_orphan()
    }

    /// Returns which peers sent the messages that are here or on their way.
    pub(crate) fn senders(&self) -> impl Iterator<Item = PeerId> {
        self.shares.peers()
    }

    /// Returns the peers that still owe parts of messages.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = PeerId> {
        self.shares.debtors(&self.messages)
    }

    /// Returns whether a message of such a class comes from a peer.
    pub(crate) fn any_from(&self, peer: PeerId, class: impl Fn(Class) -> bool) -> bool {
        let of_class = |message: &Message| class(message.arrival.class);
        self.shares.any(&self.messages, peer, of_class)
    }

    /// Returns whether a message goes to the region with this key.
    pub(crate) fn writes_to(&self, key: u64) -> bool {
        self.messages
            .iter()
            .any(|(_, message)| message.writes_to(key))
    }

    /// Drops all messages, so that what the link still reports of them is ignored.
    pub(crate) fn remove_all(&mut self) {
        let keys: Vec<Key> = self.messages.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.remove(key);
        }
    }

    /// Drops all messages.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    fn leave_queue(&mut self, key: Key) {
        let Some(message) = self.messages.get(key) else {
            return;
        };
        let class = message.arrival.class;
        match message.match_state {
            MatchState::Waiting => {
                self.waiting[class.index()].unlink(&mut self.messages, key);
                if let Some(waiting_index) = &mut self.waiting_index
                    && waiting_index.unlink(&mut self.messages, key)
                {
                    self.waiting_index = None;
                }
            }
            MatchState::Claimed(_) => self.claimed.unlink(&mut self.messages, key),
            MatchState::Matched(_) | MatchState::Update(_) | MatchState::Dropped => {}
        }
    }

    fn charge(&mut self, from: PeerId, cost: usize) {
        self.shares.charge(from, cost);
        self.held_bytes += cost;
    }

    fn uncharge(&mut self, key: Key) {
        let Some(message) = self.messages.get(key) else {
            return;
        };
        if message.waits() {
            let cost = message.cost();
            self.shares.uncharge(message.arrival.from, cost);
            self.held_bytes -= cost;
        }
    }
}
