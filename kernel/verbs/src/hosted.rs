//! The side of user space, for tests: devices, connections and queues of one program, with the rules of reliable queue pairs.
//!
//! A message waits until the peer has a receive. An error breaks both queue pairs of a connection, and what is outstanding there ends as flushed.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec;
use std::vec::Vec;

use oxifabric_kernel_sync::Work as Task;
use oxifabric_types::Errno;

use crate::parts::{
    DeviceFacts, Done, Ends, HAS_DATA, IS_MESSAGE, IS_WRITE, Opcode, Piece, RawEvent, WITH_DATA,
    Work, kind,
};

/// `ib_wc_status` of what ends here: too long, flushed, and what the peer does not allow.
const LENGTH: u32 = 1;
const FLUSHED: u32 = 5;
const INVALID: u32 = 9;
const ACCESS: u32 = 10;

/// The reason of an application that refuses.
const CONSUMER: i32 = 28;

const UNKNOWN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// All that there is, behind one lock.
#[derive(Default)]
struct World {
    links: Vec<Option<Link>>,
    regions: Vec<Option<Region>>,
    domains: usize,
    ports: u16,
}

struct Region {
    domain: usize,
    base: u64,
    len: u64,
    is_read: bool,
    is_written: bool,
}

struct Link {
    owner: Owner,
    own: SocketAddrV4,
    peer_at: SocketAddrV4,
    peer: Option<usize>,
    is_listening: bool,
    /// The peer may be sent to.
    is_up: bool,
    is_broken: bool,
    events: VecDeque<RawEvent>,
    arrivals: VecDeque<(usize, RawEvent)>,
    domain: Option<usize>,
    sends: VecDeque<(Work, Vec<Piece>)>,
    receives: VecDeque<(u64, Vec<Piece>)>,
    done: VecDeque<Done>,
    is_armed: bool,
}

/// Whose task is queued.
struct Owner(*const Task);

// SAFETY: a task may be queued from any thread; it lives until the link has another owner.
unsafe impl Send for Owner {}

// SAFETY: the pointers to lists in its works are not followed.
unsafe impl Send for World {}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

fn with<R>(call: impl FnOnce(&mut World) -> R) -> R {
    let mut world: MutexGuard<'_, _> = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    call(world.get_or_insert_default())
}

fn keep<T>(list: &mut Vec<Option<T>>, value: T) -> usize {
    list.push(Some(value));
    list.len() - 1
}

fn event(kind: u32, status: i32, data: &[u8]) -> RawEvent {
    let mut event = RawEvent {
        kind,
        status,
        len: data.len() as u32,
        ..RawEvent::NONE
    };
    event.data[..data.len()].copy_from_slice(data);
    event
}

impl Link {
    fn new(owner: *const Task) -> Self {
        Self {
            owner: Owner(owner),
            own: UNKNOWN,
            peer_at: UNKNOWN,
            peer: None,
            is_listening: false,
            is_up: false,
            is_broken: false,
            events: VecDeque::new(),
            arrivals: VecDeque::new(),
            domain: None,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            done: VecDeque::new(),
            is_armed: false,
        }
    }

    fn wake(&self) {
        // SAFETY: null, or an owner that lives.
        if let Some(owner) = unsafe { self.owner.0.as_ref() } {
            owner.queue();
        }
    }

    fn tell(&mut self, event: RawEvent) {
        self.events.push_back(event);
        self.wake();
    }

    fn end(&mut self, done: Done) {
        self.done.push_back(done);
        if std::mem::take(&mut self.is_armed) {
            self.wake();
        }
    }

    /// Breaks its queue pair: what is outstanding is flushed.
    fn flush(&mut self) {
        self.is_broken = true;
        let sends = self.sends.drain(..).map(|(work, _)| work.id);
        let ids: Vec<u64> = sends
            .chain(self.receives.drain(..).map(|(id, _)| id))
            .collect();
        for id in ids {
            self.end(failed(id, FLUSHED));
        }
    }
}

fn failed(id: u64, status: u32) -> Done {
    Done {
        id,
        status,
        ..Done::default()
    }
}

impl World {
    fn link(&mut self, at: usize) -> &mut Link {
        self.links[at].as_mut().expect("the link is open")
    }

