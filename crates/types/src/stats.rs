//! Figures that a process publishes of its endpoints while it runs (`FI_OXI_STATS`), as `oxi top` reads them.
//!
//! It is a sealed file in memory without a name: a head, and behind it one slot for each endpoint. All numbers are 64-bit words of
//! the machine. The process writes a slot between two changes of its first word, which is odd while it does (a seqlock). The
//! reader reads a slot twice, and trusts it if that word is even and the same both times. The file may be any program's: whatever the bytes
//! are, decoding them ends in a value or in `None`, texts without control characters included.

use alloc::boxed::Box;
use alloc::string::String;
use core::ffi::CStr;

use crate::EpType;

/// The name that the kernel shows for the file.
pub const FILE_NAME: &CStr = c"oxifabric-stats";

/// Words of a slot, and of the head.
pub const SLOT_WORDS: usize = 64;

/// Bytes of a slot, and of the head.
pub const SLOT_BYTES: usize = SLOT_WORDS * 8;

/// How many endpoints of a process can have a slot at once.
pub const MAX_SLOTS: usize = 1024;

/// How long the file is.
pub const FILE_BYTES: usize = SLOT_BYTES * (1 + MAX_SLOTS);

/// The first word of the file; another layout has another one.
pub const MAGIC: u64 = u64::from_le_bytes(*b"OXISTAT1");

/// Where in the head the process's number is, by words.
pub const HEAD_PID: usize = 1;

/// Where in the head the number of slots is that have been used since the beginning.
pub const HEAD_USED: usize = 2;

/// Where in the head the number of endpoints is for which there was no slot.
pub const HEAD_MISSED: usize = 3;

/// Words of a slot that say which endpoint it is; the first is the changing one, the second zero in a slot that is free.
pub const IDENTITY_WORDS: usize = 18;

const PROVIDER: usize = 3;
const PROVIDER_WORDS: usize = 4;
const ADDRESS: usize = PROVIDER + PROVIDER_WORDS;
const ADDRESS_WORDS: usize = 11;
const _: () = assert!(ADDRESS + ADDRESS_WORDS == IDENTITY_WORDS);

/// Words of [`Figures`].
pub const FIGURES_WORDS: usize = 20;
const _: () = assert!(IDENTITY_WORDS + FIGURES_WORDS <= SLOT_WORDS);

/// The head of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// Slots from here on have never been used.
    pub used: usize,
    /// For how many endpoints there was no slot.
    pub missed: u64,
}

/// Which endpoint a slot is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number in the process, from one, in the order of enabling.
    pub id: u64,
    /// Its kind.
    pub kind: EpType,
    /// The provider's name.
    pub provider: String,
    /// Its own address; a long one is cut off.
    pub address: String,
}

/// Operations of one kind that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of operations.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}

/// The kinds of operations, in the order of [`Figures::traffic`].
pub const KINDS: [&str; 6] = [
    "send",
    "receive",
    "read",
    "write",
    "remote_read",
    "remote_write",
];

/// What an endpoint counted since it was enabled, and how things stood at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The moment, in nanoseconds of CLOCK_MONOTONIC.
    pub sampled_ns: u64,
    /// By kinds: [`KINDS`].
    pub traffic: [Traffic; KINDS.len()],
    /// Operations that failed, other than by fi_cancel(3).
    pub errors: u64,
    /// Packets that were retransmitted.
    pub retransmissions: u64,
    /// Peers that the application has named, or of which something has arrived.
    pub peers: u64,
    /// Sends, reads, writes and atomics that are under way.
    pub sends: u64,
    /// Receives that wait for a message.
    pub receives: u64,
    /// Messages that wait for a receive.
    pub unexpected: u64,
    /// Bytes that unexpected messages take of the bound on them.
    pub unexpected_bytes: u64,
}

impl Head {
    /// Reads the head of a file; `None` if it is none, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let words = words(bytes)?;
        if words[0] != MAGIC {
            return None;
        }
        Some(Self {
            pid: u32::try_from(words[HEAD_PID]).ok()?,
            used: usize::try_from(words[HEAD_USED]).ok()?.min(MAX_SLOTS),
            missed: words[HEAD_MISSED],
        })
    }
}

impl Identity {
    /// Encodes it as the first words of a slot; the word that changes is zero.
    pub fn encode(&self) -> [u64; IDENTITY_WORDS] {
        let mut words = [0; IDENTITY_WORDS];
        words[1] = self.id;
        words[2] = u64::from(self.kind.raw());
        spell(&self.provider, &mut words[PROVIDER..ADDRESS]);
        spell(&self.address, &mut words[ADDRESS..]);
        words
    }

    fn decode(words: &[u64; SLOT_WORDS]) -> Option<Self> {
        let raw = u32::try_from(words[2]).ok()?;
        Some(Self {
            id: words[1],
            kind: EpType::from_raw(raw)?,
            provider: text(&words[PROVIDER..ADDRESS]),
            address: text(&words[ADDRESS..IDENTITY_WORDS]),
        })
    }
}

impl Figures {
    /// Encodes them as the words of a slot behind [`IDENTITY_WORDS`].
    pub fn encode(&self) -> [u64; FIGURES_WORDS] {
        let mut words = [0; FIGURES_WORDS];
        words[0] = self.sampled_ns;
        for (pair, traffic) in words[1..13].chunks_exact_mut(2).zip(&self.traffic) {
            pair.copy_from_slice(&[traffic.operations, traffic.bytes]);
        }
        words[13..].copy_from_slice(&[
            self.errors,
            self.retransmissions,
            self.peers,
            self.sends,
            self.receives,
            self.unexpected,
            self.unexpected_bytes,
        ]);
        words
    }

