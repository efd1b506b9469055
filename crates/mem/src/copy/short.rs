//! Short copies: the side of the lent memory is written out in instructions.

use core::arch::asm;
use core::arch::x86_64::__m128i;

use super::SHORT;

/// Twice and four times what the widest instruction moves.
const TWO_UNITS: usize = 32;
const FOUR_UNITS: usize = 64;

/// Copies bytes of our own, at most [`SHORT`], to lent memory.
///
/// # Safety
/// As for [`copy_long`](super::copy_long).
#[inline(always)]
pub(crate) unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract; each arm copies a size that is at most `len`, and at least half of it.
    unsafe {
        match len {
            // First, because that is what short messages mostly are.
            8..16 => ends_in::<u64>(from, to, len),
            16.. => match len {
                0..=32 => ends_in::<__m128i>(from, to, len),
                33..=64 => copy_ends(from, to, len),
                _ => copy_in_turns(from, to, len),
            },
            0 => {}
            1 => ends_in::<u8>(from, to, len),
            2..4 => ends_in::<u16>(from, to, len),
            4..8 => ends_in::<u32>(from, to, len),
        }
    }
}

/// Copies bytes of lent memory, at most [`SHORT`], to our own.
///
/// # Safety
/// As for [`copy_long`](super::copy_long).
#[inline(always)]
pub(crate) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as in `copy_in`.
    unsafe {
        match len {
            8..16 => ends_out::<u64>(from, to, len),
            16.. => match len {
                0..=32 => ends_out::<__m128i>(from, to, len),
                33..=64 => copy_ends(from, to, len),
                _ => copy_in_turns(from, to, len),
            },
            0 => {}
            1 => ends_out::<u8>(from, to, len),
            2..4 => ends_out::<u16>(from, to, len),
            4..8 => ends_out::<u32>(from, to, len),
        }
    }
}

/// Copies the first and the last bytes of a range, as many of each as `T` has: together, all of it.
///
/// # Safety
/// As for [`copy_in`], and `len` is at least the size of `T` and at most twice that.
#[inline(always)]
unsafe fn ends_in<T: Unit>(from: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: the caller's contract; both parts lie within `len` bytes, and are read before either is written.
    unsafe {
        let head = from.cast::<T>().read_unaligned();
        let tail = from.add(last).cast::<T>().read_unaligned();
        head.store(to);
        tail.store_at(to, last);
    }
}

