//! A provider whose network is a table of mailboxes in this process.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use oxifabric_abi::FI_ADDR_STR;
use oxifabric_engine::{
    Body, Engine, Frame, Header, Kind, Limits, Link, OneSided, Placement, PostError, Posted,
    RemoteIov, RxToken, Sink, Target, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Device, Provider, Unresolved};
use oxifabric_provider::params::Parameter;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_types::{Address, Caps, EpType, Errno, Info, Instant, PeerId, Progress, Threading};

use super::adapter::AdapterDomain;
use crate::lock::lock;
use crate::provider_entry::ProviderEntry;
use crate::provider_entry::make::entry;

/// The entry of the provider.
pub(crate) static MOCK: ProviderEntry = entry::<Mock<false>>();

/// The entry of the provider with devices that read descriptors.
pub(crate) static DESCRIBED_MOCK: ProviderEntry = entry::<Mock<true>>();

/// A provider for tests, whose devices read descriptors or do not.
pub(crate) struct Mock<const READS: bool>;

/// Every enabled endpoint of this process.
static NETWORK: LazyLock<Mutex<HashMap<Address, Arc<Mailbox>>>> = LazyLock::new(Mutex::default);

thread_local! {
    /// How often this thread has taken from peers of an endpoint what lets them access memory unseen.
    static REVOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Returns how often this thread has revoked accesses.
pub(crate) fn revocations() -> usize {
    REVOCATIONS.get()
}

/// What arrived at an endpoint and was not polled.
struct Mailbox {
    frames: Mutex<VecDeque<MockFrame>>,
    event: OwnedFd,
}

struct MockFrame {
    from: Address,
    header: Header,
    targets: Vec<Target>,
    body: Vec<u8>,
}

impl<const READS: bool> Provider for Mock<READS> {
    const NAME: &'static str = "mock";
    type Device = MockDevice<READS>;

    fn parameters() -> &'static [Parameter] {
        &[]
    }

    fn infos() -> Vec<Info> {
        vec![offer()]
    }

    fn resolve(
        node: Option<&str>,
        _service: Option<&str>,
        _source: bool,
        _numeric: bool,
        _addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        match node {
            Some(node) if node != "nowhere" => Ok(vec![Address::Name(node.into())]),
            _ => Err(Unresolved {
                errno: Errno::NODATA,
                why: "no such mailbox".into(),
            }),
        }
    }

    fn source_for(_dest: &Address) -> Option<Address> {
        None
    }

    fn fresh_name() -> Option<Address> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Address::Name(format!("mock://{number}").into()))
    }
}

/// Describes the provider's endpoints.
pub(crate) fn offer() -> Info {
    let mut info = Info {
        caps: Caps::MSG | Caps::TAGGED | Caps::SEND | Caps::RECV | Caps::SOURCE,
        addr_format: FI_ADDR_STR,
        ..Info::default()
    };
    info.ep.kind = EpType::Rdm;
    info.ep.max_msg_size = 1 << 20;
    info.tx.inject_size = 64;
    info.tx.size = 4;
    info.domain.name = "mock".into();
    info.domain.threading = Threading::Safe;
    info.domain.control_progress = Progress::Manual;
    info.domain.data_progress = Progress::Manual;
    info.domain.mr_key_size = 8;
    info.fabric.name = "mock".into();
    info
}

/// An endpoint of the provider.
pub(crate) struct MockDevice<const READS: bool> {
    domain: Arc<AdapterDomain>,
    name: Address,
    mailbox: Arc<Mailbox>,
    enabled: bool,
    peers: PeerTable<Address, ()>,
    limits: Limits,
    /// Frames that were posted with the announcement that more will follow.
    held: Vec<(Arc<Mailbox>, MockFrame)>,
}

impl<const READS: bool> Connection for MockDevice<READS> {}

impl<const READS: bool> Device for MockDevice<READS> {
    const COALESCES: bool = true;
    const READS_DESCRIPTORS: bool = READS;
    type Operations = Engine;
    type Domain = AdapterDomain;

    fn holds_back(&self) -> bool {
        !self.held.is_empty()
    }