    fn listener(&self, at: SocketAddrV4) -> Option<usize> {
        let listens = |link: &Option<Link>| {
            let link = link.as_ref();
            link.is_some_and(|link| link.is_listening && link.own == at)
        };
        self.links.iter().position(listens)
    }

    fn disconnect(&mut self, at: usize) {
        let link = self.link(at);
        link.flush();
        let was_up = std::mem::take(&mut link.is_up);
        if let Some(peer) = link.peer.take()
            && let Some(Some(other)) = self.links.get_mut(peer)
        {
            other.peer = None;
            other.is_up = false;
            let told = if was_up {
                kind::DISCONNECTED
            } else {
                kind::REJECTED
            };
            other.flush();
            other.tell(event(told, 0, &[]));
        }
    }

    /// Breaks both queue pairs of a connection, whose ends still know each other.
    fn fault(&mut self, at: usize) {
        let peer = self.link(at).peer;
        self.link(at).flush();
        if let Some(peer) = peer {
            self.link(peer).flush();
        }
    }

    /// Does the work of a queue as far as it can be done.
    fn run(&mut self, at: usize) {
        loop {
            let link = self.link(at);
            let (true, false, Some(peer)) = (link.is_up, link.is_broken, link.peer) else {
                return;
            };
            let Some((work, from)) = link.sends.front().cloned() else {
                return;
            };
            let status = match work.opcode {
                Opcode::Send => match self.deliver(peer, &work, &from, IS_MESSAGE) {
                    Some(status) => status,
                    None => return,
                },
                Opcode::Write if self.reach(peer, &work, &from).is_none() => ACCESS,
                Opcode::Write if work.flags & WITH_DATA == 0 => self.copy(&work, &from),
                Opcode::Write if self.link(peer).receives.is_empty() => return,
                Opcode::Write => {
                    let status = self.copy(&work, &from);
                    self.deliver(peer, &work, &from, IS_WRITE).unwrap_or(status)
                }
                Opcode::Read if self.reach(peer, &work, &from).is_none() => ACCESS,
                Opcode::Read => self.copy(&work, &from),
            };
            let link = self.link(at);
            link.sends.pop_front();
            link.end(failed(work.id, status));
            if status != 0 {
                self.fault(at);
            }
        }
    }

    /// Has a receive of the peer end, for a message or a write that has been done; `None` when it has none.
    fn deliver(&mut self, peer: usize, work: &Work, from: &[Piece], flags: u32) -> Option<u32> {
        let other = self.link(peer);
        let (id, to) = other.receives.pop_front()?;
        let len = total(from);
        if flags == IS_MESSAGE {
            if len > total(&to) {
                other.end(failed(id, LENGTH));
                return Some(INVALID);
            }
            copy_pieces(from, &to, len);
        }
        let with_data = work.flags & WITH_DATA != 0;
        other.end(Done {
            id,
            status: 0,
            len: len as u32,
            data: work.data,
            flags: if with_data { flags | HAS_DATA } else { flags },
        });
        Some(0)
    }

    /// Looks whether a work may reach the peer's memory that it names.
    fn reach(&mut self, peer: usize, work: &Work, pieces: &[Piece]) -> Option<()> {
        let domain = self.link(peer).domain?;
        let region = self.regions.get(work.key as usize)?.as_ref()?;
        let start = work.remote.checked_sub(region.base)?;
        let end = start.checked_add(total(pieces) as u64)?;
        let is_allowed = match work.opcode {
            Opcode::Read => region.is_read,
            _ => region.is_written,
        };
        (region.domain == domain && end <= region.len && is_allowed).then_some(())
    }

    fn copy(&self, work: &Work, pieces: &[Piece]) -> u32 {
        let len = total(pieces);
        let remote = [Piece {
            addr: work.remote,
            len: len as u32,
            key: 0,
        }];
        match work.opcode {
            Opcode::Read => copy_pieces(&remote, pieces, len),
            _ => copy_pieces(pieces, &remote, len),
        }
        0
    }
}

fn total(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.len as usize).sum()
}

