//! The links of an endpoint: one to each peer, made when the first of the two posts.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use oxifabric_engine::{
    Engine, Frame, Limits, Link, OneSided, PostError, Posted, RemoteIov, RxToken, Sink, TxToken,
};
use oxifabric_kernel_link::{LoopLink, Note};
use oxifabric_kernel_objects::{ConnectionEvent, Device};
use oxifabric_kernel_sync::Work;
use oxifabric_mem::Iov;
use oxifabric_types::{Address, EpType, Errno, Info, Instant, PeerId};

use crate::ports::{self, Incoming, Ports};

/// How messages travel: copied up to a page, in pieces up to 16 KiB, and beyond that copied once, by the receiver.
pub(crate) const LIMITS: Limits = Limits {
    eager: 4096,
    segmented: 16 << 10,
    segmented_rma: true,
    segment: 4096,
    rndv_msg: true,
    rndv_tagged: true,
    rndv_rma: true,
    pull: true,
    ack_on_arrival: false,
    one_sided: OneSided::empty(),
};

/// A peer of an endpoint; its number is its place.
#[derive(Debug)]
struct Peer {
    address: Address,
    link: Option<LoopLink>,
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// There is none, or an endpoint without connections.
    None,
    /// The peer was asked.
    Asked,
    /// The peer asked.
    Offered,
    /// It stands, and the endpoint does not know yet.
    Accepted,
    /// It stands.
    Up,
    /// It has ended.
    Over,
}

/// What moves the messages of an endpoint.
#[derive(Debug)]
pub struct LoopDevice {
    name: Address,
    kind: EpType,
    work: Arc<Work>,
    /// It has a port.
    is_open: bool,
    peers: Vec<Peer>,
    connection: Connection,
}

impl LoopDevice {
    pub(crate) fn new(info: &Info, work: &Arc<Work>) -> Result<Self, Errno> {
        let name = match &info.src {
            Some(name) => {
                ports::check(name)?;
                name.clone()
            }
            None => ports::lock()?.fresh(),
        };
        Ok(Self {
            name,
            kind: info.ep.kind,
            work: Arc::clone(work),
            is_open: false,
            peers: Vec::new(),
            connection: Connection::None,
        })
    }

    /// Makes the device of the endpoint that accepts a request.
    pub(crate) fn of_request(name: Address, request: Incoming, work: &Arc<Work>) -> Self {
        let mut link = request.link;
        link.set_work(work);
        let peer = Peer {
            address: request.from,
            link: Some(link),
        };
        Self {
            name,
            kind: EpType::Msg,
            work: Arc::clone(work),
            is_open: false,
            peers: alloc::vec![peer],
            connection: Connection::Offered,
        }
    }

    fn link(&mut self, peer: PeerId) -> Option<&mut LoopLink> {
        self.peers.get_mut(peer.0 as usize)?.link.as_mut()
    }

    /// Takes the links that peers have made; one of a peer whose old link has not ended waits.
    fn adopt(&mut self, ports: &mut Ports) {
        let Some(port) = ports.get(&self.name) else {
            return;
        };
        for _ in 0..port.incoming.len() {
            let Some(incoming) = port.incoming.pop_front() else {
                return;
            };
            let place = self.place(&incoming.from);
            match place.and_then(|at| self.peers.get_mut(at).map(|peer| (at, peer))) {
                Some((at, peer)) if peer.link.is_none() => {
                    let mut link = incoming.link;
                    link.set_peer(PeerId(at as u32));
                    link.set_work(&self.work);
                    peer.link = Some(link);
                }
                // No capacity is lost by taking one out.
                _ => port.incoming.push_back(incoming),
            }
        }
    }

    /// Returns the place of the peer with an address, a new one if there is none; `None` when there is no memory.
    fn place(&mut self, address: &Address) -> Option<usize> {
        let found = self.peers.iter().position(|peer| peer.address == *address);
        if found.is_some() {
            return found;
        }
        self.peers.try_reserve(1).ok()?;
        self.peers.push(Peer {
            address: address.clone(),
            link: None,
        });
        Some(self.peers.len() - 1)
    }

    /// Makes a link to the endpoint with an address.
    fn make_link(
        &self,
        ports: &mut Ports,
        peer: PeerId,
        to: &Address,
        data: &[u8],
    ) -> Result<LoopLink, Errno> {
        let [mut link, link_of_peer] = LoopLink::pair(LIMITS).ok_or(Errno::NOMEM)?;
        link.set_peer(peer);
        let incoming = Incoming {
            from: self.name.clone(),
            link: link_of_peer,
            data: data.to_vec(),
        };
        ports.deliver(to, self.kind == EpType::Msg, incoming)?;
        link.set_work(&self.work);
        Ok(link)
    }

