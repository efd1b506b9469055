//! Which warnings were printed a moment ago.
//!
//! Peers cause warnings, and those that the application did not name may cause as many as they like. So warnings of one kind
//! about one host count as one, whatever ports and numbers they tell, and there is a bound for all together.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// How many different warnings are remembered; the one that was printed first is forgotten first.
const REMEMBERED: usize = 64;

/// How many warnings are printed a second at most, repeated or not: more than a person reads, and less than fills a disk. At
/// 200 bytes each they come to half a gigabyte a day.
const LINES_PER_SECOND: u32 = 32;

/// Memory of recent warnings.
pub(super) struct Repeats(Mutex<Memory>);

struct Memory {
    seen: Vec<Seen>,
    /// The second that `lines` are of.
    second: u64,
    lines: u32,
    /// How many warnings were left out because there were too many.
    left_out: u64,
}

struct Seen {
    kind: u64,
    next_ms: u64,
    held: u64,
}

/// What was held back before a warning that may be printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBack {
    /// Warnings like it.
    pub(super) alike: u64,
    /// Others, because there were too many.
    pub(super) others: u64,
}

impl Repeats {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Memory {
            seen: Vec::new(),
            second: 0,
            lines: 0,
            left_out: 0,
        }))
    }

    /// Returns whether a warning from a place in the source may be printed now, and what was held back since it was printed
    /// last. With an interval of 0 every one is printed.
    pub(super) fn admit(
        &self,
        place: (&str, u32),
        text: &str,
        now_ms: u64,
        interval_ms: u64,
    ) -> Option<HeldBack> {
        if interval_ms == 0 {
            return Some(HeldBack::default());
        }
        let kind = kind_of(place, text);
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = memory.seen.iter().position(|row| row.kind == kind);
        if let Some(at) = known
            && now_ms < memory.seen[at].next_ms
        {
            memory.seen[at].held += 1;
            return None;
        }
        if !memory.has_line(now_ms) {
            memory.left_out += 1;
            return None;
        }
        let others = core::mem::take(&mut memory.left_out);
        let next_ms = now_ms + interval_ms;
        let alike = match known {
            Some(at) => {
                memory.seen[at].next_ms = next_ms;
                core::mem::take(&mut memory.seen[at].held)
            }
            None => {
                memory.remember(kind, next_ms);
                0
            }
        };
        Some(HeldBack { alike, others })
    }
}

impl Memory {
    /// Takes one of the lines of this second, if there is one left.
    fn has_line(&mut self, now_ms: u64) -> bool {
        let second = now_ms / 1000;
        if self.second != second {
            (self.second, self.lines) = (second, 0);
        }
        self.lines += 1;
        self.lines <= LINES_PER_SECOND
    }

    fn remember(&mut self, kind: u64, next_ms: u64) {
        if self.seen.len() == REMEMBERED {
            self.seen.remove(0);
        }
        self.seen.push(Seen {
            kind,
            next_ms,
            held: 0,
        });
    }
}

/// Returns what warnings have in common that count as one: place and words, and the hosts that they name without their ports.
fn kind_of(place: (&str, u32), text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    place.hash(&mut hasher);
    for word in text.split_ascii_whitespace() {
        match host(word) {
            Some(host) => host.hash(&mut hasher),
            None => hash_word(word, &mut hasher),
        }
    }
    hasher.finish()
}

/// Returns the host that a word names: an address, with or without a port, a scheme before it and punctuation behind.
fn host(word: &str) -> Option<IpAddr> {
    let address = word.rsplit("//").next().unwrap_or(word);
    let address = address.trim_matches(|edge: char| !edge.is_ascii_alphanumeric() && edge != '[');
    let with_port = || Some(address.parse::<SocketAddr>().ok()?.ip());
    address.parse().ok().or_else(with_port)
}

/// Numbers count as one another.
fn hash_word(word: &str, hasher: &mut DefaultHasher) {
    for part in word.split(|digit: char| digit.is_ascii_digit()) {
        if !part.is_empty() {
            part.hash(hasher);
        }
    }
    hasher.write_u8(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: (&str, u32) = ("tests", 1);

    fn held(alike: u64, others: u64) -> Option<HeldBack> {
        Some(HeldBack { alike, others })
    }

    #[test]
    fn a_repeated_text_waits_and_is_counted() {
        let repeats = Repeats::new();
        let admit = |text, now| repeats.admit(HERE, text, now, 2000);
        assert_eq!(admit("down", 0), held(0, 0));
        assert_eq!(admit("down", 1), None);
        assert_eq!(admit("up", 1), held(0, 0));
        assert_eq!(admit("down", 1999), None);
        assert_eq!(admit("down", 2000), held(2, 0));
        assert_eq!(admit("down", 4000), held(0, 0));
    }

    #[test]
    fn warnings_of_a_kind_about_a_host_count_as_one_whatever_its_ports() {
        let alike = [
            (
                "127.0.0.1:4711: said nothing",
                "127.0.0.1:4712: said nothing",
            ),
            ("lost [fe80::1]:1 after 7 s", "lost [fe80::1]:22 after 81 s"),
            (
                "with fi_sockaddr_in://10.0.0.1:9, dropped",
                "with fi_sockaddr_in://10.0.0.1:10, dropped",
            ),
            (
                "from fi_shm://12:0:7 (pid 12)",
                "from fi_shm://345:0:1 (pid 345)",
            ),
        ];
        for (one, other) in alike {
            assert_eq!(kind_of(HERE, one), kind_of(HERE, other), "{one}");
            assert_ne!(kind_of(HERE, one), kind_of(("tests", 2), one), "{one}");
        }
        let different = [
            ("10.0.0.1:1 is down", "10.0.0.2:1 is down"),
            ("10.0.0.1 is down", "10.0.0.11 is down"),
            ("10.0.0.1:1 is down", "10.0.0.1:1 is up"),
        ];
        for (one, other) in different {
            assert_ne!(kind_of(HERE, one), kind_of(HERE, other), "{one}");
        }
    }

    #[test]
    fn a_second_has_a_bound_of_lines_and_the_rest_is_counted() {
        let repeats = Repeats::new();
        let admit = |number: u32, now| {
            let host = std::net::Ipv4Addr::from(number);
            repeats.admit(HERE, &format!("{host} is down"), now, 2000)
        };
        let printed = (0..1000).filter(|&number| admit(number, 500).is_some());
        assert_eq!(printed.count(), LINES_PER_SECOND as usize);
        assert_eq!(
            admit(1000, 1500),
            held(0, 1000 - u64::from(LINES_PER_SECOND))
        );
        assert_eq!(admit(1001, 1500), held(0, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let repeats = Repeats::new();
        for line in 0..=REMEMBERED as u32 {
            let now = u64::from(line) * 1000;
            assert_eq!(repeats.admit((":", line), "", now, 1_000_000), held(0, 0));
        }
        let again = repeats.admit((":", 0), "", 900_000, 1_000_000);
        assert_eq!(again, held(0, 0), "the oldest is gone");
    }

    #[test]
    fn without_an_interval_every_warning_is_printed() {
        let repeats = Repeats::new();
        for _ in 0..1000 {
            assert_eq!(repeats.admit(HERE, "down", 0, 0), held(0, 0));
        }
    }
}