    fn decode(words: &[u64; SLOT_WORDS]) -> Self {
        let words = &words[IDENTITY_WORDS..];
        let traffic = core::array::from_fn(|kind| Traffic {
            operations: words[1 + 2 * kind],
            bytes: words[2 + 2 * kind],
        });
        Self {
            sampled_ns: words[0],
            traffic,
            errors: words[13],
            retransmissions: words[14],
            peers: words[15],
            sends: words[16],
            receives: words[17],
            unexpected: words[18],
            unexpected_bytes: words[19],
        }
    }
}

/// The result of reading a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// No endpoint has it, or what it says makes no sense.
    Free,
    /// It was being written: read it again.
    Busy,
    /// It is about this endpoint.
    Of(Box<Identity>, Figures),
}

impl Slot {
    /// Decodes the bytes of a slot; `again` are the bytes of the same slot that were read after all of the others.
    pub fn decode(bytes: &[u8], again: &[u8]) -> Self {
        let (Some(words), Some(again)) = (words(bytes), words(again)) else {
            return Self::Free;
        };
        if words[0] % 2 != 0 || words[0] != again[0] {
            return Self::Busy;
        }
        match Identity::decode(&words) {
            Some(identity) if identity.id != 0 => {
                Self::Of(Box::new(identity), Figures::decode(&words))
            }
            _ => Self::Free,
        }
    }
}

/// Returns the words of a slot; `None` if there are too few bytes.
fn words(bytes: &[u8]) -> Option<[u64; SLOT_WORDS]> {
    let bytes = bytes.get(..SLOT_BYTES)?;
    let mut words = [0; SLOT_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// Writes a text into words, as much of it as there is room for.
fn spell(text: &str, into: &mut [u64]) {
    for (word, bytes) in into.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(padded);
    }
}

/// Reads a text out of words, up to a zero byte. What is no printable character is a question mark.
fn text(words: &[u64]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
    let printed = bytes.take_while(|&byte| byte != 0).map(|byte| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '?',
    });
    printed.collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn identity() -> Identity {
        Identity {
            id: 7,
            kind: EpType::Rdm,
            provider: "udp;ofi_rxd".into(),
            address: "127.0.0.1:4711".into(),
        }
    }

    fn figures() -> Figures {
        let mut figures = Figures {
            sampled_ns: 1,
            errors: 2,
            retransmissions: 3,
            peers: 4,
            sends: 5,
            receives: 6,
            unexpected: 7,
            unexpected_bytes: u64::MAX,
            ..Figures::default()
        };
        for (at, traffic) in figures.traffic.iter_mut().enumerate() {
            (traffic.operations, traffic.bytes) = (at as u64, at as u64 * 100);
        }
        figures
    }

    fn slot(sequence: u64) -> Vec<u8> {
        let mut words = [0; SLOT_WORDS];
        words[..IDENTITY_WORDS].copy_from_slice(&identity().encode());
        words[IDENTITY_WORDS..][..FIGURES_WORDS].copy_from_slice(&figures().encode());
        words[0] = sequence;
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = slot(4);
        assert_eq!(
            Slot::decode(&bytes, &bytes),
            Slot::Of(Box::new(identity()), figures())
        );
    }

    #[test]
    fn a_slot_that_changes_is_busy() {
        assert_eq!(Slot::decode(&slot(4), &slot(6)), Slot::Busy);
        assert_eq!(Slot::decode(&slot(5), &slot(5)), Slot::Busy);
    }

    #[test]
    fn what_makes_no_sense_is_no_endpoint() {
        let whole = slot(4);
        assert_eq!(Slot::decode(&whole[1..], &whole), Slot::Free);
        assert_eq!(Slot::decode(&whole, &[]), Slot::Free);
        for (word, value) in [(1, 0_u64), (2, 77), (2, u64::MAX)] {
            let mut bytes = whole.clone();
            bytes[word * 8..][..8].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(Slot::decode(&bytes, &bytes), Slot::Free, "{word}");
        }
    }

    #[test]
    fn texts_have_no_control_characters_and_an_end() {
        let mut bytes = slot(0);
        bytes[PROVIDER * 8..][..32].copy_from_slice(b"\x1b[2Jclear the screen\xff\n and so on");
        let Slot::Of(identity, _) = Slot::decode(&bytes, &bytes) else {
            panic!("it is about an endpoint");
        };
        assert_eq!(identity.provider, "?[2Jclear the screen?? and so on");
        let long = Identity {
            address: "x".repeat(1000),
            ..*identity
        };
        let mut words = [0; SLOT_WORDS];
        words[..IDENTITY_WORDS].copy_from_slice(&long.encode());
        let read = Identity::decode(&words).map(|identity| identity.address.len());
        assert_eq!(read, Some(ADDRESS_WORDS * 8));
    }

    #[test]
    fn a_head_is_known_by_its_first_word_and_bounds_the_slots() {
        let head = |words: [u64; 4]| {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            bytes.resize(SLOT_BYTES, 0);
            Head::decode(&bytes)
        };
        let read = head([MAGIC, 12, u64::MAX, 1]).map(|head| (head.pid, head.used, head.missed));
        assert_eq!(read, Some((12, MAX_SLOTS, 1)));
        assert_eq!(head([MAGIC + 1, 12, 1, 0]), None);
        assert_eq!(head([MAGIC, u64::MAX, 1, 0]), None);
        assert_eq!(Head::decode(&[]), None);
    }
}
