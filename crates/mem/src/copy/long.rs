//! Long copies: by the C library, or where its copies may be slow, by vectors of 32 bytes.
//!
//! `rep movsb`, by which the C library of many systems copies thousands of bytes, takes twenty times as long on AMD's processors where the
//! target lies a few bytes further behind the beginning of its page than the source does: 2 GB/s and not 45 on a third EPYC. Memory of
//! `malloc` begins 16 bytes behind a page, and rings at one. See docs/adr/0074.

use core::arch::asm;
use core::arch::x86_64::__cpuid;
use core::ffi::c_void;
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::SHORT;

type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

unsafe extern "C" {
    fn memmove(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void;
}

/// How this processor copies; the first copy finds out. The compiler does not know what it calls.
static COPY: AtomicPtr<c_void> = AtomicPtr::new(choose as *mut c_void);

/// Copies any number of bytes; the ranges may overlap.
///
/// # Safety
/// `from` is valid for reads of `len` bytes, and `to` for writes, at least by instructions other than the compiler's.
#[inline(always)]
pub(crate) unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    let copy = COPY.load(Ordering::Relaxed);
    // SAFETY: nothing but functions of this type is stored there; the rest is the caller's contract.
    unsafe { transmute::<*mut c_void, Copy>(copy)(to.cast(), from.cast(), len) };
}

/// Copies for the first time, and decides how the next ones are made.
///
/// # Safety
/// As for [`copy_long`].
#[cold]
unsafe extern "C" fn choose(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    let copy: Copy = match is_amd() && has_vectors() {
        true => copy_by_vectors,
        false => memmove,
    };
    COPY.store(copy as *mut c_void, Ordering::Relaxed);
    // SAFETY: the caller's contract.
    unsafe { copy(to, from, len) }
}

/// Returns whether the processor says that AMD made it, or Hygon after AMD's design.
fn is_amd() -> bool {
    let name = __cpuid(0);
    let name = [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes);
    matches!(name.as_flattened(), b"AuthenticAMD" | b"HygonGenuine")
}

/// Returns whether the processor has registers of 32 bytes (AVX), and the system keeps them.
fn has_vectors() -> bool {
    const OSXSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
    const VECTORS: u32 = 1 << 1 | 1 << 2;
    if __cpuid(1).ecx & OSXSAVE_AND_AVX != OSXSAVE_AND_AVX {
        return false;
    }
    let kept: u32;
    // SAFETY: a processor with OSXSAVE has this instruction, and register 0.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") kept, out("edx") _, options(nomem, nostack, preserves_flags));
    }
    kept & VECTORS == VECTORS
}

/// Bytes of a vector register, and of the four that one turn moves.
const VECTOR: usize = 32;
const TURN: usize = 4 * VECTOR;
/// Copies of this length and more pass by the caches: the C library does that, without `rep movsb`.
const PAST_CACHES: usize = 1 << 20;
/// Processors compare an address that is read with those being written by its place in a page.
const PAGE: usize = 4096;

/// Copies as [`memmove`] does.
///
/// # Safety
/// As for [`copy_long`], on a processor with vectors.
unsafe extern "C" fn copy_by_vectors(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
) -> *mut c_void {
    // SAFETY: the caller's contract; the ranges overlap only as the one that is called allows.
    unsafe {
        match len {
            SHORT..PAST_CACHES => {
                let (from, target) = (from.cast(), to.cast());
                match goes_backwards(from, target, len) {
                    true => copy_backwards(from, target, len),
                    false => copy_forwards(from, target, len),
                }
                to
            }
            _ => memmove(to, from, len),
        }
    }
}

/// Returns whether a copy is to begin with its last bytes: if the first ones would be written over the source's last, and if each read
/// would wait for a write to the same place of another page.
fn goes_backwards(from: *const u8, to: *mut u8, len: usize) -> bool {
    let ahead = to.addr().wrapping_sub(from.addr());
    let overlaps_forwards = ahead < len;
    let overlaps_backwards = ahead.wrapping_neg() < len;
    overlaps_forwards || (!overlaps_backwards && (1..2 * TURN).contains(&(ahead % PAGE)))
}

