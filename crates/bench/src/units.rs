//! Numbers as people read them, and lengths as they write them.

/// Returns a length with its unit, of 1024 each.
#[must_use]
pub fn spell_size(bytes: usize) -> String {
    const UNITS: [(usize, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} B")
}

/// Returns a value with three digits or so.
#[must_use]
pub fn spell_value(value: f64) -> String {
    if value >= 1000.0 {
        spell_count(value)
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Returns a whole number with commas.
#[must_use]
pub fn spell_count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Lists lengths up to the longest: 1, then every power of two and the middle between it and the next.
#[must_use]
pub fn steps(longest: usize) -> Vec<usize> {
    let powers = (1..usize::BITS - 1).map(|power| 1_usize << power);
    let rest = powers.flat_map(|power| [power, power + power / 2]);
    let all = [1].into_iter().chain(rest);
    all.take_while(|length| *length <= longest).collect()
}

/// Reads a length: a number with an optional unit.
///
/// # Errors
/// It is no length between 1 byte and 1 GiB.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        other => {
            return Err(format!(
                "no unit of length: {other:?}; there are k, m and g"
            ));
        }
    };
    let number: usize = number.parse().map_err(|_| format!("no length: {text:?}"))?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| (1..=1 << 30).contains(bytes))
        .ok_or_else(|| format!("{text} is not between 1 byte and 1 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_spelled_and_read() {
        for (bytes, text) in [
            (8, "8 B"),
            (1536, "1536 B"),
            (2048, "2 KiB"),
            (4 << 20, "4 MiB"),
        ] {
            assert_eq!(spell_size(bytes), text);
            assert_eq!(parse_size(text), Ok(bytes));
        }
        assert_eq!(parse_size("64k"), Ok(65536));
        for wrong in ["", "k", "0", "2g", "1x", "99999999999999999999", "-1"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn steps_are_powers_of_two_and_the_middles_between_them() {
        assert_eq!(steps(16), [1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(steps(8 << 20).last(), Some(&(8 << 20)));
    }

    #[test]
    fn numbers_are_spelled_for_people() {
        assert_eq!(spell_value(0.314), "0.31");
        assert_eq!(spell_value(31.4), "31.4");
        assert_eq!(spell_value(314.4), "314");
        assert_eq!(spell_value(31_415.9), "31,416");
        assert_eq!(spell_count(1_234_567.0), "1,234,567");
        assert_eq!(spell_count(123.0), "123");
    }
}
