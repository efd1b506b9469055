//! Short copies: the side of the lent memory is written out in instructions.

use core::arch::asm;
use core::arch::x86_64::__m128i;

use super::SHORT;

/// Twice what the widest instruction moves.
const TWO_UNITS: usize = 32;

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
            0 => {}
            1 => ends_in::<u8>(from, to, len),
            2..4 => ends_in::<u16>(from, to, len),
            4..8 => ends_in::<u32>(from, to, len),
            16..=TWO_UNITS => ends_in::<__m128i>(from, to, len),
            _ => copy_in_turns(from, to, len),
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
            0 => {}
            1 => ends_out::<u8>(from, to, len),
            2..4 => ends_out::<u16>(from, to, len),
            4..8 => ends_out::<u32>(from, to, len),
            16..=TWO_UNITS => ends_out::<__m128i>(from, to, len),
            _ => copy_in_turns(from, to, len),
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

/// Copies more than [`TWO_UNITS`] bytes, so many in each turn; the last ones overlap those before.
///
/// # Safety
/// As for [`super::copy_long`], and the ranges do not overlap.
#[inline(always)]
unsafe fn copy_in_turns(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(
        (TWO_UNITS + 1..=SHORT).contains(&len),
        "another arm's length"
    );
    // SAFETY: the caller's contract: each turn moves 32 bytes that lie within `len` ones.
    unsafe {
        asm!(
            "2:",
            "movups {low}, xmmword ptr [{from} + {at}]",
            "movups {high}, xmmword ptr [{from} + {at} + 16]",
            "movups xmmword ptr [{to} + {at}], {low}",
            "movups xmmword ptr [{to} + {at} + 16], {high}",
            "add {at}, 32",
            "cmp {at}, {last}",
            "jb 2b",
            "movups {low}, xmmword ptr [{from} + {last}]",
            "movups {high}, xmmword ptr [{from} + {last} + 16]",
            "movups xmmword ptr [{to} + {last}], {low}",
            "movups xmmword ptr [{to} + {last} + 16], {high}",
            from = in(reg) from,
            to = in(reg) to,
            at = inout(reg) 0_usize => _,
            last = in(reg) len - TWO_UNITS,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
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
