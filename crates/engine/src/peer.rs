//! State of each peer: what waits to be sent to it, and why.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::mem;
use oxifabric_types::{Errno, PeerId};

use crate::peer_set::PeerSet;
use crate::slab::Key;

/// Maximum number of answers, and sends of data that was asked for, that may wait for one peer before nothing more is taken from
/// it that needs one. A peer that does not read its answers can therefore not make them pile up.
const MAX_REPLIES: usize = 1 << 14;

/// Maximum number of peers. Links give out dense numbers; anything beyond is no peer.
const MAX_PEERS: usize = 1 << 24;

/// The peers.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    rows: Vec<Peer>,
    /// Peers for which something may be sent.
    ready: VecDeque<PeerId>,
    /// Peers whose next arrival is stalled for lack of room.
    stalled: Vec<PeerId>,
    /// Those that the application addresses.
    named: PeerSet,
    /// What every new peer starts with.
    first: TxBlock,
}

bitflags! {
    /// Reasons that keep a send from going to the link at once.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct TxBlock: u8 {
        /// The link takes nothing now.
        const BLOCKED = 1;
        /// The next message waits until everything before it is complete.
        const FENCED = 2;
        /// Faults may be injected at its posts.
        const FAULTY = 4;
        /// The connection that an operation with [`oxifabric_types::Flags::INJECT`] was refused for could not be made:
        /// [`Waiting::failure`].
        const FAILED = 8;
        /// Messages whose fence has been lifted have not gone to the link yet: later ones stay behind them.
        const QUEUED = 16;
        /// Fault injection has a frame wait for a later poll.
        const REFUSED = 32;
        /// A frame waits for the link, or as if it did.
        const WAITS = Self::BLOCKED.bits() | Self::REFUSED.bits();
        /// With one of these a frame waits for the link, or passes the fault injector first.
        const HOLDS_FRAMES = Self::WAITS.bits() | Self::FAULTY.bits();
    }
}

/// One peer. Most have nothing that waits, so what may wait is elsewhere: an endpoint may have any number of peers.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// What waits or waited once.
    waiting: Option<Box<Waiting>>,
    /// What blocks its sends.
    pub(crate) tx_block: TxBlock,
    /// Whether `bulk` is next when both queues wait.
    bulk_turn: bool,
    ready: bool,
    stalled: bool,
    /// Whether an inject operation was refused with `AGAIN` since the link last took something.
    turned_away: bool,
    /// A peek found nothing: the next arrival is taken although there is no room.
    allowed: bool,
    /// Some of the replies still are [`Reply::Arrived`].
    pub(crate) undecided: bool,
}

/// What waits for a peer, or of it.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Answers, sent before anything else.
    pub(crate) replies: VecDeque<Reply>,
    /// Sends of which not everything was handed to the link, in order.
    backlog: VecDeque<Key>,
    /// Sends whose data the peer asked for; their segments need no order among other messages.
    bulk: VecDeque<Key>,
    /// The error with which the peer was lost while an inject operation was to be retried. The next one fails with it:
    /// otherwise its caller would start one connection after another and never learn that none can be made.
    failure: Option<Errno>,
    /// The message whose body the link delivers again.
    deferred: Option<Key>,
    /// Number of its accesses with an unknown key.
    unknown_keys: u32,
    /// Number of its requests that are being answered with data.
    pub(crate) responses: usize,
    /// Those of a peer that the application does not address, and some that are over.
    pub(crate) answering: Vec<Key>,
}

/// An answer to a message of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Pull the data of this message, ask for it, or decline it: whatever the link can do.
    Begin(Key),
    /// The peer's message with this id was placed, or matched.
    Ack(u32),
    /// This message has arrived, matched or not, and wants an acknowledgement: sent if the link
    /// acknowledges on arrival, otherwise withdrawn.
    Arrived(Key),
    /// The data of the peer's message with this id was pulled, or is not wanted.
    Fin(u32, Result<(), Errno>),
}

/// What is to be posted to a peer next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// This answer.
    Reply(Reply),
    /// The next frame of this send.
    Message(Key),
    /// The next segment of this send.
    Bulk(Key),
}

impl Peer {
    /// Returns what waits, to be added to.
    #[inline]
    pub(crate) fn waiting_mut(&mut self) -> &mut Waiting {
        self.waiting.get_or_insert_default()
    }

