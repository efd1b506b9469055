//! Collectives under way: each works its schedule off, as far as messages have come.

use oxifabric_collectives::Arithmetic;
use oxifabric_collectives::arithmetic::combine;
use oxifabric_collectives::schedule::{Buffer, Schedule, Span, Step};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use super::tag::MessageTag;
use super::{GroupId, Posted};
use crate::engine::Engine;
use crate::matching::{Class, Pattern};
use crate::rx_placement::RxPlacement;
use crate::slab::Key;
use crate::transmit::Transmit;
use crate::{Completion, Completions, Failure, Link};

/// Bytes combined at once; every element fits in whole. In a kernel the stack is short.
const CHUNK: usize = if cfg!(target_os = "none") { 256 } else { 4096 };

/// A member's part in one operation of a group.
#[derive(Debug)]
pub(super) struct ActiveCollective {
    pub(super) group: GroupId,
    /// The number of the operation in its group.
    pub(super) serial: u32,
    pub(super) schedule: Schedule,
    /// The next step.
    pub(super) at: usize,
    /// Messages that have begun and are not over.
    pub(super) pending: usize,
    pub(super) failure: Option<Errno>,
    pub(super) input: Iov,
    pub(super) result: Iov,
    pub(super) scratch: Iov,
    pub(super) partial: Iov,
    pub(super) arithmetic: Option<Arithmetic>,
    /// Whether it is the join of the group.
    pub(super) is_join: bool,
    pub(super) flags: Flags,
    pub(super) context: usize,
}

impl ActiveCollective {
    fn part(&self, span: Span) -> Iov {
        let buffer = match span.buffer {
            Buffer::Input => &self.input,
            Buffer::Result => &self.result,
            Buffer::Scratch => &self.scratch,
            Buffer::Partial => &self.partial,
        };
        buffer.slice(span.offset, span.len)
    }

    /// Combines one part into another. Compiled apart: no poll without a collective needs the stack that it takes.
    #[inline(never)]
    fn combine(&self, from: Span, into: Span) {
        let Some(how) = self.arithmetic else {
            return;
        };
        let (operand, sum) = (self.part(from), self.part(into));
        let (mut left, mut right) = ([0; CHUNK], [0; CHUNK]);
        for at in (0..into.len).step_by(CHUNK) {
            let len = CHUNK.min(into.len - at);
            sum.read(at, &mut left[..len]);
            operand.read(at, &mut right[..len]);
            // That the two go together was checked in the beginning.
            let _ = combine(how.datatype, how.operation, &mut left[..len], &right[..len]);
            sum.write(at, &left[..len]);
        }
    }

    fn completion(&self) -> Completion {
        Completion {
            context: self.context,
            flags: Flags::COLLECTIVE,
            len: 0,
            buf: 0,
            data: 0,
            tag: 0,
            from: PeerId::ANY,
            wanted: self.flags.contains(Flags::COMPLETION),
        }
    }
}

impl Engine {
    /// Advances all collectives that can go on, and sends what comes of it.
    pub(crate) fn settle_collectives(&mut self, link: &mut impl Link, out: &mut impl Completions) {
        while let Some(key) = self.collectives.ready.pop_front() {
            self.advance_collective(link, out, key);
            self.advance_ready(link, out);
        }
    }

    /// Takes the next steps of a collective, until it has to wait or is over.
    fn advance_collective(&mut self, link: &mut impl Link, out: &mut impl Completions, key: Key) {
        while let Some(active) = self.collectives.active.get_mut(key) {
            if let Some(errno) = active.failure {
                return self.abort_collective(link, out, key, errno);
            }
            let Some(&step) = active.schedule.steps.get(active.at) else {
                return self.end_collective(link, out, key);
            };
            if matches!(step, Step::Wait) && active.pending > 0 {
                return;
            }
            active.at += 1;
            match step {
                Step::Wait => {}
                Step::Combine { from, into } => active.combine(from, into),
                Step::Copy { from, into } => {
                    active.part(into).copy_from(0, &active.part(from));
                }
                Step::Send { to, from } => {
                    let body = active.part(from);
                    active.pending += 1;
                    self.send_part(link, out, key, to, body);
                }
                Step::Recv { from, into } => {
                    let into = active.part(into);
                    active.pending += 1;
                    self.recv_part(link, out, key, from, into);
                }
            }
        }
    }

