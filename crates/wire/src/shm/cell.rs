//! The cell of a frame: 32 bits of meta and seven words of the host's byte order, docs/protocol/shm.md "Frames".

use core::fmt;

/// Longest body that travels inside its cell.
pub const INLINE: usize = 32;
/// Words of the cell that [`INLINE`] bytes take.
pub const INLINE_WORDS: usize = INLINE / 8;
/// Maximum number of pieces that an Rts names.
pub const MAX_PIECES: usize = 4;
/// Bytes that a piece takes in the byte ring.
pub const PIECE: usize = 16;
/// Maximum number of targets that an access names.
pub const MAX_TARGETS: usize = 4;
/// Bytes that a target takes in the byte ring.
pub const TARGET: usize = 24;

/// Shifts of the fields of meta.
mod shift {
    pub(super) const FLAGS: u32 = 8;
    pub(super) const FORM: u32 = 16;
    pub(super) const INLINE_LEN: u32 = 24;
}

/// Indices of words.
mod word {
    /// The identifier; in the upper half the length of a body in the ring.
    pub(super) const ID: usize = 0;
    pub(super) const TAG: usize = 1;
    pub(super) const DATA: usize = 2;
    /// The message's length, or the first word of an inline body.
    pub(super) const LEN: usize = 3;
    pub(super) const ADDRESS: usize = 4;
    pub(super) const PIECE_LEN: usize = 5;
    /// Of an access: how many targets; above, what follows them.
    pub(super) const TARGETS: usize = 4;
    /// Of an access to one target: its key.
    pub(super) const KEY: usize = 4;
}

/// Longest body that travels inside the cell of an access.
pub const INLINE_ACCESS: usize = 24;
/// Words of the cell that [`INLINE_ACCESS`] bytes take.
pub const INLINE_ACCESS_WORDS: usize = INLINE_ACCESS / 8;

/// Values of the form field.
mod form {
    pub(super) const INLINE: u8 = 0;
    pub(super) const RING: u8 = 1;
    pub(super) const BARE: u8 = 2;
    pub(super) const REMOTE: u8 = 3;
    pub(super) const REMOTE_RING: u8 = 4;
    pub(super) const LINK: u8 = 5;
    pub(super) const TARGETED: u8 = 6;
    pub(super) const ACCESS: u8 = 7;
    pub(super) const ONE_TARGET: u8 = 8;
}

/// A frame's cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What the frame is ([`kind`](super::kind)); with [`Body::Link`], as the link numbers its own.
    pub kind: u8,
    /// What goes with it.
    pub flags: u8,
    /// The operation that it belongs to.
    pub id: u32,
    /// Its tag or offset.
    pub tag: u64,
    /// Its completion data or status.
    pub data: u64,
    /// The length of the whole message; of an inline body, its own.
    pub len: u64,
    /// Where its body is.
    pub body: Body,
}

/// Where the body of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The frame has none.
    Bare,
    /// In the cell: a whole message of at most [`INLINE`] bytes. Bytes behind `len` mean nothing.
    Inline {
        /// The bytes, as [`inline_words`] packs them: words are what the cell has, and stay where they are aligned.
        words: [u64; INLINE_WORDS],
        /// Their number.
        len: u8,
    },
    /// In the byte ring.
    Ring {
        /// Its length.
        len: u32,
    },
    /// At the sender, in one piece.
    Remote {
        /// The address.
        address: u64,
        /// The length.
        len: u64,
    },
    /// At the sender, in pieces that the byte ring lists.
    RemoteRing {
        /// The number of pieces.
        count: u8,
    },
    /// There is none: the frame is one of the links' own, with two more words.
    Link {
        /// Their values.
        words: [u64; 2],
    },
    /// In the cell: a whole message for one piece of the receiver's memory, of the same length. [`Cell::tag`] is where
    /// that is.
    Access {
        /// The key of the memory.
        key: u64,
        /// The bytes, as in [`Body::Inline`].
        words: [u64; INLINE_ACCESS_WORDS],
        /// Their number.
        len: u8,
    },
    /// In the byte ring, for one piece of the receiver's memory as long as the message; or, of a read, none. [`Cell::tag`]
    /// is where that piece is.
    OneTarget {
        /// The key of the memory.
        key: u64,
        /// Length of the body in the ring.
        ring_len: u32,
    },
    /// In the byte ring, behind a list of the receiver's memory that it is about.
    Targeted {
        /// Number of bytes that the list and the rest take in the ring.
        ring_len: u32,
        /// Number of targets.
        targets: u8,
        /// What follows the list.
        rest: Rest,
    },
}

