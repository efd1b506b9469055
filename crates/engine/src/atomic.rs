//! Atomic operations on memory of peers: fi_atomic(3).
//!
//! An atomic is one frame that its target carries out where the memory is; what fetches is answered by a `Response`, as
//! a read is. So it needs neither segments nor rendezvous, and atomics of one peer take effect in the order in which
//! they were posted. The owner of the engine keeps other atomics away meanwhile ([`Completions::exclusively`]).

use alloc::boxed::Box;
use alloc::vec;
use oxifabric_collectives::arithmetic::{self, Datatype, Form, Operation};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::engine::Engine;
use crate::matching::{Arrival, Class};
use crate::message::{MatchState, Message, RxData};
use crate::peer::{Peers, Reply};
use crate::transmit::{self, Transmit};
use crate::{
    Body, Completion, Completions, Failure, Header, HeaderFlags, Kind, Link, Placement, Target,
};

/// Maximum number of bytes that an atomic of this engine carries, comparands included. Every link takes a body of this length in one
/// frame. What peers may send is [`Link::LONGEST_ATOMIC`].
pub const MAX_ATOMIC_BYTES: usize = 4096;

/// Bytes updated at a time; elements of any size fill it without a rest.
const CHUNK: usize = 8 * Datatype::LARGEST;

/// An update of memory of a peer, fi_atomic(3).
#[derive(Debug)]
pub struct AtomicOp {
    /// The peer that has the memory.
    pub peer: PeerId,
    /// What is done.
    pub update: Update,
    /// The target memory: one to [`oxifabric_mem::MAX_SEGMENTS`] pieces of whole elements.
    pub targets: Box<[Target]>,
    /// As many elements as the targets have; none for FI_ATOMIC_READ. With `INJECT` valid during the call only.
    pub operand: Iov,
    /// Of a comparing atomic, as many again, likewise.
    pub compare: Iov,
    /// Where those go that were there before, unless it is a base atomic.
    pub result: Iov,
    /// Remote completion data, if `flags` has `REMOTE_CQ_DATA`.
    pub data: u64,
    /// `ATOMIC`, with `WRITE` for base atomics and `READ` for others; and as of [`crate::RmaOp`].
    pub flags: Flags,
    /// The application's pointer, repeated in the completion.
    pub context: usize,
}

/// What an atomic does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// What it brings along and takes home.
    pub form: Form,
    /// What the elements are.
    pub datatype: Datatype,
    /// What is done to each.
    pub operation: Operation,
}

impl Update {
    /// Returns whether the form knows the operation for the datatype.
    pub const fn is_valid(&self) -> bool {
        self.operation.is_valid(self.form, self.datatype)
    }

    /// Returns how many elements one atomic can have.
    pub const fn max_count(&self) -> usize {
        let size = self.datatype.size();
        match self.form {
            Form::Compare => MAX_ATOMIC_BYTES / (2 * size),
            _ => MAX_ATOMIC_BYTES / size,
        }
    }

    /// Returns the length of the body that goes with `targets_len` bytes of targets.
    pub const fn body_len(&self, targets_len: usize) -> usize {
        match (self.form, self.operation) {
            (_, Operation::Read) => 0,
            (Form::Compare, _) => 2 * targets_len,
            _ => targets_len,
        }
    }

    const fn kind(&self) -> Kind {
        match self.form {
            Form::Base => Kind::Atomic,
            Form::Fetch => Kind::FetchAtomic,
            Form::Compare => Kind::CompareAtomic,
        }
    }

    /// Returns the header's tag: the datatype, and from bit 8 on the operation.
    const fn code(&self) -> u64 {
        self.datatype as u64 | (self.operation as u64) << 8
    }

    /// Reads what a frame of an atomic asks for; `None` for other frames, and for what is no operation on that datatype.
    pub fn from_header(header: &Header) -> Option<Self> {
        let update = Self {
            form: match header.kind {
                Kind::Atomic => Form::Base,
                Kind::FetchAtomic => Form::Fetch,
                Kind::CompareAtomic => Form::Compare,
                _ => return None,
            },
            datatype: Datatype::from_raw(header.tag & 0xff)?,
            operation: Operation::from_raw(header.tag >> 8)?,
        };
        update.is_valid().then_some(update)
    }