    /// Returns whether answers wait.
    fn has_replies(&self) -> bool {
        (self.waiting.as_ref()).is_some_and(|waiting| !waiting.replies.is_empty())
    }

    /// Chooses what to post next: answers first; then messages and data that was asked for take turns.
    pub(crate) fn next(&mut self) -> Option<Next> {
        let waiting = self.waiting.as_ref()?;
        if let Some(&reply) = waiting.replies.front() {
            return Some(Next::Reply(reply));
        }
        let message = waiting.backlog.front().copied().map(Next::Message);
        let message = message.filter(|_| !self.tx_block.contains(TxBlock::FENCED));
        let bulk = waiting.bulk.front().copied().map(Next::Bulk);
        if self.bulk_turn {
            bulk.or(message)
        } else {
            message.or(bulk)
        }
    }

    /// Notes that [`Peer::next`] found nothing.
    pub(crate) fn note_drained(&mut self) {
        if !self.tx_block.contains(TxBlock::FENCED) {
            self.tx_block.remove(TxBlock::QUEUED);
        }
    }

    /// Notes that the frame that [`Peer::next`] chose was posted; `last` takes its send off the queue.
    pub(crate) fn posted(&mut self, next: Next, last: bool) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        let queue = match next {
            Next::Reply(_) => {
                waiting.replies.pop_front();
                return;
            }
            Next::Message(_) => &mut waiting.backlog,
            Next::Bulk(_) => &mut waiting.bulk,
        };
        if last {
            queue.pop_front();
        }
        self.bulk_turn = matches!(next, Next::Message(_));
    }
}

impl Peers {
    /// Returns whether a send may go to the link at once. Nothing is before it then: whatever waits, waits
    /// because the link is blocked, or for what is before a fence.
    #[inline]
    pub(crate) fn is_clear(&self, peer: PeerId) -> bool {
        self.rows
            .get(peer.index())
            .is_none_or(|row| row.tx_block.is_empty())
    }

    /// Returns whether an answer may go to the link at once: no other one waits, and the link is not blocked.
    #[inline]
    pub(crate) fn takes_answer(&self, peer: PeerId) -> bool {
        let row = self.rows.get(peer.index());
        row.is_none_or(|row| row.tx_block.is_empty() && !row.has_replies())
    }

    /// Returns whether an inject operation is refused with `AGAIN`, since the link takes nothing now; remembers that.
    pub(crate) fn turns_away(&mut self, peer: PeerId) -> bool {
        let row = self.get_mut(peer);
        row.filter(|row| row.tx_block.intersects(TxBlock::WAITS))
            .map(|row| row.turned_away = true)
            .is_some()
    }

    /// Returns whether an inject operation is refused with `AGAIN` before anything is made of it; remembers that.
    pub(crate) fn refuses_inject(&mut self, peer: PeerId) -> bool {
        let failed = |row: &Peer| row.tx_block.contains(TxBlock::FAILED);
        !self.rows.get(peer.index()).is_some_and(failed) && self.turns_away(peer)
    }

    /// Returns once why the peer was lost while an inject operation was to be retried.
    pub(crate) fn take_failure(&mut self, peer: PeerId) -> Option<Errno> {
        let row = self.get_mut(peer)?;
        row.tx_block.remove(TxBlock::FAILED);
        row.waiting.as_mut()?.failure.take()
    }

    /// Takes the send that was queued last off the queue again.
    pub(crate) fn withdraw(&mut self, peer: PeerId, key: Key) {
        if let Some(row) = self.get_mut(peer)
            && let Some(waiting) = &mut row.waiting
            && waiting.backlog.back() == Some(&key)
        {
            waiting.backlog.pop_back();
        }
    }

    /// Returns whether the number can be a peer's.
    #[inline]
    pub(crate) const fn is_valid(peer: PeerId) -> bool {
        peer.index() < MAX_PEERS
    }

    /// Marks all peers as subject to fault injection, those to come too.
    pub(crate) fn make_all_faulty(&mut self) {
        self.first = TxBlock::FAULTY;
        for row in &mut self.rows {
            row.tx_block.insert(TxBlock::FAULTY);
        }
    }

    /// Creates the peer's row if it has none.
    pub(crate) fn ensure_row(&mut self, peer: PeerId) {
        if Self::is_valid(peer) {
            self.row(peer);
        }
    }

