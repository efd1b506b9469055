//! The frames that a send consists of: their headers, and which comes next. Hot path.

use oxifabric_types::Flags;

use super::{Stage, Transmit, wants_ack};
use crate::{Frame, Header, HeaderFlags, Kind, Limits, RmaOp, Target, TxOp};

impl Transmit {
    /// Returns the next frame to post, and how far the send is once it was taken; `None` when there is none.
    pub(crate) fn frame(&self, limits: &Limits) -> Option<(Frame<'_>, Stage)> {
        match self.stage {
            Stage::Queued => Some(self.first_frame(limits)),
            Stage::Sending(sent) => self.next_segment(sent, limits),
            Stage::RtsSent | Stage::Sent => None,
        }
    }

    #[inline(always)]
    fn first_frame(&self, limits: &Limits) -> (Frame<'_>, Stage) {
        let whole = self.body.len();
        let next = self.after_first(limits);
        let (kind, len) = match next {
            Stage::RtsSent => (self.rts_kind(), whole),
            Stage::Sending(part) => (self.header.kind, part),
            Stage::Queued | Stage::Sent if self.header.kind == Kind::Read => (Kind::Read, 0),
            Stage::Queued | Stage::Sent => (self.header.kind, whole),
        };
        let header = Header {
            kind,
            ..self.header
        };
        let targets: &[Target] = if self.is_response() {
            &[]
        } else {
            &self.targets
        };
        self.frame_of(header, 0, len, targets, next)
    }

    #[inline(always)]
    fn next_segment(&self, sent: usize, limits: &Limits) -> Option<(Frame<'_>, Stage)> {
        let len = limits.segment.max(1).min(self.allowed() - sent);
        if len == 0 {
            return None;
        }
        let next = match sent + len {
            end if end == self.body.len() => Stage::Sent,
            end => Stage::Sending(end),
        };
        Some(self.frame_of(self.segment(sent), sent, len, &[], next))
    }

    /// Returns a frame with `len` bytes of the body from `offset` on, after which the send is at stage `next`.
    #[inline(always)]
    fn frame_of<'a>(
        &'a self,
        header: Header,
        offset: usize,
        len: usize,
        targets: &'a [Target],
        next: Stage,
    ) -> (Frame<'a>, Stage) {
        let frame = Frame {
            header,
            body: &self.body,
            offset,
            len,
            targets,
            transient: self.borrowed,
            transmit_complete: next == Stage::Sent && self.waits_for_link(),
            more: matches!(next, Stage::Sending(end) if end < self.allowed())
                || self.flags.contains(Flags::MORE),
        };
        (frame, next)
    }

    /// Returns whether it is complete when the peer's link has it.
    #[inline(always)]
    fn waits_for_link(&self) -> bool {
        !self.unacked && self.flags.contains(Flags::TRANSMIT_COMPLETE)
    }

    /// Returns whether it waits for a frame after which others follow, and which may arrive after these.
    pub(crate) fn waits_for_part(&self, next: Stage) -> bool {
        matches!(next, Stage::Sending(_)) && self.waits_for_link()
    }

    /// Begins to send the data that the peer asks for, as segments: `window` bytes of it, or all for zero. It matched, or the peer
    /// would not ask.
    pub(crate) fn begin_data(&mut self, window: u64) {
        self.stage = Stage::Sending(0);
        self.unacked &= self.flags.contains(Flags::DELIVERY_COMPLETE);
        self.granted = granted(window);
    }

    /// Returns how many bytes may be sent now, of those that there are.
    fn allowed(&self) -> usize {
        self.granted.min(self.body.len())
    }

    /// Returns whether everything that the peer granted is sent, and there is more.
    pub(crate) fn awaits_window(&self) -> bool {
        matches!(self.stage, Stage::Sending(sent) if sent == self.granted)
    }

    /// Takes a larger window; returns whether it is one.
    pub(crate) fn widen(&mut self, window: u64) -> bool {
        let wider = granted(window);
        let is_wider = matches!(self.stage, Stage::Sending(_)) && wider > self.granted;
        if is_wider {
            self.granted = wider;
        }
        is_wider
    }

    /// Notes that the link took the first frame. If it carries the frame out by itself, no answer follows, unless one brings
    /// what an atomic fetched.
    pub(crate) fn note_posted(&mut self, limits: &Limits) {
        if limits.carries_out(&self.header) && self.result.is_none() {
            self.unacked = false;
        }
    }

    /// Chooses the protocol by the length of the message.
    fn after_first(&self, limits: &Limits) -> Stage {
        let len = self.body.len();
        let rndv = match self.header.kind {
            Kind::Msg => limits.rndv_msg,
            Kind::Tagged | Kind::Collective => limits.rndv_tagged,
            _ => limits.rndv_rma,
        };
        let is_whole = self.header.kind == Kind::Read
            || self.header.kind.is_atomic()
            || self.is_fetched()
            || limits.carries_out(&self.header);
        // A write that waits for an answer can be refused. Where nothing can be pulled, that would cost it a round trip.
        let waits = rndv && limits.pull && self.header.kind == Kind::Write;
        let is_access = matches!(self.header.kind, Kind::Write | Kind::Response);
        let may_be_segmented = limits.segmented_rma || !is_access;
        if len <= limits.eager || is_whole {
            Stage::Sent
        } else if len <= limits.segmented && !waits && may_be_segmented {
            Stage::Sending(limits.eager)
        } else if rndv {
            Stage::RtsSent
        } else {
            Stage::Sent
        }
    }

    fn rts_kind(&self) -> Kind {
        match self.header.kind {
            Kind::Msg => Kind::MsgRts,
            Kind::Tagged => Kind::TaggedRts,
            Kind::Collective => Kind::CollectiveRts,
            Kind::Write => Kind::WriteRts,
            Kind::Response => Kind::ResponseRts,
            other => other,
        }
    }

    fn segment(&self, offset: usize) -> Header {
        Header {
            kind: Kind::Segment,
            flags: HeaderFlags::empty(),
            tag: offset as u64,
            data: 0,
            ..self.header
        }
    }
}