    /// Returns the rights that the memory must have been registered with. Source: fi_atomic(3): fetching ones read,
    /// and all but FI_ATOMIC_READ write.
    pub fn access(&self) -> Flags {
        match (self.form, self.operation) {
            (_, Operation::Read) => Flags::REMOTE_READ,
            (Form::Base, _) => Flags::REMOTE_WRITE,
            _ => Flags::REMOTE_READ | Flags::REMOTE_WRITE,
        }
    }

    /// Returns whether its initiator gets what was there before.
    pub const fn fetches(&self) -> bool {
        !matches!(self.form, Form::Base)
    }

    /// Carries it out, here or in a link that carries out atomics by itself. `body` is the operand, with what is compared behind it;
    /// `result` gets what was there.
    pub fn run(&self, region: &Iov, body: &[u8], result: &Iov) {
        let (mut before, mut after) = ([0; CHUNK], [0; CHUNK]);
        let (operand, compare) = match self.form {
            Form::Compare => body.split_at(body.len() / 2),
            _ => (body, body),
        };
        for at in (0..region.len()).step_by(CHUNK) {
            let len = CHUNK.min(region.len() - at);
            let (before, after) = (&mut before[..len], &mut after[..len]);
            region.read(at, before);
            result.write(at, before);
            after.copy_from_slice(before);
            let operand = operand.get(at..).unwrap_or(&[]);
            let _ = match self.form {
                Form::Compare => {
                    let compare = compare.get(at..).unwrap_or(&[]);
                    let (datatype, operation) = (self.datatype, self.operation);
                    arithmetic::compare_swap(datatype, operation, after, operand, compare)
                }
                _ => arithmetic::combine(self.datatype, self.operation, after, operand),
            };
            // What does not change is not written: others may be at it.
            if before != after {
                region.write(at, after);
            }
        }
    }
}

/// An atomic whose body is on its way.
#[derive(Debug)]
pub(crate) struct Pending {
    update: Update,
    region: Iov,
    /// Of the first target.
    key: u64,
    /// All targets, if there are several.
    targets: Box<[Target]>,
}

impl Pending {
    /// Returns whether it updates the region with this key.
    pub(crate) fn is_about(&self, key: u64) -> bool {
        transmit::is_about(self.key as usize, &self.targets, key)
    }
}

impl Engine {
    /// Starts an atomic operation, fi_atomic(3).
    ///
    /// Atomics to one peer take effect there in the order of these calls, behind the messages that were sent before. A
    /// base atomic completes as a send does, others when the result is here.
    ///
    /// # Errors
    /// As [`Engine::send`]; `INVAL` also when the lengths do not agree, `OPNOTSUPP` when there is no such operation,
    /// `MSGSIZE` for too many elements. What the peer refuses is reported as a [`crate::Failure`].
    pub fn atomic(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: AtomicOp,
    ) -> Result<(), Errno> {
        if !Peers::is_valid(op.peer) {
            return Err(Errno::INVAL);
        }
        op.check()?;
        if self.is_busy() {
            return Err(Errno::AGAIN);
        }
        if op.peer == self.me {
            self.check_own_fence(op.flags)?;
            return op.run_here(out);
        }
        let key = self.sends.vacant().ok_or(Errno::AGAIN)?;
        let transmit = Transmit::atomic(op, key)?;
        self.start(link, out, transmit, key)?;
        self.resume_stalled(link);
        Ok(())
    }

    /// Takes an atomic: it is carried out as soon as its body is here, if the memory may be updated.
    pub(crate) fn update(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        body: Body<'_>,
    ) -> Placement {
        let Some(mut arrival) = Arrival::new(from, Class::Atomic, header) else {
            return Placement::Refuse;
        };
        let is_whole = match &body {
            Body::Whole(bytes) => bytes.len() == arrival.len,
            Body::Stream(len) => *len == arrival.len,
            Body::Remote(_) => false,
        };
        if !is_whole || arrival.len > self.longest_atomic {
            return Placement::Refuse;
        }
        let room = self.peers.can_reply(from) && !self.unexpected.is_full(from);
        if !room || !self.can_respond(from) {
            return self.stall(from);
        }
        if header.kind != Kind::Atomic {
            // The response says it all.
            arrival
                .flags
                .remove(HeaderFlags::DELIVERY | HeaderFlags::MATCH);
        }
        let pending = match Pending::admit(out, from, header, targets, self.longest_atomic) {
            Ok(pending) => pending,
            Err(errno) => return self.refuse_update(&arrival, header.kind, &body, errno),
        };
        match body {
            Body::Whole(bytes) => {
                self.carry_out(out, &arrival, &pending, bytes);
                if arrival.wants_ack() {
                    self.peers.reply(from, Reply::Ack(arrival.id));
                }
                Placement::Done
            }
            body => self.await_operands(out, arrival, pending, body),
        }
    }

