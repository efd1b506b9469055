//! What a processor does alone: copies and branches.

use std::hint::black_box;

use super::{Bar, Stopwatch};
use oxifabric_bench::units::{spell_size, spell_value};

/// Copies of a few lengths.
pub(super) fn copies(stopwatch: Stopwatch) -> Vec<Bar> {
    let lengths = [64, 1 << 10, 16 << 10, 256 << 10, 4 << 20];
    let row = |len: usize| {
        let (from, mut to) = (vec![1_u8; len], vec![0_u8; len]);
        let time = stopwatch.time_ns(|| black_box(&mut to[..]).copy_from_slice(black_box(&from)));
        let rate = len as f64 / time;
        Bar::new(spell_size(len), time).with(format!("{} GB/s", spell_value(rate)))
    };
    lengths.into_iter().map(row).collect()
}

/// Too many bytes for a processor's branch predictor to remember.
const BYTES: usize = 1 << 16;

/// Branches on bytes, in order and in disorder.
pub(super) fn branches(stopwatch: Stopwatch) -> Vec<Bar> {
    let disorder = noise();
    let mut order = disorder.clone();
    order.sort_unstable();
    let time = |bytes: &[u8]| {
        let whole = stopwatch.time_ns(|| {
            black_box(count_high(black_box(bytes)));
        });
        whole / BYTES as f64
    };
    vec![
        Bar::new("guessed right", time(&order)),
        Bar::new("guessed wrong half of the time", time(&disorder)),
    ]
}

/// Counts the bytes of 128 and more, by a branch for each.
fn count_high(bytes: &[u8]) -> usize {
    let mut count = 0;
    for byte in bytes {
        if *byte >= 128 {
            // Keeps the compiler from doing it without a branch.
            count = black_box(count) + 1;
        }
    }
    count
}

/// Bytes without a pattern, the same each time.
fn noise() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..BYTES).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_noise_is_high() {
        let high = count_high(&noise());
        assert!(
            (BYTES * 49 / 100..BYTES * 51 / 100).contains(&high),
            "{high}"
        );
    }
}
