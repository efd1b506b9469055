//! Text in a buffer of the caller, and the rows of a mapping.

use super::names::Names;
use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::marker::PhantomData;

/// One level of indentation.
pub(super) const INDENT: &str = "    ";

/// Appends text to a C buffer, which ends in a zero byte at any time.
///
/// Like the C library it leaves the last byte but one of the buffer unused; what does not fit is cut off.
pub(crate) struct Writer<'a> {
    buf: *mut u8,
    len: usize,
    used: usize,
    spare: usize,
    owner: PhantomData<&'a mut [u8]>,
}

impl Writer<'_> {
    /// Makes the buffer an empty string.
    ///
    /// # Safety
    ///
    /// `buf` must have room for `len` bytes, at least one, which nothing else touches while the writer lives. They need
    /// not be initialized.
    pub(crate) unsafe fn new(buf: *mut c_char, len: usize) -> Self {
        // SAFETY: there is room for one byte at least.
        unsafe { buf.cast::<u8>().write(0) };
        Self {
            buf: buf.cast(),
            len,
            used: 0,
            spare: 1,
            owner: PhantomData,
        }
    }

    /// Appends bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let room = self.len.saturating_sub(1 + self.spare + self.used);
        let fits = &bytes[..bytes.len().min(room)];
        if fits.is_empty() {
            return;
        }
        // SAFETY: `room` leaves at least one byte of the buffer for the zero behind the text.
        unsafe {
            let end = self.buf.add(self.used);
            end.copy_from_nonoverlapping(fits.as_ptr(), fits.len());
            end.add(fits.len()).write(0);
        }
        self.used += fits.len();
    }

    /// Appends text.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Appends a C string, or `(null)`.
    ///
    /// # Safety
    ///
    /// `text` must be null or a valid C string.
    pub(crate) unsafe fn c_text(&mut self, text: *const c_char) {
        if text.is_null() {
            return self.text("(null)");
        }
        // SAFETY: the caller passes a valid string.
        self.bytes(unsafe { CStr::from_ptr(text) }.to_bytes());
    }

    /// Appends an address in memory, or `(nil)`.
    pub(crate) fn pointer(&mut self, pointer: *const c_void) {
        if pointer.is_null() {
            return self.text("(nil)");
        }
        self.fmt(format_args!("{pointer:p}"));
    }

    /// Appends the names of the set bits, with commas between.
    pub(crate) fn flags(&mut self, names: Names, bits: u64) {
        for (_, name) in names.iter().filter(|(bit, _)| bits & bit != 0) {
            self.text(name);
            self.text(", ");
        }
        self.drop_comma();
    }

    /// Appends the name of a value, or `Unknown`.
    pub(crate) fn name(&mut self, names: Names, value: u32) {
        let known = names.iter().find(|(known, _)| *known == u64::from(value));
        self.text(known.map_or("Unknown", |(_, name)| name));
    }

    /// Lets `write` use the byte that other text leaves unused.
    pub(super) fn with_last_byte(&mut self, write: impl FnOnce(&mut Self)) {
        self.spare = 0;
        write(self);
        self.spare = 1;
    }

    /// Hands the unused part of the buffer, an empty string, to a C function that writes a string there.
    pub(super) fn lend(&mut self, write: impl FnOnce(*mut c_char, usize)) {
        let left = self.len - self.used;
        // SAFETY: `used` is less than `len`, and the zero byte at the end of the text is the lent string.
        let end = unsafe { self.buf.add(self.used) };
        write(end.cast(), left);
        // SAFETY: the borrower may have used all bytes lent, but no more; a string ends within them.
        unsafe {
            end.add(left - 1).write(0);
            self.used += CStr::from_ptr(end.cast()).count_bytes();
        }
    }

    fn fmt(&mut self, text: fmt::Arguments<'_>) {
        // `write_str` below cannot fail, and numbers and pointers do not.
        let _ = fmt::Write::write_fmt(self, text);
    }

    fn drop_comma(&mut self) {
        // SAFETY: `used` bytes of text are initialized.
        let text = unsafe { core::slice::from_raw_parts(self.buf, self.used) };
        if text.ends_with(b", ") {
            self.used -= 2;
            // SAFETY: within the text.
            unsafe { self.buf.add(self.used).write(0) };
        }
    }
}

impl fmt::Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

/// The rows of one mapping: `key: value`, indented below its name.
pub(super) struct Rows<'w, 'a> {
    pub(super) out: &'w mut Writer<'a>,
    outer: &'static str,
}

impl<'w, 'a> Rows<'w, 'a> {
    /// Begins the mapping `name`, with `outer` before every row.
    pub(super) fn begin(out: &'w mut Writer<'a>, outer: &'static str, name: &str) -> Self {
        out.fmt(format_args!("{outer}{name}:\n"));
        Self { out, outer }
    }

    /// Begins the mapping of a structure, or says that there is none.
    ///
    /// # Safety
    ///
    /// `structure` must be null or valid for as long as the result is used.
    pub(super) unsafe fn of<'s, T>(
        out: &'w mut Writer<'a>,
        outer: &'static str,
        name: &str,
        structure: *const T,
    ) -> Option<(Self, &'s T)> {
        // SAFETY: the caller passes null or a valid structure.
        let Some(structure) = (unsafe { structure.as_ref() }) else {
            out.fmt(format_args!("{outer}{name}: (null)\n"));
            return None;
        };
        Some((Self::begin(out, outer, name), structure))
    }

    /// Appends a row, whose value `write` appends.
    pub(super) fn row(&mut self, key: &str, write: impl FnOnce(&mut Writer<'a>)) {
        self.out.fmt(format_args!("{}{INDENT}{key}: ", self.outer));
        write(self.out);
        self.out.text("\n");
    }

    pub(super) fn value(&mut self, key: &str, value: impl fmt::Display) {
        self.row(key, |out| out.fmt(format_args!("{value}")));
    }

    pub(super) fn hex(&mut self, key: &str, value: u64) {
        self.row(key, |out| out.fmt(format_args!("{value:#x}")));
    }

    pub(super) fn flags(&mut self, key: &str, names: Names, bits: u64) {
        self.row(key, |out| {
            out.text("[ ");
            out.flags(names, bits);
            out.text(" ]");
        });
    }

    pub(super) fn name(&mut self, key: &str, names: Names, value: u32) {
        self.row(key, |out| out.name(names, value));
    }

    pub(super) fn pointer<T>(&mut self, key: &str, pointer: *const T) {
        self.row(key, |out| out.pointer(pointer.cast()));
    }

    /// Writes a row with a C string.
    ///
    /// # Safety
    ///
    /// `text` must be null or a valid C string.
    pub(super) unsafe fn c_text(&mut self, key: &str, text: *const c_char) {
        // SAFETY: the caller's contract, passed on.
        self.row(key, |out| unsafe { out.c_text(text) });
    }
}
