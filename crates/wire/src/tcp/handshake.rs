//! Identity of an endpoint: the data of a connection message between reliable datagram endpoints (docs/protocol/tcp.md
//! section 3).

use core::fmt;

use super::ByteOrder;
use super::cursor::{Reader, Writer};

/// The most bytes that [`Handshake::emit`] writes.
pub const HANDSHAKE_MAX: usize = 16;

const MAGIC: [u8; 4] = *b"OXIF";
const CHECKED: u8 = 0x80;

/// The protocol version that has tagged rendezvous transfers.
pub const VERSION_RNDV: u8 = 1;

/// The feature bit of an endpoint that cannot be connected to.
pub const FEATURE_FIREWALL: u8 = 1;

/// Identity that one endpoint sends to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Version of the reliable datagram protocol, 0 to 127.
    pub version: u8,
    /// Of a response: the version was checked, so that it is really spoken (0 and unchecked otherwise).
    pub checked: bool,
    /// Feature bits.
    pub features: u8,
    /// The port on which the sender of the request takes connections.
    pub port: u16,
    /// The sender's process.
    pub pid: u32,
    /// What the sender can do beyond that: bits of section 5; `None` when it does not know of them.
    pub extension: Option<u32>,
}

/// The rule that a handshake breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// There are fewer than 8 bytes.
    Truncated,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a handshake of fewer than 8 bytes"),
        }
    }
}

impl Handshake {
    /// Reads a handshake; what follows it and is no extension is ignored.
    ///
    /// # Errors
    /// [`HandshakeError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, HandshakeError> {
        let mut reader = Reader::new(bytes, ByteOrder::Big);
        (|| {
            let version = reader.u8()?;
            Some(Self {
                version: version & !CHECKED,
                checked: version & CHECKED != 0,
                features: reader.u8()?,
                port: reader.u16()?,
                pid: reader.u32()?,
                extension: parse_extension(bytes.get(8..)?),
            })
        })()
        .ok_or(HandshakeError::Truncated)
    }

    /// Writes the handshake to the start of `out`; `None` when there is no room.
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::new(out, ByteOrder::Big);
        let checked = if self.checked { CHECKED } else { 0 };
        writer.put(&[self.version & !CHECKED | checked, self.features])?;
        writer.u16(self.port)?;
        writer.u32(self.pid)?;
        if let Some(bits) = self.extension {
            writer.put(&MAGIC)?;
            writer.u32(bits)?;
        }
        Some(writer.len())
    }
}

fn parse_extension(bytes: &[u8]) -> Option<u32> {
    let bits = bytes.strip_prefix(&MAGIC)?;
    Reader::new(bits, ByteOrder::Big).u32()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: [u8; 8] = [1, 0, 0x1f, 0x90, 0, 0, 0x30, 0x39];

    fn plain() -> Handshake {
        Handshake {
            version: 1,
            checked: false,
            features: 0,
            port: 8080,
            pid: 12345,
            extension: None,
        }
    }

    #[test]
    fn reads_and_writes_the_bytes_of_a_plain_handshake() {
        assert_eq!(Handshake::parse(&PLAIN), Ok(plain()));
        let mut out = [0; HANDSHAKE_MAX];
        assert_eq!(plain().emit(&mut out), Some(8));
        assert_eq!(out[..8], PLAIN);
    }

    #[test]
    fn the_top_bit_of_the_version_says_that_it_was_checked() {
        let mut bytes = PLAIN;
        bytes[0] = 0x81;
        let handshake = Handshake::parse(&bytes).expect("a response");
        assert_eq!((handshake.version, handshake.checked), (1, true));
        let mut out = [0; 8];
        assert_eq!(handshake.emit(&mut out), Some(8));
        assert_eq!(out, bytes);
    }

    #[test]
    fn an_extension_travels_behind_and_unknown_ones_there_are_ignored() {
        let extended = Handshake {
            extension: Some(0x0102_0304),
            ..plain()
        };
        let mut out = [0; HANDSHAKE_MAX];
        assert_eq!(extended.emit(&mut out), Some(HANDSHAKE_MAX));
        assert_eq!(out[8..], *b"OXIF\x01\x02\x03\x04");
        assert_eq!(Handshake::parse(&out), Ok(extended));
        assert_eq!(Handshake::parse(&out[..15]), Ok(plain()));
        out[8] = b'Y';
        assert_eq!(Handshake::parse(&out), Ok(plain()));
    }

    #[test]
    fn too_few_bytes_are_no_handshake() {
        for len in 0..8 {
            assert_eq!(
                Handshake::parse(&PLAIN[..len]),
                Err(HandshakeError::Truncated)
            );
        }
        assert_eq!(plain().emit(&mut [0; 7]), None);
    }
}
