//! The device: all that a process has on its NICs, and its connection to the switch.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

use crate::io::Completion;
use crate::objects::{Ah, Channel, Context, Cq, Destinations, Pd, Qp, Regions};
use crate::requester::Requester;
use crate::slab::Slab;
use crate::sys::{self, Interest, Socket};
use crate::wire::{Head, Kind, Nic, PACKET_LEN, QPS_PER_SLOT, REUSE, status};

/// The connection to the switch. Packets that the socket does not take wait.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Socket,
    waiting: VecDeque<Vec<u8>>,
}

impl Link {
    /// Sends a packet, now or with a later flush.
    pub(crate) fn send(&mut self, packet: Vec<u8>) {
        self.waiting.push_back(packet);
        self.flush();
    }

    /// Sends what waits as far as there is room.
    fn flush(&mut self) {
        while let Some(packet) = self.waiting.front() {
            match self.socket.send(packet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The end of the connection is noticed where packets are received.
                _ => drop(self.waiting.pop_front()),
            }
        }
    }

    /// Whether packets wait for room.
    pub(crate) fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the descriptor's number.
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.fd()
    }
}

/// The device of a process.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) link: Link,
    pub(crate) nics: Vec<Nic>,
    slot: u16,
    /// Numbers of what was destroyed are used again at once.
    reuse: bool,
    is_cut: bool,
    pub(crate) contexts: Slab<Context>,
    pub(crate) pds: Slab<Pd>,
    pub(crate) ahs: Slab<Ah>,
    pub(crate) destinations: Destinations,
    pub(crate) channels: Slab<Channel>,
    pub(crate) regions: Regions,
    pub(crate) cqs: Slab<Cq>,
    pub(crate) qps: Slab<Qp>,
    pub(crate) by_number: HashMap<(u8, u16), u32>,
    pub(crate) requester: Requester,
    last_qp: u16,
    last_key: u16,
}

impl Adapter {
    /// Connects to the switch.
    ///
    /// # Errors
    /// Those of the socket, and `ConnectionRefused` if the switch has no room for another process.
    pub(crate) fn connect(path: &Path, host: u8) -> io::Result<Self> {
        let socket = Socket::connect(path)?;
        let hello = Head {
            nic: host,
            addr: std::process::id().into(),
            ..Head::new(Kind::Hello)
        };
        socket.send(&hello.packet(&[]))?;
        let answer = Interest {
            fd: socket.fd(),
            room: false,
        };
        sys::wait(&[answer], None);
        let mut packet = vec![0; PACKET_LEN];
        let len = socket.receive(&mut packet)?;
        let welcome = Head::parse(&packet[..len]);
        let Some((head, nics)) = welcome.filter(|(head, _)| head.kind == Kind::Welcome) else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        Ok(Self {
            link: Link {
                socket,
                waiting: VecDeque::new(),
            },
            nics: Nic::parse(nics),
            slot: head.slot,
            reuse: head.flags & REUSE != 0,
            is_cut: false,
            contexts: Slab::default(),
            pds: Slab::default(),
            ahs: Slab::default(),
            destinations: Destinations::default(),
            channels: Slab::default(),
            regions: Regions::default(),
            cqs: Slab::default(),
            qps: Slab::default(),
            by_number: HashMap::new(),
            requester: Requester::new(head.id),
            last_qp: 0,
            last_key: 0,
        })
    }

    /// Whether there is anything that the application could ring for.
    pub(crate) fn has_queues(&self) -> bool {
        self.qps.iter().next().is_some()
    }

    /// Returns how many objects of a kind there are, or send requests that are not completed.
    pub(crate) fn count(&self, kind: &[u8]) -> Option<usize> {
        Some(match kind {
            b"context" => self.contexts.iter().count(),
            b"pd" => self.pds.iter().count(),
            b"ah" => self.ahs.iter().count(),
            b"mr" => self.regions.by_handle.iter().count(),
            b"channel" => self.channels.iter().count(),
            b"cq" => self.cqs.iter().count(),
            b"qp" => self.qps.iter().count(),
            b"request" => {
                let qps = self.qps.iter().map(|(_, qp)| qp.waiting_sends());
                qps.sum::<usize>() + self.requester.under_way()
            }
            _ => return None,
        })
    }