/// Returns how much a window lets be sent.
fn granted(window: u64) -> usize {
    match window {
        0 => usize::MAX,
        window => usize::try_from(window).unwrap_or(usize::MAX),
    }
}

/// Makes the header of a send; its id is filled in where one is needed.
#[inline(always)]
pub(crate) fn header(op: &TxOp) -> Header {
    let mut flags = HeaderFlags::empty();
    flags.set(HeaderFlags::DATA, op.flags.contains(Flags::REMOTE_CQ_DATA));
    flags.set(
        HeaderFlags::DELIVERY,
        op.flags.contains(Flags::DELIVERY_COMPLETE),
    );
    flags.set(HeaderFlags::MATCH, op.flags.contains(Flags::MATCH_COMPLETE));
    let (kind, tag) = if op.flags.contains(Flags::TAGGED) {
        (Kind::Tagged, op.tag)
    } else if !op.flags.intersects(Flags::RMA.union(Flags::COLLECTIVE)) {
        (Kind::Msg, 0)
    } else if op.flags.contains(Flags::WRITE) {
        (Kind::Write, 0)
    } else if op.flags.contains(Flags::READ) {
        (Kind::Read, 0)
    } else if op.flags.contains(Flags::RMA) {
        (Kind::Response, op.tag)
    } else {
        (Kind::Collective, op.tag)
    };
    Header {
        kind,
        flags,
        id: 0,
        tag,
        data: if flags.contains(HeaderFlags::DATA) {
            op.data
        } else {
            0
        },
        len: op.body.len() as u64,
    }
}

/// Makes the header of a write; its id is filled in where one is needed.
#[inline(always)]
pub(crate) fn write_header(op: &RmaOp<'_>) -> Header {
    let mut flags = HeaderFlags::empty();
    let has_data = op.flags.contains(Flags::REMOTE_CQ_DATA);
    flags.set(HeaderFlags::DATA, has_data);
    flags.set(HeaderFlags::DELIVERY, wants_ack(op.flags));
    Header {
        kind: Kind::Write,
        flags,
        id: 0,
        tag: 0,
        data: if has_data { op.data } else { 0 },
        len: op.body.len() as u64,
    }
}