    /// Returns the link to a peer, which is made if there is none.
    fn linked(&mut self, peer: PeerId) -> Result<&mut LoopLink, Errno> {
        if self.link(peer).is_none() && self.kind == EpType::Rdm {
            let mut ports = ports::lock()?;
            self.adopt(&mut ports);
            if self.link(peer).is_none() {
                let to = self.address_of(peer).ok_or(Errno::INVAL)?;
                let link = self.make_link(&mut ports, peer, &to, &[])?;
                if let Some(row) = self.peers.get_mut(peer.0 as usize) {
                    row.link = Some(link);
                }
            }
        }
        self.link(peer).ok_or(Errno::NOTCONN)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if self.is_open
            && let Ok(mut ports) = ports::lock()
        {
            let port = ports.close(&self.name);
            drop(ports);
            drop(port);
        }
    }
}

impl Link for LoopDevice {
    fn limits(&self, _: PeerId) -> &Limits {
        &LIMITS
    }

    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        let link = self.linked(peer).map_err(PostError::Down)?;
        link.post(peer, frame, token)
    }

    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        let link = self.link(peer).ok_or(PostError::Down(Errno::NOTCONN))?;
        link.pull(peer, remote, into, token)
    }

    fn flush(&mut self) {}

    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        for peer in &mut self.peers {
            let Some(link) = &mut peer.link else { continue };
            events += link.poll(now, sink);
            if link.is_over() && self.kind == EpType::Rdm {
                // What is posted next goes over a new link, to the endpoint that has the name then.
                peer.link = None;
                self.work.queue();
            }
        }
        events
    }

    fn resume(&mut self, peer: PeerId) {
        if let Some(link) = self.link(peer) {
            link.resume(peer);
        }
    }

    fn disconnect(&mut self, peer: PeerId, why: &'static str) -> bool {
        self.link(peer)
            .is_some_and(|link| link.disconnect(peer, why))
    }
}

impl Device for LoopDevice {
    type Operations = Box<Engine>;

    fn address(&self) -> Address {
        self.name.clone()
    }

    fn set_address(&mut self, address: &Address) -> Result<(), Errno> {
        if self.is_open || self.connection != Connection::None {
            return Err(Errno::OPBADSTATE);
        }
        ports::check(address)?;
        self.name = address.clone();
        Ok(())
    }

    fn enable(&mut self) -> Result<(), Errno> {
        if self.kind == EpType::Rdm {
            ports::lock()?.open(&self.name, false, &self.work)?;
            self.is_open = true;
        }
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        ports::check(address)?;
        let at = self.place(address).ok_or(Errno::NOMEM)?;
        Ok(PeerId(at as u32))
    }

    fn address_of(&self, peer: PeerId) -> Option<Address> {
        let peer = self.peers.get(peer.0 as usize)?;
        Some(peer.address.clone())
    }

    fn admit(&mut self) {
        if self.kind == EpType::Rdm
            && let Ok(mut ports) = ports::lock()
        {
            self.adopt(&mut ports);
        }
    }

    fn connect(&mut self, to: &Address, data: &[u8]) -> Result<(), Errno> {
        if self.kind != EpType::Msg {
            return Err(Errno::OPNOTSUPP);
        }
        if self.connection != Connection::None {
            return Err(Errno::ISCONN);
        }
        ports::check(to)?;
        let link = self.make_link(&mut *ports::lock()?, PeerId(0), to, data)?;
        self.peers.push(Peer {
            address: to.clone(),
            link: Some(link),
        });
        self.connection = Connection::Asked;
        Ok(())
    }

    fn accept(&mut self, data: &[u8]) -> Result<(), Errno> {
        if self.connection != Connection::Offered {
            return Err(Errno::NOTCONN);
        }
        let link = self.link(PeerId(0)).ok_or(Errno::NOTCONN)?;
        link.tell(Note::Accepted(data.to_vec()));
        self.connection = Connection::Accepted;
        Ok(())
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        let link = self.link(PeerId(0)).ok_or(Errno::NOTCONN)?;
        link.disconnect(PeerId(0), "fi_shutdown");
        Ok(())
    }

    fn event(&mut self) -> Option<ConnectionEvent> {
        let link = self.peers.first_mut()?.link.as_mut()?;
        let (next, event) = match self.connection {
            Connection::Asked => match link.take_note() {
                Some(Note::Accepted(data)) => (Connection::Up, ConnectionEvent::Connected(data)),
                Some(Note::Rejected(data)) => {
                    let refused = ConnectionEvent::Refused(Errno::CONNREFUSED, data);
                    (Connection::Over, refused)
                }
                None if link.is_over() => {
                    let refused = ConnectionEvent::Refused(Errno::CONNREFUSED, Vec::new());
                    (Connection::Over, refused)
                }
                None => return None,
            },
            Connection::Accepted => (Connection::Up, ConnectionEvent::Connected(Vec::new())),
            Connection::Up if link.is_over() => (Connection::Over, ConnectionEvent::Shutdown),
            _ => return None,
        };
        self.connection = next;
        Some(event)
    }
}
