//! What the device has sent, read or written, or failed to, and what is made again because its receiver was not ready. Path class: hot.
//!
//! A request is made again as long as its peer is there: a peer that is to be given up ends only when the device has nothing of it. An endpoint that is being closed
//! reads no memory of the application any more, and makes only those again that take none (docs/adr/0061).

use oxifabric_engine::Sink;
use oxifabric_ibv::{Completion, Status};
use oxifabric_types::{Errno, PeerId};

use super::repeats::{Fate, Unready};
use super::tx::{Sent, What};
use super::{Deferred, EfaRdm};
use crate::status;

/// The status of a device for a message whose receiver had posted no receive.
const NOT_READY: u32 = 10;

impl What {
    /// Returns whether the device reads or writes memory of a peer: what is wrong with that need not be wrong with the peer.
    const fn is_access(self) -> bool {
        matches!(self, Self::Access(_) | Self::Pull(_) | Self::Piece(_))
    }

    /// Tells the engine of the end of what is one request. Others have a count of theirs. Returns the id of the announced message of whose end the peer is to be told.
    #[inline(always)]
    fn tell(self, result: Result<(), Errno>, sink: &mut impl Sink) -> Option<u32> {
        match self {
            Self::Packet(Some(token)) | Self::Message(token, _) | Self::Access(token) => {
                sink.sent(token, result);
                None
            }
            Self::Pull(token) => sink.end_pull(token, result),
            Self::Packet(None) | Self::Part(_) | Self::Piece(_) => None,
        }
    }
}

impl EfaRdm {
    /// Handles the end of a request that is no receive and was carried out.
    #[inline(always)]
    pub(super) fn sent_well(&mut self, wr_id: u64, sink: &mut impl Sink) {
        if let Some((at, sent)) = self.tx.ended(wr_id) {
            self.over(at, sent, Ok(()), sink);
        }
    }

    /// Handles the end of a request that is no receive; returns whether it is over, and not to be made again.
    #[inline(never)]
    pub(super) fn sent(&mut self, completion: &Completion, sink: &mut impl Sink) -> bool {
        let is_good = completion.status == Status::SUCCESS;
        if !is_good && completion.vendor_err == NOT_READY {
            return self.not_ready(completion.wr_id, sink);
        }
        let Some((at, sent)) = self.tx.ended(completion.wr_id) else {
            return true;
        };
        let result = match is_good {
            true => Ok(()),
            false => Err(self.failed(sent, completion.vendor_err)),
        };
        self.over(at, sent, result, sink);
        true
    }

    /// Tells of the end of a request whose buffer is idle again, but still as it was.
    #[inline(always)]
    fn over(&mut self, at: u32, sent: Sent, result: Result<(), Errno>, sink: &mut impl Sink) {
        match sent.what {
            What::Part(part) => {
                if let Some((token, result)) = self.parts.ended(part, result) {
                    sink.sent(token, result);
                }
            }
            What::Piece(piece) => self.piece_ended(at, piece, result, sink),
            whole => {
                if let Some(id) = whole.tell(result, sink) {
                    self.tell_read(sent.peer, id);
                }
            }
        }
    }

    /// Tells a peer that what it announced was read: now, or when there is room.
    fn tell_read(&mut self, peer: PeerId, id: u32) {
        let told = match self.may_post() {
            true => self.finish(peer, id, 0),
            false => Err(Errno::AGAIN),
        };
        if told.is_err() {
            self.retry(peer, told, Deferred::Read(peer, id));
        }
    }

    /// Returns why a request failed, by the device's status. A peer to which a packet could not be delivered is given up.
    fn failed(&mut self, sent: Sent, code: u32) -> Errno {
        if sent.what.is_access() {
            return self.not_carried_out(sent.peer, code);
        }
        let error = status::error(code, false);
        let at = self.peers.directory().address(sent.peer);
        self.doom(
            sent.peer,
            error.errno,
            status::explain(error.code, at.as_ref()),
        );
        error.errno
    }

    /// Handles a send whose receiver was not ready: it is made again, or fails by itself where the application said that it sees to that. Returns
    /// whether it is over.
    fn not_ready(&mut self, wr_id: u64, sink: &mut impl Sink) -> bool {
        let fate = self.fate(wr_id);
        match fate {
            Fate::Again => {
                self.tx.not_ready(wr_id, self.now);
                self.idle_period.end();
            }
            Fate::Ends(why) => self.give_up(wr_id, why, sink),
            Fate::Fails => self.fail_not_ready(wr_id, sink),
        }
        fate.is_event()
    }

