//! Pulls: those that the engine asks for, and those that the link begins by itself, and whose end it tells the peer.

use std::mem;

use oxifabric_engine::{
    Frame, Header, HeaderFlags, Kind, Placement, PostError, Posted, RemoteIov, RxToken, Sink,
    Target, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};

use super::Net;

/// A pull that is under way.
pub(super) struct Pull {
    from: Iov,
    into: Iov,
    pub(super) token: RxToken,
}

/// The body of frames without one.
const NO_BODY: &Iov = &Iov::empty();

/// The token of frames of whose end the engine is not told.
const NO_TOKEN: TxToken = TxToken(u32::MAX);

impl Net {
    /// Begins to read what a peer announced.
    pub(super) fn pull(
        &mut self,
        me: usize,
        peer: usize,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        self.admit(me, peer)?;
        let Target {
            addr: address, len, ..
        } = remote.pieces()[0];
        if !self
            .rndv_addresses
            .values()
            .any(|&exposed| exposed == address)
        {
            self.broken_rule = Some(format!(
                "memory {address} was pulled, which is not exposed any more"
            ));
        }
        let from = self.remotes[address as usize].slice(0, into.len().min(len as usize));
        let index = self.index(me, peer);
        if self.lanes[index].pulls.is_empty() && !self.config.pull_forbidden && self.rng.chance(50)
        {
            into.copy_from(0, &from);
            return Ok(Posted::Done);
        }
        self.lanes[index].pulls.push(Pull { from, into, token });
        Ok(Posted::Pending)
    }

    /// Gives an endpoint an announcement of a peer, and begins to read what was announced, if that has a place.
    pub(super) fn begin_pull(
        &mut self,
        me: usize,
        peer: usize,
        (header, targets): (&Header, &[Target]),
        remote: &RemoteIov,
        sink: &mut impl Sink,
    ) -> Placement {
        let from = PeerId(peer as u32);
        let placement = sink.begin_pull(from, header, targets, remote);
        let Placement::Into(into, token) = placement else {
            return placement;
        };
        match self.pull(me, peer, remote, into, token) {
            Ok(Posted::Pending) => {}
            Ok(Posted::Done) => self.end_pull(me, peer, token, Ok(()), sink),
            Err(PostError::Again) => sink.put_off(token, remote),
            Err(PostError::Down(errno)) => sink.pulled(token, Err(errno)),
        }
        Placement::Done
    }

    /// Ends the pulls that are under way, and tells the peer of those that ended before; returns how much has happened.
    pub(super) fn end_pulls(&mut self, me: usize, peer: usize, sink: &mut impl Sink) -> usize {
        let index = self.index(me, peer);
        let result = match self.config.pull_forbidden {
            true => Err(Errno::PERM),
            false => Ok(()),
        };
        let pulls = mem::take(&mut self.lanes[index].pulls);
        let untold = mem::take(&mut self.lanes[index].untold);
        let events = pulls.len() + untold.len();
        untold.into_iter().for_each(|id| self.tell(me, peer, id));
        for Pull { from, into, token } in pulls {
            if result.is_ok() {
                into.copy_from(0, &from);
            }
            self.end_pull(me, peer, token, result, sink);
        }
        events
    }

    fn end_pull(
        &mut self,
        me: usize,
        peer: usize,
        token: RxToken,
        result: Result<(), Errno>,
        sink: &mut impl Sink,
    ) {
        if !self.config.pulls_unasked {
            sink.pulled(token, result);
        } else if let Some(id) = sink.end_pull(token, result) {
            self.tell(me, peer, id);
        }
    }

    /// Tells a peer that its message with this id was pulled, now or later.
    fn tell(&mut self, me: usize, peer: usize, id: u32) {
        let fin = Frame {
            transient: true,
            ..Frame::whole(
                Header {
                    kind: Kind::Fin,
                    flags: HeaderFlags::empty(),
                    id,
                    tag: 0,
                    data: 0,
                    len: 0,
                },
                NO_BODY,
            )
        };
        if let Err(PostError::Again) = self.post(me, peer, &fin, NO_TOKEN) {
            let index = self.index(me, peer);
            self.lanes[index].untold.push(id);
        }
    }
}
