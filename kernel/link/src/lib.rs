//! A link in memory between two endpoints of one kernel: what `kofi_loop` moves messages with.
//!
//! Each direction is a queue of a bounded number of frames. A frame that finds the queue full is refused, and the sender is told
//! when there is room again; so a receiver that is not polled holds its sender up, as a network does. The bodies of frames are
//! copied. A body that is announced first stays where it is until the receiver pulls it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod offers;
mod queue;

use alloc::rc::Rc;
use core::cell::RefCell;

use oxifabric_engine::{
    Body, Frame, Kind, Limits, Link, Placement, PostError, Posted, RemoteIov, RxToken, Sink,
    TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Instant, PeerId};

use crate::offers::Offers;
use crate::queue::{Queue, Stored};

/// The number by which each end knows the other one.
pub const PEER: PeerId = PeerId(0);

/// Number of frames that a direction holds.
const CAPACITY: usize = 32;

/// What both ends see: the frames on their way to each, and the bodies that each has announced.
#[derive(Debug, Default)]
struct Shared {
    to: [Queue; 2],
    offers: [Offers; 2],
}

/// One end of the link.
#[derive(Debug)]
pub struct LoopLink {
    shared: Rc<RefCell<Shared>>,
    /// Index of this end.
    side: usize,
    limits: Limits,
    /// A frame was refused since the other end last took one.
    is_blocked: bool,
    /// The engine could not take the first frame that waits here.
    is_stalled: bool,
    /// A frame that the other end's engine sent and this one's called a breach of the protocol.
    breach: Option<Kind>,
}

impl LoopLink {
    /// Makes the two ends of a link. Of `limits`, those that name one-sided accesses must be empty: the engines answer each other.
    pub fn pair(limits: Limits) -> [Self; 2] {
        let shared = Rc::new(RefCell::new(Shared::default()));
        [0, 1].map(|side| Self {
            shared: Rc::clone(&shared),
            side,
            limits,
            is_blocked: false,
            is_stalled: false,
            breach: None,
        })
    }

    /// Returns the kind of the first frame that the engine at this end refused as a breach of the protocol.
    pub const fn breach(&self) -> Option<Kind> {
        self.breach
    }

    /// Returns whether nothing is on its way to this end, and nothing that it announced is still to be pulled.
    pub fn is_idle(&self) -> bool {
        let shared = self.shared.borrow();
        shared.to[self.side].is_empty() && shared.offers[self.side].is_empty()
    }

    const fn other(&self) -> usize {
        1 - self.side
    }

    /// Takes the next frame that the engine may see.
    fn next(&mut self) -> Option<Stored> {
        if self.is_stalled || self.breach.is_some() {
            return None;
        }
        self.shared.borrow_mut().to[self.side].pop()
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
                sink.access(PEER, header, &stored.targets, body)
            }
            kind if kind.is_atomic() => sink.access(PEER, header, &stored.targets, body),
            _ => sink.arrival(PEER, header, body),
        };
        match placement {
            Placement::Done | Placement::Discard => {}
            Placement::Stall => {
                self.is_stalled = true;
                self.shared.borrow_mut().to[self.side].put_back(stored);
                return;
            }
            // Bodies are here, whole: there is nothing to stream into a place.
            Placement::Into(..) | Placement::Refuse => self.breach = Some(header.kind),
        }
        // Both answers mean that this end's announced memory is not read any more.
        if matches!(header.kind, Kind::Fin | Kind::Cts) {
            self.shared.borrow_mut().offers[self.side].withdraw(header.id);
        }
    }
}

impl Link for LoopLink {
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn post(&mut self, _: PeerId, frame: Frame<'_>, _: TxToken) -> Result<Posted, PostError> {
        let mut shared = self.shared.borrow_mut();
        let shared = &mut *shared;
        let queue = &mut shared.to[1 - self.side];
        if queue.len() >= CAPACITY {
            self.is_blocked = true;
            return Err(PostError::Again);
        }
        let remote = match frame.header.kind {
            Kind::MsgRts
            | Kind::TaggedRts
            | Kind::WriteRts
            | Kind::ResponseRts
            | Kind::CollectiveRts => shared.offers[self.side].announce(&frame, self.limits.pull),
            _ => None,
        };
        match Stored::copy(&frame, remote).and_then(|stored| queue.push(stored)) {
            Some(()) => Ok(Posted::Done),
            None => {
                self.is_blocked = true;
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
        let shared = self.shared.borrow();
        match shared.offers[self.other()].find(remote) {
            Some(body) => {
                into.copy_from(0, body);
                Ok(Posted::Done)
            }
            None => Err(PostError::Down(oxifabric_types::Errno::IO)),
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
        let has_room = self.shared.borrow().to[self.other()].len() < CAPACITY;
        if self.is_blocked && has_room {
            self.is_blocked = false;
            sink.writable(PEER);
            events += 1;
        }
        events
    }

    fn resume(&mut self, _: PeerId) {
        self.is_stalled = false;
    }
}
