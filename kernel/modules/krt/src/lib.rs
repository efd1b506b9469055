//! What Rust code needs of the kernel: memory, the log, an end for panics.
//!
//! A module links this crate once, and includes `krt_shim.h` in one of its C files, which has the other side.
#![no_std]

mod heap;
mod log;

use core::panic::PanicInfo;

pub use heap::live_allocations;
pub use log::{Level, write};

use crate::log::Line;

/// Writes a line to the kernel's log, at level info.
#[macro_export]
macro_rules! info {
    ($($text:tt)*) => { $crate::write($crate::Level::Info, format_args!($($text)*)) };
}

/// Writes a line to the kernel's log, at level err.
#[macro_export]
macro_rules! error {
    ($($text:tt)*) => { $crate::write($crate::Level::Error, format_args!($($text)*)) };
}

unsafe extern "C" {
    /// Stops the thread with a report. It does not return, but is declared as if it did: objtool knows the kernel's own functions
    /// that do not return, and no others.
    fn krt_panic(text: *const u8, len: usize);
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let line = Line::new(format_args!("{info}"));
    let text = line.text();
    // SAFETY: the text is valid for the call.
    unsafe { krt_panic(text.as_ptr(), text.len()) };
    loop {}
}
