//! The two queues of an endpoint: work is given to the device, and its ends are told.

use oxifabric_engine::{Completions, RmaOp, RxOp, TxOp};
use oxifabric_kernel_objects::Queues;
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use crate::device::VerbsDevice;
use crate::ledger::{Operation, is_receive};
use crate::offer::queue_size;
use crate::parts::{self, Done, FENCE, Opcode, RawEvent, UNSIGNALED, WITH_DATA};

/// Ends of work of one poll, beyond which others get their turn.
const TURN: usize = 256;

impl VerbsDevice {
    /// Reports the ends of work; returns whether the queue is empty.
    fn poll_queue(&mut self, out: &mut impl Completions) -> bool {
        let mut list = [Done::default(); 8];
        for _ in 0..TURN / list.len() {
            let count = self.link.poll(&mut list);
            for done in &list[..count] {
                self.end(&done.judged(), out);
            }
            if count == 0 {
                return true;
            }
        }
        false
    }

    fn end(&mut self, done: &Done, out: &mut impl Completions) {
        let ledger = match is_receive(done.id) {
            true => &mut self.receives,
            false => &mut self.sends,
        };
        let Some(operation) = ledger.remove(done.id) else {
            return;
        };
        let ended = operation.ended(done);
        let Operation {
            is_told,
            unsignaled,
            held,
            ..
        } = operation;
        self.domain.unmap(held);
        self.release_before(unsignaled);
        match ended {
            Ok(completion) => {
                if is_receive(done.id) {
                    self.heard();
                }
                if !is_told {
                    out.complete(completion);
                }
            }
            Err(failure) => {
                if !is_told {
                    out.fail(failure);
                }
                self.lose(done);
            }
        }
    }

    /// Gives back the memory of the sends that the device does not report, and that were among the first `posted` of those: a later one has ended.
    fn release_before(&mut self, posted: u64) {
        while let Some(number) = self.unsignaled.take_before(posted) {
            if let Some(operation) = self.sends.remove(number) {
                self.domain.unmap(operation.held);
            }
        }
    }

    /// Gives work to the queue of sends. The end of one of which the application is told already is reported only now and then.
    fn post(&mut self, operation: Operation, work: parts::Work) -> Result<(), Errno> {
        let is_signaled = !operation.is_told || !self.unsignaled.takes_one();
        let number = self.hand_over(operation, is_signaled, work)?;
        self.unsignaled.note(number, is_signaled);
        Ok(())
    }

    /// Returns whether as many sends and accesses are outstanding as an application may have.
    fn is_full(&self) -> bool {
        let waited_for = self.sends.len().saturating_sub(self.unsignaled.len());
        self.sends.is_full() || waited_for >= queue_size(self.facts())
    }

    /// Describes a send or an access, whose memory is mapped.
    fn outgoing(&self, body: &Iov, flags: Flags, context: usize) -> Result<Operation, Errno> {
        if self.is_full() {
            return Err(Errno::AGAIN);
        }
        let is_read = flags.contains(Flags::READ);
        let is_copied = flags.contains(Flags::INJECT);
        let limit = match is_read {
            true => self.facts().read_pieces,
            false => self.facts().pieces,
        };
        // SAFETY: the memory is the operation's until it ends, or is copied; and it is unmapped then, or when the device goes.
        let held = unsafe { self.domain.map(body, is_read, is_copied, limit) }?;
        Ok(Operation {
            unsignaled: self.unsignaled.posted(),
            ..Operation::new(body, flags, context, held)
        })
    }

    /// Keeps an operation and gives it to the device; returns its number.
    fn hand_over(
        &mut self,
        operation: Operation,
        is_signaled: bool,
        work: parts::Work,
    ) -> Result<u64, Errno> {
        let number = self.sends.insert(operation).map_err(|operation| {
            self.domain.unmap(operation.held);
            Errno::AGAIN
        })?;
        let flags = match is_signaled {
            true => work.flags,
            false => work.flags | UNSIGNALED,
        };
        let work = parts::Work { flags, ..work };
        let posted = match self.sends.get(number) {
            // SAFETY: the pieces are those of the operation, which is kept.
            Some(kept) => unsafe { self.link.post(number, kept.held.pieces.list(), work) },
            None => Err(Errno::AGAIN),
        };
        if posted.is_err()
            && let Some(operation) = self.sends.remove(number)
        {
            self.domain.unmap(operation.held);
        }
        posted.map(|()| number).map_err(full)
    }
}

/// Returns the error of a post: the queue may be full for a while only.
fn full(errno: Errno) -> Errno {
    match errno {
        Errno::NOMEM => Errno::AGAIN,
        other => other,
    }
}

