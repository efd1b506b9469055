//! The adapter as the link under an engine: its frames, and accesses that adapters carry out.

use oxifabric_engine::{
    Frame, Header, HeaderFlags, Kind, Limits, Link, PostError, Posted, RemoteIov, RemoteWrite,
    RxToken, Sink, Target, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

use super::head::{Access, FrameHead, Head, Load};
use super::requests::{End, Task};
use super::sender::{Sender, Then};
use super::{ACCESSES_MAX, SimNic, liveness};

impl Link for SimNic {
    const IN_ORDER: bool = false;

    fn limits(&self, _peer: PeerId) -> &Limits {
        &self.limits
    }

    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        match self.limits.carries_out(&frame.header) {
            true => self.post_access(peer, &frame, token),
            false => self.post_frame(peer, &frame, token),
        }
    }

    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        self.push(peer, || {
            let targets = remote.pieces().into();
            let task = Task::new(Access::Read, into, targets, End::Pulled(token));
            Some(task)
        })
    }

    fn flush(&mut self) {}

    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        let _ = now;
        self.turn(sink)
    }

    fn resume(&mut self, peer: PeerId) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.is_stalled = false;
            // The poll may have ended already.
            self.set_due();
        }
    }

    fn disconnect(&mut self, peer: PeerId, why: &'static str) -> bool {
        let Some(row) = self.peers.get_mut(peer) else {
            return false;
        };
        let has_something = row.is_connected() || !row.is_done();
        if has_something && row.ending.is_none() {
            row.ending = Some((Errno::CONNRESET, why));
            self.active.insert(peer);
            self.set_due();
        }
        has_something
    }
}

impl SimNic {
    /// Sends a frame, if one more may be under way.
    fn post_frame(
        &mut self,
        to: PeerId,
        frame: &Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        self.send_hello(to)?;
        let row = self.peers.get_mut(to).ok_or(PostError::Again)?;
        let may_go = row.ending.is_none() && !row.requests.has_unsent();
        let Some(sender) = row
            .sender
            .as_mut()
            .filter(|sender| may_go && sender.has_room())
        else {
            row.is_blocked = true;
            return Err(PostError::Again);
        };
        let header = frame.header;
        let stays = is_rts(header.kind);
        let has_body = header.kind.carries_body() && frame.len > 0;
        let awaits = frame.transmit_complete || (!frame.transient && has_body);
        let then = if awaits {
            Then::Report(token)
        } else {
            Then::Nothing
        };
        let (number, after) = sender.number(Some(&header), then, self.order);
        let generation = sender.generation;
        let remote = match &self.memory {
            Some(memory) if stays && self.limits.pull => {
                let key = memory.expose(frame.body);
                if let Some(before) = row.rndv_keys.insert(header.id, key) {
                    memory.withdraw(before);
                }
                let len = frame.body.len() as u64;
                RemoteIov::new(&[Target { addr: 0, len, key }])
            }
            _ => None,
        };
        let mut bytes = vec![
            0;
            if header.kind.carries_body() {
                frame.len
            } else {
                0
            }
        ];
        frame
            .body
            .slice(frame.offset, bytes.len())
            .read(0, &mut bytes);
        let load = Load::Engine {
            header,
            targets: frame.targets.into(),
            remote,
        };
        let head = FrameHead {
            generation,
            number,
            after,
            load,
        };
        let place = row.place;
        self.send(place, Head::Frame(head), bytes);
        self.await_answer(to);
        Ok(match awaits {
            true => Posted::Pending,
            false => Posted::Done,
        })
    }

    /// Takes an access that the adapters carry out.
    fn post_access(
        &mut self,
        to: PeerId,
        frame: &Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        self.push(to, || {
            let header = frame.header;
            let access = match header.kind {
                Kind::Read => Access::Read,
                Kind::Write => Access::Write,
                _ => Access::Atomic(header),
            };
            let local = match frame.transient {
                true => frame.body.duplicate()?,
                false => frame.body.clone(),
            };
            let mut task = Task::new(access, local, frame.targets.into(), End::Sent(token));
            let has_data = header.kind == Kind::Write && header.flags.contains(HeaderFlags::DATA);
            task.report = has_data.then_some(header);
            Some(task)
        })
    }