/// Copies bytes from the memory of some pieces to that of others.
fn copy_pieces(from: &[Piece], to: &[Piece], len: usize) {
    let mut bytes = Vec::with_capacity(len);
    for piece in from {
        // SAFETY: it is memory that is mapped or registered until its work has ended.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(piece.addr as *const u8, piece.len as usize)
        });
    }
    let mut rest = &bytes[..len];
    for piece in to {
        let (now, later) = rest.split_at(rest.len().min(piece.len as usize));
        // SAFETY: as above; the device alone writes to it.
        unsafe { (piece.addr as *mut u8).copy_from_nonoverlapping(now.as_ptr(), now.len()) };
        rest = later;
    }
}

/// Two devices, of which the second has no regions.
pub(crate) fn devices() -> Vec<DeviceFacts> {
    let device = |name: &str, host: Ipv4Addr, regions| {
        let mut device = DeviceFacts {
            host: host.to_bits(),
            depth: 64,
            pieces: 8,
            read_pieces: 8,
            regions,
            region_pages: 512,
            queue_pairs: 100,
            queues: 100,
            longest: 1 << 23,
            ..DeviceFacts::NONE
        };
        device.name[..name.len()].copy_from_slice(name.as_bytes());
        device
    };
    vec![
        device("test0", Ipv4Addr::new(10, 0, 0, 1), 100),
        device("test1", Ipv4Addr::new(10, 0, 0, 2), 0),
    ]
}

#[derive(Debug)]
pub(crate) struct RawDomain(usize);

impl RawDomain {
    pub(crate) fn open(_name: &str) -> Result<Self, Errno> {
        Ok(Self(with(|world| {
            world.domains += 1;
            world.domains
        })))
    }

    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn map(
        &self,
        base: *mut u8,
        len: usize,
        _is_written: bool,
        to: &mut [Piece],
    ) -> Result<usize, Errno> {
        *to.first_mut().ok_or(Errno::MSGSIZE)? = Piece {
            addr: base as u64,
            len: len as u32,
            key: 0,
        };
        Ok(1)
    }

    pub(crate) fn unmap(&self, _is_written: bool, _list: &[Piece]) {}
}

#[derive(Debug)]
pub(crate) struct RawRegion(usize);

impl RawRegion {
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn new(
        domain: &RawDomain,
        base: *mut u8,
        len: usize,
        is_read: bool,
        is_written: bool,
    ) -> Result<(Self, u32), Errno> {
        let region = Region {
            domain: domain.0,
            base: base as u64,
            len: len as u64,
            is_read,
            is_written,
        };
        let at = with(|world| keep(&mut world.regions, region));
        Ok((Self(at), at as u32))
    }
}

impl Drop for RawRegion {
    fn drop(&mut self) {
        with(|world| world.regions[self.0] = None);
    }
}

#[derive(Debug)]
pub(crate) struct RawLink(usize);

impl RawLink {
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn open(owner: *const Task) -> Result<Self, Errno> {
        Ok(Self(with(|world| keep(&mut world.links, Link::new(owner)))))
    }

    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn set_owner(&self, owner: *const Task) {
        with(|world| {
            let link = world.link(self.0);
            link.owner = Owner(owner);
            link.wake();
        });
    }

    pub(crate) fn bind(&self, at: SocketAddrV4) -> Result<(), Errno> {
        with(|world| {
            world.ports += 1;
            let port = match at.port() {
                0 => 1024 + world.ports,
                port => port,
            };
            world.link(self.0).own = SocketAddrV4::new(*at.ip(), port);
        });
        Ok(())
    }

    pub(crate) fn listen(&self, _backlog: i32) -> Result<(), Errno> {
        with(|world| {
            let at = world.link(self.0).own;
            if world.listener(at).is_some() {
                return Err(Errno::ADDRINUSE);
            }
            world.link(self.0).is_listening = true;
            Ok(())
        })
    }

    pub(crate) fn ends(&self) -> Ends {
        with(|world| {
            let link = world.link(self.0);
            Ends {
                own: link.own,
                peer: link.peer_at,
            }
        })
    }

    pub(crate) fn resolve(&self, to: SocketAddrV4) -> Result<(), Errno> {
        with(|world| {
            let link = world.link(self.0);
            link.peer_at = to;
            link.tell(event(kind::ADDR_RESOLVED, 0, &[]));
        });
        Ok(())
    }

