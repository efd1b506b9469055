//! A provider whose network is a table of mailboxes in this process: the smallest link that keeps all of a link's promises.

use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oxifabric_abi::FI_ADDR_STR;
use oxifabric_engine::{
    Body, Engine, Frame, Header, Kind, Limits, Link, OneSided, Placement, PostError, Posted,
    RemoteIov, RxToken, Sink, Target, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Device, Provider, RECEIVING, Unresolved};
use oxifabric_provider::params::Parameter;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_provider::timer::Timer;
use oxifabric_types::{
    Address, Caps, EpType, Errno, Info, Instant, Order, PeerId, Progress, Threading,
};

// ANCHOR: provider
/// The provider: nothing but a name for what is below.
pub(crate) struct Mailboxes;

impl Provider for Mailboxes {
    const NAME: &'static str = "mailbox";
    type Device = MailboxDevice;

    fn parameters() -> &'static [Parameter] {
        &[]
    }

    fn infos() -> Vec<Info> {
        let mut info = Info {
            addr_format: FI_ADDR_STR,
            ..Info::default()
        };
        let transfers = Caps::MSG | Caps::TAGGED | Caps::RMA;
        info.tx.caps = transfers | Caps::SEND | Caps::READ | Caps::WRITE;
        info.rx.caps = transfers | RECEIVING | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
        info.domain.caps = Caps::LOCAL_COMM;
        info.caps = info.tx.caps | info.rx.caps | info.domain.caps;
        info.tx.msg_order = Order::SAS;
        info.rx.msg_order = Order::SAS;
        info.tx.inject_size = FRAME;
        (info.tx.size, info.rx.size) = (256, 256);
        (info.tx.iov_limit, info.tx.rma_iov_limit, info.rx.iov_limit) = (4, 4, 4);
        info.ep.kind = EpType::Rdm;
        info.ep.max_msg_size = 1 << 30;
        (info.ep.tx_ctx_cnt, info.ep.rx_ctx_cnt) = (1, 1);
        info.domain.name = "mailbox".into();
        info.domain.threading = Threading::Safe;
        info.domain.control_progress = Progress::Manual;
        info.domain.data_progress = Progress::Manual;
        info.domain.mr_key_size = 8;
        info.domain.mr_iov_limit = 4;
        (info.domain.cq_cnt, info.domain.ep_cnt) = (1024, 1024);
        info.fabric.name = "mailbox".into();
        info.fabric.prov_name = Self::NAME.into();
        vec![info]
    }

    fn resolve(
        node: Option<&str>,
        _service: Option<&str>,
        _source: bool,
        _numeric: bool,
        _addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        let named = node.map(|node| vec![Address::Name(node.into())]);
        named.ok_or_else(|| Unresolved {
            errno: Errno::NODATA,
            why: "mailboxes have names, not services".into(),
        })
    }

    fn source_for(_dest: &Address) -> Option<Address> {
        None
    }

    fn fresh_name() -> Option<Address> {
        // Each device chooses its own: several endpoints may be opened with one description.
        None
    }
}
// ANCHOR_END: provider

/// The longest body of a frame. Longer messages are offered first, then sent in segments: the engine does that.
const FRAME: usize = 4096;

/// How many frames a mailbox holds: what peers may leave with an endpoint has a bound.
const ROOM: usize = 64;

/// Every enabled endpoint of this process.
static NETWORK: LazyLock<Mutex<HashMap<Address, Arc<Mailbox>>>> = LazyLock::new(Mutex::default);

/// Where frames to an endpoint wait until it polls.
struct Mailbox {
    letters: Mutex<Letters>,
    /// What a thread sleeps on.
    bell: Timer,
}

#[derive(Default)]
struct Letters {
    arrived: VecDeque<Letter>,
    /// Those that found no room, and are told when there is some.
    blocked: Vec<Arc<Mailbox>>,
    closed: bool,
}

/// A frame on its way.
struct Letter {
    from: Address,
    /// Where its sender reads.
    sender: Arc<Mailbox>,
    header: Header,
    targets: Vec<Target>,
    body: Vec<u8>,
}

impl Mailbox {
    fn ring(&self) {
        self.bell.set(Some(Duration::ZERO));
    }
}