    /// Takes an access, unless there are too many, or there is no memory for it.
    fn push(
        &mut self,
        to: PeerId,
        task: impl FnOnce() -> Option<Task>,
    ) -> Result<Posted, PostError> {
        let row = self
            .peers
            .get_mut(to)
            .ok_or(PostError::Down(Errno::INVAL))?;
        if row.ending.is_some() || row.requests.len() >= ACCESSES_MAX {
            row.is_blocked = true;
            return Err(PostError::Again);
        }
        let task = task().ok_or(PostError::Down(Errno::NOMEM))?;
        row.requests.push(task);
        self.pump(to);
        self.await_answer(to);
        Ok(Posted::Pending)
    }

    /// Sends the first Hello to a peer, if this adapter has not done so.
    fn send_hello(&mut self, to: PeerId) -> Result<(), PostError> {
        let world = &self.station.world;
        let row = self
            .peers
            .get_mut(to)
            .ok_or(PostError::Down(Errno::INVAL))?;
        if row.sender.is_some() || row.ending.is_some() {
            return Ok(());
        }
        let generation = world.with(crate::network::Network::begin);
        row.sender = Some(Sender::new(generation));
        row.is_absent = false;
        row.silent_since = Some(world.now());
        row.hello = Some((
            world.now().after(liveness::HELLO_AGAIN),
            liveness::HELLO_AGAIN,
        ));
        let place = row.place;
        self.send(place, Head::Hello(generation, self.incarnation), Vec::new());
        self.await_answer(to);
        Ok(())
    }

    /// Sends requests to a peer, and reports of writes, as far as there is room for them.
    pub(super) fn pump(&mut self, to: PeerId) {
        loop {
            let Some(row) = self.peers.get_mut(to) else {
                return;
            };
            let Some((request, bytes)) = row.requests.next(self.limits.segment, &mut self.requests)
            else {
                break;
            };
            let place = row.place;
            self.send(place, Head::Request(request), bytes);
        }
        self.report_writes(to);
    }

    /// Notifies a peer of writes with data that are carried out.
    fn report_writes(&mut self, to: PeerId) {
        let order = self.order;
        loop {
            let report = self.peers.get(to).and_then(|row| row.requests.report());
            let Some((task, header, key)) = report else {
                return;
            };
            if self.send_hello(to).is_err() {
                return;
            }
            let Some(row) = self.peers.get_mut(to) else {
                return;
            };
            let Some(sender) = row.sender.as_mut().filter(|sender| sender.has_room()) else {
                return;
            };
            let (number, after) = sender.number(None, Then::End(task), order);
            let load = Load::Written(RemoteWrite {
                data: header.data,
                len: header.len,
                key,
            });
            let head = FrameHead {
                generation: sender.generation,
                number,
                after,
                load,
            };
            row.requests.reported();
            let place = row.place;
            self.send(place, Head::Frame(head), Vec::new());
        }
    }

    /// Notes that an answer of a peer is awaited from now on.
    fn await_answer(&mut self, peer: PeerId) {
        let now = self.station.world.now();
        let is_new = self.active.insert(peer);
        if let Some(row) = self.peers.get_mut(peer).filter(|_| is_new) {
            row.silent_since = Some(now);
        }
        self.look_by(now.after(self.peer_timeout / 4));
    }

    /// Returns the header of what an atomic fetched.
    pub(super) const fn response(id: u32, len: usize) -> Header {
        Header {
            kind: Kind::Response,
            flags: HeaderFlags::empty(),
            id: 0,
            tag: id as u64,
            data: 0,
            len: len as u64,
        }
    }
}

const fn is_rts(kind: Kind) -> bool {
    use Kind::{CollectiveRts, MsgRts, ResponseRts, TaggedRts, WriteRts};
    matches!(
        kind,
        MsgRts | TaggedRts | WriteRts | ResponseRts | CollectiveRts
    )
}
