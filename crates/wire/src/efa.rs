//! The packets of EFA's protocol for reliable datagrams, version 4 (docs/protocol/efa.md section 6).
//!
//! A packet is a message of the device: a header, whose numbers have the order of the machine, which is little endian wherever there is such a
//! device, and what it carries. [`Packet::decode`] takes any bytes; [`Packet::encode`] writes the header alone, behind which the sender puts the
//! body.

mod decode;
mod encode;
mod kind;

pub use encode::set_offset;
use kind::flag;

/// The version in each packet.
pub const VERSION: u8 = 4;
/// Bytes of an address.
pub const ADDRESS: usize = 32;
/// The most pieces of memory that a packet names.
pub const MAX_PIECES: usize = 4;
/// The longest header of a packet with a message, write or atomic, or a part of one.
pub const HEADER_MAX: usize = 24 + MAX_PIECES * 24 + 40 + 8;
/// The header of [`Content::ReadResponse`] and [`Content::AtomicResponse`].
pub const RESPONSE_HEADER: usize = 24;

/// Bits of [`Content::Handshake`]: what an endpoint can do beyond the base of the protocol, and wants of its peer.
pub mod feature {
    /// Its device reads memory of peers.
    pub const RDMA_READ: u64 = 1;
    /// It answers what asks for a receipt.
    pub const DELIVERY_COMPLETE: u64 = 1 << 1;
    /// It wants to be told the connid of the sender with each packet.
    pub const CONNID: u64 = 1 << 3;
    /// It takes messages of which a first part is sent and the rest read.
    pub const RUNT: u64 = 1 << 4;
    /// Its device writes memory of peers.
    pub const RDMA_WRITE: u64 = 1 << 5;
    /// It sends by other means what its peer cannot read.
    pub const READ_NACK: u64 = 1 << 6;
    /// Writes with data use up none of its receives.
    pub const UNSOLICITED: u64 = 1 << 8;
    /// It takes [`Content::PeerError`](super::Content::PeerError).
    pub const PEER_ERROR: u64 = 1 << 9;
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The sender.
    pub sender: Sender,
    /// What it says.
    pub content: Content<'a>,
}

/// What a packet says of its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// Its address; in requests only, as long as the receiver may not know it.
    pub address: Option<[u8; ADDRESS]>,
    /// Its connid.
    pub connid: Option<u32>,
}

/// What a packet says. Ids of operations are the receiver's, unless they are introduced by this packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A message, or a part or announcement of one.
    Message(Message<'a>),
    /// A write.
    Write(Write<'a>),
    /// A read.
    Read(Read),
    /// An atomic.
    Atomic(Atomic<'a>),
    /// The receiver may send so many more bytes.
    Cts {
        /// The operation that sends.
        send_id: u32,
        /// The operation that receives, which the data is to name.
        recv_id: u32,
        /// How many more bytes.
        len: u64,
        /// The data answers a read.
        is_read: bool,
    },
    /// A part of the data that a [`Content::Cts`] allows.
    Data {
        /// The operation that receives.
        recv_id: u32,
        /// Where the part begins.
        offset: u64,
        /// The part.
        body: &'a [u8],
    },
    /// The first part of what a read asked for.
    ReadResponse {
        /// The operation that reads.
        recv_id: u32,
        /// The operation that sends.
        send_id: u32,
        /// The part.
        body: &'a [u8],
    },
    /// The memory that was named is read.
    EndOfRead {
        /// The operation that named it.
        send_id: u32,
        /// The operation that read it.
        recv_id: u32,
    },
    /// What an atomic fetched.
    AtomicResponse {
        /// The operation that fetches.
        recv_id: u32,
        /// What was there before.
        body: &'a [u8],
    },
    /// What the sender can do.
    Handshake {
        /// The bits of [`feature`]; those beyond 64 are not read.
        features: u64,
        /// The number of the kind of its device, if it is told.
        device: Option<u32>,
    },
    /// What asked for a receipt is in its place.
    Receipt {
        /// The operation that sent it.
        send_id: u32,
        /// The number of the message, if it was one.
        message: u32,
    },
    /// The memory that was named cannot be read: the data has to be sent.
    ReadNack {
        /// The operation that named it.
        send_id: u32,
        /// The operation that was to read it.
        recv_id: u32,
    },
    /// An operation will not be completed.
    PeerError {
        /// The operation, or a message by its number, as `reference` says.
        id: u32,
        /// What `id` is.
        reference: Reference,
        /// The status of the sender's device that caused it, or another number.
        cause: u32,
    },
}

impl<'a> Content<'a> {
    /// Returns the data that it carries, behind the header.
    pub const fn body(&self) -> &'a [u8] {
        match self {
            Self::Message(message) => message.body,
            Self::Write(write) => write.body,
            Self::Atomic(atomic) => atomic.body,
            Self::Data { body, .. }
            | Self::ReadResponse { body, .. }
            | Self::AtomicResponse { body, .. } => body,
            _ => &[],
        }
    }
}

/// A piece of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Its address.
    pub addr: u64,
    /// Its length.
    pub len: u64,
    /// The key of its registration.
    pub key: u64,
}