    /// Keeps an atomic whose body follows in the stream.
    fn await_operands(
        &mut self,
        out: &mut impl Completions,
        arrival: Arrival,
        pending: Pending,
        body: Body<'_>,
    ) -> Placement {
        let Some(buffer) = Iov::zeroed(arrival.len) else {
            return self.stall(arrival.from);
        };
        let match_state = MatchState::Update(Box::new(pending));
        let message = Message::new(arrival, RxData::Buffer(buffer), match_state);
        match self.unexpected.insert(message) {
            Some(key) => self.place(out, key, arrival.len, body),
            None => self.stall(arrival.from),
        }
    }

    /// Carries out an atomic whose body is here.
    pub(crate) fn carry_out_arrived(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        pending: &Pending,
        rx_data: &RxData,
    ) {
        let mut bytes = vec![0; arrival.len];
        if let RxData::Buffer(buffer) = rx_data {
            buffer.read(0, &mut bytes);
        }
        self.carry_out(out, arrival, pending, &bytes);
    }

    /// Updates the memory, and answers with what was there if that is wanted.
    fn carry_out(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        pending: &Pending,
        body: &[u8],
    ) {
        let Pending {
            update,
            region,
            key,
            targets,
        } = pending;
        if update.form == Form::Base {
            out.exclusively(|| update.run(region, body, &Iov::empty()));
        } else {
            let old = Iov::zeroed(region.len()).filter(|_| self.sends.vacant().is_some());
            let Some(old) = old else {
                // Nothing has been changed yet.
                let refusal = Reply::Fin(arrival.id, Err(Errno::NOMEM));
                return self.peers.reply(arrival.from, refusal);
            };
            out.exclusively(|| update.run(region, body, &old));
            let (from, id) = (arrival.from, arrival.id);
            // A key is vacant, as was seen above.
            self.respond(from, |key| Transmit::fetched(from, id, old, key));
        }
        let data = arrival
            .flags
            .contains(HeaderFlags::DATA)
            .then_some(arrival.data);
        out.accessed(updated(update, region, *key, data, arrival.from), targets);
    }

    /// Answers an atomic with a refusal. A base atomic that the initiator does not wait for has no id that an answer could
    /// name: the connection is dropped, so that the refusal does not go unnoticed.
    fn refuse_update(
        &mut self,
        arrival: &Arrival,
        kind: Kind,
        body: &Body<'_>,
        errno: Errno,
    ) -> Placement {
        if let Some(placement) = self.refusal(arrival.from, errno) {
            return placement;
        }
        if kind == Kind::Atomic && !arrival.wants_ack() {
            return Placement::Refuse;
        }
        self.peers
            .reply(arrival.from, Reply::Fin(arrival.id, Err(errno)));
        match body {
            Body::Stream(1..) => Placement::Discard,
            _ => Placement::Done,
        }
    }
}

impl Pending {
    /// Finds the memory that an atomic is about, `longest` bytes of it at most, if it may be updated.
    fn admit(
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        longest: usize,
    ) -> Result<Self, Errno> {
        let update = Update::from_header(header).ok_or(Errno::OPNOTSUPP)?;
        let len = total(targets, update.datatype).ok_or(Errno::INVAL)?;
        // The C library sends an operand along with FI_ATOMIC_READ, which has none: it is ignored.
        let is_superfluous = update.operation == Operation::Read && header.len == len as u64;
        let has_body = update.body_len(len) as u64 == header.len || is_superfluous;
        if len > longest || !has_body {
            return Err(Errno::INVAL);
        }
        let region = Engine::region(out, from, targets, update.access())?;
        if region.len() != len {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            update,
            region,
            key: targets.first().map_or(0, |target| target.key),
            targets: transmit::several(targets),
        })
    }
}