fn fresh_name() -> Address {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Address::Name(format!("mailbox://{number}").into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device of an endpoint, and its link.
pub(crate) struct MailboxDevice {
    name: Address,
    mailbox: Arc<Mailbox>,
    peers: PeerTable<Address, Peer>,
    limits: Limits,
}

/// What is kept of a peer.
#[derive(Default)]
struct Peer {
    /// Its mailbox, once something was sent there or came from there.
    mailbox: Option<Arc<Mailbox>>,
    /// The engine waits until it takes frames.
    blocked: bool,
    /// The engine has no room for what it sent.
    stalled: bool,
}

// ANCHOR: device
impl Connection for MailboxDevice {}

impl Device for MailboxDevice {
    /// The device is a link, so an engine carries out what the application asks for.
    type Operations = Engine;
    /// The devices of a domain share nothing: any memory of the process will do.
    type Domain = ();

    fn open(info: &Info, _domain: &Arc<()>) -> Result<Self, Errno> {
        let mailbox = Mailbox {
            letters: Mutex::default(),
            bell: Timer::open().map_err(|_| Errno::MFILE)?,
        };
        Ok(Self {
            name: info.src.clone().unwrap_or_else(fresh_name),
            mailbox: Arc::new(mailbox),
            peers: PeerTable::default(),
            limits: Limits {
                eager: FRAME,
                segmented: FRAME,
                segmented_rma: true,
                segment: FRAME,
                rndv_msg: true,
                rndv_tagged: true,
                rndv_rma: true,
                pull: false,
                ack_on_arrival: false,
                one_sided: OneSided::empty(),
            },
        })
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        let mut network = lock(&NETWORK);
        let taken = network.get(&self.name);
        if taken.is_some_and(|taken| !Arc::ptr_eq(taken, &self.mailbox)) {
            return Err(Errno::ADDRINUSE);
        }
        network.insert(self.name.clone(), Arc::clone(&self.mailbox));
        Ok(())
    }

    fn name(&self) -> Address {
        self.name.clone()
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        self.name = name;
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let peer = self.number(address).ok_or(Errno::NOMEM)?;
        self.peers.name(peer);
        Ok(peer)
    }

    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn fd(&self) -> RawFd {
        self.mailbox.bell.fd()
    }

    fn arm(&mut self) -> bool {
        self.mailbox.bell.set(None);
        lock(&self.mailbox.letters).arrived.is_empty() && !self.has_news()
    }
}

impl Drop for MailboxDevice {
    fn drop(&mut self) {
        let mut network = lock(&NETWORK);
        network.retain(|_, mailbox| !Arc::ptr_eq(mailbox, &self.mailbox));
        lock(&self.mailbox.letters).closed = true;
        // Peers find out at their next poll, for which a thread may sleep.
        network.values().for_each(|mailbox| mailbox.ring());
    }
}
// ANCHOR_END: device

// ANCHOR: link
impl Link for MailboxDevice {
    fn limits(&self, _peer: PeerId) -> &Limits {
        &self.limits
    }

    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        _token: TxToken,
    ) -> Result<Posted, PostError> {
        let Some(mailbox) = self.find(peer) else {
            self.explain(peer);
            return Err(PostError::Down(Errno::CONNREFUSED));
        };
        let mut letters = lock(&mailbox.letters);
        if letters.closed {
            self.explain(peer);
            return Err(PostError::Down(Errno::CONNRESET));
        }
        if letters.arrived.len() >= ROOM {
            letters.blocked.push(Arc::clone(&self.mailbox));
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.blocked = true;
            }
            return Err(PostError::Again);
        }
        // What is offered, or asked for, stays where it is.
        let carried = frame.header.kind.carries_body();
        let mut body = vec![0; if carried { frame.len } else { 0 }];
        frame.body.read(frame.offset, &mut body);
        letters.arrived.push_back(Letter {
            from: self.name.clone(),
            sender: Arc::clone(&self.mailbox),
            header: frame.header,
            targets: frame.targets.to_vec(),
            body,
        });
        mailbox.ring();
        // The bytes were copied: the memory is the application's again.
        Ok(Posted::Done)
    }

    fn pull(
        &mut self,
        _peer: PeerId,
        _remote: &RemoteIov,
        _into: Iov,
        _token: RxToken,
    ) -> Result<Posted, PostError> {
        // The limits do not promise it, so no engine asks for it.
        Err(PostError::Down(Errno::NOSYS))
    }

    fn flush(&mut self) {}

    fn poll(&mut self, _now: Instant, sink: &mut impl Sink) -> usize {
        let mut kept = VecDeque::new();
        let mut events = 0;
        let arrived = std::mem::take(&mut lock(&self.mailbox.letters).arrived);
        for letter in arrived {
            // Beyond the last number that a peer can have, none is heard.
            let Some(from) = self.number(&letter.from) else {
                continue;
            };
            let Some(peer) = self.peers.get_mut(from) else {
                continue;
            };
            peer.mailbox
                .get_or_insert_with(|| Arc::clone(&letter.sender));
            if peer.stalled || !deliver(from, &letter, sink) {
                peer.stalled = true;
                kept.push_back(letter);
                continue;
            }
            events += 1;
        }
        self.put_back(kept);
        events + self.tell_news(sink)
    }

    fn resume(&mut self, peer: PeerId) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.stalled = false;
        }
    }
}

