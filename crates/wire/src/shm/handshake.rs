//! The messages of a handshake: hello, accept, ready, refuse; docs/protocol/shm.md "Handshake".
//!
//! Numbers are little-endian. The first twelve bytes keep their meaning in every version, so that a refusal can be
//! understood by an endpoint of any.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bitflags::bitflags;

/// The first bytes of every handshake message.
pub const MAGIC: [u8; 8] = *b"oxif-shm";
/// The version of the protocol, lanes and cells included.
pub const VERSION: u16 = 3;
/// Longest name of an endpoint, in bytes.
pub const MAX_NAME: usize = 255;
/// Longest handshake message, in bytes.
pub const MAX_SIZE: usize = 1024;

/// Byte ranges of the fields.
mod field {
    use core::ops::Range;

    pub(super) const MAGIC: Range<usize> = 0..8;
    pub(super) const VERSION: Range<usize> = 8..10;
    pub(super) const KIND: Range<usize> = 10..12;
    /// Of hello, accept and ready.
    pub(super) const FLAGS: Range<usize> = 12..16;
    /// Of hello and accept.
    pub(super) const INCARNATION: Range<usize> = 16..24;
    pub(super) const PROBE: Range<usize> = 24..32;
    /// Of hello: its own name and the one it looks for follow, each behind its length.
    pub(super) const CELLS: Range<usize> = 32..36;
    pub(super) const BYTES: Range<usize> = 36..40;
    pub(super) const NAMES: usize = 40;
    /// Of refuse: a text follows behind its length.
    pub(super) const CAUSE: Range<usize> = 12..14;
    pub(super) const TEXT: usize = 14;
}

/// Values of the kind field.
mod kind {
    pub(super) const HELLO: u16 = 1;
    pub(super) const ACCEPT: u16 = 2;
    pub(super) const READY: u16 = 3;
    pub(super) const REFUSE: u16 = 4;
}

bitflags! {
    /// Abilities that a side announces.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Ability: u32 {
        /// It may sleep, and wants to be woken.
        const SLEEPS = 1;
        /// It can read and write the other's memory.
        const READS = 2;
        /// It takes grants: it may carry out reads and writes of the other's memory by itself.
        const GRANTS = 4;
    }
}

/// A message of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The first message: names of initiator and acceptor, and the memory that comes with it.
    Hello(Hello),
    /// The answer to a hello.
    Accept(Accept),
    /// The last message: the initiator has seen the answer.
    Ready(Ability),
    /// The answer to a hello that leads to no connection.
    Refuse(Refuse),
}

/// See [`Handshake::Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Abilities of the sender.
    pub ability: Ability,
    /// Incarnation: a random number that distinguishes this endpoint from others of its name, before and after.
    pub incarnation: u64,
    /// Address of the incarnation in the sender's memory.
    pub probe: u64,
    /// Cells of each of the two lanes.
    pub cells: u32,
    /// Length of the byte ring of each of the two lanes.
    pub bytes: u32,
    /// Its own name.
    pub from: Box<str>,
    /// The name that it looks for.
    pub to: Box<str>,
}

/// See [`Handshake::Accept`]; fields as in [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Abilities of the sender.
    pub ability: Ability,
    /// Incarnation of the sender.
    pub incarnation: u64,
    /// Address of the incarnation in the sender's memory.
    pub probe: u64,
}

/// See [`Handshake::Refuse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// The cause as a code.
    pub cause: Cause,
    /// The cause in words.
    pub text: String,
}

/// The causes for which an endpoint refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Cause {
    /// The acceptor speaks another version.
    Version = 1,
    /// The memory is not as the hello describes, or cannot be used.
    Memory = 2,
    /// The initiator belongs to another user.
    Owner = 3,
    /// Both connected at the same time, and the other hello counts.
    Crossed = 4,
    /// The acceptor has another name.
    Name = 5,
    /// The acceptor has no room for more peers.
    Limit = 6,
}

/// The error of bytes that are no handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// It ends within a field.
    Short,
    /// It is not of this protocol.
    Magic,
    /// It is of another version: this one.
    Version(u16),
    /// The kind of message is unknown.
    Kind(u16),
    /// A name is empty, too long or not UTF-8.
    Name,
    /// The cause of a refusal is unknown.
    Cause(u16),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the handshake message is cut short"),
            Self::Magic => f.write_str("the peer does not speak oxifabric's shm protocol"),
            Self::Version(theirs) => {
                write!(
                    f,
                    "the peer speaks version {theirs} of the shm protocol, not {VERSION}"
                )
            }
            Self::Kind(kind) => write!(f, "the handshake message has the unknown kind {kind}"),
            Self::Name => f.write_str("a name in the handshake message is none"),
            Self::Cause(cause) => write!(f, "refused for the unknown cause {cause}"),
        }
    }
}

