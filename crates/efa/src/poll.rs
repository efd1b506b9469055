//! Polls the completion queue of a device. Path class: hot.

use oxifabric_ibv::{Completion, Opcode, Status};
use oxifabric_provider::queues::{ReceivedMessage, WorkEnd, WorkId};
use oxifabric_types::PeerId;

use crate::post::{RECEIVE, wire_data};
use crate::queue_pair::QueuePair;
use crate::status;

/// How many completions are taken at a time, and how often in one poll: other endpoints have a turn then.
const BATCH: usize = 16;
const BATCHES: usize = 4;

impl QueuePair {
    /// Reports the work that has ended to `ended`, in order.
    #[inline]
    pub(crate) fn poll(&mut self, ended: &mut impl FnMut(WorkEnd)) {
        for completion in std::mem::take(&mut self.polled) {
            self.tell(&completion, ended);
        }
        for _ in 0..BATCHES {
            let mut batch = [Completion::NONE; BATCH];
            let count = self.cq.poll(&mut batch);
            for completion in batch.iter().take(count) {
                self.tell(completion, ended);
            }
            if count < BATCH {
                return;
            }
        }
    }

    /// Takes completions off the queue and keeps them for the next poll: at most one batch.
    pub(crate) fn fill(&mut self) {
        let mut batch = [Completion::NONE; BATCH];
        let count = self.cq.poll(&mut batch);
        self.polled.extend_from_slice(&batch[..count]);
    }

    #[inline]
    fn tell(&mut self, completion: &Completion, ended: &mut impl FnMut(WorkEnd)) {
        if completion.status != Status::SUCCESS {
            return ended(failed(completion));
        }
        let id = WorkId::from_raw(completion.wr_id & !RECEIVE);
        let len = completion.byte_len as usize;
        let data = completion
            .imm_data
            .map(|data| u64::from(wire_data(data.into())));
        ended(match completion.opcode {
            Opcode::Recv => WorkEnd::Received {
                id,
                result: Ok(ReceivedMessage {
                    from: self.source(completion),
                    len,
                    data,
                }),
            },
            Opcode::RecvRdmaWithImm => WorkEnd::Written {
                receive: (!completion.is_unsolicited).then_some(id),
                from: self.source(completion),
                len,
                data: data.unwrap_or(0),
            },
            Opcode::Send | Opcode::RdmaRead | Opcode::RdmaWrite | Opcode::Other(_) => {
                WorkEnd::Sent { id, result: Ok(()) }
            }
        });
    }

    fn source(&mut self, message: &Completion) -> PeerId {
        match self.names_sources {
            true => self.peers.source(&self.domain, message),
            false => PeerId::ANY,
        }
    }
}

/// Describes work that failed. The completion of failed work has no opcode: its id alone says whether it was a receive.
fn failed(completion: &Completion) -> WorkEnd {
    let id = WorkId::from_raw(completion.wr_id & !RECEIVE);
    let is_receive = completion.wr_id & RECEIVE != 0;
    let error = status::error(completion.vendor_err, is_receive);
    match is_receive {
        true => WorkEnd::Received {
            id,
            result: Err(error),
        },
        false => WorkEnd::Sent {
            id,
            result: Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use oxifabric_types::Errno;

    use super::*;

    #[test]
    fn the_id_of_failed_work_says_whether_it_was_a_receive() {
        let end = |wr_id| {
            failed(&Completion {
                wr_id,
                status: Status::WR_FLUSH_ERR,
                vendor_err: 1,
                ..Completion::NONE
            })
        };
        let raw = 7 | 3 << 32;
        let id = WorkId::from_raw(raw);
        let sent = end(raw);
        assert!(
            matches!(sent, WorkEnd::Sent { id: told, result: Err(error) }
            if told == id && error.errno == Errno::CANCELED && error.code == 1)
        );
        let received = end(raw | RECEIVE);
        assert!(matches!(received, WorkEnd::Received { id: told, .. } if told == id));
    }
}