    fn open(info: &Info, domain: &Arc<AdapterDomain>) -> Result<Self, Errno> {
        // SAFETY: makes a file descriptor, which is owned at once.
        let event = unsafe {
            OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))
        };
        Ok(Self {
            domain: Arc::clone(domain),
            name: info.src.clone().ok_or(Errno::INVAL)?,
            mailbox: Arc::new(Mailbox {
                frames: Mutex::default(),
                event,
            }),
            enabled: false,
            held: Vec::new(),
            peers: PeerTable::default(),
            limits: Limits {
                eager: 1 << 20,
                segmented: 1 << 20,
                segmented_rma: true,
                segment: 1 << 20,
                rndv_msg: false,
                rndv_tagged: false,
                rndv_rma: true,
                pull: false,
                ack_on_arrival: false,
                one_sided: OneSided::empty(),
            },
        })
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        if self.enabled {
            return Ok(());
        }
        let mut network = lock(&NETWORK);
        if network.contains_key(&self.name) {
            return Err(Errno::ADDRINUSE);
        }
        network.insert(self.name.clone(), Arc::clone(&self.mailbox));
        self.enabled = true;
        Ok(())
    }

    fn revoke_access(&mut self) {
        REVOCATIONS.set(REVOCATIONS.get() + 1);
    }

    fn name(&self) -> Address {
        self.name.clone()
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        if self.enabled {
            return Err(Errno::OPBADSTATE);
        }
        self.name = name;
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let begin = |_, _: Option<&()>| (address.clone(), ());
        self.peers.number(address, begin).ok_or(Errno::NOMEM)
    }

    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn fd(&self) -> RawFd {
        self.mailbox.event.as_raw_fd()
    }

    fn arm(&mut self) -> bool {
        let mut count = 0u64;
        // SAFETY: reads eight bytes.
        unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
        lock(&self.mailbox.frames).is_empty()
    }
}

impl<const READS: bool> Drop for MockDevice<READS> {
    fn drop(&mut self) {
        if self.enabled {
            lock(&NETWORK).remove(&self.name);
        }
    }
}

impl<const READS: bool> Link for MockDevice<READS> {
    fn limits(&self, _peer: PeerId) -> &Limits {
        &self.limits
    }

    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        _token: TxToken,
    ) -> Result<Posted, PostError> {
        let address = self.peers.key(peer).expect("the peer has a number");
        let Some(target) = lock(&NETWORK).get(address).cloned() else {
            let reason = format!("{address}: no such mailbox");
            self.peers.directory().explain(peer, Some(reason));
            return Err(PostError::Down(Errno::CONNREFUSED));
        };
        if READS {
            self.domain.note(&frame.body.slice(frame.offset, frame.len));
        }
        let mut body = vec![0; frame.len];
        frame.body.read(frame.offset, &mut body);
        let sent = MockFrame {
            from: self.name.clone(),
            header: frame.header,
            targets: frame.targets.to_vec(),
            body,
        };
        self.held.push((target, sent));
        if !frame.more {
            self.flush();
        }
        Ok(Posted::Done)
    }

    fn pull(
        &mut self,
        _peer: PeerId,
        _remote: &RemoteIov,
        _into: Iov,
        _token: RxToken,
    ) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::NOSYS))
    }

    fn flush(&mut self) {
        for (target, frame) in self.held.drain(..) {
            lock(&target.frames).push_back(frame);
            let one = 1u64;
            // SAFETY: writes eight bytes.
            unsafe { libc::write(target.event.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    fn poll(&mut self, _now: Instant, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        loop {
            let frame = lock(&self.mailbox.frames).pop_front();
            let Some(frame) = frame else {
                return events;
            };
            let peer = self.peer(&frame.from).expect("there is room for peers");
            let body = Body::Whole(&frame.body);
            let placement = match frame.header.kind {
                kind if kind.is_atomic() => sink.access(peer, &frame.header, &frame.targets, body),
                Kind::Write | Kind::WriteRts | Kind::Read => {
                    sink.access(peer, &frame.header, &frame.targets, body)
                }
                _ => sink.arrival(peer, &frame.header, body),
            };
            if matches!(placement, Placement::Stall) {
                lock(&self.mailbox.frames).push_front(frame);
                return events;
            }
            events += 1;
        }
    }

    fn resume(&mut self, _peer: PeerId) {}
}
