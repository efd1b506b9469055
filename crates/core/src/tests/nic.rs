//! A provider whose devices carry out operations by themselves: an imagined network adapter with queues, in this process.
//!
//! It behaves as hardware does. A message goes into the next receive of its target, and waits at its sender while there is none; memory
//! that is not registered for an operation is not touched; memory of peers is reached by the keys that their adapter made.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use oxifabric_abi::FI_ADDR_STR;
use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_engine::{AtomicOp, RmaOp, RxOp, Target, TxOp};
use oxifabric_mem::{Iov, IovSegment};
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Device, Provider, Unresolved};
use oxifabric_provider::params::Parameter;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_provider::queues::{
    HardwareQueues, ReceivedMessage, WorkEnd, WorkError, WorkId, WorkLedger,
};
use oxifabric_types::{
    Address, Caps, EpType, Errno, Flags, Info, Instant, MrMode, PeerId, Progress, Threading,
};

use super::adapter::{AdapterDomain, AdapterState};
use crate::lock::lock;
use crate::provider_entry::ProviderEntry;
use crate::provider_entry::make::entry;

/// The entry of the provider.
pub(crate) static NIC: ProviderEntry = entry::<NicProvider>();

/// How many bytes a send may have that is copied when it is posted.
pub(super) const INLINE: usize = 32;

/// The provider.
pub(crate) struct NicProvider;

/// Every enabled device of this process.
static WIRE: LazyLock<Mutex<HashMap<Address, Arc<Port>>>> = LazyLock::new(Mutex::default);

/// What peers reach of a device.
struct Port {
    queue: Mutex<ReceiveQueue>,
    adapter: Arc<AdapterState>,
    event: OwnedFd,
}

#[derive(Default)]
struct ReceiveQueue {
    posted: VecDeque<(WorkId, Iov)>,
    ended: VecDeque<Ended>,
}

/// What ended at a receiver, which knows the peer by its address.
enum Ended {
    Receive(WorkId, Iov, Result<(Address, usize, Option<u64>), Errno>),
    /// A write with data, and the receive that it used up, if there was one.
    Written(Option<(WorkId, Iov)>, Address, usize, u64),
}

/// A device.
pub(crate) struct Nic {
    name: Address,
    port: Arc<Port>,
    peers: PeerTable<Address, ()>,
    enabled: bool,
    /// Sends whose receiver has no receive for them, in order.
    waiting: VecDeque<Waiting>,
    /// What was done, until the next poll tells of it.
    done: Vec<WorkEnd>,
}

struct Waiting {
    to: Address,
    body: Iov,
    data: Option<u64>,
    id: WorkId,
}

/// Describes the provider's endpoints in a domain with this name.
pub(crate) fn nic_offer(domain: &str) -> Info {
    let mut info = Info {
        caps: Caps::MSG | Caps::SEND | Caps::RECV | Caps::RMA | Caps::ATOMIC | Caps::SOURCE,
        addr_format: FI_ADDR_STR,
        ..Info::default()
    };
    info.caps |= Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    info.ep.kind = EpType::Rdm;
    info.ep.max_msg_size = 1 << 20;
    info.tx.inject_size = INLINE;
    info.tx.size = 4;
    info.rx.size = 4;
    info.domain.name = domain.into();
    info.domain.threading = Threading::Safe;
    info.domain.control_progress = Progress::Manual;
    info.domain.data_progress = Progress::Manual;
    info.domain.mr_mode = MrMode::LOCAL | MrMode::PROV_KEY;
    info.domain.mr_key_size = 8;
    info.fabric.name = "nic".into();
    info
}

impl Provider for NicProvider {
    const NAME: &'static str = "nic";
    type Device = Nic;

