//! What processes and the switch say to each other over their sockets.
//!
//! A packet is a head of 64 bytes in little endian and a payload. A request has an id of its sender's; whatever becomes of it, one answer with that
//! id comes back, or `Gone` for all requests to a process. So the sender alone counts what is under way, and what the switch and the receivers
//! have to keep is bounded by the senders' windows.

/// How many bytes the head of a packet has.
pub(crate) const HEAD_LEN: usize = 64;
/// The longest payload; longer accesses are cut.
pub(crate) const CHUNK: u32 = 32 << 10;
/// The longest packet.
pub(crate) const PACKET_LEN: usize = HEAD_LEN + CHUNK as usize;
/// How many QP numbers a process has; the number of a QP is the process's slot times this, plus something.
pub(crate) const QPS_PER_SLOT: u16 = 256;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A process begins: `nic` is its host, `addr` its process id.
    Hello,
    /// The switch answers: `slot` is the process's, `id` its first request id, the payload describes its NICs.
    Welcome,
    /// A message for a receive.
    Send,
    /// Asks for bytes.
    Read,
    /// Carries bytes to where they belong.
    Write,
    /// Tells the receiver that all bytes of a write are there.
    WriteImmediate,
    /// What became of a request; with the bytes, if it was a read.
    Answer,
    /// No request to `slot` will be answered any more; `status` says why.
    Gone,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Hello,
        Self::Welcome,
        Self::Send,
        Self::Read,
        Self::Write,
        Self::WriteImmediate,
        Self::Answer,
        Self::Gone,
    ];

    /// Whether this asks for an answer.
    pub(crate) fn is_request(self) -> bool {
        matches!(
            self,
            Self::Send | Self::Read | Self::Write | Self::WriteImmediate
        )
    }
}

/// The head of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) status: u8,
    pub(crate) flags: u8,
    /// The NIC of the process that sends or receives the packet, counted within its host.
    pub(crate) nic: u8,
    pub(crate) id: u32,
    /// The other process: where a packet came from when it is received, where an answer goes when it is sent.
    pub(crate) slot: u16,
    pub(crate) to_qp: u16,
    pub(crate) from_qp: u16,
    /// The NIC at the other end: where a request goes when it is sent, where it came from when it is received.
    pub(crate) gid: [u8; 16],
    pub(crate) qkey: u32,
    pub(crate) immediate: u32,
    pub(crate) addr: u64,
    pub(crate) key: u32,
    pub(crate) len: u32,
}

/// The sender is a queue pair of datagrams without reliability.
pub(crate) const UNRELIABLE: u8 = 1;
/// `immediate` means something.
pub(crate) const HAS_IMMEDIATE: u8 = 2;
/// In a `Welcome`: numbers of destroyed queue pairs, and of processes, are used again at once.
pub(crate) const REUSE: u8 = 4;

impl Head {
    /// Returns a head in which all but the kind is zero.
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            status: 0,
            flags: 0,
            nic: 0,
            id: 0,
            slot: 0,
            to_qp: 0,
            from_qp: 0,
            gid: [0; 16],
            qkey: 0,
            immediate: 0,
            addr: 0,
            key: 0,
            len: 0,
        }
    }

    /// Returns the answer to this request, as its receiver sends it.
    pub(crate) fn answer(&self, status: u8) -> Self {
        Self {
            status,
            id: self.id,
            slot: self.slot,
            nic: self.nic,
            ..Self::new(Kind::Answer)
        }
    }

    /// Returns a packet of this head and a payload.
    pub(crate) fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::with_capacity(HEAD_LEN + payload.len());
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind);
        packet.push(kind.map_or(0, |kind| kind as u8));
        packet.extend([self.status, self.flags, self.nic]);
        packet.extend(self.id.to_le_bytes());
        packet.extend(self.slot.to_le_bytes());
        packet.extend(self.to_qp.to_le_bytes());
        packet.extend(self.from_qp.to_le_bytes());
        packet.extend([0; 2]);
        packet.extend(self.gid);
        packet.extend(self.qkey.to_le_bytes());
        packet.extend(self.immediate.to_le_bytes());
        packet.extend(self.addr.to_le_bytes());
        packet.extend(self.key.to_le_bytes());
        packet.extend(self.len.to_le_bytes());
        packet.resize(HEAD_LEN, 0);
        packet.extend(payload);
        packet
    }

    /// Returns the head of a packet and its payload; `None` for what is none.
    pub(crate) fn parse(packet: &[u8]) -> Option<(Self, &[u8])> {
        let (head, payload) = packet.split_first_chunk::<HEAD_LEN>()?;
        let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let mut gid = [0; 16];
        gid.copy_from_slice(&head[16..32]);
        let head = Self {
            kind: *Kind::ALL.get(usize::from(head[0]))?,
            status: head[1],
            flags: head[2],
            nic: head[3],
            id: u32_at(4),
            slot: u16_at(8),
            to_qp: u16_at(10),
            from_qp: u16_at(12),
            gid,
            qkey: u32_at(32),
            immediate: u32_at(36),
            addr: u64::from(u32_at(40)) | u64::from(u32_at(44)) << 32,
            key: u32_at(48),
            len: u32_at(52),
        };
        Some((head, payload))
    }
}