    /// Remembers that the application addresses a peer.
    pub(crate) fn name(&mut self, peer: PeerId) {
        if Self::is_valid(peer) {
            self.named.insert(peer);
        }
    }

    /// Returns whether the application addresses a peer.
    pub(crate) fn is_named(&self, peer: PeerId) -> bool {
        self.named.contains(peer)
    }

    /// Forgets a peer whose number goes to another one.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.named.remove(peer);
    }

    /// Returns how many of a peer's requests are being answered with data.
    pub(crate) fn responses(&self, peer: PeerId) -> usize {
        self.waiting(peer).map_or(0, |waiting| waiting.responses)
    }

    /// Returns the same count, to be changed; `None` if nothing ever waited.
    #[inline]
    pub(crate) fn responses_mut(&mut self, peer: PeerId) -> Option<&mut usize> {
        let waiting = self.get_mut(peer)?.waiting.as_deref_mut()?;
        Some(&mut waiting.responses)
    }

    /// Returns the responses to a peer that the application does not address, and some that are over.
    pub(crate) fn answering(&self, peer: PeerId) -> &[Key] {
        self.waiting(peer).map_or(&[], |waiting| &waiting.answering)
    }

    /// Returns what waits for a peer, or of it.
    #[inline]
    fn waiting(&self, peer: PeerId) -> Option<&Waiting> {
        self.rows.get(peer.index())?.waiting.as_deref()
    }

    /// Returns a peer's row, if it has one yet.
    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.rows.get_mut(peer.index())
    }

    /// Counts an access with an unknown key; returns how many there were since the peer came.
    pub(crate) fn count_unknown_key(&mut self, peer: PeerId) -> u32 {
        let waiting = self.row(peer).waiting_mut();
        waiting.unknown_keys = waiting.unknown_keys.saturating_add(1);
        waiting.unknown_keys
    }

    /// Queues an answer.
    pub(crate) fn reply(&mut self, peer: PeerId, reply: Reply) {
        let row = self.row(peer);
        row.waiting_mut().replies.push_back(reply);
        row.undecided |= matches!(reply, Reply::Arrived(_));
        let was_ready = mem::replace(&mut row.ready, true);
        self.list_ready(peer, was_ready);
    }

    /// Returns whether one more answer may be queued.
    pub(crate) fn can_reply(&self, peer: PeerId) -> bool {
        let waiting = self.waiting(peer);
        waiting.is_none_or(|waiting| waiting.replies.len() + waiting.bulk.len() < MAX_REPLIES)
    }

    /// Queues a send behind all earlier ones.
    pub(crate) fn queue(&mut self, peer: PeerId, key: Key) {
        self.row(peer).waiting_mut().backlog.push_back(key);
    }

    /// Queues a send whose data the peer asked for.
    pub(crate) fn queue_bulk(&mut self, peer: PeerId, key: Key) {
        let row = self.row(peer);
        row.waiting_mut().bulk.push_back(key);
        let was_ready = mem::replace(&mut row.ready, true);
        self.list_ready(peer, was_ready);
    }

    /// Has sends that wait behind a fence checked again: everything before it may be complete.
    pub(crate) fn lift_fence(&mut self, peer: PeerId) {
        let row = self.get_mut(peer);
        if let Some(row) = row.filter(|row| row.tx_block.contains(TxBlock::FENCED)) {
            row.tx_block.remove(TxBlock::FENCED);
            let waits = (row.waiting.as_ref()).is_some_and(|waiting| !waiting.backlog.is_empty());
            row.tx_block.set(TxBlock::QUEUED, waits);
            let was_ready = mem::replace(&mut row.ready, true);
            self.list_ready(peer, was_ready);
        }
    }

    /// Blocks sends to a peer for which the link takes nothing now.
    pub(crate) fn block(&mut self, peer: PeerId) {
        self.row(peer).tx_block.insert(TxBlock::BLOCKED);
    }

    /// Unblocks sends to a peer that fault injection refused, unless it was lost meanwhile.
    pub(crate) fn admit_refused(&mut self, peer: PeerId) {
        let row = self.get_mut(peer);
        if row.is_some_and(|row| row.tx_block.contains(TxBlock::REFUSED)) {
            self.unblock(peer);
        }
    }

    /// Unblocks sends to a peer for which the link takes frames again.
    pub(crate) fn unblock(&mut self, peer: PeerId) {
        if let Some(row) = self.get_mut(peer) {
            row.tx_block.remove(TxBlock::WAITS | TxBlock::FAILED);
            row.turned_away = false;
            if let Some(waiting) = &mut row.waiting {
                waiting.failure = None;
            }
            let was_ready = mem::replace(&mut row.ready, true);
            self.list_ready(peer, was_ready);
        }
    }

    /// Returns the next peer for which something may be sent.
    #[inline]
    pub(crate) fn next_ready(&mut self) -> Option<PeerId> {
        let peer = self.ready.pop_front()?;
        if let Some(row) = self.get_mut(peer) {
            row.ready = false;
        }
        Some(peer)
    }

    /// Remembers that the peer's next arrival has to wait.
    pub(crate) fn stall(&mut self, peer: PeerId) {
        let row = self.row(peer);
        if !row.stalled {
            row.stalled = true;
            self.stalled.push(peer);
        }
    }

    /// Returns the message that [`Peers::set_deferred`] named.
    pub(crate) fn deferred(&self, peer: PeerId) -> Option<Key> {
        self.waiting(peer)?.deferred
    }

    /// Sets the message whose body the link delivers again, if any.
    pub(crate) fn set_deferred(&mut self, peer: PeerId, key: Option<Key>) {
        let row = self.row(peer);
        if key.is_some() || row.waiting.is_some() {
            row.waiting_mut().deferred = key;
        }
    }

    /// Returns a peer whose stalled arrival is to be retried.
    pub(crate) fn next_stalled(&mut self) -> Option<PeerId> {
        let peer = self.stalled.pop()?;
        if let Some(row) = self.get_mut(peer) {
            row.stalled = false;
        }
        Some(peer)
    }

    /// Lets every waiting peer that `which` chooses go beyond the budget by one message.
    pub(crate) fn allow(&mut self, which: impl Fn(PeerId) -> bool) {
        for &peer in &self.stalled {
            if which(peer)
                && let Some(row) = self.rows.get_mut(peer.index())
            {
                row.allowed = true;
            }
        }
    }

    /// Uses up what [`Peers::allow`] allowed.
    pub(crate) fn use_allowance(&mut self, peer: PeerId) -> bool {
        self.get_mut(peer)
            .is_some_and(|row| mem::take(&mut row.allowed))
    }

    /// Forgets everything about a peer that is gone.
    pub(crate) fn reset(&mut self, peer: PeerId) {
        let first = self.first;
        if self.rows.get(peer.index()).is_some_and(|row| row.stalled) {
            self.stalled.retain(|&other| other != peer);
        }
        if let Some(row) = self.get_mut(peer) {
            let ready = row.ready;
            *row = Peer {
                ready,
                tx_block: first,
                ..Peer::default()
            };
        }
    }

    /// Returns the peers for which answers wait, and those whose next arrival waits for room.
    pub(crate) fn answered(&self) -> impl Iterator<Item = PeerId> {
        let rows = (0..).map(PeerId).zip(&self.rows);
        let busy = |row: &Peer| row.stalled || row.has_replies();
        rows.filter(move |(_, row)| busy(row)).map(|(peer, _)| peer)
    }

    /// Forgets what a peer that is gone left, but not why if an inject operation was to be retried.
    pub(crate) fn lose(&mut self, peer: PeerId, why: Errno) {
        let row = self.get_mut(peer);
        let turned_away = row.is_some_and(|row| row.turned_away);
        self.reset(peer);
        if turned_away && let Some(row) = self.get_mut(peer) {
            row.tx_block.insert(TxBlock::FAILED);
            row.waiting_mut().failure = Some(why);
        }
    }

    /// Returns whether no answer waits.
    pub(crate) fn no_replies(&self) -> bool {
        !self.rows.iter().any(Peer::has_replies)
    }

    fn row(&mut self, peer: PeerId) -> &mut Peer {
        let index = peer.index();
        if self.rows.len() <= index {
            self.rows.resize_with(index + 1, || Peer {
                tx_block: self.first,
                ..Peer::default()
            });
        }
        &mut self.rows[index]
    }

    /// Lists a peer among those for which something may be sent, unless it is there.
    #[inline]
    fn list_ready(&mut self, peer: PeerId, was_ready: bool) {
        if !was_ready {
            self.ready.push_back(peer);
        }
    }
}
