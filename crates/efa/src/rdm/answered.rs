//! What peers answer to operations of this end: that data may come, is here, or never will be. Path class: warm.

use oxifabric_engine::{Body, Kind, Sink};
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::Reference;

use super::EfaRdm;
use super::operations::OperationKind;
use super::reply::error_of;
use super::take::{Taken, answer};

impl EfaRdm {
    pub(super) fn take_cts(
        &mut self,
        peer: PeerId,
        send_id: u32,
        recv_id: u32,
        len: u64,
        sink: &mut impl Sink,
    ) -> Taken {
        let Some(OperationKind::Offer(offer)) = self.operations.get(peer, send_id) else {
            return Taken::Done;
        };
        if len == 0 || offer.recv_id.is_some_and(|known| known != recv_id) {
            return Taken::Broken;
        }
        offer.recv_id = Some(recv_id);
        offer.granted = offer.granted.saturating_add(len);
        let granted = if offer.granted >= offer.len {
            0
        } else {
            offer.granted
        };
        let header = answer(Kind::Cts, offer.mine, granted, offer.len);
        sink.arrival(peer, &header, Body::Whole(&[])).into()
    }

    pub(super) fn take_receipt(&mut self, peer: PeerId, id: u32, sink: &mut impl Sink) -> Taken {
        let mine = match self.operations.get(peer, id) {
            Some(OperationKind::Sent { mine }) => mine,
            Some(OperationKind::Settling) => {
                self.operations.remove(peer, id);
                self.settled(peer);
                return Taken::Done;
            }
            _ => return Taken::Done,
        };
        let header = answer(Kind::Ack, *mine, 0, 0);
        self.operations.remove(peer, id);
        sink.arrival(peer, &header, Body::Whole(&[])).into()
    }

    /// Ends an operation that the peer has given up.
    pub(super) fn take_error(
        &mut self,
        peer: PeerId,
        id: u32,
        reference: Reference,
        cause: u32,
        sink: &mut impl Sink,
    ) -> Taken {
        if reference == Reference::Operation
            && let Some(mine) = self
                .operations
                .get(peer, id)
                .and_then(|kind| kind.fails_alone())
        {
            let header = answer(Kind::Fin, mine, error_of(cause).raw() as u64, 0);
            self.operations.remove(peer, id);
            self.mine.remove(&mine);
            return sink.arrival(peer, &header, Body::Whole(&[])).into();
        }
        // What it had promised to send does not come, and others wait for it.
        self.doom(
            peer,
            Errno::CONNABORTED,
            "it gave up what it was sending".to_owned(),
        );
        Taken::Done
    }
}
