//! Translation between the engine's headers and those on the wire (docs/protocol/tcp.md sections 4 and 5).
//!
//! Towards peers that speak in names this is plain conversion. Other peers match acknowledgements by their order and
//! rendezvous by a number of one byte: the map keeps the engine's ids that the wire does not carry. Hot path;
//! invariant: a number is in use exactly as long as its slot is filled.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use oxifabric_engine::{Header, HeaderFlags, Kind};
use oxifabric_wire::tcp::frame::{FrameFlags, FrameHeader, OP_DATA_ACK, OP_DATA_FIN, Op};

use crate::cm::Negotiated;

/// Number of rendezvous numbers: 1 to 255, and zero for none.
const NUMBERS: usize = 256;

/// The ids of a connection's operations under way.
#[derive(Debug)]
pub struct IdMap {
    named: bool,
    atomics: bool,
    rndv: bool,
    collectives: bool,
    /// Messages that wait for an acknowledgement, in the order in which they were sent.
    unacknowledged: VecDeque<u32>,
    /// Reads that wait for their data, in the order in which they were sent.
    reads: VecDeque<u32>,
    /// Messages that we announced, by number.
    announced: Slots<Announced>,
    /// Messages that the peer announced, by number.
    arrived: Slots<Arrived>,
}

#[derive(Clone, Copy, Debug)]
struct Announced {
    id: u32,
    acknowledged: bool,
    asked: bool,
}

#[derive(Clone, Copy, Debug)]
struct Arrived {
    len: u64,
    acknowledge: bool,
    state: RndvState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RndvState {
    Open,
    Asked,
    Declined,
}

/// A header for the wire, and the update of the map once the frame is taken.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// The header.
    pub header: FrameHeader,
    update: Update,
}

#[derive(Clone, Copy, Debug)]
enum Update {
    Nothing,
    Unacknowledged(u32),
    Read(u32),
    Announced(u8, Announced),
    Asked(u8, RndvState),
    Data(u8),
}

/// Why a frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// All numbers are in use.
    Full,
    /// The peer does not speak it, or it answers nothing.
    Unspoken,
    /// The peer waits for an answer that the protocol cannot express.
    Unsayable,
}

/// What a header from the wire means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// It is for the engine.
    Frame(Header),
    /// It is for the engine, and names memory.
    Access(Header),
    /// It begins the body of a message that was declined, which is to be dropped, and acknowledged if `acknowledge`.
    Unwanted {
        /// Whether it is to be acknowledged.
        acknowledge: bool,
    },
}

/// The rule of the protocol that a peer has broken, beyond those of a single header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// Data that no read asked for.
    Response,
    /// A read or a write of no memory.
    Nowhere(Op),
    /// An acknowledgement of nothing.
    Acknowledgement,
    /// A rendezvous number that is zero, in use, unknown, or used out of turn.
    Number(u8),
    /// Data of another length than announced.
    Length {
        /// Bytes that were announced.
        announced: u64,
        /// Bytes that the header has.
        found: u64,
    },
    /// A name is missing where there must be one.
    Nameless(Op),
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response => f.write_str("data that no read asked for"),
            Self::Nowhere(op) => write!(f, "a {op:?} of no memory"),
            Self::Acknowledgement => f.write_str("an acknowledgement of nothing"),
            Self::Number(number) => write!(f, "rendezvous number {number} out of turn"),
            Self::Length { announced, found } => {
                write!(f, "{found} bytes where {announced} were announced")
            }
            Self::Nameless(op) => write!(f, "a {op:?} without a name"),
        }
    }
}

impl IdMap {
    /// Makes the map of a connection in which nothing is under way.
    pub fn new(negotiated: &Negotiated) -> Self {
        Self {
            named: negotiated.dialect.named,
            atomics: negotiated.dialect.atomics,
            rndv: negotiated.rndv,
            collectives: negotiated.collectives,
            unacknowledged: VecDeque::new(),
            reads: VecDeque::new(),
            announced: Slots::default(),
            arrived: Slots::default(),
        }
    }