impl core::error::Error for HandshakeError {}

impl Handshake {
    /// Reads a handshake message.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, HandshakeError> {
        if *array::<8>(bytes, field::MAGIC)? != MAGIC {
            return Err(HandshakeError::Magic);
        }
        let version = u16::from_le_bytes(*array(bytes, field::VERSION)?);
        let kind = u16::from_le_bytes(*array(bytes, field::KIND)?);
        // A refusal is understood whatever the version: it may be about that.
        if kind == kind::REFUSE {
            return Ok(Self::Refuse(parse_refuse(bytes)?));
        }
        if version != VERSION {
            return Err(HandshakeError::Version(version));
        }
        match kind {
            kind::HELLO => Ok(Self::Hello(parse_hello(bytes)?)),
            kind::ACCEPT => Ok(Self::Accept(Accept {
                ability: parse_ability(bytes)?,
                incarnation: u64::from_le_bytes(*array(bytes, field::INCARNATION)?),
                probe: u64::from_le_bytes(*array(bytes, field::PROBE)?),
            })),
            kind::READY => Ok(Self::Ready(parse_ability(bytes)?)),
            unknown => Err(HandshakeError::Kind(unknown)),
        }
    }

    /// Returns the bytes of the handshake message, at most [`MAX_SIZE`]; texts and names are cut to fit.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        match self {
            Self::Hello(hello) => {
                bytes.extend_from_slice(&kind::HELLO.to_le_bytes());
                emit_self(&mut bytes, hello.ability, hello.incarnation, hello.probe);
                bytes.extend_from_slice(&hello.cells.to_le_bytes());
                bytes.extend_from_slice(&hello.bytes.to_le_bytes());
                emit_text(&mut bytes, &hello.from);
                emit_text(&mut bytes, &hello.to);
            }
            Self::Accept(accept) => {
                bytes.extend_from_slice(&kind::ACCEPT.to_le_bytes());
                emit_self(&mut bytes, accept.ability, accept.incarnation, accept.probe);
            }
            Self::Ready(ability) => {
                bytes.extend_from_slice(&kind::READY.to_le_bytes());
                bytes.extend_from_slice(&ability.bits().to_le_bytes());
            }
            Self::Refuse(refuse) => {
                bytes.extend_from_slice(&kind::REFUSE.to_le_bytes());
                bytes.extend_from_slice(&(refuse.cause as u16).to_le_bytes());
                emit_text(&mut bytes, &refuse.text);
            }
        }
        bytes
    }
}

fn emit_self(bytes: &mut Vec<u8>, ability: Ability, incarnation: u64, probe: u64) {
    bytes.extend_from_slice(&ability.bits().to_le_bytes());
    bytes.extend_from_slice(&incarnation.to_le_bytes());
    bytes.extend_from_slice(&probe.to_le_bytes());
}

fn emit_text(bytes: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(MAX_NAME)];
    bytes.push(text.len() as u8);
    bytes.extend_from_slice(text.as_bytes());
}

fn parse_hello(bytes: &[u8]) -> Result<Hello, HandshakeError> {
    let (from, rest) = parse_text(bytes, field::NAMES)?;
    let (to, _) = parse_text(bytes, rest)?;
    if from.is_empty() || to.is_empty() {
        return Err(HandshakeError::Name);
    }
    Ok(Hello {
        ability: parse_ability(bytes)?,
        incarnation: u64::from_le_bytes(*array(bytes, field::INCARNATION)?),
        probe: u64::from_le_bytes(*array(bytes, field::PROBE)?),
        cells: u32::from_le_bytes(*array(bytes, field::CELLS)?),
        bytes: u32::from_le_bytes(*array(bytes, field::BYTES)?),
        from: from.into(),
        to: to.into(),
    })
}

fn parse_refuse(bytes: &[u8]) -> Result<Refuse, HandshakeError> {
    let cause = match u16::from_le_bytes(*array(bytes, field::CAUSE)?) {
        1 => Cause::Version,
        2 => Cause::Memory,
        3 => Cause::Owner,
        4 => Cause::Crossed,
        5 => Cause::Name,
        6 => Cause::Limit,
        unknown => return Err(HandshakeError::Cause(unknown)),
    };
    let (text, _) = parse_text(bytes, field::TEXT)?;
    Ok(Refuse {
        cause,
        text: text.into(),
    })
}

