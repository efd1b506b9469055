//! Packets that come in parts, because their way does not carry them whole (protocol section 6.7).
//!
//! All parts of a packet but the last have [`PART`] bytes and begin at a multiple of that, so that one bit tells whether one has
//! come, however often and in whatever order they come.

use alloc::vec;
use alloc::vec::Vec;

use oxifabric_wire::reliable::packet::{HEADER_LEN, PART_HEAD_LEN, PartHead};

use super::mtu::BASE;

/// Bytes of a packet in one part.
pub(super) const PART: usize = BASE - HEADER_LEN - PART_HEAD_LEN;

/// Maximum number of parts of a packet.
const PARTS_MAX: usize = 64;

/// Reassembly of packets of which some parts have come.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<Reassembly>);

#[derive(Debug)]
struct Reassembly {
    number: u64,
    payload: Vec<u8>,
    /// Bit `i`: part `i` is missing.
    missing: u64,
}

/// Cuts a payload.
pub(super) fn cut(payload: &[u8]) -> impl Iterator<Item = (PartHead, &[u8])> {
    let all = payload.len() as u32;
    payload.chunks(PART).enumerate().map(move |(index, bytes)| {
        let at = (index * PART) as u32;
        (PartHead { at, all }, bytes)
    })
}

impl Parts {
    /// Takes what came as a part of a packet; returns the packet when nothing of it is missing any more.
    pub(super) fn take(&mut self, number: u64, payload: &[u8], most: usize) -> Option<Vec<u8>> {
        let (head, bytes) = PartHead::parse(payload).ok()?;
        let (begin, all) = (head.at as usize, head.all as usize);
        let index = begin / PART;
        let whole = all.min(begin.saturating_add(PART)).checked_sub(begin)?;
        if bytes.is_empty()
            || !begin.is_multiple_of(PART)
            || bytes.len() != whole
            || all > most.min(PARTS_MAX * PART)
        {
            return None;
        }
        let place = self
            .0
            .iter()
            .position(|reassembly| reassembly.number == number);
        let place = place.unwrap_or_else(|| {
            self.0.push(Reassembly {
                number,
                payload: vec![0; all],
                missing: u64::MAX >> (PARTS_MAX - all.div_ceil(PART)),
            });
            self.0.len() - 1
        });
        let reassembly = &mut self.0[place];
        if reassembly.payload.len() != all {
            return None;
        }
        reassembly.payload[begin..begin + bytes.len()].copy_from_slice(bytes);
        reassembly.missing &= !(1 << index);
        (reassembly.missing == 0).then(|| self.0.swap_remove(place).payload)
    }

    /// Returns the number of bytes of the packets of which some parts have come.
    pub(super) fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|reassembly| reassembly.payload.len())
            .sum()
    }

    /// Drops what belongs to packets below `next`: they have come otherwise.
    pub(super) fn forget(&mut self, next: u64) {
        self.0.retain(|reassembly| reassembly.number >= next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(payload: &[u8]) -> Vec<Vec<u8>> {
        cut(payload)
            .map(|(head, bytes)| [&head.emit()[..], bytes].concat())
            .collect()
    }

    #[test]
    fn parts_in_any_order_and_number_make_the_packet() {
        for len in [1, PART - 1, PART, PART + 1, 10 * PART, PARTS_MAX * PART] {
            let payload: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
            let mut parts = parts(&payload);
            parts.reverse();
            let mut reassembly = Parts::default();
            let last = parts.pop().expect("there is one");
            for part in parts.iter().chain(&parts) {
                assert_eq!(reassembly.take(5, part, usize::MAX), None);
            }
            assert_eq!(
                reassembly.take(6, &last, usize::MAX).is_some(),
                parts.is_empty(),
                "another packet"
            );
            assert_eq!(
                reassembly.take(5, &last, usize::MAX),
                Some(payload),
                "{len} bytes"
            );
        }
    }

    #[test]
    fn what_is_no_part_is_dropped() {
        let mut reassembly = Parts::default();
        let part = |at: u32, all: u32, len: usize| {
            let mut part = PartHead { at, all }.emit().to_vec();
            part.resize(part.len() + len, 0);
            part
        };
        let long = PARTS_MAX * PART + 1;
        for wrong in [
            part(0, 0, 0),
            part(1, 100, 99),
            part(0, 100, 99),
            part(0, 100, 101),
            part(PART as u32, 100, 1),
            part(u32::MAX, u32::MAX, 1),
            part(0, long as u32, PART),
            Vec::new(),
        ] {
            assert_eq!(reassembly.take(0, &wrong, usize::MAX), None);
            assert!(reassembly.0.is_empty(), "{wrong:?}");
        }
        assert_eq!(reassembly.take(0, &part(0, 2000, PART), usize::MAX), None);
        assert_eq!(
            reassembly.take(0, &part(PART as u32, 2001, 2001 - PART), usize::MAX),
            None,
            "another length"
        );
        reassembly.forget(1);
        assert!(reassembly.0.is_empty());
    }
}