    /// Returns the header of a frame with a body of `len` bytes.
    #[inline]
    pub fn outgoing(
        &self,
        header: &Header,
        len: usize,
        pieces: usize,
    ) -> Result<Outgoing, EncodeError> {
        let mut wire = FrameHeader {
            flags: frame_flags(header.flags),
            body_len: len as u64,
            pieces: u8::try_from(pieces).map_err(|_| EncodeError::Unspoken)?,
            data: header.data,
            ..FrameHeader::new(Op::Msg)
        };
        if self.named {
            wire.name = header.id;
            named(&mut wire, header, self)?;
            return Ok(Outgoing {
                header: wire,
                update: Update::Nothing,
            });
        }
        let update = self.numbered(&mut wire, header)?;
        Ok(Outgoing {
            header: wire,
            update,
        })
    }

    /// Updates the map after the frame was taken.
    #[inline]
    pub fn sent(&mut self, outgoing: &Outgoing) {
        match outgoing.update {
            Update::Nothing => {}
            Update::Unacknowledged(id) => self.unacknowledged.push_back(id),
            Update::Read(id) => self.reads.push_back(id),
            Update::Announced(number, announced) => self.announced.fill(number, announced),
            Update::Asked(number, state) => {
                if let Some(arrived) = self.arrived.at(number) {
                    arrived.state = state;
                }
            }
            Update::Data(number) => {
                if let Some(announced) = self.announced.take(number)
                    && announced.acknowledged
                {
                    self.unacknowledged.push_back(announced.id);
                }
            }
        }
    }

    /// Translates a header from the peer.
    #[inline]
    pub fn incoming(&mut self, wire: &FrameHeader) -> Result<Incoming, ProtocolError> {
        let header = Header {
            kind: Kind::Msg,
            flags: header_flags(wire.flags),
            id: wire.name,
            tag: wire.tag,
            data: wire.data,
            len: wire.body_len,
        };
        match wire.op {
            Op::ReadReq | Op::Write if wire.pieces == 0 => {
                return Err(ProtocolError::Nowhere(wire.op));
            }
            Op::ReadReq => return Ok(access(Kind::Read, header)),
            Op::Write => return Ok(access(Kind::Write, header)),
            Op::Atomic | Op::FetchAtomic | Op::CompareAtomic => return read_atomic(wire, header),
            _ => {}
        }
        if self.named {
            read_named(wire, header).map(Incoming::Frame)
        } else {
            self.read_numbered(wire, header)
        }
    }

    fn numbered(&self, wire: &mut FrameHeader, header: &Header) -> Result<Update, EncodeError> {
        if wire.flags.contains(FrameFlags::MATCH) {
            // Section 4.4 knows of one kind of acknowledgement only.
            wire.flags.remove(FrameFlags::MATCH);
            wire.flags.insert(FrameFlags::DELIVERY);
        }
        let wait = wire.flags.contains(FrameFlags::DELIVERY);
        match header.kind {
            Kind::Msg | Kind::Tagged => {
                if header.kind == Kind::Tagged {
                    wire.op = Op::Tagged;
                    wire.tag = header.tag;
                }
                Ok(if wait {
                    Update::Unacknowledged(header.id)
                } else {
                    Update::Nothing
                })
            }
            Kind::TaggedRts if self.rndv => {
                let number = self.announced.free().ok_or(EncodeError::Full)?;
                wire.op = Op::Rts;
                wire.op_data = number;
                wire.tag = header.tag;
                wire.message_len = header.len;
                wire.body_len = 0;
                let announced = Announced {
                    id: header.id,
                    acknowledged: wait,
                    asked: false,
                };
                Ok(Update::Announced(number, announced))
            }
            Kind::MsgRts | Kind::TaggedRts | Kind::WriteRts | Kind::ResponseRts => {
                Err(EncodeError::Unspoken)
            }
            Kind::Atomic | Kind::FetchAtomic | Kind::CompareAtomic => Err(EncodeError::Unspoken),
            Kind::Collective | Kind::CollectiveRts => Err(EncodeError::Unspoken),
            Kind::Write => {
                wire.op = Op::Write;
                Ok(if wait {
                    Update::Unacknowledged(header.id)
                } else {
                    Update::Nothing
                })
            }
            Kind::Read => {
                wire.op = Op::ReadReq;
                Ok(Update::Read(header.id))
            }
            Kind::Response => {
                wire.op = Op::ReadRsp;
                Ok(Update::Nothing)
            }
            Kind::Cts => self.ask(wire, header.id, RndvState::Asked),
            // Section 4.8: a refused access ends the connection.
            Kind::Fin if header.data != 0 => Err(EncodeError::Unsayable),
            // Section 4.7: there is no other way to decline.
            Kind::Fin => self.ask(wire, header.id, RndvState::Declined),
            Kind::Segment => {
                let number = self
                    .announced
                    .find(|announced| announced.id == header.id && announced.asked)
                    .ok_or(EncodeError::Unspoken)?;
                *wire = FrameHeader {
                    op_data: number,
                    body_len: wire.body_len,
                    ..FrameHeader::new(Op::Data)
                };
                Ok(Update::Data(number))
            }
            Kind::Ack => {
                *wire = FrameHeader {
                    op_data: OP_DATA_ACK,
                    ..FrameHeader::new(Op::Msg)
                };
                Ok(Update::Nothing)
            }
        }
    }

