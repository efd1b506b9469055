//! Copies to and from memory that the application may use at the same time.
//!
//! A peer writes a region while a thread of the application reads it, as fi_mr(3) allows; and the safe Rust interface lets its users read
//! and write a region meanwhile, byte by byte and atomically. To the compiler such accesses must not be plain ones: with them, the two
//! would be a data race, whose outcome Rust does not define. So what touches lent memory here is made of instructions that the
//! compiler does not look into, and a C function that it cannot name: to it they are accesses from outside, each byte
//! moved by itself. What arrives is some old bytes and some new ones, as from a device. They order nothing; locks and completions do
//! that. See docs/adr/0037 and 0074.
//!
//! Where the instructions are written out (x86-64 with its vector registers, which a kernel does not use) they cost what plain copies cost.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod long;
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
mod plain;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod short;

/// Longest copy that is made without a call.
pub(crate) const SHORT: usize = 256;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
pub(crate) use {
    long::copy_long,
    short::{copy_in, copy_out},
};

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
pub(crate) use plain::{copy_long, copy_long as copy_in, copy_long as copy_out};