/// What follows a list of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rest {
    /// No body.
    Nothing = 0,
    /// The body.
    Body = 1,
    /// A list of the pieces at the sender that make up the body.
    Pieces = 2,
}

/// The error of words that are not a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellError {
    /// The form is none of those that there are.
    UnknownForm(u8),
    /// The inline length exceeds the cell.
    InlineTooLong(u8),
    /// An Rts names more pieces than [`MAX_PIECES`], or part of one.
    Pieces(u32),
    /// An access names no targets or more than [`MAX_TARGETS`], or what follows them is unknown or does not fit.
    Targets(u64),
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownForm(form) => write!(f, "a cell has the unknown form {form}"),
            Self::InlineTooLong(len) => write!(f, "a cell claims {len} bytes of inline body"),
            Self::Pieces(len) => write!(f, "a cell claims {len} bytes of pieces"),
            Self::Targets(word) => write!(f, "a cell describes its targets by {word:#x}"),
        }
    }
}

impl core::error::Error for CellError {}

impl Cell {
    /// Reads a cell.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline(always)]
    pub fn parse(meta: u32, words: &[u64; 7]) -> Result<Self, CellError> {
        let form = (meta >> shift::FORM) as u8;
        let ring_len = (words[word::ID] >> 32) as u32;
        let len = words[word::LEN];
        let body = match form {
            form::INLINE => return Self::parse_inline(meta, words),
            form::ACCESS => return Self::parse_access(meta, words),
            form::RING => return Ok(Self::parse_ring(meta, words).0),
            form::BARE => Body::Bare,
            form::REMOTE => Body::Remote {
                address: words[word::ADDRESS],
                len: words[word::PIECE_LEN],
            },
            form::REMOTE_RING => Body::RemoteRing {
                count: piece_count(ring_len)?,
            },
            form::LINK => Body::Link {
                words: [words[word::ADDRESS], words[word::PIECE_LEN]],
            },
            form::ONE_TARGET => return Ok(Self::parse_one_target(meta, words).0),
            form::TARGETED => parse_targeted(ring_len, words[word::TARGETS])?,
            unknown => return Err(CellError::UnknownForm(unknown)),
        };
        Ok(Self::with_body(meta, words, len, body))
    }

    /// Reads a cell that [`is_ring`] says has a body in the byte ring; returns it and how long that is.
    #[inline(always)]
    pub const fn parse_ring(meta: u32, words: &[u64; 7]) -> (Self, usize) {
        let len = (words[word::ID] >> 32) as u32;
        let cell = Self::with_body(meta, words, words[word::LEN], Body::Ring { len });
        (cell, len as usize)
    }

    /// Reads a cell that [`is_access`] says brings the body of a short write along.
    ///
    /// # Errors
    /// As [`Cell::parse_inline`].
    #[inline(always)]
    pub fn parse_access(meta: u32, words: &[u64; 7]) -> Result<Self, CellError> {
        let len = (meta >> shift::INLINE_LEN) as u8;
        if usize::from(len) > INLINE_ACCESS {
            return Err(CellError::InlineTooLong(len));
        }
        let body = Body::Access {
            key: words[word::LEN],
            words: core::array::from_fn(|at| words[word::ADDRESS + at]),
            len,
        };
        Ok(Self::with_body(meta, words, u64::from(len), body))
    }

