//! Completions: how an operation of a queue pair ended (ibv_poll_cq(3)).

use std::fmt;

use crate::Gid;

/// How an operation ended: the numbers of `enum ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

impl Status {
    /// The operation succeeded.
    pub const SUCCESS: Self = Self(0);
    /// The message is too long.
    pub const LOC_LEN_ERR: Self = Self(1);
    /// The queue pair, the operation or the address handle does not fit.
    pub const LOC_QP_OP_ERR: Self = Self(2);
    /// A local key does not fit its memory.
    pub const LOC_PROT_ERR: Self = Self(4);
    /// The queue pair was in error.
    pub const WR_FLUSH_ERR: Self = Self(5);
    /// The peer's receive is too short.
    pub const REM_INV_REQ_ERR: Self = Self(9);
    /// The peer's key does not fit its memory.
    pub const REM_ACCESS_ERR: Self = Self(10);
    /// The peer had posted no receive (receiver not ready), until the retries were used up.
    pub const RNR_RETRY_EXC_ERR: Self = Self(13);
    /// On EFA: the peer has no such queue pair.
    pub const REM_INV_RD_REQ_ERR: Self = Self(15);
    /// The peer ended the operation.
    pub const REM_ABORT_ERR: Self = Self(16);
    /// The peer does not answer, or no longer.
    pub const RESP_TIMEOUT_ERR: Self = Self(20);
    /// Another error, which [`Completion::vendor_err`] tells.
    pub const GENERAL_ERR: Self = Self(21);

    /// Returns the name without its prefix.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 24] = [
            "SUCCESS",
            "LOC_LEN_ERR",
            "LOC_QP_OP_ERR",
            "LOC_EEC_OP_ERR",
            "LOC_PROT_ERR",
            "WR_FLUSH_ERR",
            "MW_BIND_ERR",
            "BAD_RESP_ERR",
            "LOC_ACCESS_ERR",
            "REM_INV_REQ_ERR",
            "REM_ACCESS_ERR",
            "REM_OP_ERR",
            "RETRY_EXC_ERR",
            "RNR_RETRY_EXC_ERR",
            "LOC_RDD_VIOL_ERR",
            "REM_INV_RD_REQ_ERR",
            "REM_ABORT_ERR",
            "INV_EECN_ERR",
            "INV_EEC_STATE_ERR",
            "FATAL_ERR",
            "RESP_TIMEOUT_ERR",
            "GENERAL_ERR",
            "TM_ERR",
            "TM_RNDV_INCOMPLETE",
        ];
        NAMES.get(self.0 as usize).unwrap_or(&"unknown")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of operation that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// A message was sent.
    Send,
    /// Memory of a peer was written.
    RdmaWrite,
    /// Memory of a peer was read.
    RdmaRead,
    /// A message was received.
    Recv,
    /// A peer wrote memory of this side, with immediate data.
    RecvRdmaWithImm,
    /// Another one, by its number of `enum ibv_wc_opcode`.
    Other(u32),
}

impl Opcode {
    /// Returns the operation with this number of `enum ibv_wc_opcode`.
    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Send,
            1 => Self::RdmaWrite,
            2 => Self::RdmaRead,
            128 => Self::Recv,
            129 => Self::RecvRdmaWithImm,
            other => Self::Other(other),
        }
    }
}

/// A completion: what a completion queue says about an operation. After an error only `wr_id`, `status`,
/// `vendor_err` and `is_unsolicited` mean something; of a send, read or write of this side only those and `opcode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The id that the operation was posted with.
    pub wr_id: u64,
    /// How the operation ended.
    pub status: Status,
    /// The vendor's number of an error; on EFA one of `enum efa_io_comp_status`.
    pub vendor_err: u32,
    /// Which operation it was.
    pub opcode: Opcode,
    /// How many bytes were received.
    pub byte_len: u32,
    /// Immediate data, in the machine's order.
    pub imm_data: Option<u32>,
    /// The queue pair that a message came from.
    pub src_qp: u32,
    /// On EFA the number of the address handle that a message came from, 0xffff if it has none.
    pub slid: u32,
    /// The GID that a message came from, if it has no address handle and the queue was made with [`crate::CqOptions::sgid`].
    pub sgid: Option<Gid>,
    /// A peer's write with immediate data that used up no receive, so `wr_id` is that of none.
    pub is_unsolicited: bool,
}

/// What a completion says of a message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many bytes were received.
    pub len: u32,
    /// The queue pair that it came from.
    pub src_qp: u32,
    /// On EFA the number of the address handle that it came from, 0xffff if it has none.
    pub slid: u32,
}

impl Completion {
    /// Returns what it says of a message that was received; `None` if it is anything else.
    pub fn received(&self) -> Option<Received> {
        let is_message = self.status == Status::SUCCESS && self.opcode == Opcode::Recv;
        (is_message && !self.is_unsolicited).then_some(Received {
            len: self.byte_len,
            src_qp: self.src_qp,
            slid: self.slid,
        })
    }

    /// The value of the elements of an array that a poll has not filled.
    pub const NONE: Self = Self {
        wr_id: 0,
        status: Status::SUCCESS,
        vendor_err: 0,
        opcode: Opcode::Send,
        byte_len: 0,
        imm_data: None,
        src_qp: 0,
        slid: 0,
        sgid: None,
        is_unsolicited: false,
    };
}