impl AtomicOp {
    fn check(&self) -> Result<(), Errno> {
        let update = &self.update;
        if !update.is_valid() {
            return Err(Errno::OPNOTSUPP);
        }
        let len = total(&self.targets, update.datatype).ok_or(Errno::INVAL)?;
        if len > update.max_count() * update.datatype.size() {
            return Err(Errno::MSGSIZE);
        }
        let (brings, compares, fetches) = match update.form {
            Form::Base => (len, 0, 0),
            Form::Fetch => (update.body_len(len), 0, len),
            Form::Compare => (len, len, len),
        };
        let lens = (self.operand.len(), self.compare.len(), self.result.len());
        match lens == (brings, compares, fetches) {
            true => Ok(()),
            false => Err(Errno::INVAL),
        }
    }

    /// Returns the body of its frame, and whether that is memory which is valid during the call only.
    ///
    /// # Errors
    /// `NOMEM`.
    fn body(&self) -> Result<(Iov, bool), Errno> {
        if self.compare.is_empty() {
            return Ok((self.operand.clone(), self.flags.contains(Flags::INJECT)));
        }
        let both = Iov::zeroed(self.operand.len() + self.compare.len()).ok_or(Errno::NOMEM)?;
        both.copy_from(0, &self.operand);
        both.copy_from(self.operand.len(), &self.compare);
        Ok((both, false))
    }

    /// Updates memory of this endpoint itself.
    fn run_here(&self, out: &mut impl Completions) -> Result<(), Errno> {
        let (body, _) = self.body()?;
        let len = body.len() as u64;
        let mine = transmit::completion(self.flags, self.context, body.base() as usize, len);
        let region = match Engine::region(out, PeerId::ANY, &self.targets, self.update.access()) {
            Ok(region) => region,
            Err(errno) => {
                let overflow = 0;
                out.fail(Failure {
                    op: mine,
                    errno,
                    overflow,
                    code: 0,
                });
                return Ok(());
            }
        };
        let mut bytes = vec![0; body.len()];
        body.read(0, &mut bytes);
        out.exclusively(|| self.update.run(&region, &bytes, &self.result));
        let data = self
            .flags
            .contains(Flags::REMOTE_CQ_DATA)
            .then_some(self.data);
        let key = self.targets.first().map_or(0, |target| target.key);
        out.complete(mine);
        let access = updated(&self.update, &region, key, data, self.peer);
        out.accessed(access, &self.targets);
        Ok(())
    }
}

impl Transmit {
    /// Takes an atomic in. One that fetches is over when its response is, which takes its place.
    ///
    /// # Errors
    /// `NOMEM`.
    fn atomic(op: AtomicOp, key: crate::slab::Key) -> Result<Self, Errno> {
        let (body, borrowed) = op.body()?;
        let message = crate::TxOp {
            peer: op.peer,
            tag: 0,
            data: op.data,
            body,
            flags: op.flags,
            context: op.context,
        };
        let mut transmit = Self::new(message, key);
        transmit.header.kind = op.update.kind();
        transmit.header.tag = op.update.code();
        transmit.targets = op.targets;
        transmit.borrowed = borrowed;
        if op.update.form != Form::Base {
            let acks = HeaderFlags::DELIVERY | HeaderFlags::MATCH;
            transmit.header.flags.remove(acks);
            transmit.unacked = true;
            transmit.result = Some(Box::new(op.result));
        }
        Ok(transmit)
    }
}

/// Adds up what targets name; `None` when one is not made of whole elements, or there is nothing.
fn total(targets: &[Target], datatype: Datatype) -> Option<usize> {
    let size = datatype.size() as u64;
    let add = |sum: u64, target: &Target| {
        let is_whole = target.len.is_multiple_of(size);
        sum.checked_add(target.len).filter(|_| is_whole)
    };
    let total = targets.iter().try_fold(0, add)?;
    usize::try_from(total).ok().filter(|total| *total > 0)
}

/// Makes the completion of an atomic at its target. Counters find the region by its key.
fn updated(update: &Update, region: &Iov, key: u64, data: Option<u64>, from: PeerId) -> Completion {
    let event = match data {
        Some(_) => Flags::REMOTE_CQ_DATA,
        None => Flags::empty(),
    };
    Completion {
        context: key as usize,
        flags: Flags::ATOMIC | update.access() | event,
        len: region.len() as u64,
        buf: region.base() as usize,
        data: data.unwrap_or(0),
        tag: 0,
        from,
        wanted: data.is_some(),
    }
}