    /// Ends a message whose receiver was not ready, and nothing else.
    fn fail_not_ready(&mut self, wr_id: u64, sink: &mut impl Sink) {
        if let Some((_, sent)) = self.tx.ended(wr_id)
            && let What::Message(token, receipt) = sent.what
        {
            if let Some(id) = receipt {
                self.operations.remove(sent.peer, id);
            }
            sink.sent(token, Err(status::error(NOT_READY, false).errno));
        }
    }

    /// Makes requests again whose receivers were not ready; returns how many are given up instead.
    #[inline(always)]
    pub(super) fn repeat(&mut self, sink: &mut impl Sink) -> usize {
        match self.tx.repeats_at().is_none() {
            true => 0,
            false => self.repeat_due(sink),
        }
    }

    #[cold]
    fn repeat_due(&mut self, sink: &mut impl Sink) -> usize {
        let mut given_up = 0;
        while let Some(at) = self.tx.due(self.now) {
            if let Fate::Ends(why) = self.fate(at.into()) {
                self.give_up(at.into(), why, sink);
                given_up += 1;
            } else if let Some(sent) = self.tx.sent(at.into())
                && let Some(row) = self.peers.get(sent.peer)
            {
                self.tx
                    .repeat(&mut self.qp, row.destination(), at, self.now);
            }
        }
        given_up
    }

    /// Returns what becomes of a request whose receiver was not ready.
    fn fate(&self, wr_id: u64) -> Fate {
        let unready = Unready {
            is_closing: self.is_closing,
            is_lent: self.tx.is_lent(wr_id),
            given_up: self
                .tx
                .sent(wr_id)
                .and_then(|sent| self.given_up(sent.peer)),
            may_fail: self.tx.may_fail(wr_id),
        };
        unready.fate()
    }

    /// Ends a request that the device does not have.
    fn give_up(&mut self, wr_id: u64, why: Errno, sink: &mut impl Sink) {
        if let Some((at, sent)) = self.tx.ended(wr_id) {
            self.over(at, sent, Err(why), sink);
        }
    }

    /// Returns why a peer is gone, or will be at the end of this poll or a later one.
    fn given_up(&self, peer: PeerId) -> Option<Errno> {
        let Some(row) = self.peers.get(peer) else {
            return Some(Errno::CONNRESET);
        };
        if row.is_doomed {
            let cause = self.doomed.iter().find(|(doomed, _)| *doomed == peer);
            return Some(cause.map_or(Errno::CONNRESET, |(_, why)| *why));
        }
        row.gone
    }
}

#[cfg(test)]
mod tests {
    use oxifabric_engine::{Body, Header, Placement, RxToken, TxToken};

    use super::*;

    /// What the engine was told: of ends of sends and accesses, and of ends of pulls.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Told {
        sent: Vec<(TxToken, Result<(), Errno>)>,
        pulled: Vec<(RxToken, Result<(), Errno>)>,
    }

    impl Sink for Told {
        fn arrival(&mut self, _: PeerId, _: &Header, _: Body<'_>) -> Placement {
            Placement::Refuse
        }

        fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}

        fn sent(&mut self, token: TxToken, result: Result<(), Errno>) {
            self.sent.push((token, result));
        }

        fn pulled(&mut self, token: RxToken, result: Result<(), Errno>) {
            self.pulled.push((token, result));
        }

        fn end_pull(&mut self, token: RxToken, result: Result<(), Errno>) -> Option<u32> {
            self.pulled(token, result);
            result.is_ok().then_some(3)
        }

        fn writable(&mut self, _: PeerId) {}

        fn peer_down(&mut self, _: PeerId, _: Errno) {}
    }

    fn told(what: What, result: Result<(), Errno>) -> (Told, Option<u32>) {
        let mut told = Told::default();
        let id = what.tell(result, &mut told);
        (told, id)
    }

    #[test]
    fn the_end_of_a_pull_is_that_of_a_receive() {
        for result in [Ok(()), Err(Errno::IO)] {
            let expected = Told {
                pulled: vec![(RxToken(7), result)],
                ..Told::default()
            };
            let id = result.is_ok().then_some(3);
            assert_eq!(told(What::Pull(RxToken(7)), result), (expected, id));
        }
        assert!(What::Pull(RxToken(7)).is_access(), "it can fail alone");
    }

    #[test]
    fn the_end_of_a_send_or_an_access_is_told_once() {
        let token = TxToken(7);
        let expected = Told {
            sent: vec![(token, Ok(()))],
            ..Told::default()
        };
        let all = [
            What::Packet(Some(token)),
            What::Message(token, None),
            What::Access(token),
        ];
        for what in all {
            let (told, id) = told(what, Ok(()));
            assert_eq!((&told, id), (&expected, None));
        }
        assert_eq!(all.map(What::is_access), [false, false, true]);
        assert_eq!(told(What::Packet(None), Ok(())), (Told::default(), None));
    }
}