    /// Whether the switch is gone.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Does what there is to do, and returns whether there was anything.
    pub(crate) fn step(&mut self) -> bool {
        let mut has_worked = self.receive();
        has_worked |= self.take_sends();
        has_worked |= self.issue();
        self.report_events();
        self.link.flush();
        has_worked
    }

    fn receive(&mut self) -> bool {
        const AT_ONCE: usize = 64;
        let mut packet = [0; PACKET_LEN];
        for count in 0..AT_ONCE {
            if self.is_cut {
                return false;
            }
            match self.link.socket.receive(&mut packet) {
                Ok(len) => {
                    if let Some((head, payload)) = Head::parse(&packet[..len]) {
                        self.arrived(&head, payload);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return count > 0,
                Err(_) => self.cut(),
            }
        }
        true
    }

    fn arrived(&mut self, head: &Head, payload: &[u8]) {
        match head.kind {
            Kind::Answer => self.answered(head, payload),
            Kind::Gone => self.gone(Some(head.slot), head.status),
            kind if kind.is_request() => {
                let (status, bytes) = self.requested(head, payload);
                self.link.send(head.answer(status).packet(&bytes));
            }
            _ => {}
        }
    }

    /// The switch is gone: from now on no peer is reached.
    fn cut(&mut self) {
        self.is_cut = true;
        self.gone(None, status::UNREACHABLE_REMOTE);
    }

    /// Returns a number for a new queue pair of a NIC.
    pub(crate) fn free_qp_number(&mut self, nic: u8) -> Option<u16> {
        let begin = if self.reuse { 0 } else { self.last_qp };
        let local = (0..QPS_PER_SLOT - 1).map(|step| 1 + (begin + step) % (QPS_PER_SLOT - 1));
        let base = self.slot * QPS_PER_SLOT;
        let is_free = |local: &u16| !self.by_number.contains_key(&(nic, base + local));
        let local = local.into_iter().find(is_free)?;
        self.last_qp = local;
        Some(base + local)
    }

    /// Returns a key for a new region. Keys of different processes differ, so that a key in the wrong place is noticed.
    pub(crate) fn free_key(&mut self) -> Option<u32> {
        let base = u32::from(self.slot & 0xff) << 16;
        let numbers = (1..=u16::MAX).map(|step| self.last_key.wrapping_add(step));
        let is_free =
            |number: &u16| *number != 0 && !self.regions.has_key(base | u32::from(*number));
        let number = numbers.into_iter().find(is_free)?;
        self.last_key = number;
        Some(base | u32::from(number))
    }

    /// Adds a completion to a queue. Returns false if the queue is overrun, which ends the queue pair.
    pub(crate) fn complete(&mut self, cq: u32, completion: &Completion) -> bool {
        let Some(queue) = self.cqs.get_mut(cq) else {
            return false;
        };
        let was_overrun = queue.is_overrun;
        let is_pushed = queue.push(completion);
        if !is_pushed && !was_overrun {
            self.report_overrun(cq);
        }
        is_pushed
    }

    fn report_overrun(&mut self, cq: u32) {
        /// `IBV_EVENT_CQ_ERR`.
        const CQ_ERR: u64 = 0;
        let Some(queue) = self.cqs.get(cq) else {
            return;
        };
        eprintln!("softnic: completion queue {cq} is overrun: its entries were not polled");
        let context = self.contexts.get_mut(queue.context);
        if let Some(events) = context.and_then(|context| context.events.as_mut()) {
            let mut record = [0; 16];
            record[..8].copy_from_slice(&queue.user_handle.to_ne_bytes());
            record[8..].copy_from_slice(&CQ_ERR.to_ne_bytes());
            events.post(record);
        }
    }

    /// Reports the queues that have something for an application which waits.
    fn report_events(&mut self) {
        for number in self.cqs.numbers(|cq| cq.channel.is_some()) {
            let Some(cq) = self.cqs.get_mut(number) else {
                continue;
            };
            let channel = cq
                .channel
                .and_then(|channel| self.channels.get_mut(channel));
            if let Some(channel) = channel
                && cq.takes_event()
            {
                channel.events.post(cq.user_handle.to_ne_bytes());
            }
        }
    }
}