    pub(crate) fn route(&self) -> Result<(), Errno> {
        with(|world| world.link(self.0).tell(event(kind::ROUTE_RESOLVED, 0, &[])));
        Ok(())
    }

    pub(crate) fn connect(&self, data: &[u8]) -> Result<(), Errno> {
        with(|world| {
            let (own, to) = (world.link(self.0).own, world.link(self.0).peer_at);
            let Some(listener) = world.listener(to) else {
                return world.link(self.0).tell(event(kind::REJECTED, 8, &[]));
            };
            let mut other = Link::new(std::ptr::null());
            (other.own, other.peer_at, other.peer) = (to, own, Some(self.0));
            let other = keep(&mut world.links, other);
            world.link(self.0).peer = Some(other);
            let listener = world.link(listener);
            let request = event(kind::CONNECT_REQUEST, 0, data);
            listener.arrivals.push_back((other, request));
            listener.wake();
        });
        Ok(())
    }

    pub(crate) fn accept(&self, data: &[u8]) -> Result<(), Errno> {
        with(|world| {
            let peer = world.link(self.0).peer.ok_or(Errno::CONNRESET)?;
            for (at, data) in [(self.0, &[][..]), (peer, data)] {
                let link = world.link(at);
                link.is_up = true;
                link.tell(event(kind::ESTABLISHED, 0, data));
            }
            Ok(())
        })
    }

    pub(crate) fn reject(&self, data: &[u8]) {
        with(|world| {
            if let Some(peer) = world.link(self.0).peer.take() {
                let other = world.link(peer);
                other.peer = None;
                other.tell(event(kind::REJECTED, CONSUMER, data));
            }
        });
    }

    pub(crate) fn disconnect(&self) {
        with(|world| world.disconnect(self.0));
    }

    pub(crate) fn arrival(&self, event: &mut RawEvent) -> Option<Self> {
        let (at, came) = with(|world| world.link(self.0).arrivals.pop_front())?;
        *event = came;
        Some(Self(at))
    }

    pub(crate) fn event(&self, event: &mut RawEvent) -> bool {
        let came = with(|world| world.link(self.0).events.pop_front());
        came.map(|came| *event = came).is_some()
    }

    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn open_queues(&self, of: &RawDomain, _: u32, _: u32) -> Result<(), Errno> {
        with(|world| world.link(self.0).domain = Some(of.0));
        Ok(())
    }

    pub(crate) fn close_queues(&self) {
        self.disconnect();
    }

    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn post(&self, id: u64, list: &[Piece], work: Work) -> Result<(), Errno> {
        with(|world| {
            let link = world.link(self.0);
            link.sends.push_back((Work { id, ..work }, list.to_vec()));
            if link.is_broken {
                link.flush();
            }
            world.run(self.0);
        });
        Ok(())
    }

    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn post_receive(&self, id: u64, list: &[Piece]) -> Result<(), Errno> {
        with(|world| {
            let link = world.link(self.0);
            link.receives.push_back((id, list.to_vec()));
            if link.is_broken {
                link.flush();
            }
            if let Some(peer) = link.peer.filter(|_| link.is_up) {
                world.run(peer);
            }
        });
        Ok(())
    }

    pub(crate) fn poll(&self, to: &mut [Done]) -> usize {
        with(|world| {
            let done = &mut world.link(self.0).done;
            let count = done.len().min(to.len());
            let taken = to.iter_mut().zip(done.drain(..count));
            taken.for_each(|(to, done)| *to = done);
            count
        })
    }

    pub(crate) fn arm(&self) -> bool {
        with(|world| {
            let link = world.link(self.0);
            link.is_armed = true;
            !link.done.is_empty()
        })
    }
}

impl Drop for RawLink {
    fn drop(&mut self) {
        let waiting = with(|world| {
            world.disconnect(self.0);
            let link = world.links[self.0].take();
            link.map(|link| link.arrivals).unwrap_or_default()
        });
        waiting.into_iter().for_each(|(at, _)| drop(Self(at)));
    }
}

pub(crate) fn warn(text: &str) {
    std::eprintln!("{text}");
}
