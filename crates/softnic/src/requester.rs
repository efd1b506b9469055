//! The sending side: requests out of send queues become packets, their answers become completions.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::adapter::Adapter;
use crate::io::{Completion, INLINE_LEN, Op, Wqe};
use crate::memory;
use crate::objects::{State, access};
use crate::wire::{CHUNK, HAS_IMMEDIATE, Head, Kind, QPS_PER_SLOT, UNRELIABLE, status};

/// How much may be under way at once: bytes of requests and of what they ask for, and requests.
const WINDOW: usize = 1 << 20;
const REQUESTS: usize = 256;
/// Capabilities of `enum` EFA_QUERY_DEVICE_CAPS that are checked when they are used.
const CAP_READ: u32 = 1;
const CAP_WRITE: u32 = 1 << 5;

/// The operations that are being sent.
#[derive(Debug)]
pub(crate) struct Requester {
    operations: HashMap<u64, Operation>,
    /// Operations of which something is still to be sent.
    ready: VecDeque<u64>,
    /// Operations whose receiver had no receive posted (RNR), and when they are tried again.
    later: Vec<(Instant, u64)>,
    requests: HashMap<u32, Request>,
    last_operation: u64,
    last_id: u32,
    bytes: usize,
}

/// A send request that was taken out of its queue.
#[derive(Debug)]
struct Operation {
    qp: u32,
    wqe: Wqe,
    op: Op,
    gid: [u8; 16],
    len: u32,
    issued: u32,
    /// All bytes are asked for or sent.
    is_issued: bool,
    pending: u32,
    status: u8,
    /// The message that follows when all bytes of a write are there.
    immediate_due: bool,
    tries: u8,
}

/// A packet that an answer is expected to.
#[derive(Debug)]
struct Request {
    operation: u64,
    slot: u16,
    offset: u32,
    cost: usize,
}

impl Requester {
    /// Creates a requester without operations. `first_id` is a request number that no other process uses soon.
    pub(crate) fn new(first_id: u32) -> Self {
        Self {
            operations: HashMap::new(),
            ready: VecDeque::new(),
            later: Vec::new(),
            requests: HashMap::new(),
            last_operation: 0,
            last_id: first_id,
            bytes: 0,
        }
    }

    /// Returns how many requests were taken and are not completed.
    pub(crate) fn under_way(&self) -> usize {
        self.operations.len()
    }

    /// Forgets the operations of a queue pair, and returns their requests' numbers for the library.
    pub(crate) fn drop_operations(&mut self, qp: u32) -> Vec<(u16, Op)> {
        let (of_qp, others) = std::mem::take(&mut self.operations)
            .into_iter()
            .partition(|(_, operation)| operation.qp == qp);
        self.operations = others;
        let of_qp: Vec<(u64, Operation)> = HashMap::into_iter(of_qp).collect();
        let ids = of_qp
            .iter()
            .map(|(_, dropped)| (dropped.wqe.req_id(), dropped.op));
        ids.collect()
    }
}

impl Adapter {
    /// Takes what applications have posted out of the send queues.
    pub(crate) fn take_sends(&mut self) -> bool {
        const AT_ONCE: usize = 64;
        let mut has_taken = false;
        for number in self.qps.numbers(|qp| qp.state == State::Rts) {
            for _ in 0..AT_ONCE {
                let Some(wqe) = self.qps.get_mut(number).and_then(|qp| qp.next_send()) else {
                    break;
                };
                has_taken = true;
                self.take(number, wqe);
            }
        }
        has_taken
    }

    fn take(&mut self, number: u32, wqe: Wqe) {
        let op = wqe.op().unwrap_or(Op::Send);
        match self.check(number, &wqe) {
            Ok((op, gid, len)) => {
                let operation = Operation {
                    qp: number,
                    wqe,
                    op,
                    gid,
                    len,
                    issued: 0,
                    is_issued: false,
                    pending: 0,
                    status: status::OK,
                    immediate_due: op == Op::Write && wqe.has_immediate(),
                    tries: 0,
                };
                self.requester.last_operation += 1;
                let id = self.requester.last_operation;
                self.requester.operations.insert(id, operation);
                self.requester.ready.push_back(id);
            }
            Err(status) => self.complete_send(number, wqe.req_id(), op, status),
        }
    }

