//! Rendezvous: an Rts announces a long message, and its data moves once a receive matched.
//!
//! The receiver pulls the data from the sender's memory and sends `Fin`, or asks for it by `Cts` and gets it as
//! segments. Which of the two depends on the link and on the two processes: where the kernel forbids a pull, the receiver
//! sends `Cts` instead, and the application notices nothing.

use oxifabric_mem::Iov;
use oxifabric_types::Errno;

use crate::engine::Engine;
use crate::matching::Arrival;
use crate::message::{MatchState, Message, RxData, cost};
use crate::peer::Reply;
use crate::shared::placement_for;
use crate::slab::Key;
use crate::tx::Step;
use crate::{
    Announced, Body, Completions, Frame, Header, HeaderFlags, Kind, Link, Placement, PostError,
    Posted, RemoteIov, RxToken, Target, TxToken, WaitEvent,
};

impl Engine {
    /// Takes an Rts whose message the link can copy at once: it does if a receive that is posted has space for all of it. Then the message never
    /// becomes a [`Message`].
    #[inline]
    pub(crate) fn announced(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        pieces: &[Target],
        copy: &mut dyn FnMut(&Iov) -> bool,
    ) -> Announced {
        let may_copy = arrival.len != 0
            && cover(pieces, arrival.len)
            && !self.unexpected.knows(arrival.from, arrival.id)
            && !self.unexpected.is_full(arrival.from)
            && self.peers.can_reply(arrival.from);
        if may_copy && self.posted.copy(arrival, copy, out) {
            self.retry_stalled = true;
            return Announced::Copied;
        }
        Announced::Placed(match RemoteIov::new(pieces) {
            Some(remote) => self.rts_arrived(out, arrival, Body::Remote(remote), 0),
            None => Placement::Refuse,
        })
    }

    /// Takes an Rts that has arrived, with `held` bytes of its message, which the link keeps.
    pub(crate) fn rts_arrived(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        body: Body<'_>,
        held: usize,
    ) -> Placement {
        let remote = match body {
            Body::Remote(remote) if covers(&remote, arrival.len) => Some(remote),
            Body::Whole([]) | Body::Stream(0) => None,
            _ => return Placement::Refuse,
        };
        if arrival.len == 0 || self.unexpected.knows(arrival.from, arrival.id) {
            return Placement::Refuse;
        }
        if self.unexpected.is_full(arrival.from) || !self.peers.can_reply(arrival.from) {
            return self.stall(arrival.from);
        }
        let placement = self.posted.take(arrival, out);
        let (match_state, matched) = match placement.or_else(|| placement_for(out, arrival)) {
            Some(placement) => (MatchState::Matched(placement), true),
            None if self.has_room(out, arrival.from, cost(held)) => (MatchState::Waiting, false),
            None => return self.stall(arrival.from),
        };
        let mut message = Message::new(*arrival, RxData::Remote(remote), match_state);
        message.held = held;
        // The sender learns of the match from the answer to its Rts.
        message.arrival.flags.remove(HeaderFlags::MATCH);
        if let Some(key) = self.unexpected.insert(message) {
            if matched {
                self.peers.reply(arrival.from, Reply::Begin(key));
            } else {
                self.note_wait(out, WaitEvent::Begun, key);
            }
        }
        Placement::Done
    }

    /// Begins to move the data of a message that an Rts announced and that is matched or dropped now.
    ///
    /// The message is found by its sender's id from its Cts on: no frame refers to it before, and none to one that is pulled.
    pub(crate) fn begin(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        key: Key,
    ) -> Step {
        let Some(message) = self.unexpected.get_mut(key) else {
            return Step::Last;
        };
        let Arrival { from: peer, id, .. } = message.arrival;
        let RxData::Remote(remote) = message.rx_data else {
            return Step::Last;
        };
        if let Some(remote) = remote.filter(|_| link.limits(peer).pull) {
            return self.pull(link, out, key, &remote);
        }
        let cts = cts(&message.arrival);
        if self.unexpected.knows(peer, id) {
            self.give_up(out, key, Errno::PROTO);
            return Step::Last;
        }
        match link.post(peer, bare(cts), TxToken(Key::NONE.raw())) {
            Ok(_) => self.unexpected.await_segments(key),
            Err(PostError::Again) => return Step::Blocked,
            Err(PostError::Down(errno)) => self.give_up(out, key, errno),
        }
        Step::Last
    }

