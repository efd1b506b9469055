//! Long copies: by the C library, or where its copies may be slow, by vectors of 32 bytes.
//!
//! `rep movsb`, by which the C library of many systems copies thousands of bytes, takes twenty times as long on AMD's processors where the
//! target lies a few bytes further behind the beginning of its page than the source does: 2 GB/s and not 45 on a third EPYC. Memory of
//! `malloc` begins 16 bytes behind a page, and rings at one. See docs/adr/0074.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::ffi::c_void;
use core::hint::black_box;
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::SHORT;

type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

unsafe extern "C" {
    fn memmove(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void;
}

/// How this processor copies; the first copy finds out.
static COPY: AtomicPtr<c_void> = AtomicPtr::new(choose as *mut c_void);

/// Copies any number of bytes; the ranges may overlap.
///
/// # Safety
/// `from` is valid for reads of `len` bytes, and `to` for writes, at least by instructions other than the compiler's.
#[inline(always)]
pub(crate) unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    let mut copy = COPY.load(Ordering::Relaxed);
    // No instruction: the compiler is not to know which functions may be called.
    // SAFETY: it does nothing.
    unsafe { asm!("/* {0} */", inout(reg) copy, options(nostack, preserves_flags)) };
    // SAFETY: nothing but functions of this type is stored there; the rest is the caller's contract.
    unsafe { transmute::<*mut c_void, Copy>(copy)(to.cast(), from.cast(), len) };
}

/// Copies for the first time, and decides how the next ones are made.
///
/// # Safety
/// As for [`copy_long`].
#[cold]
unsafe extern "C" fn choose(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    // Sanitizers look into memmove, and not into instructions.
    let stalls = is_amd() && has_fast_strings();
    let copy: Copy = match stalls && has_vectors() && !cfg!(sanitized) {
        true => copy_by_vectors,
        false => memmove,
    };
    COPY.store(copy as *mut c_void, Ordering::Relaxed);
    // SAFETY: the caller's contract.
    unsafe { black_box(copy)(to, from, len) }
}

/// Returns whether AMD made this processor, or Hygon after AMD's design.
fn is_amd() -> bool {
    let said = __cpuid(0);
    is_amds([said.ebx, said.edx, said.ecx])
}

/// Returns whether this is what processors of these makers say.
fn is_amds(name: [u32; 3]) -> bool {
    let name = name.map(u32::to_le_bytes);
    matches!(name.as_flattened(), b"AuthenticAMD" | b"HygonGenuine")
}

/// Returns whether the processor says that `rep movsb` is fast (ERMS): the C library uses it nowhere else.
fn has_fast_strings() -> bool {
    const ERMS: u32 = 1 << 9;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & ERMS != 0
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
/// From this length on the C library copies without `rep movsb`: on AMD's processors it does so from the size of their second cache on, which is
/// 512 KiB or 1 MiB.
const LEFT_TO_C: usize = 1 << 20;
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
            SHORT..LEFT_TO_C => {
                let (from, target) = (from.cast(), to.cast());
                match goes_backwards(from, target, len) {
                    true => copy_backwards(from, target, len),
                    false => copy_forwards(from, target, len),
                }
                to
            }
            _ => black_box(memmove as Copy)(to, from, len),
        }
    }
}

/// Returns whether a copy is to begin with its last bytes: if the first ones would be written over the source's last, or if reads would wait for the writes of the
/// turn before, to the same place of another page. A turn's reads end two turns behind where the one before began to write.
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
    // SAFETY: the caller's contract. Turns begin at most one vector behind the first byte, where the target's address is a multiple of its
    // size, and while more than a turn is left.
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
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack)
        );
    }
}

/// Copies from the last bytes to the first: the first [`TURN`] ones are read before, as others may be written over them.
///
/// # Safety
/// As for [`copy_by_vectors`], and `len` is at least [`SHORT`]; if the ranges overlap, the target begins behind the source.
unsafe fn copy_backwards(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract. Turns end at most one vector before the last byte, where the target's address is a multiple of its
    // size, and while more than a turn is left.
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
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack)
        );
    }
}

#[cfg(test)]
mod tests;