/// Reads the flags; those that this version does not know mean nothing.
fn parse_ability(bytes: &[u8]) -> Result<Ability, HandshakeError> {
    let bits = u32::from_le_bytes(*array(bytes, field::FLAGS)?);
    Ok(Ability::from_bits_truncate(bits))
}

/// Reads a text behind its length, and where it ends.
fn parse_text(bytes: &[u8], at: usize) -> Result<(&str, usize), HandshakeError> {
    let len = usize::from(*bytes.get(at).ok_or(HandshakeError::Short)?);
    let end = at + 1 + len;
    let text = bytes.get(at + 1..end).ok_or(HandshakeError::Short)?;
    let text = core::str::from_utf8(text).map_err(|_| HandshakeError::Name)?;
    Ok((text, end))
}

fn array<const N: usize>(
    bytes: &[u8],
    range: core::ops::Range<usize>,
) -> Result<&[u8; N], HandshakeError> {
    bytes
        .get(range)
        .and_then(|part| part.try_into().ok())
        .ok_or(HandshakeError::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            ability: Ability::SLEEPS,
            incarnation: 0x0102,
            probe: 0x0304,
            cells: 256,
            bytes: 65536,
            from: "a".into(),
            to: "bc".into(),
        }
    }

    #[rustfmt::skip]
    const HELLO: [u8; 45] = [
        b'o', b'x', b'i', b'f', b'-', b's', b'h', b'm', 3, 0, 1, 0,
        1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0,
        0, 1, 0, 0, 0, 0, 1, 0, 1, b'a', 2, b'b', b'c',
    ];

    #[test]
    fn hello_is_laid_out_as_documented() {
        assert_eq!(Handshake::Hello(hello()).emit(), HELLO);
        assert_eq!(Handshake::parse(&HELLO), Ok(Handshake::Hello(hello())));
    }

    #[test]
    fn every_cut_is_short() {
        for end in 0..HELLO.len() {
            assert_eq!(Handshake::parse(&HELLO[..end]), Err(HandshakeError::Short));
        }
    }

    #[test]
    fn names_each_broken_rule() {
        let broken = |at: usize, value: u8| {
            let mut bytes = HELLO;
            bytes[at] = value;
            Handshake::parse(&bytes)
        };
        assert_eq!(broken(0, b'x'), Err(HandshakeError::Magic));
        assert_eq!(broken(8, 9), Err(HandshakeError::Version(9)));
        assert_eq!(broken(10, 9), Err(HandshakeError::Kind(9)));
        assert_eq!(broken(41, 0xff), Err(HandshakeError::Name));
        let nameless = Hello {
            to: "".into(),
            ..hello()
        };
        assert_eq!(
            Handshake::parse(&Handshake::Hello(nameless).emit()),
            Err(HandshakeError::Name)
        );
    }

    #[test]
    fn refusals_are_understood_in_any_version() {
        let refuse = Handshake::Refuse(Refuse {
            cause: Cause::Version,
            text: "no".into(),
        });
        let mut bytes = refuse.emit();
        bytes[8] = 77;
        assert_eq!(Handshake::parse(&bytes), Ok(refuse));
        bytes[12] = 99;
        assert_eq!(Handshake::parse(&bytes), Err(HandshakeError::Cause(99)));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let text: String = core::iter::repeat_n('é', 200).collect();
        let bytes = Handshake::Refuse(Refuse {
            cause: Cause::Limit,
            text,
        })
        .emit();
        assert!(bytes.len() <= MAX_SIZE);
        assert!(Handshake::parse(&bytes).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(
            (incarnation, probe, cells, bytes) in any::<(u64, u64, u32, u32)>(),
            from in "[a-z:/]{1,255}",
            to in "[a-z:/]{1,255}",
            flags in 0u32..4,
        ) {
            let ability = Ability::from_bits_truncate(flags);
            let hello = Handshake::Hello(Hello {
                ability, incarnation, probe, cells, bytes, from: from.into(), to: to.into(),
            });
            let accept = Handshake::Accept(Accept { ability, incarnation, probe });
            for handshake in [hello, accept, Handshake::Ready(ability)] {
                prop_assert_eq!(Handshake::parse(&handshake.emit()), Ok(handshake));
            }
        }

        #[test]
        fn anything_parses_or_is_refused(bytes: Vec<u8>) {
            let _ = Handshake::parse(&bytes);
            let mut ours = MAGIC.to_vec();
            ours.extend_from_slice(&VERSION.to_le_bytes());
            ours.extend_from_slice(&bytes);
            let _ = Handshake::parse(&ours);
        }
    }
}
