extern crate std;

use alloc::vec::Vec;
use core::ptr::{null_mut, without_provenance_mut};
use std::println;

use super::*;

/// Bytes before and behind what is copied, which no copy may change.
const AROUND: usize = 192;

/// Checks a copy within one block of memory, from and to these places, against what is expected of it.
fn check(copy: Copy, from: usize, to: usize, len: usize) {
    let (from, to) = (from + AROUND, to + AROUND);
    let mut block: Vec<u8> = (0..from.max(to) + len + AROUND)
        .map(|at| (at * 7 + at / 256) as u8)
        .collect();
    let mut expected = block.clone();
    expected.copy_within(from..from + len, to);
    let start = block.as_mut_ptr();
    // SAFETY: both ranges lie within the block.
    unsafe { copy(start.add(to).cast(), start.add(from).cast(), len) };
    assert!(block == expected, "{len} bytes from {from} to {to}");
}

#[test]
fn every_byte_goes_to_its_place_and_no_other_one() {
    if !has_vectors() {
        return println!("SKIP: this processor has no AVX");
    }
    for len in [256, 257, 287, 288, 384, 511, 1000, 4096, 10_001] {
        for (from, to) in [(0, 0), (1, 12_320), (33, 12_289), (12_300, 3), (12_288, 7)] {
            for shift in 0..33 {
                check(copy_by_vectors, from, to + shift, len);
            }
        }
    }
    check(copy_by_vectors, 5, LEFT_TO_C + 9, LEFT_TO_C);
    check(copy_by_vectors, 5, LEFT_TO_C + 9, LEFT_TO_C - 1);
}

#[test]
fn ranges_may_overlap() {
    if !has_vectors() {
        return println!("SKIP: this processor has no AVX");
    }
    for len in [256, 300, 5000] {
        for apart in [1, 16, 31, 32, 33, 127, 128, 129, 255, 300, 4096] {
            for shift in 0..32 {
                check(copy_by_vectors, shift, apart + shift, len);
                check(copy_by_vectors, apart + shift, shift, len);
            }
        }
    }
}

/// Returns two pages with no memory before and behind them.
fn pages() -> *mut u8 {
    // SAFETY: new memory, which nothing else has.
    unsafe {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let all = libc::mmap(null_mut(), 4 * PAGE, access, kind, -1, 0);
        assert_ne!(all, libc::MAP_FAILED);
        for at in [0, 3 * PAGE] {
            assert_eq!(libc::mprotect(all.byte_add(at), PAGE, libc::PROT_NONE), 0);
        }
        all.byte_add(PAGE).cast()
    }
}

#[test]
fn nothing_before_and_behind_is_read_or_written() {
    if !has_vectors() {
        return println!("SKIP: this processor has no AVX");
    }
    let (from, to) = (pages(), pages());
    for len in (256..700).chain([2 * PAGE - 1, 2 * PAGE]) {
        let end = 2 * PAGE - len;
        for (from_at, to_at) in [(0, 0), (0, end), (end, 0), (end, end)] {
            // SAFETY: both ranges lie within two pages.
            unsafe { copy_by_vectors(to.add(to_at).cast(), from.add(from_at).cast(), len) };
        }
    }
}

#[test]
fn processors_are_known_by_their_makers_and_features() {
    let name = |text: &[u8; 12]| {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| text[at + byte]));
        [word(0), word(4), word(8)]
    };
    assert!(
        is_amds([0x6874_7541, 0x6974_6e65, 0x444d_4163]),
        "AMD's own"
    );
    assert!(is_amds(name(b"HygonGenuine")));
    assert!(!is_amds(name(b"GenuineIntel")));
    assert_eq!(has_vectors(), std::is_x86_feature_detected!("avx"));
    assert_eq!(has_fast_strings(), std::is_x86_feature_detected!("ermsb"));
}

#[test]
fn the_first_copy_decides_for_all() {
    check(choose, 0, 6_000, 5_000);
    let decided = COPY.load(Ordering::Relaxed);
    let expected: Copy = match is_amd() && has_fast_strings() && has_vectors() && !cfg!(sanitized) {
        true => copy_by_vectors,
        false => memmove,
    };
    assert_eq!(decided, expected as *mut c_void);
}

#[test]
fn a_target_just_behind_its_sources_place_in_a_page_is_written_from_its_end() {
    let page = |at: usize| without_provenance_mut::<u8>(PAGE * 1000 + at);
    let other = |at: usize| without_provenance_mut::<u8>(PAGE * 5000 + at);
    assert!(goes_backwards(page(0), other(1), PAGE));
    assert!(goes_backwards(page(0), other(255), PAGE));
    assert!(!goes_backwards(page(0), other(256), PAGE));
    assert!(!goes_backwards(page(16), other(0), PAGE));
    assert!(!goes_backwards(page(0), other(0), PAGE));
    assert!(goes_backwards(page(0), page(3000), PAGE), "they overlap");
    assert!(!goes_backwards(page(PAGE), page(16), PAGE), "they overlap");
}
