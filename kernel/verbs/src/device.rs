//! An endpoint: a connection of rdma_cm with the two queues of a device.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use oxifabric_engine::{Completions, RmaOp, RxOp, TxOp};
use oxifabric_kernel_objects::{ConnectionEvent, Device, Queued, Queues};
use oxifabric_kernel_sync::Work;
use oxifabric_mem::Iov;
use oxifabric_types::{Address, EpType, Errno, Flags, Info, PeerId};

use crate::domain::VerbsDomain;
use crate::ledger::{Ledger, Operation, is_receive};
use crate::offer::queue_size;
use crate::parts::{self, DeviceFacts, Done, FENCE, Opcode, RawEvent, WITH_DATA};
use crate::private::Private;
use crate::stage::{Stage, Step};
use crate::system::{self, RawLink};
use crate::{address, place};

/// Ends of work of one poll, beyond which others get their turn.
const TURN: usize = 256;

/// What moves the messages of an endpoint.
pub struct VerbsDevice {
    /// Before the work that it names.
    link: RawLink,
    work: Arc<Work>,
    domain: Arc<VerbsDomain>,
    stage: Stage,
    /// What goes with our request.
    request: Option<Private>,
    events: VecDeque<ConnectionEvent>,
    sends: Ledger,
    receives: Ledger,
    has_queues: bool,
}