/// As [`ends_in`], for [`copy_out`].
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn ends_out<T: Unit>(from: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: as in `ends_in`.
    unsafe {
        let head = T::load(from);
        let tail = T::load_at(from, last);
        to.cast::<T>().write_unaligned(head);
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}

/// Copies the first and the last [`TWO_UNITS`] bytes: together, all of it.
///
/// # Safety
/// As for [`super::copy_long`], and `len` is at least [`TWO_UNITS`] and at most [`FOUR_UNITS`].
#[inline(always)]
unsafe fn copy_ends(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(
        (TWO_UNITS..=FOUR_UNITS).contains(&len),
        "another arm's length"
    );
    // SAFETY: the caller's contract: both parts lie within `len` bytes, and are read before either is written.
    unsafe {
        asm!(
            "movups {a}, xmmword ptr [{from}]",
            "movups {b}, xmmword ptr [{from} + 16]",
            "movups {c}, xmmword ptr [{from} + {last}]",
            "movups {d}, xmmword ptr [{from} + {last} + 16]",
            "movups xmmword ptr [{to}], {a}",
            "movups xmmword ptr [{to} + 16], {b}",
            "movups xmmword ptr [{to} + {last}], {c}",
            "movups xmmword ptr [{to} + {last} + 16], {d}",
            from = in(reg) from,
            to = in(reg) to,
            last = in(reg) len - TWO_UNITS,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies more than [`FOUR_UNITS`] bytes, so many in each turn; the last ones overlap those before.
///
/// # Safety
/// As for [`super::copy_long`], and the ranges do not overlap.
#[inline(always)]
unsafe fn copy_in_turns(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(
        (FOUR_UNITS + 1..=SHORT).contains(&len),
        "another arm's length"
    );
    // SAFETY: the caller's contract: each turn moves 64 bytes that lie within `len` ones.
    unsafe {
        asm!(
            "2:",
            "movups {a}, xmmword ptr [{from} + {at}]",
            "movups {b}, xmmword ptr [{from} + {at} + 16]",
            "movups {c}, xmmword ptr [{from} + {at} + 32]",
            "movups {d}, xmmword ptr [{from} + {at} + 48]",
            "movups xmmword ptr [{to} + {at}], {a}",
            "movups xmmword ptr [{to} + {at} + 16], {b}",
            "movups xmmword ptr [{to} + {at} + 32], {c}",
            "movups xmmword ptr [{to} + {at} + 48], {d}",
            "add {at}, 64",
            "cmp {at}, {last}",
            "jb 2b",
            "movups {a}, xmmword ptr [{from} + {last}]",
            "movups {b}, xmmword ptr [{from} + {last} + 16]",
            "movups {c}, xmmword ptr [{from} + {last} + 32]",
            "movups {d}, xmmword ptr [{from} + {last} + 48]",
            "movups xmmword ptr [{to} + {last}], {a}",
            "movups xmmword ptr [{to} + {last} + 16], {b}",
            "movups xmmword ptr [{to} + {last} + 32], {c}",
            "movups xmmword ptr [{to} + {last} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to,
            at = inout(reg) 0_usize => _,
            last = in(reg) len - FOUR_UNITS,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// What one instruction moves, from and to any address. Any bytes are a value. The address of those with `at` is a sum
/// that the instruction makes itself.
trait Unit: Copy {
    /// Reads a value, whatever its alignment.
    ///
    /// # Safety
    /// `from` is valid for reads of its size.
    unsafe fn load(from: *const u8) -> Self;

    /// Reads a value at an offset.
    ///
    /// # Safety
    /// As for `load`, `at` bytes behind `from`.
    unsafe fn load_at(from: *const u8, at: usize) -> Self;

    /// Writes the value, whatever the alignment.
    ///
    /// # Safety
    /// `to` is valid for writes of its size.
    unsafe fn store(self, to: *mut u8);

    /// Writes the value at an offset.
    ///
    /// # Safety
    /// As for `store`, `at` bytes behind `to`.
    unsafe fn store_at(self, to: *mut u8, at: usize);
}

macro_rules! unit {
    ($($type:ty: $class:ident, $value:literal, $move:literal, $size:literal;)*) => { $(
        impl Unit for $type {
            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                let value;
                // SAFETY: the caller's contract; the instruction reads the bytes of `Self` and nothing else.
                unsafe {
                    asm!(
                        concat!($move, " ", $value, ", ", $size, " ptr [{from}]"),
                        from = in(reg) from,
                        value = lateout($class) value,
                        options(nostack, preserves_flags, readonly)
                    );
                }
                value
            }

            #[inline(always)]
            unsafe fn load_at(from: *const u8, at: usize) -> Self {
                let value;
                // SAFETY: as in `load`.
                unsafe {
                    asm!(
                        concat!($move, " ", $value, ", ", $size, " ptr [{from} + {at}]"),
                        from = in(reg) from,
                        at = in(reg) at,
                        value = lateout($class) value,
                        options(nostack, preserves_flags, readonly)
                    );
                }
                value
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's contract; the instruction writes the bytes of `Self` and nothing else.
                unsafe {
                    asm!(
                        concat!($move, " ", $size, " ptr [{to}], ", $value),
                        to = in(reg) to,
                        value = in($class) self,
                        options(nostack, preserves_flags)
                    );
                }
            }

            #[inline(always)]
            unsafe fn store_at(self, to: *mut u8, at: usize) {
                // SAFETY: as in `store`.
                unsafe {
                    asm!(
                        concat!($move, " ", $size, " ptr [{to} + {at}], ", $value),
                        to = in(reg) to,
                        at = in(reg) at,
                        value = in($class) self,
                        options(nostack, preserves_flags)
                    );
                }
            }
        }
    )* };
}

unit! {
    u8: reg_byte, "{value}", "mov", "byte";
    u16: reg, "{value:x}", "mov", "word";
    u32: reg, "{value:e}", "mov", "dword";
    u64: reg, "{value:r}", "mov", "qword";
    __m128i: xmm_reg, "{value}", "movups", "xmmword";
}
