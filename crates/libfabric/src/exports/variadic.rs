//! `fi_log` and `fi_param_define`, which take a variable number of arguments.
//!
//! Stable Rust cannot define such a function. Each of the two is a naked function that does what a C compiler puts at the
//! start of one: store the argument registers, build a `va_list` over them and the stack, and call an ordinary function
//! with both. The layouts are those of the System V ABI for x86-64 (section 3.5.7) and of AAPCS64 (appendix B).

use core::arch::naked_asm;

use crate::logging;

/// How many registers carry integer arguments.
#[cfg(target_arch = "x86_64")]
const COUNT: usize = 6;
#[cfg(target_arch = "aarch64")]
const COUNT: usize = 8;

/// The integer argument registers at the call. The upper half of one that holds a 32-bit argument is undefined.
#[repr(C)]
pub(crate) struct Registers([usize; COUNT]);

impl Registers {
    /// Returns the first six, which are the named arguments and, behind them, maybe some of the others.
    pub(crate) fn first(&self) -> [usize; 6] {
        *self.0.first_chunk().expect("both platforms have six")
    }
}

/// Defines a variadic function with `named` arguments that calls `body(&Registers, va_list)`.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    ($(#[$doc:meta])* $name:ident, $named:literal => $body:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            // 176 bytes of registers (six integer, eight vector), 24 of `va_list`, 16 to keep the stack aligned.
            naked_asm!(
                "sub rsp, 216",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                // al is zero if no vector register carries an argument.
                "test al, al",
                "je 2f",
                "movaps [rsp + 48], xmm0",
                "movaps [rsp + 64], xmm1",
                "movaps [rsp + 80], xmm2",
                "movaps [rsp + 96], xmm3",
                "movaps [rsp + 112], xmm4",
                "movaps [rsp + 128], xmm5",
                "movaps [rsp + 144], xmm6",
                "movaps [rsp + 160], xmm7",
                "2:",
                "mov dword ptr [rsp + 176], {gp_offset}",
                "mov dword ptr [rsp + 180], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                "mov rdi, rsp",
                "lea rsi, [rsp + 176]",
                "call {body}",
                "add rsp, 216",
                "ret",
                gp_offset = const $named * 8,
                body = sym $body,
            )
        }
    };
}

/// Defines a variadic function with `named` arguments that calls `body(&Registers, va_list)`.
#[cfg(target_arch = "aarch64")]
macro_rules! variadic {
    ($(#[$doc:meta])* $name:ident, $named:literal => $body:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            // 64 bytes of integer registers, 128 of vector registers, 32 of `va_list`.
            naked_asm!(
                "stp x29, x30, [sp, #-16]!",
                "mov x29, sp",
                "sub sp, sp, #224",
                "stp x0, x1, [sp]",
                "stp x2, x3, [sp, #16]",
                "stp x4, x5, [sp, #32]",
                "stp x6, x7, [sp, #48]",
                "stp q0, q1, [sp, #64]",
                "stp q2, q3, [sp, #96]",
                "stp q4, q5, [sp, #128]",
                "stp q6, q7, [sp, #160]",
                "add x8, x29, #16",
                "str x8, [sp, #192]",
                "add x8, sp, #64",
                "str x8, [sp, #200]",
                "add x8, sp, #192",
                "str x8, [sp, #208]",
                "mov w8, #{gr_offs}",
                "str w8, [sp, #216]",
                "mov w8, #-128",
                "str w8, [sp, #220]",
                "mov x0, sp",
                "add x1, sp, #192",
                "bl {body}",
                "mov sp, x29",
                "ldp x29, x30, [sp], #16",
                "ret",
                gr_offs = const -(8 - $named) * 8,
                body = sym $body,
            )
        }
    };
}

variadic! {
    /// `fi_log(prov, level, subsys, func, line, fmt, ...)`, fi_provider(3).
    log, 6 => logging::log
}

variadic! {
    /// `fi_param_define(prov, name, type, fmt, ...)`, fi_provider(3).
    param_define, 4 => logging::param_define
}
