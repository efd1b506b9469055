//! Numbers that cannot be guessed: keys of memory, names of channels. Set-up path.

/// Draws a number.
pub fn draw() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: writes at most eight bytes. For so few it neither fails nor falls short once the system has started.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}
