//! The open pairs of an endpoint, in an order that keeps polls short however many there are.
//!
//! *Busy* pairs are in front, and every poll looks at them. The others are *silent*: this side has nothing to do there
//! before the other side publishes a cell, so that one look at the next cell is enough; a few of them have their turn in
//! each poll. A pair is busy as soon as either side uses it. With few pairs all are busy for good.

use crate::pair::Pair;
use crate::peer::{NO_PAIR, Peers};

/// At how many silent pairs a poll looks. So many pairs cost a poll less than looking for the time would.
pub(crate) const TURNS: usize = 16;

/// In so many polls busy pairs are judged: who was of no use since the last time becomes silent.
const POLLS_PER_JUDGEMENT: u32 = 64;

/// The pairs. Peers know the places of theirs, so whatever moves a pair takes them along.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    all: Vec<Pair>,
    /// So many in front are busy.
    busy: usize,
    /// The place of the silent pair whose turn is next, unless it has become busy.
    next: usize,
}

impl Pairs {
    /// Returns the pair at a place.
    pub(crate) fn get(&self, index: usize) -> Option<&Pair> {
        self.all.get(index)
    }

    /// Lends it.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Pair> {
        self.all.get_mut(index)
    }

    /// The same, if it is a busy one.
    #[inline(always)]
    pub(crate) fn busy_mut(&mut self, index: usize) -> Option<&mut Pair> {
        self.all.get_mut(index).filter(|_| index < self.busy)
    }

    /// Tells whether there is a busy pair at a place.
    #[inline(always)]
    pub(crate) fn is_busy(&self, index: usize) -> bool {
        index < self.busy
    }

    /// Tells whether there are so many that they take turns.
    #[inline(always)]
    pub(crate) fn are_many(&self) -> bool {
        self.all.len() > TURNS
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pair> {
        self.all.iter_mut()
    }

    /// Adds a pair, a busy one.
    pub(crate) fn add(&mut self, pair: Pair, peers: &mut Peers) {
        self.all.push(pair);
        self.rouse(self.all.len() - 1, peers);
    }

    /// Takes a pair away.
    pub(crate) fn remove(&mut self, index: usize, peers: &mut Peers) -> Option<Pair> {
        self.all.get(index)?;
        let mut index = index;
        if index < self.busy {
            self.busy -= 1;
            self.swap(index, self.busy, peers);
            index = self.busy;
        }
        self.swap(index, self.all.len() - 1, peers);
        let pair = self.all.pop()?;
        if let Some(peer) = peers.get_mut(pair.peer) {
            peer.pair = NO_PAIR;
        }
        if !self.are_many() {
            self.busy = self.all.len();
        }
        Some(pair)
    }

    /// Makes a pair busy; returns its place from now on.
    #[cold]
    pub(crate) fn rouse(&mut self, index: usize, peers: &mut Peers) -> Option<usize> {
        let pair = self.all.get_mut(index)?;
        pair.judged = None;
        if index < self.busy {
            return Some(index);
        }
        let place = self.busy;
        self.busy += 1;
        self.swap(index, place, peers);
        Some(place)
    }

    /// Before each poll of many pairs: the next silent ones have their turn, and idle ones fall silent now and then.
    #[inline(never)]
    pub(crate) fn take_turns(&mut self, polls: u32, peers: &mut Peers) {
        if polls.is_multiple_of(POLLS_PER_JUDGEMENT) {
            self.judge(peers);
        }
        self.look_at_silent(TURNS, peers);
    }

    /// Looks at all silent pairs, for who may have slept.
    pub(crate) fn look_at_all(&mut self, peers: &mut Peers) {
        self.next = self.busy;
        self.look_at_silent(self.all.len(), peers);
    }

    /// Looks at so many silent pairs, in turns; those where something has arrived become busy.
    ///
    /// Those that it has not looked at yet in this round stay behind `next`, but for the last one when another pair ends.
    fn look_at_silent(&mut self, most: usize, peers: &mut Peers) {
        for _ in 0..most.min(self.all.len() - self.busy) {
            if !(self.busy..self.all.len()).contains(&self.next) {
                self.next = self.busy;
            }
            let Some(pair) = self.all.get(self.next) else {
                return;
            };
            if pair.rx.is_ready() {
                self.rouse(self.next, peers);
            }
            self.next += 1;
        }
    }

    /// Busy pairs that nobody has used for a while become silent, unless there is something to do.
    fn judge(&mut self, peers: &mut Peers) {
        let mut index = 0;
        while let Some(pair) = self.busy_mut(index) {
            if pair.was_used() || !pair.is_quiet() {
                index += 1;
                continue;
            }
            self.busy -= 1;
            self.swap(index, self.busy, peers);
        }
    }

    /// Exchanges the places of two pairs.
    fn swap(&mut self, one: usize, other: usize, peers: &mut Peers) {
        self.all.swap(one, other);
        for place in [one, other] {
            let peer = self
                .all
                .get(place)
                .and_then(|pair| peers.get_mut(pair.peer));
            if let Some(peer) = peer {
                peer.pair = place as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests;
