//! libfabric.conf, in which a system says what the environment does not. Source: the C library from 1.18.0 on.
//!
//! Each line is `FI_NAME=value`; what is no such line is a comment. The first line of a name counts. White space around names
//! and values does not, other than in C.

use alloc::vec::Vec;

/// The variable that names another file; one of the environment only.
pub const CONF: &str = "FI_OXI_CONF";

/// Returns the names and values that a file sets. Values are as they stand there, in no particular encoding.
pub fn settings(text: &[u8]) -> Vec<(&str, &[u8])> {
    let mut settings: Vec<(&str, &[u8])> = Vec::new();
    for (name, value) in text.split(|&byte| byte == b'\n').filter_map(setting) {
        if settings.iter().all(|(other, _)| *other != name) {
            settings.push((name, value));
        }
    }
    settings
}

/// Returns the name and the value of a line, if it has them.
pub fn setting(line: &[u8]) -> Option<(&str, &[u8])> {
    let at = line.iter().position(|&byte| byte == b'=')?;
    let name = core::str::from_utf8(line[..at].trim_ascii()).ok()?;
    let is_ours = name.starts_with("FI_") && name != CONF;
    is_ours.then(|| (name, line[at + 1..].trim_ascii()))
}

/// Parses a truth value: 0/1, false/true, no/yes, off/on, in any case.
pub fn parse_bool(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(["0", "false", "no", "off"]) {
        Some(false)
    } else if is(["1", "true", "yes", "on"]) {
        Some(true)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_name_counts() {
        let text = b"# FI_PROVIDER=udp is what we had\n\
            FI_PROVIDER=tcp;ofi_rxm\n\
            \x20FI_TCP_IFACE = eth0 \r\n\
            FI_PROVIDER=shm\n\
            FI_EMPTY=\n\
            \n\
            FI_LONELY\n\
            PATH=/bin\n\
            FI_OXI_CONF=/other\n\
            FI_\xff=1\n\
            FI_BYTES=\xff\n\
            FI_TEXT=a=b";
        let expected: [(&str, &[u8]); 5] = [
            ("FI_PROVIDER", b"tcp;ofi_rxm"),
            ("FI_TCP_IFACE", b"eth0"),
            ("FI_EMPTY", b""),
            ("FI_BYTES", b"\xff"),
            ("FI_TEXT", b"a=b"),
        ];
        assert_eq!(settings(text), expected);
    }
}