impl Queues for VerbsDevice {
    fn post_send(&mut self, out: &mut impl Completions, op: &TxOp) -> Result<(), Errno> {
        if !op.flags.contains(Flags::MSG) || op.flags.intersects(WAITS_FOR_PEER) {
            return Err(Errno::OPNOTSUPP);
        }
        let flags = op.flags | Flags::SEND;
        let operation = Operation {
            is_told: op.flags.contains(Flags::INJECT) && !op.flags.intersects(WAITED_FOR),
            ..self.outgoing(&op.body, flags, op.context)?
        };
        let told = operation.is_told.then(|| operation.ended(&Done::default()));
        self.post(operation, work(Opcode::Send, op.flags, op.data))?;
        if let Some(Ok(completion)) = told {
            out.complete(completion);
        }
        Ok(())
    }

    fn post_receive(&mut self, op: &RxOp) -> Result<(), Errno> {
        if !op.flags.contains(Flags::MSG) || op.flags.intersects(MATCHED) {
            return Err(Errno::OPNOTSUPP);
        }
        if self.receives.is_full() {
            return Err(Errno::AGAIN);
        }
        // SAFETY: the memory is the operation's until it ends; and it is unmapped then, or when the device goes.
        let held = unsafe { self.domain.map(&op.body, true, false, self.facts().pieces) }?;
        let operation = Operation::new(&op.body, op.flags | Flags::RECV, op.context, held);
        let number = self.receives.insert(operation).map_err(|operation| {
            self.domain.unmap(operation.held);
            Errno::AGAIN
        })?;
        let posted = match self.receives.get(number) {
            // SAFETY: the pieces are those of the operation, which is kept.
            Some(kept) => unsafe { self.link.post_receive(number, kept.held.pieces.list()) },
            None => Err(Errno::AGAIN),
        };
        if posted.is_err()
            && let Some(operation) = self.receives.remove(number)
        {
            self.domain.unmap(operation.held);
        }
        posted.map_err(full)
    }

    fn post_access(&mut self, op: &RmaOp<'_>) -> Result<(), Errno> {
        // What a peer has acknowledged is before what it is sent later: FI_TRANSMIT_COMPLETE, but not FI_DELIVERY_COMPLETE.
        let is_delivery = op.flags.contains(Flags::DELIVERY_COMPLETE)
            && !op.flags.contains(Flags::TRANSMIT_COMPLETE);
        if is_delivery {
            return Err(Errno::OPNOTSUPP);
        }
        let [target] = op.targets else {
            return Err(Errno::INVAL);
        };
        let key = u32::try_from(target.key).map_err(|_| Errno::INVAL)?;
        let opcode = match op.flags.contains(Flags::READ) {
            true => Opcode::Read,
            false => Opcode::Write,
        };
        let work = parts::Work {
            remote: target.addr,
            key,
            ..work(opcode, op.flags, op.data)
        };
        let operation = self.outgoing(&op.body, op.flags, op.context)?;
        self.post(operation, work)
    }

    fn poll(&mut self, out: &mut impl Completions) {
        let mut event = RawEvent::NONE;
        let mut is_empty = !self.has_queues || self.poll_queue(out);
        // After what had arrived before it.
        while self.link.event(&mut event) {
            self.step(&event);
        }
        while self.has_queues && is_empty && self.link.arm() {
            is_empty = self.poll_queue(out);
        }
        if !is_empty {
            self.work.queue();
        }
    }

    fn flush(&mut self) {
        self.link.disconnect();
    }

    fn receives(&self) -> usize {
        self.receives.len()
    }
}

/// Flags of sends that ask for an answer of the peer.
const WAITS_FOR_PEER: Flags = Flags::DELIVERY_COMPLETE.union(Flags::MATCH_COMPLETE);
/// Flags of injected sends whose end is told when the device reports it.
const WAITED_FOR: Flags = Flags::COMPLETION
    .union(Flags::TRANSMIT_COMPLETE)
    .union(Flags::DELIVERY_COMPLETE);
/// Flags of receives that ask for an engine.
const MATCHED: Flags = Flags::PEEK.union(Flags::CLAIM).union(Flags::DISCARD);

/// Describes work for the queue of sends.
const fn work(opcode: Opcode, of: Flags, data: u64) -> parts::Work {
    let with_data = of.contains(Flags::REMOTE_CQ_DATA);
    let fence = of.contains(Flags::FENCE);
    parts::Work {
        id: 0,
        list: core::ptr::null(),
        remote: 0,
        count: 0,
        key: 0,
        opcode,
        flags: if with_data { WITH_DATA } else { 0 } | if fence { FENCE } else { 0 },
        data: data as u32,
        reserved: 0,
    }
}