    fn parameters() -> &'static [Parameter] {
        &[]
    }

    fn infos() -> Vec<Info> {
        vec![nic_offer("nic")]
    }

    fn resolve(
        _node: Option<&str>,
        _service: Option<&str>,
        _source: bool,
        _numeric: bool,
        _addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        Err(Unresolved {
            errno: Errno::NODATA,
            why: "no such adapter".into(),
        })
    }

    fn source_for(_dest: &Address) -> Option<Address> {
        None
    }

    fn fresh_name() -> Option<Address> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Address::Name(format!("nic://{number}").into()))
    }
}

impl Connection for Nic {}

impl Device for Nic {
    const READS_DESCRIPTORS: bool = true;
    const INJECTS_ACCESSES: bool = false;
    type Operations = WorkLedger;
    type Domain = AdapterDomain;

    fn open(info: &Info, domain: &Arc<AdapterDomain>) -> Result<Self, Errno> {
        // SAFETY: makes a file descriptor, which is owned at once.
        let event = unsafe {
            OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))
        };
        let adapter = domain.state().ok_or(Errno::NODEV)?;
        Ok(Self {
            name: info.src.clone().ok_or(Errno::INVAL)?,
            port: Arc::new(Port {
                queue: Mutex::default(),
                adapter: Arc::clone(adapter),
                event,
            }),
            peers: PeerTable::default(),
            enabled: false,
            waiting: VecDeque::new(),
            done: Vec::new(),
        })
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        lock(&WIRE).insert(self.name.clone(), Arc::clone(&self.port));
        self.enabled = true;
        Ok(())
    }

    fn name(&self) -> Address {
        self.name.clone()
    }

    fn rename(&mut self, _name: Address) -> Result<(), Errno> {
        Err(Errno::OPBADSTATE)
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let begin = |_, _: Option<&()>| (address.clone(), ());
        self.peers.number(address, begin).ok_or(Errno::NOMEM)
    }

    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn fd(&self) -> RawFd {
        self.port.event.as_raw_fd()
    }

    fn arm(&mut self) -> bool {
        let mut count = 0u64;
        // SAFETY: reads eight bytes.
        unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
        self.done.is_empty() && lock(&self.port.queue).ended.is_empty()
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        if self.enabled {
            lock(&WIRE).remove(&self.name);
        }
        self.flush_receives();
        let ended = std::mem::take(&mut lock(&self.port.queue).ended);
        for end in ended {
            if let Ended::Receive(_, body, _) | Ended::Written(Some((_, body)), ..) = end {
                self.use_memory(&body, false);
            }
        }
        for send in std::mem::take(&mut self.waiting) {
            self.use_memory(&send.body, false);
        }
    }
}

impl HardwareQueues for Nic {
    fn post_send(&mut self, send: &TxOp, id: WorkId) -> Result<(), Errno> {
        let data = send.flags.contains(Flags::REMOTE_CQ_DATA);
        let Some(body) = self.taken(&send.body, send.flags, Flags::SEND, id)? else {
            return Ok(());
        };
        self.waiting.push_back(Waiting {
            to: self.address(send.peer).clone(),
            body,
            data: data.then_some(send.data),
            id,
        });
        self.deliver();
        Ok(())
    }

    fn post_receive(&mut self, receive: &RxOp, id: WorkId) -> Result<(), Errno> {
        if !self.may(&receive.body, Flags::RECV) {
            return Err(Errno::ACCES);
        }
        self.use_memory(&receive.body, true);
        let posted = (id, receive.body.clone());
        lock(&self.port.queue).posted.push_back(posted);
        Ok(())
    }

