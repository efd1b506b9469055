//! The kernel's log.

use core::fmt::{self, Write};

/// How important a line is, as printk(9) has it.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub enum Level {
    /// Something failed.
    Error = 3,
    /// Something happened.
    Info = 6,
}

unsafe extern "C" {
    fn krt_print(level: i32, text: *const u8, len: usize);
}

/// Writes a line to the kernel's log.
pub fn write(level: Level, text: fmt::Arguments<'_>) {
    let line = Line::new(text);
    let text = line.text();
    // SAFETY: the text is valid for the call.
    unsafe { krt_print(level as i32, text.as_ptr(), text.len()) }
}

/// A line on the stack; what does not fit is cut off.
pub(crate) struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    pub(crate) fn new(text: fmt::Arguments<'_>) -> Self {
        let mut line = Self {
            bytes: [0; 256],
            len: 0,
        };
        let _ = line.write_fmt(text);
        line
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let len = text.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..][..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}