    /// Pulls the part of a matched message that fits its receive; of a dropped message, nothing.
    fn pull(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        key: Key,
        remote: &RemoteIov,
    ) -> Step {
        let Some(message) = self.unexpected.get_mut(key) else {
            return Step::Last;
        };
        let (peer, len) = (message.arrival.from, message.arrival.len);
        let into = match &message.match_state {
            MatchState::Matched(placement) => placement.part(0, len),
            _ => Iov::empty(),
        };
        if into.is_empty() {
            self.end_pull(out, key, Ok(()));
            return Step::Last;
        }
        match link.pull(peer, remote, into, RxToken(key.raw())) {
            Ok(Posted::Pending) => message.moving += 1,
            Ok(Posted::Done) => self.end_pull(out, key, Ok(())),
            Err(PostError::Again) => return Step::Blocked,
            // The peer may be there all the same, and its send waits for an end.
            Err(PostError::Down(errno)) => self.end_pull(out, key, Err(errno)),
        }
        Step::Last
    }

    /// Handles the end of a pull.
    pub(crate) fn body_pulled(
        &mut self,
        out: &mut impl Completions,
        key: Key,
        result: Result<(), Errno>,
    ) {
        let Some(message) = self.unexpected.get_mut(key) else {
            return;
        };
        if message.moving == 0 || !matches!(message.rx_data, RxData::Remote(_)) {
            return;
        }
        message.moving = 0;
        match result {
            Err(errno) if is_forbidden(errno) => {
                message.rx_data = RxData::Remote(None);
                self.peers.reply(message.arrival.from, Reply::Begin(key));
            }
            result => self.end_pull(out, key, result),
        }
    }

    /// Ends a message whose data was pulled, could not be, or is not wanted, and tells its sender.
    fn end_pull(&mut self, out: &mut impl Completions, key: Key, result: Result<(), Errno>) {
        if let Some(message) = self.unexpected.get_mut(key) {
            let (peer, id) = (message.arrival.from, message.arrival.id);
            // Fin takes the place of any acknowledgement.
            message.arrival.flags &= HeaderFlags::DATA;
            self.peers.reply(peer, Reply::Fin(id, result));
            self.finish(out, key, result);
        }
    }
}

/// Returns the frame of an answer, which has no body.
pub(crate) fn bare(header: Header) -> Frame<'static> {
    const NOTHING: &Iov = &Iov::empty();
    Frame {
        transient: true,
        ..Frame::whole(header, NOTHING)
    }
}

/// Returns the header of an answer.
pub(crate) const fn answer(kind: Kind, id: u32, data: u64) -> Header {
    Header {
        kind,
        flags: HeaderFlags::empty(),
        id,
        tag: 0,
        data,
        len: 0,
    }
}

fn cts(arrival: &Arrival) -> Header {
    Header {
        len: arrival.len as u64,
        ..answer(Kind::Cts, arrival.id, 0)
    }
}

/// Returns whether the memory that an Rts names has as many bytes as it says.
pub(crate) fn covers(remote: &RemoteIov, len: usize) -> bool {
    cover(remote.pieces(), len)
}

fn cover(pieces: &[Target], len: usize) -> bool {
    let add = |sum: u64, piece: &Target| sum.checked_add(piece.len);
    let total = pieces.iter().try_fold(0, add);
    total.is_some_and(|total| total >= len as u64)
}

/// Returns whether a pull failed because this pair of processes may not do it at all.
fn is_forbidden(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::PERM | Errno::ACCES | Errno::NOSYS | Errno::OPNOTSUPP
    )
}
