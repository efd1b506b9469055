//! The receiving side: checks a peer's request as hardware does, places its bytes, and answers with its status.

use crate::adapter::Adapter;
use crate::io::{Completion, Op, Piece, RxDesc, UNKNOWN_AH};
use crate::memory;
use crate::objects::{State, access};
use crate::wire::{CHUNK, HAS_IMMEDIATE, Head, Kind, UNRELIABLE, status};

impl Adapter {
    /// Carries out a request, and returns its status and the bytes that it asked for.
    pub(crate) fn requested(&mut self, head: &Head, payload: &[u8]) -> (u8, Vec<u8>) {
        let done = match self.target(head) {
            Err(status) => Err(status),
            Ok((number, pd)) => match head.kind {
                Kind::Read => self.read(pd, head),
                Kind::Write => self.write(pd, head, payload),
                Kind::WriteImmediate => self.written(number, head),
                _ => self.message(number, head, payload),
            },
        };
        match done {
            Ok(bytes) => (status::OK, bytes),
            Err(status) => (status, Vec::new()),
        }
    }

    /// Returns the queue pair that a request is for, and its domain.
    fn target(&self, head: &Head) -> Result<(u32, u32), u8> {
        let number = self.by_number.get(&(head.nic, head.to_qp));
        let number = *number.ok_or(status::REMOTE_BAD_DEST_QPN)?;
        let qp = self.qps.get(number).ok_or(status::REMOTE_BAD_DEST_QPN)?;
        let is_same_kind = qp.is_reliable == (head.flags & UNRELIABLE == 0);
        if !is_same_kind || !qp.state.receives() || qp.attributes.qkey != head.qkey {
            return Err(status::REMOTE_BAD_DEST_QPN);
        }
        // Only messages may come from a peer that this side has no address handle of.
        let is_known = self.destinations.number(qp.pd, head.gid).is_some();
        if head.kind != Kind::Send && !is_known {
            return Err(status::REMOTE_UNKNOWN_PEER);
        }
        Ok((number, qp.pd))
    }

    fn read(&self, pd: u32, head: &Head) -> Result<Vec<u8>, u8> {
        let place = self.regions.locate(pd, piece(head), access::REMOTE_READ);
        let place = place.filter(|_| head.len <= CHUNK);
        let place = place.ok_or(status::REMOTE_BAD_ADDRESS)?;
        let mut bytes = vec![0; head.len as usize];
        memory::fetch(place, &mut bytes);
        Ok(bytes)
    }

    fn write(&self, pd: u32, head: &Head, payload: &[u8]) -> Result<Vec<u8>, u8> {
        let place = self.regions.locate(pd, piece(head), access::REMOTE_WRITE);
        let place = place.filter(|_| head.len as usize == payload.len());
        let place = place.ok_or(status::REMOTE_BAD_ADDRESS)?;
        memory::store(place, payload);
        Ok(Vec::new())
    }

    /// Reports a write with immediate data, whose bytes are all there.
    fn written(&mut self, number: u32, head: &Head) -> Result<Vec<u8>, u8> {
        let qp = self.qps.get(number).ok_or(status::REMOTE_BAD_DEST_QPN)?;
        let receive = if qp.is_unsolicited {
            None
        } else {
            let receive = qp.peek_receive().ok_or(status::REMOTE_RNR)?;
            Some((
                receive.first().map_or(0, |first| first.req_id),
                receive.len(),
            ))
        };
        let completion = Completion {
            req_id: receive.map_or(0, |(req_id, _)| req_id),
            op: Op::Write.number(),
            is_unsolicited: receive.is_none(),
            len: head.len,
            ..self.from(number, head)
        };
        self.deliver(number, receive.map_or(0, |(_, pieces)| pieces), &completion)
    }

    /// Puts a message into the next receive.
    fn message(&mut self, number: u32, head: &Head, payload: &[u8]) -> Result<Vec<u8>, u8> {
        let qp = self.qps.get(number).ok_or(status::REMOTE_BAD_DEST_QPN)?;
        let pd = qp.pd;
        let receive = qp.peek_receive().ok_or(status::REMOTE_RNR)?;
        let with_header = (!qp.is_reliable).then(|| self.with_header(qp.nic, head, payload));
        let payload = with_header.as_deref().unwrap_or(payload);
        let room: usize = receive.iter().map(|desc| desc.piece.len as usize).sum();
        if room < payload.len() {
            return Err(status::REMOTE_BAD_LENGTH);
        }
        let is_placed = self.place(pd, &receive, payload);
        let completion = Completion {
            req_id: receive.first().map_or(0, |first| first.req_id),
            status: if is_placed {
                status::OK
            } else {
                status::INVALID_LKEY
            },
            len: payload.len() as u32,
            ..self.from(number, head)
        };
        let delivered = self.deliver(number, receive.len(), &completion);
        if is_placed {
            delivered
        } else {
            Err(status::REMOTE_BAD_STATUS)
        }
    }

    /// Returns a datagram as it is received: behind 40 bytes of global routing header, which is laid out as that of IPv6.
    fn with_header(&self, nic: u8, head: &Head, payload: &[u8]) -> Vec<u8> {
        let own = self.nics.get(usize::from(nic));
        let len = (payload.len() as u16).to_be_bytes();
        let own = own.map_or([0; 16], |nic| nic.gid);
        [
            &[0x60, 0, 0, 0][..],
            &len,
            &[0x1b, 64],
            &head.gid,
            &own,
            payload,
        ]
        .concat()
    }

    /// Copies a message into the pieces of a receive. Returns false, with nothing copied, if a key does not fit.
    fn place(&self, pd: u32, receive: &[RxDesc], payload: &[u8]) -> bool {
        let mut rest = payload;
        let mut places = Vec::with_capacity(receive.len());
        for desc in receive {
            let (part, behind) = rest.split_at(rest.len().min(desc.piece.len as usize));
            rest = behind;
            if part.is_empty() {
                continue;
            }
            let place = self.regions.locate(pd, desc.piece, access::LOCAL_WRITE);
            match place {
                Some(place) => places.push((place, part)),
                None => return false,
            }
        }
        for (place, part) in places {
            memory::store(place, part);
        }
        true
    }

    /// Returns a completion that says where a request came from.
    fn from(&self, number: u32, head: &Head) -> Completion {
        let qp = self.qps.get(number);
        let ah = qp.and_then(|qp| self.destinations.number(qp.pd, head.gid));
        Completion {
            is_receive: true,
            qp: head.to_qp,
            from_ah: ah.unwrap_or(UNKNOWN_AH),
            from_qp: head.from_qp,
            from_gid: head.gid,
            immediate: (head.flags & HAS_IMMEDIATE != 0).then_some(head.immediate),
            ..Completion::default()
        }
    }

    /// Uses up a receive and completes it.
    fn deliver(
        &mut self,
        number: u32,
        pieces: usize,
        completion: &Completion,
    ) -> Result<Vec<u8>, u8> {
        let qp = self.qps.get_mut(number);
        let qp = qp.ok_or(status::REMOTE_BAD_DEST_QPN)?;
        qp.consume_receive(pieces);
        let cq = qp.recv_cq;
        if self.complete(cq, completion) {
            return Ok(Vec::new());
        }
        if let Some(qp) = self.qps.get_mut(number) {
            qp.state = State::Err;
        }
        Err(status::REMOTE_ABORT)
    }
}

/// Returns the memory that a request names.
fn piece(head: &Head) -> Piece {
    Piece {
        addr: head.addr,
        len: head.len,
        key: head.key,
    }
}