    fn post_access(&mut self, access: &RmaOp<'_>, id: WorkId) -> Result<(), Errno> {
        let reads = access.flags.contains(Flags::READ);
        let own = if reads { Flags::READ } else { Flags::WRITE };
        let Some(body) = self.taken(&access.body, access.flags, own, id)? else {
            return Ok(());
        };
        let result = self.reach(access.peer, access.targets, reads, |remote| {
            match reads {
                true => body.copy_from(0, remote),
                false => remote.copy_from(0, &body),
            };
        });
        self.use_memory(&body, false);
        if result.is_ok() && access.flags.contains(Flags::REMOTE_CQ_DATA) {
            let peer = self.address(access.peer);
            let port = lock(&WIRE).get(peer).cloned();
            let receive = port.and_then(|port| lock(&port.queue).posted.pop_front());
            let written = Ended::Written(receive, self.name.clone(), body.len(), access.data);
            self.tell(peer, written);
        }
        let result = result.map_err(WorkError::from);
        self.done.push(WorkEnd::Sent { id, result });
        Ok(())
    }

    fn post_atomic(&mut self, atomic: &AtomicOp, id: WorkId) -> Result<(), Errno> {
        let update = atomic.update;
        let known = (Datatype::Uint64, Operation::Sum, Form::Fetch);
        if (update.datatype, update.operation, update.form) != known {
            return Err(Errno::OPNOTSUPP);
        }
        let result = self.reach(atomic.peer, &atomic.targets, false, |remote| {
            let (mut before, mut by) = ([0; 8], [0; 8]);
            remote.read(0, &mut before);
            atomic.operand.read(0, &mut by);
            atomic.result.write(0, &before);
            let sum = u64::from_ne_bytes(before).wrapping_add(u64::from_ne_bytes(by));
            remote.write(0, &sum.to_ne_bytes());
        });
        let result = result.map_err(WorkError::from);
        self.done.push(WorkEnd::Sent { id, result });
        Ok(())
    }

    fn cancel_receive(&mut self, id: WorkId) -> Result<(), Errno> {
        let mut queue = lock(&self.port.queue);
        let at = queue.posted.iter().position(|(posted, _)| *posted == id);
        let (_, body) = queue
            .posted
            .remove(at.ok_or(Errno::NOENT)?)
            .ok_or(Errno::NOENT)?;
        queue
            .ended
            .push_back(Ended::Receive(id, body, Err(Errno::CANCELED)));
        Ok(())
    }

    fn flush_receives(&mut self) {
        let queue = &mut *lock(&self.port.queue);
        for (id, body) in queue.posted.drain(..) {
            queue
                .ended
                .push_back(Ended::Receive(id, body, Err(Errno::CANCELED)));
        }
    }

    fn poll_queues(&mut self, _now: Instant, ended: &mut impl FnMut(WorkEnd)) {
        self.deliver();
        self.done.drain(..).for_each(&mut *ended);
        let arrived = std::mem::take(&mut lock(&self.port.queue).ended);
        for end in arrived {
            let told = match end {
                Ended::Receive(id, body, result) => {
                    self.use_memory(&body, false);
                    let result = result.map_err(WorkError::from);
                    let result = result.map(|(from, len, data)| ReceivedMessage {
                        from: self.peer(&from).expect("there is room for peers"),
                        len,
                        data,
                    });
                    WorkEnd::Received { id, result }
                }
                Ended::Written(receive, from, len, data) => WorkEnd::Written {
                    receive: receive.map(|(id, body)| {
                        self.use_memory(&body, false);
                        id
                    }),
                    from: self.peer(&from).expect("there is room for peers"),
                    len,
                    data,
                },
            };
            ended(told);
        }
    }
}

impl Nic {
    /// Returns the address of a peer that has a number.
    fn address(&self, peer: PeerId) -> &Address {
        self.peers.key(peer).expect("the peer has a number")
    }

    /// Takes the memory of an operation: a copy of what is injected. Memory that the adapter may not use for that ends the operation.
    fn taken(
        &mut self,
        body: &Iov,
        flags: Flags,
        access: Flags,
        id: WorkId,
    ) -> Result<Option<Iov>, Errno> {
        if flags.contains(Flags::INJECT) {
            return Ok(Some(body.duplicate().ok_or(Errno::NOMEM)?));
        }
        if !self.may(body, access) {
            let result = Err(Errno::ACCES.into());
            self.done.push(WorkEnd::Sent { id, result });
            return Ok(None);
        }
        self.use_memory(body, true);
        Ok(Some(body.clone()))
    }