    /// Reads a cell that [`is_one_target`] says is about one piece of memory; returns it, the key and how long the body in the
    /// byte ring is.
    #[inline(always)]
    pub const fn parse_one_target(meta: u32, words: &[u64; 7]) -> (Self, u64, usize) {
        let ring_len = (words[word::ID] >> 32) as u32;
        let key = words[word::KEY];
        let body = Body::OneTarget { key, ring_len };
        let cell = Self::with_body(meta, words, words[word::LEN], body);
        (cell, key, ring_len as usize)
    }

    #[inline(always)]
    const fn with_body(meta: u32, words: &[u64; 7], len: u64, body: Body) -> Self {
        Self {
            kind: meta as u8,
            flags: (meta >> shift::FLAGS) as u8,
            id: words[word::ID] as u32,
            tag: words[word::TAG],
            data: words[word::DATA],
            len,
            body,
        }
    }

    /// Reads a cell that [`is_inline`] says brings its body along.
    ///
    /// # Errors
    /// The body is longer than a cell.
    #[inline(always)]
    pub fn parse_inline(meta: u32, words: &[u64; 7]) -> Result<Self, CellError> {
        let len = (meta >> shift::INLINE_LEN) as u8;
        if usize::from(len) > INLINE {
            return Err(CellError::InlineTooLong(len));
        }
        let body = Body::Inline {
            words: core::array::from_fn(|at| words[word::LEN + at]),
            len,
        };
        Ok(Self::with_body(meta, words, u64::from(len), body))
    }

    /// Returns meta and words of the cell.
    #[inline(always)]
    pub fn emit(&self) -> (u32, [u64; 7]) {
        let mut words = [u64::from(self.id), self.tag, self.data, self.len, 0, 0, 0];
        let mut inline_len = 0;
        let form = match self.body {
            Body::Bare => form::BARE,
            Body::Inline { words: body, len } => {
                inline_len = len;
                words[word::LEN..].copy_from_slice(&body);
                form::INLINE
            }
            Body::Access {
                key,
                words: body,
                len,
            } => {
                inline_len = len;
                words[word::LEN] = key;
                words[word::ADDRESS..].copy_from_slice(&body);
                form::ACCESS
            }
            Body::Ring { len } => {
                words[word::ID] |= u64::from(len) << 32;
                form::RING
            }
            Body::Remote { address, len } => {
                words[word::ADDRESS] = address;
                words[word::PIECE_LEN] = len;
                form::REMOTE
            }
            Body::RemoteRing { count } => {
                words[word::ID] |= (u64::from(count) * PIECE as u64) << 32;
                form::REMOTE_RING
            }
            Body::Link { words: more } => {
                words[word::ADDRESS] = more[0];
                words[word::PIECE_LEN] = more[1];
                form::LINK
            }
            Body::OneTarget { key, ring_len } => {
                words[word::ID] |= u64::from(ring_len) << 32;
                words[word::KEY] = key;
                form::ONE_TARGET
            }
            Body::Targeted {
                ring_len,
                targets,
                rest,
            } => {
                words[word::ID] |= u64::from(ring_len) << 32;
                words[word::TARGETS] = u64::from(targets) | (rest as u64) << 8;
                form::TARGETED
            }
        };
        let meta = u32::from(self.kind)
            | u32::from(self.flags) << shift::FLAGS
            | u32::from(form) << shift::FORM
            | u32::from(inline_len) << shift::INLINE_LEN;
        (meta, words)
    }
}

/// Returns whether a cell brings a whole message along, as most do.
#[inline(always)]
pub const fn is_inline(meta: u32) -> bool {
    (meta >> shift::FORM) as u8 == form::INLINE
}

/// Returns whether a cell has a body in the byte ring.
#[inline(always)]
pub const fn is_ring(meta: u32) -> bool {
    (meta >> shift::FORM) as u8 == form::RING
}

/// Returns whether a cell brings the body of a short write along, [`Body::Access`].
#[inline(always)]
pub const fn is_access(meta: u32) -> bool {
    (meta >> shift::FORM) as u8 == form::ACCESS
}

/// Returns whether a cell is about one piece of the receiver's memory, [`Body::OneTarget`].
#[inline(always)]
pub const fn is_one_target(meta: u32) -> bool {
    (meta >> shift::FORM) as u8 == form::ONE_TARGET
}

