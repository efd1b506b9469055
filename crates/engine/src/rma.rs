//! Remote memory access: data whose place is known beforehand, fi_rma(3).
//!
//! A write is a message that a key matches instead of a receive; a read asks the peer for a message that its id
//! matches. Everything else, from segments to rendezvous, is shared with messages.

use oxifabric_types::{Errno, Flags, PeerId};

use crate::engine::Engine;
use crate::landing::Landing;
use crate::matching::{Arrival, Class};
use crate::message::{Fate, Kept, Message};
use crate::peer::{Peers, Reply};
use crate::rndv::covers;
use crate::slab::Key;
use crate::transmit::{self, Transmit};
use crate::{
    Body, Completion, Completions, Failure, Header, HeaderFlags, Kind, Link, Placement, RmaOp,
    Target,
};

impl Engine {
    /// Starts a read or a write, fi_rma(3).
    ///
    /// Operations to one peer begin there in the order of these calls and those of [`Engine::send`]. A read
    /// completes when the data is here, a write as a send does.
    ///
    /// # Errors
    /// As [`Engine::send`]. What the peer refuses is reported as a [`crate::Failure`].
    pub fn rma(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: RmaOp,
    ) -> Result<(), Errno> {
        if !Peers::is_valid(op.peer) {
            return Err(Errno::INVAL);
        }
        if self.sends.len() >= self.config.tx_size {
            return Err(Errno::AGAIN);
        }
        if op.peer == self.me {
            rma_with_self(out, &op);
            return Ok(());
        }
        let key = self.sends.vacant().ok_or(Errno::AGAIN)?;
        self.start(link, out, Transmit::rma(op, key), key)?;
        self.offer_stalled(link);
        Ok(())
    }

    /// A write arrives: its data goes where its targets say, if they may be written.
    pub(crate) fn write(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        body: Body<'_>,
    ) -> Placement {
        let Some(arrival) = Arrival::new(from, Class::Write, header) else {
            return Placement::Refuse;
        };
        let region = match out.region(targets, Flags::REMOTE_WRITE) {
            Ok(region) if region.len() == arrival.len => region,
            Ok(_) => return Placement::Refuse,
            Err(errno) => return self.refuse_access(&arrival, header, &body, errno),
        };
        let landing = Landing {
            room: arrival.len,
            body: region,
            offset: 0,
            flags: match arrival.flags.contains(HeaderFlags::DATA) {
                true => Flags::COMPLETION,
                false => Flags::empty(),
            },
            context: first_key(targets),
            shared: Key::NONE,
        };
        let is_offer = header.kind == Kind::WriteRts;
        self.land(out, arrival, Fate::Matched(landing), body, is_offer)
            .unwrap_or_else(|_| self.stall(from))
    }

    /// The peer asks for data of this endpoint's memory.
    pub(crate) fn read(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        targets: &[Target],
    ) -> Placement {
        if !self.peers.can_reply(from) {
            return self.stall(from);
        }
        let region = match out.region(targets, Flags::REMOTE_READ) {
            Ok(region) if region.len() as u64 == header.len => region,
            Ok(_) => return Placement::Refuse,
            Err(errno) => {
                self.peers.reply(from, Reply::Fin(header.id, Err(errno)));
                return Placement::Done;
            }
        };
        let Some(key) = self.sends.vacant() else {
            return self.stall(from);
        };
        let response = Transmit::response(from, header.id, region, first_key(targets), key);
        // The key is the vacant one, so there is room for it.
        let _ = self.sends.insert(response);
        self.peers.queue_bulk(from, key);
        Placement::Done
    }

    /// The data that a read asked for arrives, or where it is.
    pub(crate) fn response(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        body: Body<'_>,
    ) -> Placement {
        let Ok(id) = u32::try_from(header.tag) else {
            return Placement::Refuse;
        };
        let key = Key::from_raw(id);
        let untagged = Header { tag: 0, ..*header };
        let read = self.sends.get(key).filter(|send| send.peer == from);
        let Some(read) = read.filter(|read| read.awaits_response()) else {
            return Placement::Refuse;
        };
        let class = match read.flags.contains(Flags::ATOMIC) {
            true => Class::Fetched,
            false => Class::Response,
        };
        let Some(arrival) = Arrival::new(from, class, &untagged) else {
            return Placement::Refuse;
        };
        let place = read.response_place();
        if place.len() != arrival.len {
            return Placement::Refuse;
        }
        let landing = Landing {
            room: arrival.len,
            body: place.clone(),
            offset: 0,
            flags: read.flags,
            context: read.context(),
            shared: Key::NONE,
        };
        let is_offer = header.kind == Kind::ResponseRts;
        match self.land(out, arrival, Fate::Matched(landing), body, is_offer) {
            // The connection breaks, and the read fails with it.
            Ok(Placement::Refuse) => Placement::Refuse,
            Ok(placement) => {
                self.sends.remove(key);
                placement
            }
            Err(Full) => self.stall(from),
        }
    }