    /// Returns whether the adapter knows all of this memory, for such an access.
    fn may(&self, body: &Iov, access: Flags) -> bool {
        let mut pieces = body.segments().iter().enumerate();
        pieces.all(|(at, piece)| {
            let known = body.registration(at);
            let held = known.and_then(|known| self.port.adapter.find(known.region));
            piece.is_empty()
                || held.is_some_and(|held| {
                    held.access.contains(access) && held.pieces.iter().any(|all| has(all, piece))
                })
        })
    }

    fn use_memory(&self, body: &Iov, begins: bool) {
        let pieces = 0..body.segments().len();
        for known in pieces.filter_map(|at| body.registration(at)) {
            self.port.adapter.count_use(known.region, begins);
        }
    }

    /// Delivers the sends for which there are receives, each peer's in order.
    fn deliver(&mut self) {
        let mut late: Vec<Address> = Vec::new();
        for send in std::mem::take(&mut self.waiting) {
            let port = lock(&WIRE).get(&send.to).cloned();
            let Some(port) = port else {
                let result = Err(Errno::CONNREFUSED.into());
                self.use_memory(&send.body, false);
                self.done.push(WorkEnd::Sent {
                    id: send.id,
                    result,
                });
                continue;
            };
            let receive = match late.contains(&send.to) {
                true => None,
                false => lock(&port.queue).posted.pop_front(),
            };
            let Some((id, into)) = receive else {
                late.push(send.to.clone());
                self.waiting.push_back(send);
                continue;
            };
            let len = into.copy_from(0, &send.body);
            let result = match len < send.body.len() {
                true => Err(Errno::TRUNC),
                false => Ok((self.name.clone(), len, send.data)),
            };
            self.use_memory(&send.body, false);
            self.tell(&send.to, Ended::Receive(id, into, result));
            self.done.push(WorkEnd::Sent {
                id: send.id,
                result: Ok(()),
            });
        }
    }

    /// Tells a peer what ended there.
    fn tell(&self, peer: &Address, ended: Ended) {
        if let Some(port) = lock(&WIRE).get(peer) {
            lock(&port.queue).ended.push_back(ended);
            let one = 1u64;
            // SAFETY: writes eight bytes.
            unsafe { libc::write(port.event.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    /// Reaches memory of a peer, which the peer's adapter finds by its keys.
    fn reach(
        &self,
        peer: PeerId,
        targets: &[Target],
        reads: bool,
        access: impl FnOnce(&Iov),
    ) -> Result<(), Errno> {
        let peer = self.address(peer);
        let port = lock(&WIRE).get(peer).cloned().ok_or(Errno::CONNREFUSED)?;
        let right = if reads {
            Flags::REMOTE_READ
        } else {
            Flags::REMOTE_WRITE
        };
        let mut pieces = Vec::new();
        for target in targets {
            let held = port.adapter.by_key(target.key).ok_or(Errno::NOKEY)?;
            let all = held.pieces.first().ok_or(Errno::ACCES)?;
            let base = all.base().wrapping_add(target.addr as usize);
            let piece = IovSegment::new(base, target.len as usize);
            if !held.access.contains(right) || !has(all, &piece) {
                return Err(Errno::ACCES);
            }
            pieces.push(piece);
        }
        // SAFETY: the peer registered the memory for such accesses, until it closes the region.
        let remote = unsafe { Iov::scattered(&pieces) }.ok_or(Errno::ACCES)?;
        access(&remote);
        Ok(())
    }
}

/// Returns whether a piece is inside another.
fn has(all: &IovSegment, piece: &IovSegment) -> bool {
    let offset = piece.base().addr().checked_sub(all.base().addr());
    offset.is_some_and(|offset| offset <= all.len() && piece.len() <= all.len() - offset)
}
