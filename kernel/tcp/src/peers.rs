//! The peers of an endpoint: by number, and by the address where they listen.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddrV4;

use oxifabric_engine::Sink;
use oxifabric_types::PeerId;

use crate::conn::Conn;

/// Peers that the application has not named, beyond which numbers of those that are gone are given out again, and no further connections
/// are taken if there are none.
const STRANGERS_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) conn: Conn,
    /// The application has named it.
    is_named: bool,
    /// The poll in which its last connection ended.
    ended_in: u64,
    /// It has a number, and no peer has.
    is_vacant: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Peers {
    rows: Vec<Peer>,
    numbers: BTreeMap<SocketAddrV4, PeerId>,
    /// Those with a connection, or an attempt at one.
    pub(crate) live: Vec<PeerId>,
    vacant: Vec<PeerId>,
    strangers: usize,
    /// A number was given to another peer.
    pub(crate) renumbered: bool,
}

impl Peers {
    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        let peer = self.rows.get(id.0 as usize)?;
        (!peer.is_vacant).then_some(peer)
    }

    /// Returns the address of the peer that has a number, or had it last.
    pub(crate) fn at(&self, id: PeerId) -> Option<SocketAddrV4> {
        Some(self.rows.get(id.0 as usize)?.conn.at)
    }

    pub(crate) fn conn(&mut self, id: PeerId) -> Option<&mut Conn> {
        let peer = self.rows.get_mut(id.0 as usize)?;
        (!peer.is_vacant).then_some(&mut peer.conn)
    }

    /// Returns the number of the peer that the application names by its address; `None` when there is no memory.
    pub(crate) fn name(&mut self, at: SocketAddrV4) -> Option<PeerId> {
        let id = match self.numbers.get(&at) {
            Some(id) => *id,
            None => self.add(at)?,
        };
        let peer = self.rows.get_mut(id.0 as usize)?;
        if !core::mem::replace(&mut peer.is_named, true) {
            self.strangers -= 1;
        }
        Some(id)
    }

    /// Returns the number of a peer that asks for a connection; `None` when there are too many that the application has not named.
    pub(crate) fn admit(
        &mut self,
        at: SocketAddrV4,
        poll: u64,
        sink: &mut impl Sink,
    ) -> Option<PeerId> {
        if let Some(id) = self.numbers.get(&at) {
            return Some(*id);
        }
        if self.strangers >= STRANGERS_MAX {
            self.sweep(poll, sink);
        }
        (self.strangers < STRANGERS_MAX)
            .then(|| self.add(at))
            .flatten()
    }

    fn add(&mut self, at: SocketAddrV4) -> Option<PeerId> {
        let id = match self.vacant.pop() {
            Some(id) => id,
            None => PeerId(u32::try_from(self.rows.len()).ok()?),
        };
        let peer = Peer {
            conn: Conn::new(id, at),
            is_named: false,
            ended_in: 0,
            is_vacant: false,
        };
        match self.rows.get_mut(id.0 as usize) {
            Some(row) => {
                *row = peer;
                self.renumbered = true;
            }
            None => {
                self.rows.try_reserve(1).ok()?;
                self.rows.push(peer);
            }
        }
        self.numbers.insert(at, id);
        self.strangers += 1;
        Some(id)
    }

    /// Frees the numbers of peers that are gone, if the application does not know them and no operation is about them.
    fn sweep(&mut self, poll: u64, sink: &mut impl Sink) {
        let mut involved = Vec::new();
        sink.involved(&mut |id| involved.push(id));
        for row in &mut self.rows {
            let id = row.conn.id;
            let is_gone = row.conn.is_idle() && row.ended_in != poll && !row.is_vacant;
            if !is_gone || row.is_named || involved.contains(&id) || sink.is_known(id) {
                continue;
            }
            row.is_vacant = true;
            self.numbers.remove(&row.conn.at);
            self.vacant.push(id);
            self.strangers -= 1;
            sink.forget_peer(id);
        }
    }

    /// Notes that a peer has a connection, or an attempt at one.
    pub(crate) fn enliven(&mut self, id: PeerId) {
        if !self.live.contains(&id) {
            self.live.push(id);
        }
    }

    /// Forgets those whose connections have ended in this poll.
    pub(crate) fn bury(&mut self, poll: u64) {
        let rows = &mut self.rows;
        self.live.retain(|id| match rows.get_mut(id.0 as usize) {
            Some(row) if row.conn.is_idle() => {
                row.ended_in = poll;
                false
            }
            Some(_) => true,
            None => false,
        });
    }

    /// Closes all connections, after what was accepted for sending.
    pub(crate) fn close(&mut self) {
        for row in &mut self.rows {
            row.conn.close();
        }
    }
}
