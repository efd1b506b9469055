//! Accesses to memory of a peer that the adapters carry out: in requests of one packet each, of which a window is under way.

use std::collections::{BTreeMap, VecDeque};

use oxifabric_engine::{Header, RxToken, Target, TxToken};
use oxifabric_mem::Iov;
use oxifabric_types::Errno;

use super::WINDOW;
use super::head::{Access, Request};

/// An access that the link has taken.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) access: Access,
    /// Memory of this end: what is written, where what was read goes, the operands of an atomic.
    pub(super) local: Iov,
    pub(super) targets: Box<[Target]>,
    pub(super) end: End,
    /// The header of a write whose data is to be reported to the peer.
    pub(super) report: Option<Header>,
    /// Number of bytes of which requests were sent; `None` before the first.
    requested: Option<usize>,
    /// Number of requests that were not answered.
    open: usize,
    failure: Option<Errno>,
    /// What an atomic fetched.
    fetched: Vec<u8>,
}

/// How the engine learns of the end.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// A frame was carried out; if it is an atomic that fetches, the header's id is that of its response.
    Sent(TxToken),
    /// A pull is over.
    Pulled(RxToken),
}

/// An access that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) result: Result<(), Errno>,
    /// The id of an atomic that fetches, and what it fetched.
    pub(super) fetched: Option<(u32, Vec<u8>)>,
}

/// The accesses to one peer.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// By number, in the order of posting.
    tasks: BTreeMap<u64, Task>,
    /// Those of which not all requests were sent.
    waiting: VecDeque<u64>,
    /// Requests that were not answered: the access, and which bytes of its memory.
    under_way: BTreeMap<u64, (u64, usize, usize)>,
    /// Writes that are carried out, and of which the peer is to be notified.
    reports: VecDeque<u64>,
    next: u64,
}

impl Task {
    pub(super) const fn new(access: Access, local: Iov, targets: Box<[Target]>, end: End) -> Self {
        Self {
            access,
            local,
            targets,
            end,
            report: None,
            requested: None,
            open: 0,
            failure: None,
            fetched: Vec::new(),
        }
    }

    /// Takes the next part that a packet can carry: its memory at the peer, and which bytes of the local memory.
    fn part(&mut self, mtu: usize) -> (Box<[Target]>, usize, usize) {
        let from = self.requested.unwrap_or(0);
        if matches!(self.access, Access::Atomic(_)) {
            self.requested = Some(self.local.len());
            return (self.targets.clone(), 0, self.local.len());
        }
        let mut skipped = 0;
        for target in &self.targets {
            let inside = from - skipped;
            let rest = (target.len as usize).saturating_sub(inside);
            if rest > 0 || self.local.is_empty() {
                let len = rest.min(mtu).min(self.local.len() - from);
                self.requested = Some(from + len);
                let part = Target {
                    addr: target.addr.wrapping_add(inside as u64),
                    len: len as u64,
                    ..*target
                };
                return (Box::new([part]), from, len);
            }
            skipped += target.len as usize;
        }
        // The peer has named less memory than there is here.
        self.failure = Some(Errno::INVAL);
        self.requested = Some(self.local.len());
        (Box::new([]), from, 0)
    }

    fn is_requested(&self) -> bool {
        self.failure.is_some()
            || self
                .requested
                .is_some_and(|bytes| bytes >= self.local.len())
    }

    fn end(self) -> Ended {
        let fetches = match self.access {
            Access::Atomic(header) => oxifabric_engine::Update::from_header(&header)
                .filter(oxifabric_engine::Update::fetches)
                .map(|_| header.id),
            _ => None,
        };
        let result = self.failure.map_or(Ok(()), Err);
        Ended {
            end: self.end,
            result,
            fetched: fetches
                .filter(|_| result.is_ok())
                .map(|id| (id, self.fetched)),
        }
    }
}

impl Requests {
    /// Takes an access.
    pub(super) fn push(&mut self, task: Task) {
        let number = self.next;
        self.next += 1;
        self.tasks.insert(number, task);
        self.waiting.push_back(number);
    }

    /// Returns how many accesses are not over.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether requests, or reports of writes, are still to be sent: frames that are posted now come behind them.
    pub(super) fn has_unsent(&self) -> bool {
        !self.waiting.is_empty() || !self.reports.is_empty()
    }

    /// Returns whether requests are under way.
    pub(super) fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Makes the next request, if one more may be under way; `number` numbers it.
    pub(super) fn next(&mut self, mtu: usize, number: &mut u64) -> Option<(Request, Vec<u8>)> {
        if self.under_way.len() as u64 >= WINDOW {
            return None;
        }
        let at = *self.waiting.front()?;
        let task = self.tasks.get_mut(&at)?;
        let (targets, from, len) = task.part(mtu);
        let access = task.access;
        let mut bytes = vec![
            0;
            if matches!(access, Access::Read) {
                0
            } else {
                len
            }
        ];
        task.local.slice(from, len).read(0, &mut bytes);
        task.open += 1;
        if task.is_requested() {
            self.waiting.pop_front();
        }
        *number += 1;
        let id = *number;
        self.under_way.insert(id, (at, from, len));
        let request = Request {
            id,
            access,
            targets,
        };
        Some((request, bytes))
    }

    /// Takes the answer to a request; returns the access if it is over. What is not under way any more is ignored.
    pub(super) fn answered(
        &mut self,
        id: u64,
        result: Result<(), Errno>,
        bytes: Vec<u8>,
    ) -> Option<Ended> {
        let (at, from, len) = self.under_way.remove(&id)?;
        let task = self.tasks.get_mut(&at)?;
        task.open -= 1;
        match (result, task.access) {
            (Err(errno), _) => {
                task.failure.get_or_insert(errno);
            }
            (Ok(()), Access::Read) => {
                task.local.slice(from, len).write(0, &bytes);
            }
            (Ok(()), Access::Atomic(_)) => task.fetched = bytes,
            (Ok(()), Access::Write) => {}
        }
        if task.failure.is_some() {
            self.waiting.retain(|waiting| *waiting != at);
        }
        if task.open > 0 || !task.is_requested() {
            return None;
        }
        if task.failure.is_none() && task.report.is_some() {
            self.reports.push_back(at);
            return None;
        }
        self.tasks.remove(&at).map(Task::end)
    }

    /// Returns the first write of which the peer is to be notified, and its header and key.
    pub(super) fn report(&self) -> Option<(u64, Header, u64)> {
        let at = *self.reports.front()?;
        let task = self.tasks.get(&at)?;
        let key = task.targets.first().map_or(0, |target| target.key);
        Some((at, task.report?, key))
    }

    /// Notes that the report of the first such write was sent.
    pub(super) fn reported(&mut self) {
        self.reports.pop_front();
    }

    /// Ends an access whose report the peer has taken.
    pub(super) fn end(&mut self, number: u64) -> Option<Ended> {
        self.tasks.remove(&number).map(Task::end)
    }

    /// Returns whether a request is under way.
    pub(super) fn has(&self, id: u64) -> bool {
        self.under_way.contains_key(&id)
    }

    /// Returns whether a request is a part of a pull.
    pub(super) fn is_pull(&self, id: u64) -> bool {
        let task = self.under_way.get(&id);
        let task = task.and_then(|(number, ..)| self.tasks.get(number));
        task.is_some_and(|task| matches!(task.end, End::Pulled(_)))
    }

    /// Takes out all accesses: the peer is gone.
    pub(super) fn drain(&mut self) -> Vec<End> {
        let next = self.next;
        let all = std::mem::take(self);
        self.next = next;
        all.tasks.into_values().map(|task| task.end).collect()
    }
}