/// Pieces of memory, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    list: [Piece; MAX_PIECES],
    count: u8,
}

impl Pieces {
    /// Takes pieces; `None` when there are too many.
    #[inline(always)]
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Option<Self> {
        let mut all = Self::default();
        for piece in pieces {
            *all.list.get_mut(usize::from(all.count))? = piece;
            all.count += 1;
        }
        Some(all)
    }

    /// Returns the pieces.
    pub fn all(&self) -> &[Piece] {
        &self.list[..usize::from(self.count)]
    }
}

/// The first packet of a message, or one of those that are its first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Counts the messages and atomics from the sender to the receiver.
    pub number: u32,
    /// The tag, if it has one.
    pub tag: Option<u64>,
    /// Remote completion data.
    pub data: Option<u64>,
    /// The sender waits for a [`Content::Receipt`].
    pub wants_receipt: bool,
    /// It takes the place of an announcement whose memory could not be read.
    pub is_after_nack: bool,
    /// The sender's operation, where one is named.
    pub send_id: u32,
    /// How it travels.
    pub form: Form,
    /// Its data, or a part of it.
    pub body: &'a [u8],
}

/// How a message travels, or the data of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All of it is in this packet.
    Eager,
    /// All of it is in packets of this kind, in any order. Messages only.
    Medium {
        /// The length of the message.
        len: u64,
        /// Where the part in this packet begins.
        offset: u64,
    },
    /// The rest follows when the receiver asks for it.
    Long {
        /// The length of the whole.
        len: u64,
        /// How many packets the sender would like to send at once.
        credits: u32,
    },
    /// The receiver reads it out of the sender's memory.
    Read {
        /// The length of the whole.
        len: u64,
        /// The memory.
        memory: Pieces,
    },
    /// The first bytes are in packets of this kind, in any order, and the receiver reads the rest. Messages only.
    Runt {
        /// The length of the message.
        len: u64,
        /// Where the part in this packet begins.
        offset: u64,
        /// How many bytes are in packets of this kind.
        runt: u64,
        /// The memory, of which the first bytes are not to be read.
        memory: Pieces,
    },
}

/// A write, or its announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The memory that is written.
    pub targets: Pieces,
    /// Remote completion data.
    pub data: Option<u64>,
    /// The sender waits for a [`Content::Receipt`].
    pub wants_receipt: bool,
    /// The sender's operation, where one is named.
    pub send_id: u32,
    /// How its data travels.
    pub form: Form,
    /// Its data, or a part of it.
    pub body: &'a [u8],
}

/// A read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The memory that is read.
    pub targets: Pieces,
    /// How many bytes are wanted.
    pub len: u64,
    /// The sender's operation.
    pub recv_id: u32,
    /// How many bytes may be sent at once.
    pub window: u32,
    /// The answer fits [`Content::ReadResponse`].
    pub is_short: bool,
}

/// An atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic<'a> {
    /// Counts the messages and atomics from the sender to the receiver.
    pub number: u32,
    /// What it brings along.
    pub form: AtomicForm,
    /// The number of the datatype.
    pub datatype: u32,
    /// The number of the operation.
    pub operation: u32,
    /// The sender's operation, where one is named.
    pub id: u32,
    /// The memory.
    pub targets: Pieces,
    /// Remote completion data.
    pub data: Option<u64>,
    /// The operand, and behind it the comparand.
    pub body: &'a [u8],
}

/// What an atomic brings along, and whether it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicForm {
    /// It changes memory.
    Base,
    /// It changes memory, and asks for a receipt.
    BaseWithReceipt,
    /// It asks for what was there.
    Fetch,
    /// It compares, and asks for what was there.
    Compare,
}

/// What a [`Content::PeerError`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// An operation of the receiver.
    Operation,
    /// A message of which a part has arrived.
    Begun,
    /// A message of which nothing will arrive.
    Skipped,
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// They end too early.
    Short,
    /// They are of another version of the protocol.
    Version(u8),
    /// There is no such kind of packet.
    Kind(u8),
    /// A number in them cannot be.
    Invalid,
}

#[cfg(test)]
mod tests;
