//! Queue pairs.

use crate::io::{RX_DESC_LEN, RxDesc, WQE_LEN, Wqe};
use crate::memory::Mapping;

/// States of `enum ibv_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Err,
}

impl State {
    const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// Returns the state with this number.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether messages are received in it.
    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }
}

/// The capacities that a queue pair was made with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capacity {
    pub(crate) send_wr: u32,
    pub(crate) recv_wr: u32,
    pub(crate) send_sge: u32,
    pub(crate) recv_sge: u32,
    pub(crate) inline: u32,
}

/// What modify_qp sets besides the state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) qkey: u32,
    pub(crate) sq_psn: u32,
    pub(crate) pkey_index: u16,
    pub(crate) port: u8,
    pub(crate) rnr_retry: u8,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) context: u32,
    pub(crate) nic: u8,
    pub(crate) pd: u32,
    pub(crate) number: u16,
    /// Scalable reliable datagrams, else datagrams without reliability.
    pub(crate) is_reliable: bool,
    /// Writes with immediate data need no receive.
    pub(crate) is_unsolicited: bool,
    pub(crate) state: State,
    pub(crate) attributes: Attributes,
    pub(crate) capacity: Capacity,
    pub(crate) sq_sig_all: u8,
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    /// Of the send queue at 0, of the receive queue at 8.
    pub(crate) doorbells: Mapping,
    pub(crate) send_ring: Option<Mapping>,
    pub(crate) recv_ring: Option<Mapping>,
    pub(crate) send_mask: u16,
    pub(crate) recv_mask: u16,
    pub(crate) send_head: u16,
    pub(crate) recv_head: u16,
}

/// Where the doorbell of the receive queue is.
pub(crate) const RECV_DOORBELL: usize = 8;

impl Qp {
    /// Takes the next send request, if the application has rung for one.
    pub(crate) fn next_send(&mut self) -> Option<Wqe> {
        let posted = self.doorbells.load(0) as u16;
        let ring = self.send_ring.as_ref()?;
        if posted == self.send_head {
            return None;
        }
        let place = usize::from(self.send_head & self.send_mask) * WQE_LEN;
        self.send_head = self.send_head.wrapping_add(1);
        Some(Wqe(ring.read(place)))
    }

    /// Returns how many send requests the application has rung for that are not taken.
    pub(crate) fn waiting_sends(&self) -> usize {
        let posted = self.doorbells.load(0) as u16;
        usize::from(posted.wrapping_sub(self.send_head))
    }

    /// Returns the pieces of the next receive, if the application has posted one.
    pub(crate) fn peek_receive(&self) -> Option<Vec<RxDesc>> {
        let posted = self.doorbells.load(RECV_DOORBELL) as u16;
        let ring = self.recv_ring.as_ref()?;
        let mut pieces = Vec::new();
        let mut at = self.recv_head;
        while at != posted {
            let place = usize::from(at & self.recv_mask) * RX_DESC_LEN;
            let piece = RxDesc::parse(ring.read(place));
            at = at.wrapping_add(1);
            if piece.is_first != pieces.is_empty() {
                return None;
            }
            pieces.push(piece);
            if piece.is_last {
                return Some(pieces);
            }
        }
        None
    }

    /// Uses up a receive of so many pieces.
    pub(crate) fn consume_receive(&mut self, pieces: usize) {
        self.recv_head = self.recv_head.wrapping_add(pieces as u16);
    }

    /// Forgets what is posted, as the library does when it resets a queue pair.
    pub(crate) fn reset(&mut self) {
        self.send_head = 0;
        self.recv_head = 0;
        self.doorbells.clear();
    }
}
