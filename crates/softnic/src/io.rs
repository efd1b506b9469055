//! What libefa writes into its queues and reads from them: the layouts of `efa_io_defs.h` in rdma-core and in Linux.

/// The length of a send request in its ring.
pub(crate) const WQE_LEN: usize = 64;
/// The length of a receive buffer's description in its ring.
pub(crate) const RX_DESC_LEN: usize = 16;
/// The lengths of a completion: as it always was, and with the source's address.
pub(crate) const CQE_LEN: usize = 16;
pub(crate) const LONG_CQE_LEN: usize = 32;
/// The byte of a completion that has the phase, and so is written last.
pub(crate) const CQE_FLAGS: usize = 3;
/// How many bytes a send request carries by itself.
pub(crate) const INLINE_LEN: usize = 32;
/// The address handle in a completion if the source has none here.
pub(crate) const UNKNOWN_AH: u16 = 0xffff;

/// What a send request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Send,
    Read,
    Write,
}

impl Op {
    /// Returns the number of `enum efa_io_send_op_type`.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Send => 0,
            Self::Read => 1,
            Self::Write => 2,
        }
    }
}

/// A contiguous piece of memory with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) key: u32,
}

/// A send request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wqe(pub(crate) [u8; WQE_LEN]);

impl Wqe {
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from(self.u16_at(at)) | u32::from(self.u16_at(at + 2)) << 16
    }

    fn piece_at(&self, at: usize) -> Piece {
        Piece {
            len: self.u32_at(at),
            key: self.u32_at(at + 4),
            addr: u64::from(self.u32_at(at + 8)) | u64::from(self.u32_at(at + 12)) << 32,
        }
    }

    /// Returns the number by which the library finds the request again.
    pub(crate) fn req_id(&self) -> u16 {
        self.u16_at(0)
    }

    /// Returns the operation, if it is one.
    pub(crate) fn op(&self) -> Option<Op> {
        match self.0[2] & 0xf {
            0 => Some(Op::Send),
            1 => Some(Op::Read),
            2 => Some(Op::Write),
            _ => None,
        }
    }

    /// Whether it is a metadata descriptor, and the first and the last one of its request.
    pub(crate) fn is_whole(&self) -> bool {
        self.0[2] & 0x80 != 0 && self.0[3] & 0xc == 0xc
    }

    pub(crate) fn has_immediate(&self) -> bool {
        self.0[2] & 0x10 != 0
    }

    pub(crate) fn is_inline(&self) -> bool {
        self.0[2] & 0x20 != 0
    }

    /// Whether a completion is asked for.
    pub(crate) fn is_signalled(&self) -> bool {
        self.0[3] & 0x10 != 0
    }

    pub(crate) fn destination(&self) -> u16 {
        self.u16_at(4)
    }

    /// Returns the number of pieces, or of inline bytes.
    pub(crate) fn length(&self) -> usize {
        usize::from(self.u16_at(6))
    }

    pub(crate) fn immediate(&self) -> u32 {
        self.u32_at(8)
    }

    pub(crate) fn ah(&self) -> u16 {
        self.u16_at(12)
    }

    pub(crate) fn qkey(&self) -> u32 {
        self.u32_at(16)
    }

    /// Returns the bytes that the request carries by itself, if they fit.
    pub(crate) fn inline_data(&self) -> Option<&[u8]> {
        self.0[32..].get(..self.length())
    }

    /// Returns the pieces that a message is gathered from, if there are not too many.
    pub(crate) fn pieces(&self) -> Option<Vec<Piece>> {
        let count = self.length();
        let pieces = (0..count).map(|index| self.piece_at(32 + 16 * index));
        (count <= 2).then(|| pieces.collect())
    }

    /// Returns the peer's and the own memory of an access.
    pub(crate) fn access(&self) -> (Piece, Piece) {
        (self.piece_at(32), self.piece_at(48))
    }
}

/// The description of a receive buffer, or of a piece of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RxDesc {
    pub(crate) piece: Piece,
    pub(crate) req_id: u16,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

impl RxDesc {
    /// Reads a description as it is in the ring.
    pub(crate) fn parse(bytes: [u8; RX_DESC_LEN]) -> Self {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let control = u32_at(12);
        Self {
            piece: Piece {
                addr: u64::from(u32_at(0)) | u64::from(u32_at(4)) << 32,
                len: u16_at(10).into(),
                key: control & 0x00ff_ffff,
            },
            req_id: u16_at(8),
            is_first: control & 1 << 30 != 0,
            is_last: control & 1 << 31 != 0,
        }
    }
}

