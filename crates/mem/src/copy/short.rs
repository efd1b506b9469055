//! Short copies: the side of the lent memory is written out in instructions.

use core::arch::asm;
use core::arch::x86_64::__m128i;

use super::{SHORT, copy_long};

/// Copies bytes of our own, at most [`SHORT`], to lent memory.
///
/// # Safety
/// As for [`copy_long`].
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
            16..=SHORT => ends_in::<__m128i>(from, to, len),
            _ => copy_long(from, to, len),
        }
    }
}

/// Copies bytes of lent memory, at most [`SHORT`], to our own.
///
/// # Safety
/// As for [`copy_long`].
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
            16..=SHORT => ends_out::<__m128i>(from, to, len),
            _ => copy_long(from, to, len),
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
        tail.store(to.add(last));
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
        let tail = T::load(from.add(last));
        to.cast::<T>().write_unaligned(head);
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}

/// What one instruction moves, from and to any address. Any bytes are a value.
trait Unit: Copy {
    /// # Safety
    /// `from` is valid for reads of its size.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// `to` is valid for writes of its size.
    unsafe fn store(self, to: *mut u8);
}

macro_rules! unit {
    ($($type:ty: $class:ident, $load:literal, $store:literal;)*) => { $(
        impl Unit for $type {
            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                let value;
                // SAFETY: the caller's contract; the instruction reads so many bytes and nothing else.
                unsafe {
                    asm!(
                        $load,
                        from = in(reg) from,
                        value = lateout($class) value,
                        options(nostack, preserves_flags, readonly)
                    );
                }
                value
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's contract; the instruction writes so many bytes and nothing else.
                unsafe {
                    asm!(
                        $store,
                        to = in(reg) to,
                        value = in($class) self,
                        options(nostack, preserves_flags)
                    );
                }
            }
        }
    )* };
}

unit! {
    u8: reg_byte, "mov {value}, byte ptr [{from}]", "mov byte ptr [{to}], {value}";
    u16: reg, "mov {value:x}, word ptr [{from}]", "mov word ptr [{to}], {value:x}";
    u32: reg, "mov {value:e}, dword ptr [{from}]", "mov dword ptr [{to}], {value:e}";
    u64: reg, "mov {value:r}, qword ptr [{from}]", "mov qword ptr [{to}], {value:r}";
    __m128i: xmm_reg, "movups {value}, xmmword ptr [{from}]", "movups xmmword ptr [{to}], {value}";
}
