//! A link in memory between two endpoints of one kernel: what `kofi_loop` moves messages with.
//!
//! Each direction is a queue of a bounded number of frames. A frame that finds the queue full is refused, and the sender is told
//! when there is room again; so a receiver that is not polled holds its sender up, as a network does. The bodies of frames are
//! copied. A body that is announced first stays where it is until the receiver pulls it, or the sender's end is dropped.
//!
//! An end whose work is known ([`LoopLink::set_work`]) is woken when there is something to poll for.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod notes;
mod offers;
mod queue;

use alloc::sync::Arc;
use core::mem;

use oxifabric_engine::{
    Body, Frame, Kind, Limits, Link, Placement, PostError, Posted, RemoteIov, RxToken, Sink,
    TxToken,
};
use oxifabric_kernel_sync::{Mutex, Work};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

pub use notes::Note;

use crate::offers::Offers;
use crate::queue::{Queue, Stored};

/// The number by which each end of a pair knows the other one, unless it is given another ([`LoopLink::set_peer`]).
pub const PEER: PeerId = PeerId(0);

/// Number of frames that a direction holds.
const CAPACITY: usize = 32;

/// Place of the lock among the kernel's: the last.
const LOCK_LEVEL: u32 = 7;

/// What both ends see.
#[derive(Debug, Default)]
struct Shared {
    ends: [End; 2],
}

/// What the two share of one end.
#[derive(Debug, Default)]
struct End {
    /// The frames on their way to it.
    inbox: Queue,
    /// The bodies that it has announced.
    offers: Offers,
    /// What the other end told it about the connection.
    note: Option<Note>,
    /// A frame of its was refused since the other end last took one.
    is_blocked: bool,
    /// It is gone.
    is_gone: bool,
    work: Option<Arc<Work>>,
}

impl End {
    fn wake(&self) {
        if let Some(work) = &self.work {
            work.queue();
        }
    }
}

/// One end of the link.
#[derive(Debug)]
pub struct LoopLink {
    shared: Arc<Mutex<Shared>>,
    /// Index of this end.
    side: usize,
    peer: PeerId,
    limits: Limits,
    /// The engine could not take the first frame that waits here.
    is_stalled: bool,
    /// The sink was told that the peer is gone.
    is_over: bool,
    /// A frame that the other end's engine sent and this one's called a breach of the protocol.
    breach: Option<Kind>,
}

impl LoopLink {
    /// Makes the two ends of a link; `None` when there is not enough memory. Of `limits`, those that name one-sided accesses must be
    /// empty: the engines answer each other.
    pub fn pair(limits: Limits) -> Option<[Self; 2]> {
        let shared = Arc::new(Mutex::new(LOCK_LEVEL, Shared::default())?);
        Some([0, 1].map(|side| Self {
            shared: Arc::clone(&shared),
            side,
            peer: PEER,
            limits,
            is_stalled: false,
            is_over: false,
            breach: None,
        }))
    }

    /// Sets the number by which this end's engine knows the other end.
    pub const fn set_peer(&mut self, peer: PeerId) {
        self.peer = peer;
    }

    /// Sets what is woken when there is something to poll this end for.
    pub fn set_work(&mut self, work: &Arc<Work>) {
        work.queue();
        self.shared.lock().ends[self.side].work = Some(Arc::clone(work));
    }

    /// Tells the other end something about the connection; the last word counts.
    pub fn tell(&self, note: Note) {
        let mut shared = self.shared.lock();
        let other = &mut shared.ends[self.other()];
        other.note = Some(note);
        other.wake();
    }

    /// Takes what the other end told.
    pub fn take_note(&mut self) -> Option<Note> {
        self.shared.lock().ends[self.side].note.take()
    }

    /// Returns the kind of the first frame that the engine at this end refused as a breach of the protocol.
    pub const fn breach(&self) -> Option<Kind> {
        self.breach
    }

    /// Returns whether nothing is on its way to this end, and nothing that it announced is still to be pulled.
    pub fn is_idle(&self) -> bool {
        let shared = self.shared.lock();
        let end = &shared.ends[self.side];
        end.inbox.is_empty() && end.offers.is_empty()
    }

