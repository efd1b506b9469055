//! The devices, connections and queues that there are, and what is done with them.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use oxifabric_kernel_sync::Work as Task;

use crate::parts::{
    Done, FLUSHED, HAS_DATA, IS_MESSAGE, IS_WRITE, Opcode, Piece, RawEvent, UNSIGNALED, WITH_DATA,
    Work, kind,
};

/// `ib_wc_status` of what ends here: too long, and what the peer does not allow.
const LENGTH: u32 = 1;
const INVALID: u32 = 9;
const ACCESS: u32 = 10;

const UNKNOWN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// All that there is, behind one lock.
#[derive(Default)]
pub(super) struct World {
    pub(super) links: Vec<Option<Link>>,
    pub(super) regions: Vec<Option<Region>>,
    pub(super) domains: usize,
    pub(super) ports: u16,
}

pub(super) struct Region {
    pub(super) domain: usize,
    pub(super) base: u64,
    pub(super) len: u64,
    pub(super) is_read: bool,
    pub(super) is_written: bool,
}

pub(super) struct Link {
    pub(super) owner: Owner,
    pub(super) own: SocketAddrV4,
    pub(super) peer_at: SocketAddrV4,
    pub(super) peer: Option<usize>,
    pub(super) is_listening: bool,
    /// The peer may be sent to.
    pub(super) is_up: bool,
    pub(super) is_broken: bool,
    /// The peer's last word on the connection never comes.
    pub(super) is_deaf: bool,
    pub(super) events: VecDeque<RawEvent>,
    pub(super) arrivals: VecDeque<(usize, RawEvent)>,
    pub(super) domain: Option<usize>,
    pub(super) sends: VecDeque<(Work, Vec<Piece>)>,
    pub(super) receives: VecDeque<(u64, Vec<Piece>)>,
    pub(super) done: VecDeque<Done>,
    pub(super) is_armed: bool,
}

/// Whose task is queued.
pub(super) struct Owner(pub(super) *const Task);

// SAFETY: a task may be queued from any thread; it lives until the link has another owner.
unsafe impl Send for Owner {}

// SAFETY: the pointers to lists in its works are not followed.
unsafe impl Send for World {}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

pub(super) fn with<R>(call: impl FnOnce(&mut World) -> R) -> R {
    let mut world: MutexGuard<'_, _> = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    call(world.get_or_insert_default())
}

pub(super) fn keep<T>(list: &mut Vec<Option<T>>, value: T) -> usize {
    list.push(Some(value));
    list.len() - 1
}

pub(super) fn event(kind: u32, status: i32, data: &[u8]) -> RawEvent {
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
    pub(super) fn new(owner: *const Task) -> Self {
        Self {
            owner: Owner(owner),
            own: UNKNOWN,
            peer_at: UNKNOWN,
            peer: None,
            is_listening: false,
            is_up: false,
            is_broken: false,
            is_deaf: false,
            events: VecDeque::new(),
            arrivals: VecDeque::new(),
            domain: None,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            done: VecDeque::new(),
            is_armed: false,
        }
    }

    pub(super) fn wake(&self) {
        // SAFETY: null, or an owner that lives.
        if let Some(owner) = unsafe { self.owner.0.as_ref() } {
            owner.queue();
        }
    }

    pub(super) fn tell(&mut self, event: RawEvent) {
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
    pub(super) fn flush(&mut self) {
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
    pub(super) fn link(&mut self, at: usize) -> &mut Link {
        self.links[at].as_mut().expect("the link is open")
    }

    pub(super) fn listener(&self, at: SocketAddrV4) -> Option<usize> {
        let listens = |link: &Option<Link>| {
            let link = link.as_ref();
            link.is_some_and(|link| link.is_listening && link.own == at)
        };
        self.links.iter().position(listens)
    }

    pub(super) fn disconnect(&mut self, at: usize) {
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
    pub(super) fn run(&mut self, at: usize) {
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
            if status != 0 || work.flags & UNSIGNALED == 0 {
                link.end(failed(work.id, status));
            }
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