    /// Checks a request as far as it concerns this side: operation, destination, keys, lengths.
    fn check(&self, number: u32, wqe: &Wqe) -> Result<(Op, [u8; 16], u32), u8> {
        let qp = self.qps.get(number).ok_or(status::INTERNAL)?;
        let nic = self.nics.get(usize::from(qp.nic)).ok_or(status::INTERNAL)?;
        if !wqe.is_whole() {
            return Err(status::INTERNAL);
        }
        let op = wqe.op().ok_or(status::UNSUPPORTED_OP)?;
        let is_supported = match op {
            Op::Send => true,
            Op::Read => qp.is_reliable && nic.caps & CAP_READ != 0,
            Op::Write => qp.is_reliable && nic.caps & CAP_WRITE != 0,
        };
        if !is_supported {
            return Err(status::UNSUPPORTED_OP);
        }
        let gid = self.destinations.gid(qp.pd, wqe.ah());
        let gid = gid.ok_or(status::INVALID_AH)?;
        if op == Op::Send {
            let len = self.gather(qp.pd, wqe)?.len();
            let len = u32::try_from(len).map_err(|_| status::BAD_LENGTH)?;
            return if len > nic.mtu {
                Err(status::BAD_LENGTH)
            } else {
                Ok((op, gid, len))
            };
        }
        let (remote, own) = wqe.access();
        if remote.len != own.len || remote.len > nic.max_rdma {
            return Err(status::BAD_LENGTH);
        }
        let rights = if op == Op::Read {
            access::LOCAL_WRITE
        } else {
            0
        };
        let place = self.regions.locate(qp.pd, own, rights);
        place.ok_or(status::INVALID_LKEY)?;
        Ok((op, gid, remote.len))
    }

    /// Copies a message out of the application's memory.
    fn gather(&self, pd: u32, wqe: &Wqe) -> Result<Vec<u8>, u8> {
        if wqe.is_inline() {
            let data = wqe.inline_data().filter(|data| data.len() <= INLINE_LEN);
            return data.map(<[u8]>::to_vec).ok_or(status::BAD_LENGTH);
        }
        let pieces = wqe.pieces().ok_or(status::BAD_LENGTH)?;
        let len: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        if len > u64::from(CHUNK) {
            return Err(status::BAD_LENGTH);
        }
        let mut message = Vec::with_capacity(len as usize);
        for piece in pieces {
            let place = self.regions.locate(pd, piece, 0);
            let place = place.ok_or(status::INVALID_LKEY)?;
            let begin = message.len();
            message.resize(begin + piece.len as usize, 0);
            memory::fetch(place, &mut message[begin..]);
        }
        Ok(message)
    }

    /// Sends packets of the operations that are ready, as far as the window allows.
    pub(crate) fn issue(&mut self) -> bool {
        let now = Instant::now();
        let requester = &mut self.requester;
        for (_, id) in requester.later.extract_if(.., |(due, _)| *due <= now) {
            requester.ready.push_back(id);
        }
        let mut has_issued = false;
        while self.requester.bytes < WINDOW
            && self.requester.requests.len() < REQUESTS
            && !self.link.is_full()
            && let Some(id) = self.requester.ready.pop_front()
        {
            has_issued |= self.issue_one(id);
        }
        has_issued
    }

    /// Sends the next packet of an operation.
    fn issue_one(&mut self, id: u64) -> bool {
        let operation = self.requester.operations.get(&id);
        // One that has failed is finished by the answers that it still waits for.
        let Some(operation) = operation.filter(|found| found.status == status::OK) else {
            return false;
        };
        let Some(qp) = self.qps.get(operation.qp) else {
            return false;
        };
        let wqe = operation.wqe;
        let (remote, own) = wqe.access();
        let mut head = Head {
            nic: qp.nic,
            to_qp: wqe.destination(),
            from_qp: qp.number,
            gid: operation.gid,
            qkey: wqe.qkey(),
            flags: if qp.is_reliable { 0 } else { UNRELIABLE },
            ..Head::new(Kind::Send)
        };
        let offset = operation.issued;
        let step = (operation.len - offset).min(CHUNK);
        let mut payload = Vec::new();
        let mut cost = step as usize;
        if operation.op != Op::Send {
            head.addr = remote.addr.wrapping_add(offset.into());
            head.key = remote.key;
            head.len = step;
        }
        match operation.op {
            Op::Send => match self.gather(qp.pd, &wqe) {
                Ok(message) => payload = message,
                Err(status) => return self.fail_before_sending(id, status),
            },
            Op::Read => head.kind = Kind::Read,
            Op::Write if operation.is_issued => {
                head.kind = Kind::WriteImmediate;
                head.len = operation.len;
                cost = 0;
            }
            Op::Write => {
                head.kind = Kind::Write;
                let Some(place) = self.regions.locate(qp.pd, own, 0) else {
                    return self.fail_before_sending(id, status::INVALID_LKEY);
                };
                payload.resize(step as usize, 0);
                memory::fetch(place + u64::from(offset), &mut payload);
            }
        }
        if head.kind != Kind::Read && head.kind != Kind::Write && wqe.has_immediate() {
            head.flags |= HAS_IMMEDIATE;
            head.immediate = wqe.immediate();
        }
        self.send_request(id, head, &payload, offset, step, cost);
        true
    }

