//! What the link calls while it is polled: arrivals are sorted by kind, tokens become keys again.

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};

use crate::engine::Engine;
use crate::matching::{Arrival, Class, verdict};
use crate::peer::Peers;
use crate::rma;
use crate::slab::Key;
use crate::{
    Announced, Body, Completions, Header, Kind, OpenRegion, Placement, RemoteIov, RemoteWrite,
    RxToken, Sink, Target, TxToken,
};

/// The engine as a link sees it, with the completions that arrivals lead to.
pub(crate) struct EngineSink<'a, C> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) out: &'a mut C,
}

impl<C: Completions> EngineSink<'_, C> {
    /// Takes an arrival that is not the first frame of a message with its body.
    #[inline(never)]
    fn other_arrival(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        match header.kind {
            Kind::MsgRts => self.rts(from, Class::Msg, header, body, 0),
            Kind::TaggedRts => self.rts(from, Class::Tagged, header, body, 0),
            Kind::Collective | Kind::CollectiveRts => {
                self.engine.collective_message(self.out, from, header, body)
            }
            Kind::Response | Kind::ResponseRts => {
                self.engine.response(self.out, from, header, body)
            }
            Kind::Segment => self.engine.segment(self.out, from, header, body, true),
            Kind::Cts | Kind::Ack | Kind::Fin => self.answer(from, header, body),
            Kind::Msg | Kind::Tagged => Placement::Refuse,
            // What names memory of this endpoint comes through `access`.
            Kind::Write | Kind::WriteRts | Kind::Read => Placement::Refuse,
            Kind::Atomic | Kind::FetchAtomic | Kind::CompareAtomic => Placement::Refuse,
        }
    }

    fn rts(
        &mut self,
        from: PeerId,
        class: Class,
        header: &Header,
        body: Body<'_>,
        held: usize,
    ) -> Placement {
        match Arrival::new(from, class, header) {
            Some(arrival) => self.engine.rts_arrived(self.out, &arrival, body, held),
            None => Placement::Refuse,
        }
    }

    fn answer(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        if !matches!(body, Body::Whole([]) | Body::Stream(0)) {
            return Placement::Refuse;
        }
        match (header.kind, verdict(header.data)) {
            (Kind::Cts, _) => self.engine.asked(from, header.id, header.data),
            (Kind::Fin, result) => self.engine.finished(self.out, from, header.id, result),
            _ => self.engine.acked(self.out, from, header.id),
        }
    }
}

impl<C: Completions> Sink for EngineSink<'_, C> {
    #[inline(always)]
    fn arrival(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        if !Peers::is_valid(from) {
            return Placement::Refuse;
        }
        // One call for both, so that it is compiled into its place.
        let class = match header.kind {
            Kind::Msg => Class::Msg,
            Kind::Tagged => Class::Tagged,
            // A copy, so that nothing else keeps the header in memory.
            _ => return self.other_arrival(from, &{ *header }, body),
        };
        match Arrival::new(from, class, header) {
            Some(arrival) => self.engine.message(self.out, &arrival, body),
            None => Placement::Refuse,
        }
    }

    #[inline]
    fn announced(
        &mut self,
        from: PeerId,
        header: &Header,
        pieces: &[Target],
        copy: &mut dyn FnMut(&Iov) -> bool,
    ) -> Announced {
        let class = match header.kind {
            Kind::MsgRts => Class::Msg,
            Kind::TaggedRts => Class::Tagged,
            _ => return Announced::Placed(Placement::Refuse),
        };
        match Arrival::new(from, class, header) {
            Some(arrival) if Peers::is_valid(from) => {
                self.engine.announced(self.out, &arrival, pieces, copy)
            }
            _ => Announced::Placed(Placement::Refuse),
        }
    }

    #[inline(always)]
    fn begin_pull(
        &mut self,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        remote: &RemoteIov,
    ) -> Placement {
        if !Peers::is_valid(from) {
            return Placement::Refuse;
        }
        let class = match header.kind {
            Kind::MsgRts => Class::Msg,
            Kind::TaggedRts => Class::Tagged,
            Kind::WriteRts => Class::Write,
            _ => return Placement::Refuse,
        };
        match Arrival::new(from, class, header) {
            Some(arrival) => self.engine.begin_pull(self.out, &arrival, targets, remote),
            None => Placement::Refuse,
        }
    }

    fn put_off(&mut self, token: RxToken, remote: &RemoteIov) {
        self.engine.put_off(Key::from_raw(token.0), remote);
    }

    #[inline(always)]
    fn access(
        &mut self,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        body: Body<'_>,
    ) -> Placement {
        if !Peers::is_valid(from) {
            return Placement::Refuse;
        }
        match header.kind {
            Kind::Write | Kind::WriteRts => {
                self.engine.write(self.out, from, header, targets, body)
            }
            Kind::Read => self.engine.read(self.out, from, header, targets),
            Kind::Atomic | Kind::FetchAtomic | Kind::CompareAtomic => {
                self.engine.update(self.out, from, header, targets, body)
            }
            _ => Placement::Refuse,
        }
    }

    fn announced_in_part(&mut self, from: PeerId, header: &Header, held: usize) -> Placement {
        let nothing = Body::Whole(&[]);
        match header.kind {
            _ if !Peers::is_valid(from) => Placement::Refuse,
            Kind::MsgRts => self.rts(from, Class::Msg, header, nothing, held),
            Kind::TaggedRts => self.rts(from, Class::Tagged, header, nothing, held),
            _ => Placement::Refuse,
        }
    }

    fn unordered_segment(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        match header.kind {
            Kind::Segment => self.engine.segment(self.out, from, header, body, false),
            _ => Placement::Refuse,
        }
    }

    fn written(&mut self, from: PeerId, write: RemoteWrite) {
        rma::written(self.out, from, write);
    }

    fn open_region(&self, key: u64) -> Option<OpenRegion> {
        self.out.open_region(key)
    }

    fn placed(&mut self, token: RxToken, result: Result<(), Errno>) {
        let key = Key::from_raw(token.0);
        self.engine.body_placed(self.out, key, result);
    }

    fn sent(&mut self, token: TxToken, result: Result<(), Errno>) {
        let key = Key::from_raw(token.0);
        self.engine.frame_sent(self.out, key, result);
    }

    fn pulled(&mut self, token: RxToken, result: Result<(), Errno>) {
        let key = Key::from_raw(token.0);
        self.engine.body_pulled(self.out, key, result);
    }

    #[inline(always)]
    fn end_pull(&mut self, token: RxToken, result: Result<(), Errno>) -> Option<u32> {
        let key = Key::from_raw(token.0);
        self.engine.end_pull_now(self.out, key, result)
    }

    fn writable(&mut self, peer: PeerId) {
        self.engine.peers.unblock(peer);
    }

    fn peers_with_pending(&self, each: &mut dyn FnMut(PeerId)) {
        self.engine.peers_with_pending(each);
    }

    fn involved(&self, each: &mut dyn FnMut(PeerId)) {
        self.engine.involved(each);
    }

    fn is_known(&self, peer: PeerId) -> bool {
        self.out.is_known(peer)
    }

    fn forget_peer(&mut self, peer: PeerId) {
        self.engine.forget_peer(self.out, peer);
    }

    fn is_waiting(&self) -> bool {
        self.engine.posted.len() != 0
    }

    fn holds(&self, peer: PeerId) -> bool {
        self.engine.unexpected.any_from(peer, |_| true)
    }

    fn peer_down(&mut self, peer: PeerId, why: Errno) {
        self.engine.lose_peer(self.out, peer, why);
    }
}
