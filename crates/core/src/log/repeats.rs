//! Which warnings were printed a moment ago.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// How many different texts are remembered; the one that was printed first is forgotten first.
const REMEMBERED: usize = 64;

/// Memory of recent warnings by their text.
pub(super) struct Repeats(Mutex<Vec<Seen>>);

struct Seen {
    text: u64,
    next_ms: u64,
    held: u64,
}

impl Repeats {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns how many warnings with this text were held back since it was printed, if it may be printed now.
    pub(super) fn admit(&self, text: &str, now_ms: u64, interval_ms: u64) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let text = hasher.finish();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = seen.iter_mut().find(|row| row.text == text) {
            if now_ms < row.next_ms {
                row.held += 1;
                return None;
            }
            row.next_ms = now_ms + interval_ms;
            return Some(core::mem::take(&mut row.held));
        }
        if seen.len() == REMEMBERED {
            seen.remove(0);
        }
        seen.push(Seen {
            text,
            next_ms: now_ms + interval_ms,
            held: 0,
        });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_text_waits_and_is_counted() {
        let repeats = Repeats::new();
        assert_eq!(repeats.admit("down", 0, 2000), Some(0));
        assert_eq!(repeats.admit("down", 1, 2000), None);
        assert_eq!(repeats.admit("up", 1, 2000), Some(0));
        assert_eq!(repeats.admit("down", 1999, 2000), None);
        assert_eq!(repeats.admit("down", 2000, 2000), Some(2));
        assert_eq!(repeats.admit("down", 4000, 2000), Some(0));
    }

    #[test]
    fn memory_is_bounded() {
        let repeats = Repeats::new();
        for number in 0..REMEMBERED + 1 {
            assert_eq!(repeats.admit(&number.to_string(), 0, 2000), Some(0));
        }
        assert_eq!(repeats.admit("0", 0, 2000), Some(0), "the oldest is gone");
    }
}