impl fmt::Debug for VerbsDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsDevice")
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl VerbsDevice {
    pub(crate) fn new(
        info: &Info,
        domain: &Arc<VerbsDomain>,
        work: &Arc<Work>,
    ) -> Result<Self, Errno> {
        if info.ep.kind != EpType::Msg {
            return Err(Errno::INVAL);
        }
        let link = bound(info, work)?;
        Self::over(link, Stage::Fresh, domain, work)
    }

    /// Makes the device of the endpoint that accepts a request.
    pub(crate) fn invited(
        link: RawLink,
        domain: &Arc<VerbsDomain>,
        work: &Arc<Work>,
    ) -> Result<Self, Errno> {
        let device = Self::over(link, Stage::Invited, domain, work)?;
        // SAFETY: the device keeps the work as long as the link.
        unsafe { device.link.set_owner(Arc::as_ptr(&device.work)) };
        Ok(device)
    }

    fn over(
        link: RawLink,
        stage: Stage,
        domain: &Arc<VerbsDomain>,
        work: &Arc<Work>,
    ) -> Result<Self, Errno> {
        let depth = queue_size(domain.facts());
        Ok(Self {
            link,
            work: Arc::clone(work),
            domain: Arc::clone(domain),
            stage,
            request: None,
            events: VecDeque::new(),
            sends: Ledger::new(depth, false)?,
            receives: Ledger::new(depth, true)?,
            has_queues: false,
        })
    }

    fn facts(&self) -> &DeviceFacts {
        self.domain.facts()
    }

    /// Does what an event of the connection asks for.
    fn step(&mut self, event: &RawEvent) {
        let done = match self.stage.take(event) {
            Step::Wait => Ok(()),
            Step::Route => self.link.route(),
            Step::Ask => {
                let request = self.request.take();
                self.link
                    .connect(request.as_ref().map_or(&[0], Private::bytes))
            }
            Step::Tell(told, is_over) => {
                self.tell(told, is_over);
                Ok(())
            }
        };
        if let Err(errno) = done
            && let Step::Tell(told, is_over) = self.stage.fail(errno, Vec::new())
        {
            self.tell(told, is_over);
        }
    }

    fn tell(&mut self, told: ConnectionEvent, is_over: bool) {
        if let ConnectionEvent::Refused(why, _) = &told {
            system::warn(&format!("connect to {}: {why}", self.link.ends().peer));
        }
        if is_over {
            self.link.disconnect();
        }
        self.events.push_back(told);
    }

    /// Ends the connection after an error of the device, which does nothing over it any more.
    fn lose(&mut self, done: &Done) {
        if self.stage != Stage::Connected {
            return;
        }
        let peer = self.link.ends().peer;
        let status = done.status;
        system::warn(&format!(
            "connection with {peer} lost: status {status} of the device"
        ));
        self.stage = Stage::Over;
        self.tell(ConnectionEvent::Shutdown, true);
    }

    /// Reports the ends of work; returns whether the queue is empty.
    fn poll_queue(&mut self, out: &mut impl Completions) -> bool {
        let mut list = [Done::default(); 8];
        for _ in 0..TURN / list.len() {
            let count = self.link.poll(&mut list);
            for done in &list[..count] {
                self.end(done, out);
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
        let told = operation.ended(done);
        self.domain.unmap(operation.held);
        match told {
            Ok(completion) => out.complete(completion),
            Err(failure) => {
                out.fail(failure);
                self.lose(done);
            }
        }
    }

    /// Gives work to the queue of sends.
    fn post(
        &mut self,
        body: &Iov,
        flags: Flags,
        context: usize,
        work: parts::Work,
    ) -> Result<(), Errno> {
        if self.sends.is_full() {
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
        let operation = Operation {
            context,
            flags,
            len: body.len(),
            buf: body.base().addr(),
            held,
        };
        let number = self.sends.insert(operation).map_err(|operation| {
            self.domain.unmap(operation.held);
            Errno::AGAIN
        })?;
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
        posted.map_err(full)
    }
}

/// Returns the error of a post: the queue may be full for a while only.
fn full(errno: Errno) -> Errno {
    match errno {
        Errno::NOMEM => Errno::AGAIN,
        other => other,
    }
}

/// Opens a link at the source of an entry.
pub(crate) fn bound(info: &Info, work: &Arc<Work>) -> Result<RawLink, Errno> {
    let at = place(info.src.as_ref().ok_or(Errno::INVAL)?)?;
    // SAFETY: the caller keeps the work longer than the link.
    let link = unsafe { RawLink::open(Arc::as_ptr(work)) }?;
    link.bind(at)?;
    Ok(link)
}

impl Drop for VerbsDevice {
    fn drop(&mut self) {
        // After this the device has no memory of the operations any more.
        self.link.close_queues();
        for operation in self.sends.drain().chain(self.receives.drain()) {
            self.domain.unmap(operation.held);
        }
    }
}

impl Device for VerbsDevice {
    type Operations = Queued;

    fn address(&self) -> Address {
        address(self.link.ends().own)
    }

    fn set_address(&mut self, at: &Address) -> Result<(), Errno> {
        if self.stage != Stage::Fresh || self.has_queues {
            return Err(Errno::OPBADSTATE);
        }
        // SAFETY: the device keeps its work.
        let link = unsafe { RawLink::open(Arc::as_ptr(&self.work)) }?;
        link.bind(place(at)?)?;
        self.link = link;
        Ok(())
    }

    /// Makes the queues, which take receives from then on.
    fn enable(&mut self) -> Result<(), Errno> {
        // An endpoint for a request is enabled once more when it accepts.
        if self.has_queues {
            return Ok(());
        }
        let (depth, pieces) = (queue_size(self.facts()), self.facts().pieces);
        let pieces = pieces.min(parts::MOST_PIECES as u32);
        let domain = self.domain.raw();
        // SAFETY: the device keeps the domain, and drops it after the link.
        unsafe { self.link.open_queues(domain, depth as u32, pieces) }?;
        self.has_queues = true;
        Ok(())
    }

    fn peer(&mut self, _address: &Address) -> Result<PeerId, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    fn address_of(&self, peer: PeerId) -> Option<Address> {
        let is_known = peer == PeerId(0) && self.stage != Stage::Fresh;
        is_known.then(|| address(self.link.ends().peer))
    }

    fn connect(&mut self, to: &Address, data: &[u8]) -> Result<(), Errno> {
        let to = place(to)?;
        let request = Private::pack(data)?;
        if self.stage != Stage::Fresh {
            return Err(Errno::ISCONN);
        }
        if to.port() == 0 {
            return Err(Errno::INVAL);
        }
        self.link.resolve(to)?;
        (self.request, self.stage) = (Some(request), Stage::Resolving);
        Ok(())
    }

    fn accept(&mut self, data: &[u8]) -> Result<(), Errno> {
        if self.stage != Stage::Invited {
            return Err(Errno::NOTCONN);
        }
        self.link.accept(Private::pack(data)?.bytes())?;
        self.stage = Stage::Accepting;
        Ok(())
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        match self.stage {
            Stage::Fresh => return Err(Errno::NOTCONN),
            Stage::Over => return Ok(()),
            _ => self.stage = Stage::Over,
        }
        self.tell(ConnectionEvent::Shutdown, true);
        Ok(())
    }

    fn event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }
}

impl Queues for VerbsDevice {
    fn post_send(&mut self, op: &TxOp) -> Result<(), Errno> {
        if !op.flags.contains(Flags::MSG) || op.flags.intersects(WAITS_FOR_PEER) {
            return Err(Errno::OPNOTSUPP);
        }
        let flags = op.flags | Flags::SEND;
        let work = work(Opcode::Send, op.flags, op.data);
        self.post(&op.body, flags, op.context, work)
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
        let operation = Operation {
            context: op.context,
            flags: op.flags | Flags::RECV,
            len: op.body.len(),
            buf: op.body.base().addr(),
            held,
        };
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
        self.post(&op.body, op.flags, op.context, work)
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