/// Packs a body for [`Body::Inline`].
#[inline(always)]
pub fn inline_words(bytes: &[u8; INLINE]) -> [u64; INLINE_WORDS] {
    words_of(bytes.as_chunks().0)
}

/// Unpacks the body of [`Body::Inline`].
#[inline(always)]
pub fn inline_bytes(words: [u64; INLINE_WORDS]) -> [u8; INLINE] {
    let mut bytes = [0; INLINE];
    set_words(&mut bytes, words);
    bytes
}

/// Packs a body for [`Body::Access`].
#[inline(always)]
pub fn access_words(bytes: &[u8; INLINE_ACCESS]) -> [u64; INLINE_ACCESS_WORDS] {
    words_of(bytes.as_chunks().0)
}

/// Unpacks the body of [`Body::Access`].
#[inline(always)]
pub fn access_bytes(words: [u64; INLINE_ACCESS_WORDS]) -> [u8; INLINE_ACCESS] {
    let mut bytes = [0; INLINE_ACCESS];
    set_words(&mut bytes, words);
    bytes
}

/// Reads one piece, address and length, of the list in the byte ring.
pub fn parse_piece(bytes: &[u8; PIECE]) -> (u64, u64) {
    let [address, len] = words_of(bytes.as_chunks().0);
    (address, len)
}

/// Writes one piece of the list in the byte ring.
pub fn emit_piece(address: u64, len: u64) -> [u8; PIECE] {
    let mut bytes = [0; PIECE];
    set_words(&mut bytes, [address, len]);
    bytes
}

/// Reads one target, address, length and key, of the list in the byte ring.
pub fn parse_target(bytes: &[u8; TARGET]) -> (u64, u64, u64) {
    let [address, len, key] = words_of(bytes.as_chunks().0);
    (address, len, key)
}

/// Writes one target of the list in the byte ring.
pub fn emit_target(address: u64, len: u64, key: u64) -> [u8; TARGET] {
    let mut bytes = [0; TARGET];
    set_words(&mut bytes, [address, len, key]);
    bytes
}

#[inline(always)]
fn words_of<const N: usize>(bytes: &[[u8; 8]]) -> [u64; N] {
    let mut words = [0; N];
    for (word, from) in words.iter_mut().zip(bytes) {
        *word = u64::from_ne_bytes(*from);
    }
    words
}

#[inline(always)]
fn set_words<const N: usize>(bytes: &mut [u8], words: [u64; N]) {
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
}

fn parse_targeted(ring_len: u32, word: u64) -> Result<Body, CellError> {
    let rest = match word >> 8 {
        0 => Rest::Nothing,
        1 => Rest::Body,
        2 => Rest::Pieces,
        _ => return Err(CellError::Targets(word)),
    };
    let targets = word as u8;
    let listed = usize::from(targets) * TARGET;
    let left = (ring_len as usize).checked_sub(listed);
    let fits = match (rest, left) {
        (_, None) => false,
        (Rest::Nothing, Some(left)) => left == 0,
        (Rest::Body, Some(left)) => left > 0,
        (Rest::Pieces, Some(left)) => piece_count(left as u32).is_ok(),
    };
    if !(1..=MAX_TARGETS).contains(&usize::from(targets)) || !fits {
        return Err(CellError::Targets(word));
    }
    Ok(Body::Targeted {
        ring_len,
        targets,
        rest,
    })
}

