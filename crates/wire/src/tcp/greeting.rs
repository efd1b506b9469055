//! Identity of an endpoint: the data of a connection message between reliable datagram endpoints (docs/protocol/tcp.md
//! section 3).

use core::fmt;

use super::ByteOrder;
use super::cursor::{Reader, Writer};

/// The most bytes that [`Greeting::emit`] writes.
pub const GREETING_MAX: usize = 16;

const MAGIC: [u8; 4] = *b"OXIF";
const CHECKED: u8 = 0x80;

/// The protocol version that has tagged rendezvous transfers.
pub const VERSION_RNDV: u8 = 1;

/// The feature bit of an endpoint that cannot be connected to.
pub const FEATURE_FIREWALL: u8 = 1;

/// Identity that one endpoint sends to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
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

/// The rule that a greeting breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreetingError {
    /// There are fewer than 8 bytes.
    Truncated,
}

impl fmt::Display for GreetingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a greeting of fewer than 8 bytes"),
        }
    }
}

impl Greeting {
    /// Reads a greeting; what follows it and is no extension is ignored.
    ///
    /// # Errors
    /// [`GreetingError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, GreetingError> {
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
        .ok_or(GreetingError::Truncated)
    }

    /// Writes the greeting to the start of `out`; `None` when there is no room.
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

    fn plain() -> Greeting {
        Greeting {
            version: 1,
            checked: false,
            features: 0,
            port: 8080,
            pid: 12345,
            extension: None,
        }
    }

    #[test]
    fn reads_and_writes_the_bytes_of_a_plain_greeting() {
        assert_eq!(Greeting::parse(&PLAIN), Ok(plain()));
        let mut out = [0; GREETING_MAX];
        assert_eq!(plain().emit(&mut out), Some(8));
        assert_eq!(out[..8], PLAIN);
    }

    #[test]
    fn the_top_bit_of_the_version_says_that_it_was_checked() {
        let mut bytes = PLAIN;
        bytes[0] = 0x81;
        let greeting = Greeting::parse(&bytes).expect("a response");
        assert_eq!((greeting.version, greeting.checked), (1, true));
        let mut out = [0; 8];
        assert_eq!(greeting.emit(&mut out), Some(8));
        assert_eq!(out, bytes);
    }

    #[test]
    fn an_extension_travels_behind_and_unknown_ones_there_are_ignored() {
        let extended = Greeting {
            extension: Some(0x0102_0304),
            ..plain()
        };
        let mut out = [0; GREETING_MAX];
        assert_eq!(extended.emit(&mut out), Some(GREETING_MAX));
        assert_eq!(out[8..], *b"OXIF\x01\x02\x03\x04");
        assert_eq!(Greeting::parse(&out), Ok(extended));
        assert_eq!(Greeting::parse(&out[..15]), Ok(plain()));
        out[8] = b'Y';
        assert_eq!(Greeting::parse(&out), Ok(plain()));
    }

    #[test]
    fn too_few_bytes_are_no_greeting() {
        for len in 0..8 {
            assert_eq!(
                Greeting::parse(&PLAIN[..len]),
                Err(GreetingError::Truncated)
            );
        }
        assert_eq!(plain().emit(&mut [0; 7]), None);
    }
}