    fn ask(
        &self,
        wire: &mut FrameHeader,
        id: u32,
        state: RndvState,
    ) -> Result<Update, EncodeError> {
        let number = u8::try_from(id).map_err(|_| EncodeError::Unspoken)?;
        match self.arrived.get(number) {
            Some(arrived) if arrived.state == RndvState::Open => {}
            _ => return Err(EncodeError::Unspoken),
        }
        *wire = FrameHeader {
            op_data: number,
            ..FrameHeader::new(Op::Cts)
        };
        Ok(Update::Asked(number, state))
    }

    fn read_numbered(
        &mut self,
        wire: &FrameHeader,
        header: Header,
    ) -> Result<Incoming, ProtocolError> {
        let number = wire.op_data;
        let header = match wire.op {
            Op::Msg if number == OP_DATA_ACK => Header {
                kind: Kind::Ack,
                id: self
                    .unacknowledged
                    .pop_front()
                    .ok_or(ProtocolError::Acknowledgement)?,
                ..header
            },
            Op::Tagged => Header {
                kind: Kind::Tagged,
                ..header
            },
            Op::Rts => self.read_rts(wire, header)?,
            Op::Cts => {
                let announced = match self.announced.at(number) {
                    Some(announced) if !announced.asked => announced,
                    _ => return Err(ProtocolError::Number(number)),
                };
                announced.asked = true;
                Header {
                    kind: Kind::Cts,
                    id: announced.id,
                    ..header
                }
            }
            Op::ReadRsp => Header {
                kind: Kind::Response,
                tag: self
                    .reads
                    .pop_front()
                    .ok_or(ProtocolError::Response)?
                    .into(),
                ..header
            },
            Op::Data => return self.data(wire, header),
            _ => header,
        };
        Ok(Incoming::Frame(header))
    }

    fn read_rts(&mut self, wire: &FrameHeader, header: Header) -> Result<Header, ProtocolError> {
        let number = wire.op_data;
        if number == 0 || self.arrived.get(number).is_some() {
            return Err(ProtocolError::Number(number));
        }
        let arrived = Arrived {
            len: wire.message_len,
            acknowledge: header.flags.contains(HeaderFlags::DELIVERY),
            state: RndvState::Open,
        };
        self.arrived.fill(number, arrived);
        Ok(Header {
            kind: Kind::TaggedRts,
            id: number.into(),
            len: wire.message_len,
            ..header
        })
    }

    fn data(&mut self, wire: &FrameHeader, header: Header) -> Result<Incoming, ProtocolError> {
        let number = wire.op_data;
        let arrived = match self.arrived.get(number) {
            Some(arrived) if arrived.state != RndvState::Open => *arrived,
            _ => return Err(ProtocolError::Number(number)),
        };
        if arrived.len != wire.body_len {
            return Err(ProtocolError::Length {
                announced: arrived.len,
                found: wire.body_len,
            });
        }
        self.arrived.take(number);
        if arrived.state == RndvState::Declined {
            return Ok(Incoming::Unwanted {
                acknowledge: arrived.acknowledge,
            });
        }
        Ok(Incoming::Frame(Header {
            kind: Kind::Segment,
            id: number.into(),
            tag: 0,
            ..header
        }))
    }
}