    fn send_part(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        active: Key,
        to: usize,
        body: Iov,
    ) {
        let state = &self.collectives;
        let Some(row) = state.active.get(active) else {
            return;
        };
        let Some(group) = state.groups.get(&row.group) else {
            return;
        };
        let (peer, tag) = (group.peers[to], group.tag_to(to, row.serial));
        if let Err(errno) = self.post_collective(link, out, peer, tag, body, active) {
            self.collectives.over(active, Err(errno));
        }
    }

    /// Sends a message of a collective, or with [`Key::NONE`] of none.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] when no more sends can be kept.
    pub(super) fn post_collective(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        peer: PeerId,
        tag: MessageTag,
        body: Iov,
        active: Key,
    ) -> Result<(), Errno> {
        self.collectives.reached.insert(peer);
        let key = self.sends.vacant().ok_or(Errno::AGAIN)?;
        let transmit = Transmit::collective(peer, tag.encode(), body, active, key);
        // The link may have given the member's number back between two collectives.
        self.peers.name(peer);
        self.start(link, out, transmit, key)
    }

    fn recv_part(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        active: Key,
        from: usize,
        into: Iov,
    ) {
        let state = &mut self.collectives;
        let Some(row) = state.active.get(active) else {
            return;
        };
        let Some(group) = state.groups.get(&row.group) else {
            return;
        };
        let peer = group.peers[from];
        let tag = group.tag_from(from, row.group, row.serial).encode();
        let pattern = Pattern::exact(Class::Collective, peer, tag);
        if let Some(key) = self.unexpected.find(&pattern) {
            return self.assign(out, key, placement(into, active));
        }
        self.peers.name(peer);
        let queue = state.posted.entry((peer, tag)).or_default();
        queue.push_back(Posted { into, active });
        if !state.reached.contains(&peer) {
            let hello =
                self.post_collective(link, out, peer, MessageTag::HELLO, Iov::empty(), Key::NONE);
            if let Err(errno) = hello {
                self.collectives.over(active, Err(errno));
            }
        }
    }

    /// Ends a collective whose steps are all done.
    fn end_collective(&mut self, link: &mut impl Link, out: &mut impl Completions, key: Key) {
        let Some(active) = self.collectives.active.get(key) else {
            return;
        };
        let (group, is_join, records) = (active.group, active.is_join, active.result.clone());
        if is_join && let Err(errno) = self.complete_join(group, &records) {
            return self.abort_collective(link, out, key, errno);
        }
        self.report_collective(out, key, Ok(()));
    }

    /// Reports how an operation ended, and forgets it.
    pub(super) fn report_collective(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        result: Result<(), Errno>,
    ) {
        let Some(active) = self.collectives.active.remove(key) else {
            return;
        };
        let id = active.group;
        if let Some(group) = self.collectives.groups.get_mut(&id) {
            group.active = group.active.saturating_sub(1);
        }
        match result {
            result if active.is_join => out.joined(active.context, id, result),
            Ok(()) => out.complete(active.completion()),
            Err(errno) => out.fail(Failure {
                op: active.completion(),
                errno,
                overflow: 0,
                code: 0,
            }),
        }
        self.forget_if_left(out, id);
    }
}

/// Returns where a message of an operation goes.
pub(super) fn placement(into: Iov, active: Key) -> RxPlacement {
    RxPlacement {
        room: into.len(),
        body: into,
        offset: 0,
        flags: Flags::empty(),
        context: active.raw() as usize,
        shared: Key::NONE,
    }
}