/// A completion, without its phase.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Completion {
    pub(crate) req_id: u16,
    pub(crate) status: u8,
    pub(crate) op: u8,
    pub(crate) is_receive: bool,
    /// No receive request was used up.
    pub(crate) is_unsolicited: bool,
    pub(crate) qp: u16,
    pub(crate) len: u32,
    pub(crate) from_ah: u16,
    pub(crate) from_qp: u16,
    pub(crate) immediate: Option<u32>,
    /// Written if the address handle is unknown and the queue has room for it.
    pub(crate) from_gid: [u8; 16],
}

impl Completion {
    /// Returns the entry of the queue, of which the first bytes are used if the queue's entries are short.
    pub(crate) fn entry(&self, phase: bool) -> [u8; LONG_CQE_LEN] {
        let mut entry = [0; LONG_CQE_LEN];
        let queue_type = if self.is_receive { 2 } else { 1 };
        entry[..2].copy_from_slice(&self.req_id.to_le_bytes());
        entry[2] = self.status;
        entry[CQE_FLAGS] = u8::from(phase)
            | queue_type << 1
            | u8::from(self.immediate.is_some()) << 3
            | self.op << 4
            | u8::from(self.is_unsolicited) << 7;
        entry[4..6].copy_from_slice(&self.qp.to_le_bytes());
        if !self.is_receive {
            return entry;
        }
        let [low, high] = [self.len as u16, (self.len >> 16) as u16];
        entry[6..8].copy_from_slice(&low.to_le_bytes());
        entry[8..10].copy_from_slice(&self.from_ah.to_le_bytes());
        entry[10..12].copy_from_slice(&self.from_qp.to_le_bytes());
        entry[12..16].copy_from_slice(&self.immediate.unwrap_or(0).to_le_bytes());
        if self.op == Op::Write.number() {
            entry[16..18].copy_from_slice(&high.to_le_bytes());
        } else if self.from_ah == UNKNOWN_AH {
            entry[16..].copy_from_slice(&self.from_gid);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_request_is_read_as_libefa_writes_it() {
        let mut bytes = [0; WQE_LEN];
        bytes[..8].copy_from_slice(&[5, 0, 0x91, 0x1c, 0x34, 0x12, 1, 0]);
        bytes[8..14].copy_from_slice(&[1, 2, 3, 4, 9, 0]);
        bytes[16..20].copy_from_slice(&0x1111_1111_u32.to_le_bytes());
        bytes[32..48].copy_from_slice(&[16, 0, 0, 0, 7, 0, 0, 0, 0, 0x10, 0, 0, 1, 0, 0, 0]);
        let wqe = Wqe(bytes);
        assert_eq!((wqe.req_id(), wqe.op()), (5, Some(Op::Read)));
        assert!(wqe.is_whole() && wqe.is_signalled() && wqe.has_immediate());
        assert_eq!(
            (wqe.destination(), wqe.ah(), wqe.qkey()),
            (0x1234, 9, 0x1111_1111)
        );
        let remote = Piece {
            addr: 0x1_0000_1000,
            len: 16,
            key: 7,
        };
        assert_eq!(wqe.access().0, remote);
        assert_eq!(wqe.pieces(), Some(vec![remote]));
        bytes[6] = 3;
        assert_eq!(Wqe(bytes).pieces(), None);
        bytes[6] = 33;
        assert_eq!(Wqe(bytes).inline_data(), None);
    }

    #[test]
    fn completions_have_the_bits_of_efa_io_defs() {
        let received = Completion {
            req_id: 0x0102,
            is_receive: true,
            qp: 3,
            len: 0x1_0004,
            from_ah: UNKNOWN_AH,
            from_qp: 6,
            immediate: Some(8),
            from_gid: [0xfe; 16],
            ..Completion::default()
        };
        let entry = received.entry(true);
        assert_eq!(entry[..8], [2, 1, 0, 0b1101, 3, 0, 4, 0]);
        assert_eq!(entry[8..16], [0xff, 0xff, 6, 0, 8, 0, 0, 0]);
        assert_eq!(entry[16..], [0xfe; 16]);
        let written = Completion {
            op: Op::Write.number(),
            is_unsolicited: true,
            ..received
        };
        assert_eq!(written.entry(false)[3], 0b1010_1100);
        assert_eq!(written.entry(false)[16..19], [1, 0, 0]);
    }
}