/// Fills in a header for a peer that speaks in names (protocol section 5.3).
#[inline]
fn named(wire: &mut FrameHeader, header: &Header, id_map: &IdMap) -> Result<(), EncodeError> {
    let waits = FrameFlags::DELIVERY | FrameFlags::MATCH;
    match header.kind {
        Kind::Msg => {}
        Kind::Tagged => {
            wire.op = Op::Tagged;
            wire.tag = header.tag;
        }
        Kind::MsgRts | Kind::TaggedRts => {
            wire.op = Op::Rts;
            wire.message_len = header.len;
            wire.body_len = 0;
            wire.flags |= FrameFlags::NAMED;
            if header.kind == Kind::MsgRts {
                wire.flags |= FrameFlags::UNTAGGED;
            } else {
                wire.tag = header.tag;
            }
        }
        Kind::Collective | Kind::CollectiveRts if !id_map.collectives => {
            return Err(EncodeError::Unspoken);
        }
        Kind::Collective => {
            wire.op = Op::Tagged;
            wire.tag = header.tag;
            wire.flags |= FrameFlags::COLLECTIVE;
        }
        Kind::CollectiveRts => {
            wire.op = Op::Rts;
            wire.tag = header.tag;
            wire.message_len = header.len;
            wire.body_len = 0;
            wire.flags |= FrameFlags::NAMED | FrameFlags::COLLECTIVE;
        }
        Kind::Write => wire.op = Op::Write,
        Kind::Read => {
            wire.op = Op::ReadReq;
            wire.flags |= FrameFlags::NAMED;
        }
        Kind::Response => {
            wire.op = Op::ReadRsp;
            wire.name = header.tag as u32;
            wire.flags |= FrameFlags::NAMED;
        }
        Kind::WriteRts | Kind::ResponseRts => return Err(EncodeError::Unspoken),
        Kind::Atomic | Kind::FetchAtomic | Kind::CompareAtomic if !id_map.atomics => {
            return Err(EncodeError::Unspoken);
        }
        Kind::Atomic => (wire.op, wire.tag) = (Op::Atomic, header.tag),
        Kind::FetchAtomic | Kind::CompareAtomic => {
            wire.op = match header.kind {
                Kind::FetchAtomic => Op::FetchAtomic,
                _ => Op::CompareAtomic,
            };
            wire.tag = header.tag;
            wire.flags |= FrameFlags::NAMED;
        }
        Kind::Cts => answer(wire, Op::Cts, 0, 0),
        Kind::Segment => answer(wire, Op::Data, 0, 0),
        Kind::Ack => answer(wire, Op::Msg, OP_DATA_ACK, header.data),
        Kind::Fin => answer(wire, Op::Msg, OP_DATA_FIN, header.data),
    }
    if wire.flags.intersects(waits) {
        wire.flags |= FrameFlags::NAMED;
    }
    Ok(())
}

/// Returns a frame that names memory.
fn access(kind: Kind, header: Header) -> Incoming {
    Incoming::Access(Header { kind, ..header })
}

/// Reads an atomic (protocol section 5.6).
#[cold]
fn read_atomic(wire: &FrameHeader, header: Header) -> Result<Incoming, ProtocolError> {
    let kind = match wire.op {
        Op::Atomic => Kind::Atomic,
        Op::FetchAtomic => Kind::FetchAtomic,
        _ => Kind::CompareAtomic,
    };
    if wire.pieces == 0 {
        return Err(ProtocolError::Nowhere(wire.op));
    }
    let needs_name = kind != Kind::Atomic || wire.flags.contains(FrameFlags::DELIVERY);
    if needs_name && !wire.flags.contains(FrameFlags::NAMED) {
        return Err(ProtocolError::Nameless(wire.op));
    }
    Ok(access(kind, header))
}