/// Hands a frame to the engine; returns whether that took it.
fn deliver(from: PeerId, letter: &Letter, sink: &mut impl Sink) -> bool {
    let (header, targets) = (&letter.header, &letter.targets);
    let body = Body::Whole(&letter.body);
    let placement = match header.kind {
        Kind::Write | Kind::WriteRts | Kind::Read => sink.access(from, header, targets, body),
        kind if kind.is_atomic() => sink.access(from, header, targets, body),
        _ => sink.arrival(from, header, body),
    };
    !matches!(placement, Placement::Stall)
}
// ANCHOR_END: link

impl MailboxDevice {
    /// Returns the number of the peer with this address, a new one if need be.
    fn number(&mut self, address: &Address) -> Option<PeerId> {
        let begin = |_, _: Option<&Peer>| (address.clone(), Peer::default());
        self.peers.number(address, begin)
    }

    /// Finds the mailbox of a peer, which is its connection: it stays that one.
    fn find(&mut self, peer: PeerId) -> Option<Arc<Mailbox>> {
        let address = self.peers.key(peer)?.clone();
        let peer = self.peers.get_mut(peer)?;
        if peer.mailbox.is_none() {
            peer.mailbox = lock(&NETWORK).get(&address).cloned();
        }
        peer.mailbox.clone()
    }

    /// Writes down why operations that name a peer fail now, for the application's error messages.
    fn explain(&self, peer: PeerId) {
        if let Some(address) = self.peers.key(peer) {
            let reason = format!("{address}: no endpoint reads this mailbox");
            self.peers.directory().explain(peer, Some(reason));
        }
    }

    /// Puts frames back that the engine could not take, and tells peers that there is room for others.
    fn put_back(&self, mut kept: VecDeque<Letter>) {
        let letters = &mut *lock(&self.mailbox.letters);
        kept.append(&mut letters.arrived);
        letters.arrived = kept;
        if letters.arrived.len() < ROOM {
            letters.blocked.drain(..).for_each(|mailbox| mailbox.ring());
        }
    }

    /// Returns whether a peer is to be told of: it takes frames again, or is gone.
    fn has_news(&self) -> bool {
        let mut known = self.peers.iter();
        known.any(|peer| {
            let letters = peer.mailbox.as_ref().map(|mailbox| lock(&mailbox.letters));
            letters.is_some_and(|letters| {
                letters.closed || peer.blocked && letters.arrived.len() < ROOM
            })
        })
    }

    /// Tells the engine of peers that take frames again, and of those that are gone.
    fn tell_news(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        for id in (0..self.peers.rows() as u32).map(PeerId) {
            let Some(peer) = self.peers.get_mut(id) else {
                continue;
            };
            let Some(mailbox) = &peer.mailbox else {
                continue;
            };
            let (closed, full) = {
                let letters = lock(&mailbox.letters);
                (letters.closed, letters.arrived.len() >= ROOM)
            };
            if closed {
                peer.mailbox = None;
                self.explain(id);
                sink.peer_down(id, Errno::CONNRESET);
                events += 1;
            } else if peer.blocked && !full {
                peer.blocked = false;
                sink.writable(id);
                events += 1;
            }
        }
        events
    }
}