    /// Returns whether the sink was told that the peer is gone: nothing more comes from this link.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    const fn other(&self) -> usize {
        1 - self.side
    }

    /// Takes the next frame that the engine may see, and tells a sender that waited for room.
    fn next(&mut self) -> Option<Stored> {
        if self.is_stalled || self.breach.is_some() {
            return None;
        }
        let mut shared = self.shared.lock();
        let stored = shared.ends[self.side].inbox.pop();
        let sender = &shared.ends[self.other()];
        if stored.is_some() && sender.is_blocked {
            sender.wake();
        }
        stored
    }

    /// Lets the engine take a frame; one that it stalls stays first.
    fn deliver(&mut self, stored: Stored, sink: &mut impl Sink) {
        let body = match stored.remote {
            Some(remote) => Body::Remote(remote),
            None => Body::Whole(&stored.body),
        };
        let header = &stored.header;
        let placement = match header.kind {
            Kind::Write | Kind::WriteRts | Kind::Read => {
                sink.access(self.peer, header, &stored.targets, body)
            }
            kind if kind.is_atomic() => sink.access(self.peer, header, &stored.targets, body),
            _ => sink.arrival(self.peer, header, body),
        };
        match placement {
            Placement::Done | Placement::Discard => {}
            Placement::Stall => {
                self.is_stalled = true;
                self.shared.lock().ends[self.side].inbox.put_back(stored);
                return;
            }
            // Bodies are here, whole: there is nothing to stream into a place.
            Placement::Into(..) | Placement::Refuse => self.breach = Some(header.kind),
        }
        // Both answers mean that this end's announced memory is not read any more.
        if matches!(header.kind, Kind::Fin | Kind::Cts) {
            self.shared.lock().ends[self.side]
                .offers
                .withdraw(header.id);
        }
    }

    /// Tells the sink once that the peer is gone: nothing of its is left, or it broke the protocol.
    fn check_end(&mut self, sink: &mut impl Sink) -> usize {
        let why = match self.breach {
            Some(_) => Errno::PROTO,
            None => Errno::CONNRESET,
        };
        let is_over = {
            let shared = self.shared.lock();
            let own = &shared.ends[self.side];
            let is_left = shared.ends[self.other()].is_gone && own.inbox.is_empty();
            self.breach.is_some() || own.is_gone || is_left
        };
        if !is_over || mem::replace(&mut self.is_over, true) {
            return 0;
        }
        self.leave();
        sink.peer_down(self.peer, why);
        1
    }

    /// Lets go of all that the other end could still take from this one.
    fn leave(&self) {
        let mut shared = self.shared.lock();
        let end = &mut shared.ends[self.side];
        (end.is_gone, end.work) = (true, None);
        (end.offers, end.inbox) = (Offers::default(), Queue::default());
        shared.ends[self.other()].wake();
    }
}

impl Drop for LoopLink {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Link for LoopLink {
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn post(&mut self, _: PeerId, frame: Frame<'_>, _: TxToken) -> Result<Posted, PostError> {
        let mut shared = self.shared.lock();
        let [left, right] = &mut shared.ends;
        let (own, other) = if self.side == 0 {
            (left, right)
        } else {
            (right, left)
        };
        if own.is_gone || other.is_gone {
            return Err(PostError::Down(Errno::CONNRESET));
        }
        if other.inbox.len() >= CAPACITY {
            own.is_blocked = true;
            return Err(PostError::Again);
        }
        let remote = match frame.header.kind {
            Kind::MsgRts
            | Kind::TaggedRts
            | Kind::WriteRts
            | Kind::ResponseRts
            | Kind::CollectiveRts => own.offers.announce(&frame, self.limits.pull),
            _ => None,
        };
        match Stored::copy(&frame, remote).and_then(|stored| other.inbox.push(stored)) {
            Some(()) => {
                other.wake();
                Ok(Posted::Done)
            }
            None => {
                own.is_blocked = true;
                // There may be memory when it is tried again.
                own.wake();
                Err(PostError::Again)
            }
        }
    }

    fn pull(
        &mut self,
        _: PeerId,
        remote: &RemoteIov,
        into: Iov,
        _: RxToken,
    ) -> Result<Posted, PostError> {
        let shared = self.shared.lock();
        match shared.ends[self.other()].offers.find(remote) {
            Some(body) => {
                into.copy_from(0, body);
                Ok(Posted::Done)
            }
            None => Err(PostError::Down(Errno::IO)),
        }
    }

    fn flush(&mut self) {}

    fn poll(&mut self, _: Instant, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        while events < CAPACITY {
            let Some(stored) = self.next() else { break };
            self.deliver(stored, sink);
            events += 1;
        }
        let has_room = {
            let mut shared = self.shared.lock();
            let has_room = shared.ends[self.other()].inbox.len() < CAPACITY;
            let own = &mut shared.ends[self.side];
            if events == CAPACITY {
                // There may be more; other work has its turn first.
                own.wake();
            }
            has_room && mem::take(&mut own.is_blocked)
        };
        if has_room {
            sink.writable(self.peer);
            events += 1;
        }
        events + self.check_end(sink)
    }

    fn resume(&mut self, _: PeerId) {
        self.is_stalled = false;
        self.shared.lock().ends[self.side].wake();
    }

    fn disconnect(&mut self, _: PeerId, _: &'static str) -> bool {
        let mut shared = self.shared.lock();
        let was = mem::replace(&mut shared.ends[self.side].is_gone, true);
        shared.ends[self.side].wake();
        shared.ends[self.other()].wake();
        !was
    }
}
