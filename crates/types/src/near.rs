//! Names that resemble a misspelt one, for messages.

use alloc::vec::Vec;

/// Returns the name that was probably meant by a word: the one with the fewest slips between them, at most one in a word of up to four
/// letters and two in a longer one. Case does not matter.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = word.chars().collect();
    let most = match letters.len() {
        ..2 => 0,
        2..5 => 1,
        _ => 2,
    };
    let distances = names.map(|name| (slips(&letters, name), name));
    let near = distances.filter(|(slips, _)| *slips <= most);
    near.min().map(|(_, name)| name)
}

/// Returns how many letters have to be added, left out, changed or exchanged with the next one to make one word of the other.
fn slips(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let is = |one: char, other: char| one.eq_ignore_ascii_case(&other);
    // The rows of the last two letters of `from`, each with the slips to every beginning of `to`.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (done, &letter) in from.iter().enumerate() {
        let mut row = Vec::from([done + 1]);
        for (at, &other) in to.iter().enumerate() {
            let changed = last[at] + usize::from(!is(letter, other));
            let mut least = changed.min(last[at + 1] + 1).min(row[at] + 1);
            if done > 0 && at > 0 && is(letter, to[at - 1]) && is(from[done - 1], other) {
                least = least.min(before[at - 1] + 1);
            }
            row.push(least);
        }
        before = core::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (from, to, expected) in [
            ("", "", 0),
            ("ab", "aB", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("tpc", "tcp", 1),
            ("ucx", "udp", 2),
        ] {
            let count = |from: &str, to| slips(&from.chars().collect::<Vec<_>>(), to);
            assert_eq!(count(from, to), expected, "{from} {to}");
            assert_eq!(count(to, from), expected, "{to} {from}");
        }
    }

    #[test]
    fn a_name_is_near_if_most_of_its_letters_are_there() {
        let names = || ["tcp", "shm", "udp", "udp;ofi_rxd", "sim"].into_iter();
        for (word, meant) in [
            ("tpc", Some("tcp")),
            ("TCPP", Some("tcp")),
            ("shmm", Some("shm")),
            ("udp;ofi_rdx", Some("udp;ofi_rxd")),
            ("verbs", None),
            ("ucx", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names()), meant, "{word}");
        }
    }
}
