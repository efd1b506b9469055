//! Accesses that the network carries out by itself, as RDMA does: the engine of the peer knows nothing of them, unless data is
//! sent with one.

use oxifabric_collectives::arithmetic::{self, Form};
use oxifabric_engine::{
    Body, Frame, Header, HeaderFlags, Kind, Limits, Placement, RemoteWrite, Sink, Target, TxToken,
    Update,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};

use crate::access::{self, Regions};
use crate::in_flight::bytes;

/// An access that is under way.
pub(crate) struct Access {
    /// Memory of the initiator.
    local: Iov,
    pub(crate) token: TxToken,
}

/// An access that was carried out.
pub(crate) struct Ended {
    pub(crate) token: TxToken,
    result: Result<(), Errno>,
    /// What an atomic fetched, with the id of its request.
    fetched: Option<(u32, Vec<u8>)>,
}

impl Access {
    /// Takes a frame that the network carries out by itself.
    pub(crate) fn of(frame: &Frame<'_>, token: TxToken, limits: &Limits) -> Option<Self> {
        let local = || match frame.transient {
            true => frame.body.duplicate().expect("accesses are short"),
            false => frame.body.clone(),
        };
        limits.carries_out(&frame.header).then(|| Self {
            local: local(),
            token,
        })
    }

    /// Reads, writes or updates memory of the peer, or skips that, to test the checkers.
    pub(crate) fn carry_out(
        self,
        header: &Header,
        targets: &[Target],
        regions: &Regions,
        skip: bool,
    ) -> Ended {
        let mut fetched = None;
        let region = access::find(regions, targets);
        if let Ok(region) = &region
            && !skip
        {
            match header.kind {
                Kind::Write => drop(region.copy_from(0, &self.local)),
                Kind::Read => drop(self.local.copy_from(0, region)),
                _ => fetched = update(header, region, &self.local).map(|old| (header.id, old)),
            }
        }
        Ended {
            token: self.token,
            result: region.map(|_| ()),
            fetched,
        }
    }
}

impl Ended {
    /// Notifies the peer, if data was sent along.
    pub(crate) fn notify(
        &self,
        header: &Header,
        targets: &[Target],
        from: PeerId,
        sink: &mut impl Sink,
    ) {
        let has_data = header.flags.contains(HeaderFlags::DATA) && header.kind == Kind::Write;
        if has_data && self.result.is_ok() {
            let write = RemoteWrite {
                data: header.data,
                len: header.len,
                key: targets.first().map_or(0, |target| target.key),
            };
            sink.written(from, write);
        }
    }
}

/// Reports to the initiator what was carried out; returns how much.
pub(crate) fn report(ended: &mut Vec<Ended>, peer: PeerId, sink: &mut impl Sink) -> usize {
    let count = ended.len();
    for Ended {
        token,
        result,
        fetched,
    } in ended.drain(..)
    {
        sink.sent(token, result);
        if let Some((id, old)) = fetched {
            let response = Header {
                kind: Kind::Response,
                flags: HeaderFlags::empty(),
                id: 0,
                tag: u64::from(id),
                data: 0,
                len: old.len() as u64,
            };
            let placement = sink.arrival(peer, &response, Body::Whole(&old));
            assert!(matches!(placement, Placement::Done), "{placement:?}");
        }
    }
    count
}

/// Carries out an atomic; returns what it fetched, if it fetches.
fn update(header: &Header, region: &Iov, operand: &Iov) -> Option<Vec<u8>> {
    let update = Update::from_header(header).expect("applications know what there is");
    let old = bytes(region);
    let mut new = old.clone();
    let operand = bytes(operand);
    let is_known = match update.form {
        Form::Compare => {
            let (operand, compare) = operand.split_at(operand.len() / 2);
            let (datatype, operation) = (update.datatype, update.operation);
            arithmetic::compare_swap(datatype, operation, &mut new, operand, compare)
        }
        _ => arithmetic::combine(update.datatype, update.operation, &mut new, &operand),
    };
    assert!(is_known, "applications know what there is");
    region.write(0, &new);
    (update.form != Form::Base).then_some(old)
}
