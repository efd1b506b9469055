//! A frame of the engine in the stream of a channel: a header, the memory that it is about, and a body (section 7).

use core::fmt;

use super::{put, take};

/// Bytes of a record without targets and body.
pub const RECORD_LEN: usize = 40;
/// Bytes of a target.
pub const TARGET_LEN: usize = 24;
/// Maximum number of targets of a record.
pub const TARGETS_MAX: usize = 4;
/// Longest header: a record with all its targets.
pub const HEAD_MAX: usize = RECORD_LEN + TARGETS_MAX * TARGET_LEN;

/// The fixed part of a record. The engine defines the fields, except for the lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// What the frame is ([`kind`](super::kind)).
    pub kind: u8,
    /// As the engine numbers flags.
    pub flags: u8,
    /// Number of targets that follow.
    pub targets: u8,
    /// Names the operation.
    pub id: u32,
    /// Tag, offset or what is answered.
    pub tag: u64,
    /// Remote completion data, or an errno.
    pub data: u64,
    /// The length of the whole message.
    pub len: u64,
    /// Number of bytes of the body that follow.
    pub body: u64,
}

/// Memory of the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordTarget {
    /// Start of the memory: a virtual address, or an offset in the region (fi_mr(3)).
    pub addr: u64,
    /// Number of bytes that it has.
    pub len: u64,
    /// The region's key.
    pub key: u64,
}

/// The error of bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// More bytes are needed: this number in all.
    Truncated(usize),
    /// More targets than [`TARGETS_MAX`].
    Targets(u8),
}

impl Record {
    /// Reads the fixed part; returns it with the length of the whole header, all of which is there.
    ///
    /// # Errors
    /// The header is not complete, or breaks a rule.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), RecordError> {
        let Some((fixed, _)) = bytes.split_first_chunk::<RECORD_LEN>() else {
            return Err(RecordError::Truncated(RECORD_LEN));
        };
        let mut rest = &fixed[..];
        let [kind, flags, targets, _] = take(&mut rest);
        let record = Self {
            kind,
            flags,
            targets,
            id: u32::from_le_bytes(take(&mut rest)),
            tag: u64::from_le_bytes(take(&mut rest)),
            data: u64::from_le_bytes(take(&mut rest)),
            len: u64::from_le_bytes(take(&mut rest)),
            body: u64::from_le_bytes(take(&mut rest)),
        };
        if usize::from(targets) > TARGETS_MAX {
            return Err(RecordError::Targets(targets));
        }
        let len = RECORD_LEN + usize::from(targets) * TARGET_LEN;
        match bytes.len() < len {
            true => Err(RecordError::Truncated(len)),
            false => Ok((record, len)),
        }
    }

    /// Reads a target of a complete header.
    pub fn target(bytes: &[u8], index: usize) -> Option<RecordTarget> {
        let at = RECORD_LEN + index * TARGET_LEN;
        let mut rest = bytes.get(at..at + TARGET_LEN)?;
        Some(RecordTarget {
            addr: u64::from_le_bytes(take(&mut rest)),
            len: u64::from_le_bytes(take(&mut rest)),
            key: u64::from_le_bytes(take(&mut rest)),
        })
    }

    /// Writes the header with its targets, of which there are [`Record::targets`]; returns its length.
    #[inline]
    pub fn emit(
        &self,
        targets: impl IntoIterator<Item = RecordTarget>,
        into: &mut [u8; HEAD_MAX],
    ) -> usize {
        let mut rest = &mut into[..];
        put(&mut rest, [self.kind, self.flags, self.targets, 0]);
        put(&mut rest, self.id.to_le_bytes());
        put(&mut rest, self.tag.to_le_bytes());
        put(&mut rest, self.data.to_le_bytes());
        put(&mut rest, self.len.to_le_bytes());
        put(&mut rest, self.body.to_le_bytes());
        let count = usize::from(self.targets).min(TARGETS_MAX);
        for target in targets.into_iter().take(count) {
            put(&mut rest, target.addr.to_le_bytes());
            put(&mut rest, target.len.to_le_bytes());
            put(&mut rest, target.key.to_le_bytes());
        }
        RECORD_LEN + count * TARGET_LEN
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(len) => write!(f, "a record of {len} bytes is not complete"),
            Self::Targets(count) => {
                write!(f, "{count} pieces of remote memory, at most {TARGETS_MAX}")
            }
        }
    }
}

impl core::error::Error for RecordError {}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_come_back_as_they_were(
            kind: u8, flags: u8, id: u32, tag: u64, data: u64, len: u64, body: u64,
            targets in prop::collection::vec(any::<(u64, u64, u64)>(), 0..=TARGETS_MAX),
        ) {
            let targets: Vec<_> = targets
                .into_iter()
                .map(|(addr, len, key)| RecordTarget { addr, len, key })
                .collect();
            let record = Record { kind, flags, targets: targets.len() as u8, id, tag, data, len, body };
            let mut bytes = [0; HEAD_MAX];
            let head = record.emit(targets.iter().copied(), &mut bytes);
            prop_assert_eq!(Record::parse(&bytes[..head]), Ok((record, head)));
            for (at, target) in targets.iter().enumerate() {
                prop_assert_eq!(Record::target(&bytes[..head], at), Some(*target));
            }
            for short in 0..head {
                let missing = Record::parse(&bytes[..short]);
                prop_assert!(matches!(missing, Err(RecordError::Truncated(len)) if len > short));
            }
        }
    }
}