fn answer(wire: &mut FrameHeader, op: Op, op_data: u8, status: u64) {
    *wire = FrameHeader {
        flags: FrameFlags::NAMED,
        op_data,
        name: wire.name,
        status: u32::try_from(status).unwrap_or(u32::MAX),
        body_len: if op == Op::Data { wire.body_len } else { 0 },
        ..FrameHeader::new(op)
    };
}

#[inline]
fn read_named(wire: &FrameHeader, header: Header) -> Result<Header, ProtocolError> {
    let waits = FrameFlags::DELIVERY | FrameFlags::MATCH;
    let kind = match wire.op {
        Op::Msg if wire.op_data == OP_DATA_ACK => Kind::Ack,
        Op::Msg if wire.op_data == OP_DATA_FIN => Kind::Fin,
        Op::Msg => Kind::Msg,
        Op::Tagged if wire.flags.contains(FrameFlags::COLLECTIVE) => Kind::Collective,
        Op::Tagged => Kind::Tagged,
        Op::Rts if wire.flags.contains(FrameFlags::COLLECTIVE) => Kind::CollectiveRts,
        Op::Rts if wire.flags.contains(FrameFlags::UNTAGGED) => Kind::MsgRts,
        Op::Rts => Kind::TaggedRts,
        Op::Cts => Kind::Cts,
        Op::Data => Kind::Segment,
        // What names memory is told from the rest before.
        _ => Kind::Response,
    };
    let is_plain = matches!(kind, Kind::Msg | Kind::Tagged | Kind::Collective);
    let needs_name = !is_plain || wire.flags.intersects(waits);
    if needs_name && !wire.flags.contains(FrameFlags::NAMED) {
        return Err(ProtocolError::Nameless(wire.op));
    }
    Ok(match kind {
        Kind::MsgRts | Kind::TaggedRts | Kind::CollectiveRts => Header {
            kind,
            len: wire.message_len,
            ..header
        },
        Kind::Ack | Kind::Fin => Header {
            kind,
            data: wire.status.into(),
            ..header
        },
        Kind::Response => Header {
            kind,
            tag: wire.name.into(),
            ..header
        },
        _ => Header { kind, ..header },
    })
}

#[inline]
fn frame_flags(flags: HeaderFlags) -> FrameFlags {
    let mut wire = FrameFlags::empty();
    wire.set(FrameFlags::DATA, flags.contains(HeaderFlags::DATA));
    wire.set(FrameFlags::DELIVERY, flags.contains(HeaderFlags::DELIVERY));
    wire.set(FrameFlags::MATCH, flags.contains(HeaderFlags::MATCH));
    wire
}

#[inline]
fn header_flags(wire: FrameFlags) -> HeaderFlags {
    let mut flags = HeaderFlags::empty();
    flags.set(HeaderFlags::DATA, wire.contains(FrameFlags::DATA));
    let delivery = FrameFlags::DELIVERY | FrameFlags::COMMIT;
    flags.set(HeaderFlags::DELIVERY, wire.intersects(delivery));
    flags.set(HeaderFlags::MATCH, wire.contains(FrameFlags::MATCH));
    flags
}

/// Up to 255 values by number, allocated when first used.
#[derive(Debug)]
struct Slots<T>(Vec<Option<T>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Slots<T> {
    fn get(&self, number: u8) -> Option<&T> {
        self.0.get(usize::from(number))?.as_ref()
    }

    fn at(&mut self, number: u8) -> Option<&mut T> {
        self.0.get_mut(usize::from(number))?.as_mut()
    }

    fn take(&mut self, number: u8) -> Option<T> {
        self.0.get_mut(usize::from(number))?.take()
    }

    fn fill(&mut self, number: u8, value: T) {
        if self.0.is_empty() {
            self.0.resize_with(NUMBERS, || None);
        }
        self.0[usize::from(number)] = Some(value);
    }

    /// Finds a number that is not in use.
    fn free(&self) -> Option<u8> {
        (1..=u8::MAX).find(|&number| self.get(number).is_none())
    }

    fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<u8> {
        (1..=u8::MAX).find(|&number| self.get(number).is_some_and(&wanted))
    }
}

#[cfg(test)]
mod tests;