    /// Places a message of which is known what becomes of it.
    pub(crate) fn land(
        &mut self,
        out: &mut impl Completions,
        mut arrival: Arrival,
        fate: Fate,
        body: Body<'_>,
        is_offer: bool,
    ) -> Result<Placement, Full> {
        if self.unexpected.is_full() || !self.peers.can_reply(arrival.from) {
            return Err(Full);
        }
        let (kept, len) = match &body {
            Body::Whole(bytes) if !is_offer => (Kept::Nothing, bytes.len()),
            Body::Stream(len) if !is_offer => (Kept::Nothing, *len),
            Body::Whole([]) | Body::Stream(0) if arrival.len > 0 => (Kept::Remote(None), 0),
            Body::Remote(remote) if is_offer && covers(remote, arrival.len) => {
                (Kept::Remote(Some(*remote)), 0)
            }
            _ => return Ok(Placement::Refuse),
        };
        let (from, more_follows) = (arrival.from, len < arrival.len);
        if len > arrival.len || (more_follows && self.unexpected.knows(from, arrival.id)) {
            return Ok(Placement::Refuse);
        }
        if is_offer {
            // The sender learns of the match from the answer to its offer.
            arrival.flags.remove(HeaderFlags::MATCH);
        }
        let message = Message::new(arrival, kept, fate);
        let Some(key) = self.unexpected.insert(message) else {
            return Err(Full);
        };
        if more_follows {
            self.unexpected.name(key);
        }
        if is_offer {
            self.peers.reply(from, Reply::Begin(key));
            return Ok(Placement::Done);
        }
        Ok(self.place(out, key, len, body))
    }

    /// Tells the initiator of a write that it may not. Where the write has no name by which that could be said,
    /// the connection is dropped, so that it does not go unnoticed.
    fn refuse_access(
        &mut self,
        arrival: &Arrival,
        header: &Header,
        body: &Body<'_>,
        errno: Errno,
    ) -> Placement {
        let is_offer = header.kind == Kind::WriteRts;
        let is_named = is_offer || arrival.wants_ack();
        // Of a body in several frames, the others could not be told from those of a stranger.
        let is_over = match body {
            Body::Whole(bytes) => is_offer || bytes.len() == arrival.len,
            Body::Stream(len) => is_offer || *len == arrival.len,
            Body::Remote(_) => is_offer,
        };
        if !is_named || !is_over || !self.peers.can_reply(arrival.from) {
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

/// There is no room for one more message.
pub(crate) struct Full;

/// Returns what completions of accesses by peers have for a context.
fn first_key(targets: &[Target]) -> usize {
    targets.first().map_or(0, |target| target.key as usize)
}

/// Reads or writes memory of this endpoint itself.
fn rma_with_self(out: &mut impl Completions, op: &RmaOp) {
    let is_read = op.flags.contains(Flags::READ);
    let (remote, access) = match is_read {
        true => (Flags::RMA | Flags::REMOTE_READ, Flags::REMOTE_READ),
        false => (Flags::RMA | Flags::REMOTE_WRITE, Flags::REMOTE_WRITE),
    };
    let len = op.body.len() as u64;
    let mine = transmit::completion(op.flags, op.context, op.body.base() as usize, len);
    let region = match out.region(&op.targets, access) {
        Ok(region) if region.len() == op.body.len() => region,
        Ok(_) => return out.fail(failure(mine, Errno::INVAL)),
        Err(errno) => return out.fail(failure(mine, errno)),
    };
    if is_read {
        op.body.copy_from(0, &region);
    } else {
        region.copy_from(0, &op.body);
    }
    let has_data = !is_read && op.flags.contains(Flags::REMOTE_CQ_DATA);
    out.complete(mine);
    out.complete(Completion {
        context: first_key(&op.targets),
        flags: if has_data {
            remote | Flags::REMOTE_CQ_DATA
        } else {
            remote
        },
        len,
        buf: region.base() as usize,
        data: if has_data { op.data } else { 0 },
        tag: 0,
        from: op.peer,
        wanted: has_data,
    });
}

fn failure(op: Completion, errno: Errno) -> Failure {
    Failure {
        op,
        errno,
        overflow: 0,
    }
}
