//! The open connections of an endpoint, in an order that keeps polls short however many there are.
//!
//! *Active* connections are in front, and every poll looks at them. The others are *idle*: this side has nothing to do
//! there before the other side publishes a cell, so that one look at the next cell is enough; each poll checks a few of
//! them in turn. A connection is active as soon as either side uses it. With few connections all are active for good.

use crate::conn::Conn;
use crate::peer::{NO_CONN, Peers};

/// Idle connections that one poll checks. A poll of that many connections costs less than keeping time for them would.
pub(crate) const IDLE_CHECKS: usize = 16;

/// Polls between two rebalances, in which active connections without traffic since the last one become idle.
const POLLS_PER_REBALANCE: u32 = 64;

/// The open connections. Each peer has the index of its connection, which is updated when the connection moves.
#[derive(Debug, Default)]
pub(crate) struct Conns {
    all: Vec<Conn>,
    /// Number of active connections, which are in front.
    active: usize,
    /// Index of the idle connection to check next, unless it has become active.
    next: usize,
}

impl Conns {
    /// Returns how many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the connection at an index.
    pub(crate) fn get(&self, index: usize) -> Option<&Conn> {
        self.all.get(index)
    }

    /// Returns the connection at an index, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Conn> {
        self.all.get_mut(index)
    }

    /// Returns the connection at an index if it is active.
    #[inline(always)]
    pub(crate) fn active_mut(&mut self, index: usize) -> Option<&mut Conn> {
        self.all.get_mut(index).filter(|_| index < self.active)
    }

    /// Returns whether there is an active connection at an index.
    #[inline(always)]
    pub(crate) fn is_active(&self, index: usize) -> bool {
        index < self.active
    }

    /// Returns whether there are more connections than one poll checks, so that some may be idle.
    #[inline(always)]
    pub(crate) fn are_many(&self) -> bool {
        self.all.len() > IDLE_CHECKS
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Conn> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Conn> {
        self.all.iter_mut()
    }

    /// Adds a connection, as active.
    pub(crate) fn add(&mut self, conn: Conn, peers: &mut Peers) {
        self.all.push(conn);
        self.activate(self.all.len() - 1, peers);
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, index: usize, peers: &mut Peers) -> Option<Conn> {
        self.all.get(index)?;
        let mut index = index;
        if index < self.active {
            self.active -= 1;
            self.swap(index, self.active, peers);
            index = self.active;
        }
        self.swap(index, self.all.len() - 1, peers);
        let conn = self.all.pop()?;
        if let Some(peer) = peers.get_mut(conn.peer) {
            peer.conn = NO_CONN;
        }
        if !self.are_many() {
            self.active = self.all.len();
        }
        Some(conn)
    }

    /// Makes a connection active; returns its new index.
    #[cold]
    pub(crate) fn activate(&mut self, index: usize, peers: &mut Peers) -> Option<usize> {
        let conn = self.all.get_mut(index)?;
        conn.cells_seen = None;
        if index < self.active {
            return Some(index);
        }
        let place = self.active;
        self.active += 1;
        self.swap(index, place, peers);
        Some(place)
    }

    /// Prepares a poll of many connections: checks the next idle ones, and rebalances now and then.
    #[inline(never)]
    pub(crate) fn check_idle_in_turn(&mut self, polls: u32, peers: &mut Peers) {
        if polls.is_multiple_of(POLLS_PER_REBALANCE) {
            self.rebalance(peers);
        }
        self.check_idle(IDLE_CHECKS, peers);
    }

    /// Checks all idle connections, after a sleep.
    pub(crate) fn check_all_idle(&mut self, peers: &mut Peers) {
        self.next = self.active;
        self.check_idle(self.all.len(), peers);
    }

    /// Checks at most `most` idle connections, in turn; those where something has arrived become active.
    ///
    /// Those not checked yet in this round stay behind `next`, but for the last one when another connection ends.
    fn check_idle(&mut self, most: usize, peers: &mut Peers) {
        for _ in 0..most.min(self.all.len() - self.active) {
            if !(self.active..self.all.len()).contains(&self.next) {
                self.next = self.active;
            }
            let Some(conn) = self.all.get(self.next) else {
                return;
            };
            if conn.rx.is_ready() {
                self.activate(self.next, peers);
            }
            self.next += 1;
        }
    }

    /// Makes active connections without traffic since the last rebalance idle, unless this side has something to do
    /// there.
    fn rebalance(&mut self, peers: &mut Peers) {
        let mut index = 0;
        while let Some(conn) = self.active_mut(index) {
            if conn.was_used() || !conn.is_quiet() {
                index += 1;
                continue;
            }
            self.active -= 1;
            self.swap(index, self.active, peers);
        }
    }

    /// Exchanges two connections, and updates the indices that their peers have.
    fn swap(&mut self, one: usize, other: usize, peers: &mut Peers) {
        self.all.swap(one, other);
        for place in [one, other] {
            let peer = self
                .all
                .get(place)
                .and_then(|conn| peers.get_mut(conn.peer));
            if let Some(peer) = peer {
                peer.conn = place as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests;
