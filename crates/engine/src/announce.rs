//! Announcements that go to the link in the call that begins their operation, where nothing waits for the peer. Path class: hot.
//!
//! Any other one becomes a [`Transmit`] first, and goes when its turn has come ([`crate::tx`]).

use oxifabric_mem::Iov;
use oxifabric_types::{Flags, PeerId};

use crate::engine::Engine;
use crate::slab::Key;
use crate::transmit::{Stage, Transmit, frames};
use crate::{
    Completions, Frame, Header, Kind, Limits, Link, PostError, Posted, RmaOp, Target, TxOp, TxToken,
};

/// Flags of operations that do not go at once, or whose memory is not here any more when the peer asks for it.
const APART: Flags = Flags::INJECT.union(Flags::FENCE);

impl Engine {
    /// Announces a message that is to be announced, to a peer for which nothing waits; returns the operation where that is not so, or the link takes nothing.
    #[inline(always)]
    pub(crate) fn announce_message<L: Link>(
        &mut self,
        link: &mut L,
        out: &mut impl Completions,
        op: TxOp,
        key: Key,
    ) -> Result<(), TxOp> {
        let header = frames::header(&op);
        let kind = match header.kind {
            Kind::Msg => Kind::MsgRts,
            Kind::Tagged => Kind::TaggedRts,
            _ => return Err(op),
        };
        if op.flags.intersects(APART)
            || !self.peers.is_clear(op.peer)
            || !announces::<L>(link.limits(op.peer), kind, op.body.len())
        {
            return Err(op);
        }
        let id = key.raw();
        let header = Header { kind, id, ..header };
        match self.post_rts(link, op.peer, header, (&op.body, op.flags), &[]) {
            Err(PostError::Again) => Err(op),
            posted => {
                self.keep_announced(out, Transmit::new(op, key), posted, key);
                Ok(())
            }
        }
    }

    /// Announces a write that is to be announced, to a peer for which nothing waits; returns the operation where that is not so, or the link takes nothing.
    #[inline(always)]
    pub(crate) fn announce_write<'a, L: Link>(
        &mut self,
        link: &mut L,
        out: &mut impl Completions,
        op: RmaOp<'a>,
        key: Key,
    ) -> Result<(), RmaOp<'a>> {
        let limits = link.limits(op.peer);
        // One that can be refused waits for an answer, whatever its length. One that waits for its match has another header.
        const OTHERS: Flags = APART.union(Flags::READ).union(Flags::MATCH_COMPLETE);
        if op.flags.intersects(OTHERS)
            || !(limits.rndv_rma && limits.pull)
            || !self.peers.is_clear(op.peer)
        {
            return Err(op);
        }
        let header = Header {
            kind: Kind::WriteRts,
            id: key.raw(),
            ..frames::write_header(&op)
        };
        match self.post_rts(link, op.peer, header, (&op.body, op.flags), op.targets) {
            Err(PostError::Again) => Err(op),
            posted => {
                self.keep_announced(out, Transmit::rma_posted(op, key), posted, key);
                Ok(())
            }
        }
    }

    /// Posts an Rts for memory, of an operation with these flags.
    #[inline(always)]
    fn post_rts(
        &mut self,
        link: &mut impl Link,
        peer: PeerId,
        header: Header,
        (body, flags): (&Iov, Flags),
        targets: &[Target],
    ) -> Result<Posted, PostError> {
        let frame = Frame {
            targets,
            more: flags.contains(Flags::MORE),
            ..Frame::whole(header, body)
        };
        let posted = link.post(peer, frame, TxToken(header.id));
        if posted == Err(PostError::Again) {
            self.peers.block(peer);
        }
        posted
    }

    /// Keeps what was announced until the peer answers, or reports that it could not be.
    #[inline(always)]
    fn keep_announced(
        &mut self,
        out: &mut impl Completions,
        mut transmit: Transmit,
        posted: Result<Posted, PostError>,
        key: Key,
    ) {
        transmit.stage = Stage::RtsSent;
        transmit.pending = u32::from(posted == Ok(Posted::Pending));
        self.retry_stalled = true;
        // The key is the vacant one, so there is room for it.
        let _ = self.sends.insert(transmit);
        if let Err(PostError::Down(errno)) = posted {
            self.fail_send(out, key, errno);
        }
    }
}

/// Returns whether a message of this kind and length is announced.
#[inline(always)]
fn announces<L: Link>(limits: &Limits, kind: Kind, len: usize) -> bool {
    let is_offered = match kind {
        Kind::MsgRts => limits.rndv_msg,
        _ => limits.rndv_tagged,
    };
    is_offered && len > limits.longest_whole::<L>() && len > limits.segmented
}