fn piece_count(ring_len: u32) -> Result<u8, CellError> {
    let count = ring_len as usize / PIECE;
    if count * PIECE != ring_len as usize || count == 0 || count > MAX_PIECES {
        return Err(CellError::Pieces(ring_len));
    }
    Ok(count as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bare() -> Cell {
        Cell {
            kind: 3,
            flags: 5,
            id: 0x0102_0304,
            tag: 0x1111,
            data: 0x2222,
            len: 0x3333,
            body: Body::Bare,
        }
    }

    #[test]
    fn lays_fields_out_as_documented() {
        let (meta, words) = bare().emit();
        assert_eq!(meta, 0x0002_0503);
        assert_eq!(words, [0x0102_0304, 0x1111, 0x2222, 0x3333, 0, 0, 0]);
        let ring = Cell {
            body: Body::Ring { len: 9 },
            ..bare()
        };
        assert_eq!(ring.emit().1[0], 0x9_0102_0304);
    }

    #[test]
    fn refuses_unknown_forms() {
        assert_eq!(
            Cell::parse(9 << 16, &[0; 7]),
            Err(CellError::UnknownForm(9))
        );
    }

    #[test]
    fn refuses_inline_bodies_longer_than_the_cell() {
        assert_eq!(
            Cell::parse(33 << 24, &[0; 7]),
            Err(CellError::InlineTooLong(33))
        );
        assert_eq!(
            Cell::parse(25 << 24 | 7 << 16, &[0; 7]),
            Err(CellError::InlineTooLong(25))
        );
    }

    #[test]
    fn refuses_impossible_lists_of_pieces() {
        for len in [0u32, 15, 17, 80] {
            let mut words = [0; 7];
            words[0] = u64::from(len) << 32;
            assert_eq!(Cell::parse(4 << 16, &words), Err(CellError::Pieces(len)));
        }
    }

    #[test]
    fn refuses_impossible_lists_of_targets() {
        let parse = |ring_len: u64, word| {
            let mut words = [0; 7];
            words[0] = ring_len << 32;
            words[4] = word;
            Cell::parse(6 << 16, &words).map(|_| ())
        };
        assert_eq!(parse(24, 1), Ok(()));
        assert_eq!(parse(25, 1 | 1 << 8), Ok(()));
        assert_eq!(parse(40, 1 | 2 << 8), Ok(()));
        for (ring_len, word) in [
            (0, 0),
            (120, 5),
            (23, 1),
            (25, 1),
            (24, 0x101),
            (30, 0x201),
            (24, 0x301),
        ] {
            assert_eq!(parse(ring_len, word), Err(CellError::Targets(word)));
        }
    }

    #[test]
    fn listed_memory_survives() {
        assert_eq!(parse_piece(&emit_piece(7, 9)), (7, 9));
        assert_eq!(parse_target(&emit_target(7, 9, 11)), (7, 9, 11));
    }

    fn body() -> impl Strategy<Value = Body> {
        prop_oneof![
            Just(Body::Bare),
            (any::<[u8; INLINE]>(), 0..=INLINE as u8).prop_map(|(bytes, len)| Body::Inline {
                words: inline_words(&bytes),
                len
            }),
            any::<u32>().prop_map(|len| Body::Ring { len }),
            any::<(u64, u64)>().prop_map(|(address, len)| Body::Remote { address, len }),
            (1..=MAX_PIECES as u8).prop_map(|count| Body::RemoteRing { count }),
            any::<[u64; 2]>().prop_map(|words| Body::Link { words }),
            (
                any::<[u8; INLINE_ACCESS]>(),
                any::<u64>(),
                0..=INLINE_ACCESS as u8
            )
                .prop_map(|(bytes, key, len)| Body::Access {
                    key,
                    words: access_words(&bytes),
                    len
                }),
            (1..=MAX_TARGETS as u8, 1..4096u32).prop_map(|(targets, len)| Body::Targeted {
                ring_len: u32::from(targets) * TARGET as u32 + len,
                targets,
                rest: Rest::Body,
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(
            (kind, flags, id, tag, data, len) in any::<(u8, u8, u32, u64, u64, u64)>(),
            body in body(),
        ) {
            let mut cell = Cell { kind, flags, id, tag, data, len, body };
            if let Body::Inline { len, .. } | Body::Access { len, .. } = body {
                cell.len = u64::from(len);
            }
            let (meta, words) = cell.emit();
            prop_assert_eq!(Cell::parse(meta, &words), Ok(cell));
        }

        #[test]
        fn anything_parses_or_is_refused(meta: u32, words: [u64; 7]) {
            let _ = Cell::parse(meta, &words);
        }
    }
}