/// Copies from the first bytes to the last: the last [`TURN`] ones are read before, as others may be written over them.
///
/// # Safety
/// As for [`copy_by_vectors`], and `len` is at least [`SHORT`]; if the ranges overlap, the target begins before the source.
unsafe fn copy_forwards(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract. Turns begin at most one vector behind the first byte, at multiples of its size, and while more than
    // a turn is left.
    unsafe {
        asm!(
            "vmovdqu ymm4, ymmword ptr [{from}]",
            "vmovdqu ymm5, ymmword ptr [{from} + {last}]",
            "vmovdqu ymm6, ymmword ptr [{from} + {last} + 32]",
            "vmovdqu ymm7, ymmword ptr [{from} + {last} + 64]",
            "vmovdqu ymm8, ymmword ptr [{from} + {last} + 96]",
            "2:",
            "vmovdqu ymm0, ymmword ptr [{from} + {at}]",
            "vmovdqu ymm1, ymmword ptr [{from} + {at} + 32]",
            "vmovdqu ymm2, ymmword ptr [{from} + {at} + 64]",
            "vmovdqu ymm3, ymmword ptr [{from} + {at} + 96]",
            "vmovdqa ymmword ptr [{to} + {at}], ymm0",
            "vmovdqa ymmword ptr [{to} + {at} + 32], ymm1",
            "vmovdqa ymmword ptr [{to} + {at} + 64], ymm2",
            "vmovdqa ymmword ptr [{to} + {at} + 96], ymm3",
            "sub {at}, -128",
            "cmp {at}, {last}",
            "jb 2b",
            "vmovdqu ymmword ptr [{to} + {last}], ymm5",
            "vmovdqu ymmword ptr [{to} + {last} + 32], ymm6",
            "vmovdqu ymmword ptr [{to} + {last} + 64], ymm7",
            "vmovdqu ymmword ptr [{to} + {last} + 96], ymm8",
            "vmovdqu ymmword ptr [{to}], ymm4",
            "vzeroupper",
            from = in(reg) from,
            to = in(reg) to,
            at = inout(reg) VECTOR - to.addr() % VECTOR => _,
            last = in(reg) len - TURN,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,
            options(nostack)
        );
    }
}

/// Copies from the last bytes to the first: the first [`TURN`] ones are read before, as others may be written over them.
///
/// # Safety
/// As for [`copy_by_vectors`], and `len` is at least [`SHORT`]; if the ranges overlap, the target begins behind the source.
unsafe fn copy_backwards(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract. Turns end at most one vector before the last byte, at multiples of its size, and while more than a
    // turn is left.
    unsafe {
        asm!(
            "vmovdqu ymm4, ymmword ptr [{from} + {len} - 32]",
            "vmovdqu ymm5, ymmword ptr [{from}]",
            "vmovdqu ymm6, ymmword ptr [{from} + 32]",
            "vmovdqu ymm7, ymmword ptr [{from} + 64]",
            "vmovdqu ymm8, ymmword ptr [{from} + 96]",
            "2:",
            "vmovdqu ymm0, ymmword ptr [{from} + {end} - 32]",
            "vmovdqu ymm1, ymmword ptr [{from} + {end} - 64]",
            "vmovdqu ymm2, ymmword ptr [{from} + {end} - 96]",
            "vmovdqu ymm3, ymmword ptr [{from} + {end} - 128]",
            "vmovdqa ymmword ptr [{to} + {end} - 32], ymm0",
            "vmovdqa ymmword ptr [{to} + {end} - 64], ymm1",
            "vmovdqa ymmword ptr [{to} + {end} - 96], ymm2",
            "vmovdqa ymmword ptr [{to} + {end} - 128], ymm3",
            "add {end}, -128",
            "cmp {end}, 128",
            "ja 2b",
            "vmovdqu ymmword ptr [{to}], ymm5",
            "vmovdqu ymmword ptr [{to} + 32], ymm6",
            "vmovdqu ymmword ptr [{to} + 64], ymm7",
            "vmovdqu ymmword ptr [{to} + 96], ymm8",
            "vmovdqu ymmword ptr [{to} + {len} - 32], ymm4",
            "vzeroupper",
            from = in(reg) from,
            to = in(reg) to,
            end = inout(reg) len - (to.addr() + len) % VECTOR => _,
            len = in(reg) len,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,
            options(nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::println;

    use super::*;

    /// Checks a copy within one block of memory, from and to these places, against what is expected of it.
    fn check(copy: Copy, from: usize, to: usize, len: usize) {
        let mut block: alloc::vec::Vec<u8> = (0..from.max(to) + len + 64)
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
        check(copy_by_vectors, 5, PAST_CACHES + 9, PAST_CACHES);
        check(copy_by_vectors, 5, PAST_CACHES + 9, PAST_CACHES - 1);
    }

    #[test]
    fn ranges_may_overlap() {
        if !has_vectors() {
            return println!("SKIP: this processor has no AVX");
        }
        for len in [256, 300, 5000] {
            for apart in [1, 16, 31, 32, 33, 127, 128, 129, 255, 300, 4096] {
                check(copy_by_vectors, 0, apart, len);
                check(copy_by_vectors, apart, 0, len);
            }
        }
    }

    #[test]
    fn the_first_copy_decides_for_all() {
        check(choose, 0, 6_000, 5_000);
        let decided = COPY.load(Ordering::Relaxed);
        let known = [memmove as *mut c_void, copy_by_vectors as *mut c_void];
        assert!(known.contains(&decided));
    }

    #[test]
    fn a_target_just_behind_its_sources_place_in_a_page_is_written_from_its_end() {
        let page = |at: usize| core::ptr::without_provenance_mut::<u8>(PAGE * 1000 + at);
        let other = |at: usize| core::ptr::without_provenance_mut::<u8>(PAGE * 5000 + at);
        assert!(goes_backwards(page(0), other(16), PAGE));
        assert!(!goes_backwards(page(16), other(0), PAGE));
        assert!(!goes_backwards(page(0), other(0), PAGE));
        assert!(!goes_backwards(page(0), other(2048), PAGE));
        assert!(goes_backwards(page(0), page(3000), PAGE), "they overlap");
        assert!(!goes_backwards(page(PAGE), page(16), PAGE), "they overlap");
    }
}