/// What a process has to know about a NIC of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nic {
    pub(crate) gid: [u8; 16],
    pub(crate) mtu: u32,
    pub(crate) max_rdma: u32,
    /// The most regions that a process registers.
    pub(crate) regions: u32,
    /// Bits of `enum` EFA_QUERY_DEVICE_CAPS of rdma/efa-abi.h.
    pub(crate) caps: u32,
}

/// The length of the description of a NIC in a `Welcome`.
const NIC_LEN: usize = 32;

impl Nic {
    /// Returns the payload of a `Welcome`.
    pub(crate) fn payload(nics: &[Self]) -> Vec<u8> {
        let mut payload = Vec::with_capacity(nics.len() * NIC_LEN);
        for nic in nics {
            payload.extend(nic.gid);
            payload.extend(nic.mtu.to_le_bytes());
            payload.extend(nic.max_rdma.to_le_bytes());
            payload.extend(nic.caps.to_le_bytes());
            payload.extend(nic.regions.to_le_bytes());
        }
        payload
    }

    /// Returns the NICs that a `Welcome` describes.
    pub(crate) fn parse(payload: &[u8]) -> Vec<Self> {
        let (descriptions, _) = payload.as_chunks::<NIC_LEN>();
        let nics = descriptions.iter().map(|bytes| {
            let u32_at = |at: usize| {
                u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            };
            let mut gid = [0; 16];
            gid.copy_from_slice(&bytes[..16]);
            Self {
                gid,
                mtu: u32_at(16),
                max_rdma: u32_at(20),
                caps: u32_at(24),
                regions: u32_at(28),
            }
        });
        nics.collect()
    }
}

/// The causes of failure that a device reports, of `enum efa_io_comp_status` in rdma-core's efa_io_defs.h.
pub(crate) mod status {
    pub(crate) const OK: u8 = 0;
    pub(crate) const FLUSHED: u8 = 1;
    pub(crate) const INTERNAL: u8 = 2;
    pub(crate) const UNSUPPORTED_OP: u8 = 3;
    pub(crate) const INVALID_AH: u8 = 4;
    pub(crate) const INVALID_LKEY: u8 = 5;
    pub(crate) const BAD_LENGTH: u8 = 6;
    pub(crate) const REMOTE_BAD_ADDRESS: u8 = 7;
    pub(crate) const REMOTE_ABORT: u8 = 8;
    pub(crate) const REMOTE_BAD_DEST_QPN: u8 = 9;
    pub(crate) const REMOTE_RNR: u8 = 10;
    pub(crate) const REMOTE_BAD_LENGTH: u8 = 11;
    pub(crate) const REMOTE_BAD_STATUS: u8 = 12;
    pub(crate) const UNRESPONSIVE_REMOTE: u8 = 13;
    pub(crate) const REMOTE_UNKNOWN_PEER: u8 = 14;
    pub(crate) const UNREACHABLE_REMOTE: u8 = 15;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_survives_its_journey() {
        let head = Head {
            status: 9,
            flags: HAS_IMMEDIATE,
            nic: 3,
            id: 0x1234_5678,
            slot: 7,
            to_qp: 0x0102,
            from_qp: 0x0304,
            gid: [0xfe; 16],
            qkey: 0x1111_1111,
            immediate: 42,
            addr: 0x7fff_0123_4567_89ab,
            key: 0xff_ffff,
            len: 5,
            ..Head::new(Kind::WriteImmediate)
        };
        let packet = head.packet(b"bytes");
        assert_eq!(Head::parse(&packet), Some((head, &b"bytes"[..])));
        assert_eq!(Head::parse(&packet[..HEAD_LEN - 1]), None);
        let unknown = [&[200], &packet[1..]].concat();
        assert_eq!(Head::parse(&unknown), None);
    }

    #[test]
    fn a_welcome_describes_every_nic() {
        let nics = [1, 2].map(|number| Nic {
            gid: [number; 16],
            mtu: 8928,
            max_rdma: 1 << 30,
            regions: 7,
            caps: 0x2f,
        });
        assert_eq!(Nic::parse(&Nic::payload(&nics)), nics);
    }
}