    fn send_request(
        &mut self,
        id: u64,
        mut head: Head,
        payload: &[u8],
        offset: u32,
        step: u32,
        cost: usize,
    ) {
        let requester = &mut self.requester;
        requester.last_id = requester.last_id.wrapping_add(1);
        head.id = requester.last_id;
        let request = Request {
            operation: id,
            slot: head.to_qp / QPS_PER_SLOT,
            offset,
            cost,
        };
        requester.bytes += cost;
        requester.requests.insert(head.id, request);
        if let Some(operation) = requester.operations.get_mut(&id) {
            operation.pending += 1;
            if head.kind == Kind::WriteImmediate {
                operation.immediate_due = false;
            } else {
                operation.issued += step;
                operation.is_issued = operation.issued == operation.len;
                if !operation.is_issued {
                    requester.ready.push_back(id);
                }
            }
        }
        self.link.send(head.packet(payload));
        if self.is_cut() {
            self.gone(None, status::UNREACHABLE_REMOTE);
        }
    }

    /// Fails an operation that passed its checks and would not now: its memory was deregistered.
    fn fail_before_sending(&mut self, id: u64, status: u8) -> bool {
        if let Some(operation) = self.requester.operations.get_mut(&id) {
            operation.status = status;
            operation.is_issued = true;
        }
        self.finish(id);
        true
    }

    /// Takes the answer to a request.
    pub(crate) fn answered(&mut self, head: &Head, payload: &[u8]) {
        let requester = &mut self.requester;
        let Some(request) = requester.requests.remove(&head.id) else {
            return;
        };
        requester.bytes -= request.cost;
        let Some(operation) = requester.operations.get_mut(&request.operation) else {
            return;
        };
        operation.pending -= 1;
        let mut status = head.status;
        let Some(qp) = self.qps.get(operation.qp) else {
            return;
        };
        if !qp.is_reliable {
            // The datagram has left, which is all that its sender is told.
            status = status::OK;
        }
        if status == status::REMOTE_RNR && operation.op != Op::Read {
            let retries = qp.attributes.rnr_retry;
            if retries >= 7 || operation.tries < retries {
                self.try_later(request.operation);
                return;
            }
        }
        if status == status::OK && operation.op == Op::Read {
            let (_, own) = operation.wqe.access();
            let place = self.regions.locate(qp.pd, own, access::LOCAL_WRITE);
            let room = own.len.saturating_sub(request.offset) as usize;
            match place.filter(|_| payload.len() <= room) {
                Some(place) => memory::store(place + u64::from(request.offset), payload),
                None => status = status::INVALID_LKEY,
            }
        }
        if status != status::OK {
            // What has not been sent yet never will.
            operation.status = status;
            operation.is_issued = true;
            operation.immediate_due = false;
        }
        self.finish(request.operation);
    }

    /// Schedules a message to be sent once more, after a pause that doubles each time (RNR retry).
    fn try_later(&mut self, id: u64) {
        const SHORTEST: Duration = Duration::from_micros(50);
        let requester = &mut self.requester;
        let Some(operation) = requester.operations.get_mut(&id) else {
            return;
        };
        let wait = SHORTEST * (1 << operation.tries.min(6));
        operation.tries = operation.tries.saturating_add(1);
        if operation.op == Op::Send {
            operation.issued = 0;
            operation.is_issued = false;
        } else {
            operation.immediate_due = true;
        }
        requester.later.push((Instant::now() + wait, id));
    }

    /// Completes an operation of which nothing is under way any more.
    fn finish(&mut self, id: u64) {
        let requester = &mut self.requester;
        let Some(operation) = requester.operations.get(&id) else {
            return;
        };
        if operation.pending > 0 || !operation.is_issued {
            return;
        }
        if operation.immediate_due {
            requester.ready.push_back(id);
            return;
        }
        if let Some(done) = requester.operations.remove(&id)
            && (done.wqe.is_signalled() || done.status != status::OK)
        {
            self.complete_send(done.qp, done.wqe.req_id(), done.op, done.status);
        }
    }

    /// Fails the requests to a process that will not answer any more, or all of them.
    pub(crate) fn gone(&mut self, slot: Option<u16>, status: u8) {
        let requests = self.requester.requests.iter();
        let lost = requests.filter(|(_, request)| slot.is_none_or(|slot| slot == request.slot));
        let lost: Vec<u32> = lost.map(|(id, _)| *id).collect();
        for id in lost {
            let answer = Head {
                id,
                status,
                ..Head::new(Kind::Answer)
            };
            self.answered(&answer, &[]);
        }
    }

    /// Adds the completion of a send request.
    pub(crate) fn complete_send(&mut self, number: u32, req_id: u16, op: Op, status: u8) {
        let Some(qp) = self.qps.get_mut(number) else {
            return;
        };
        let cq = qp.send_cq;
        let completion = Completion {
            req_id,
            status,
            op: op.number(),
            qp: qp.number,
            ..Completion::default()
        };
        if !self.complete(cq, &completion)
            && let Some(qp) = self.qps.get_mut(number)
        {
            qp.state = State::Err;
        }
    }
}
