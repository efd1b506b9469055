//! The peers of an endpoint: by number, and by the address where they listen.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddrV4;

use oxifabric_engine::Sink;
use oxifabric_types::PeerId;

use crate::conn::Conn;

/// Peers that the application has not named, beyond which numbers of those that are gone are given out again, and no further connections
/// are taken if there are none.
const UNNAMED_MAX: usize = 256;

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
    unnamed: usize,
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
            self.unnamed -= 1;
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
        if self.unnamed >= UNNAMED_MAX {
            self.sweep(poll, sink);
        }
        (self.unnamed < UNNAMED_MAX).then(|| self.add(at)).flatten()
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
        self.unnamed += 1;
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
            self.unnamed -= 1;
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

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use oxifabric_engine::{Body, Header, Placement, RxToken, TxToken};
    use oxifabric_types::Errno;

    use super::*;

    /// A sink that has something with one peer, and notes those that it forgets.
    struct Noting {
        involved: PeerId,
        forgotten: Vec<PeerId>,
    }

    impl Sink for Noting {
        fn arrival(&mut self, _: PeerId, _: &Header, _: Body<'_>) -> Placement {
            Placement::Refuse
        }

        fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}

        fn sent(&mut self, _: TxToken, _: Result<(), Errno>) {}

        fn pulled(&mut self, _: RxToken, _: Result<(), Errno>) {}

        fn writable(&mut self, _: PeerId) {}

        fn involved(&self, each: &mut dyn FnMut(PeerId)) {
            each(self.involved);
        }

        fn forget_peer(&mut self, peer: PeerId) {
            self.forgotten.push(peer);
        }

        fn peer_down(&mut self, _: PeerId, _: Errno) {}
    }

    fn at(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
    }

    #[test]
    fn unnamed_peers_are_bounded_and_those_that_are_gone_make_room() {
        let (mut peers, mut sink) = (
            Peers::default(),
            Noting {
                involved: PeerId(1),
                forgotten: Vec::new(),
            },
        );
        let ports = 1..=UNNAMED_MAX as u16;
        for port in ports {
            assert!(peers.admit(at(port), 1, &mut sink).is_some());
        }
        // All of them went in this poll, so that their numbers may be in use until it ends.
        (0..UNNAMED_MAX as u32).for_each(|id| peers.enliven(PeerId(id)));
        peers.bury(1);
        assert_eq!(peers.admit(at(2000), 1, &mut sink), None);
        assert!(sink.forgotten.is_empty() && !peers.renumbered);
        let newcomer = peers.admit(at(2000), 2, &mut sink);
        assert!(newcomer.is_some_and(|id| id.0 < UNNAMED_MAX as u32));
        assert!(peers.renumbered);
        assert_eq!(
            sink.forgotten.len(),
            UNNAMED_MAX - 1,
            "one has a message here"
        );
        assert!(!sink.forgotten.contains(&PeerId(1)));
    }

    #[test]
    fn peers_that_the_application_names_always_have_a_place() {
        let (mut peers, mut sink) = (
            Peers::default(),
            Noting {
                involved: PeerId(0),
                forgotten: Vec::new(),
            },
        );
        for port in 1..=2 * UNNAMED_MAX as u16 {
            assert_eq!(peers.name(at(port)), Some(PeerId(u32::from(port) - 1)));
        }
        let newcomer_peer = peers.admit(at(9000), 1, &mut sink);
        assert!(newcomer_peer.is_some() && sink.forgotten.is_empty());
        assert_eq!(peers.name(at(9000)), newcomer_peer);
        assert_eq!(peers.unnamed, 0);
        assert_eq!(
            peers.admit(at(1), 1, &mut sink),
            Some(PeerId(0)),
            "it is known"
        );
    }
}
