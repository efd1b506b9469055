//! The lengths of messages that are played. Both sides must come to the same list.

use oxifabric_bench::units::steps;

use super::options::{Options, Sizes};

/// The longest message without `-S`, in bytes: 4 MiB and half of it.
pub(super) const LONGEST: usize = 6 << 20;
/// The last size of `-S all`, in bytes.
const LARGEST: usize = 3 << 29;
const USUAL: [usize; 6] = [64, 256, 1024, 4096, 65536, 1 << 20];

/// Lists the sizes up to the longest that the endpoint can send.
pub(super) fn list(options: &Options, longest: usize) -> Vec<usize> {
    let sizes = match options.sizes {
        None => USUAL.to_vec(),
        Some(Sizes::One(size)) => vec![size],
        Some(Sizes::All) => [0].into_iter().chain(steps(longest.min(LARGEST))).collect(),
    };
    sizes
        .into_iter()
        .take_while(|size| *size <= longest)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn sizes(line: &str, longest: usize) -> Vec<usize> {
        let words = ["fi_pingpong"].into_iter().chain(line.split_whitespace());
        list(&Options::parse_from(words), longest)
    }

    #[test]
    fn lists_are_those_of_upstream() {
        assert_eq!(sizes("", LONGEST), [64, 256, 1024, 4096, 65536, 1 << 20]);
        assert_eq!(sizes("", 4096), [64, 256, 1024, 4096]);
        assert_eq!(sizes("-S 100", 100), [100]);
        assert!(sizes("-S 101", 100).is_empty());
        let all = sizes("-S all", LONGEST);
        assert_eq!(all[..9], [0, 1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(all[all.len() - 2..], [4 << 20, 6 << 20]);
    }
}
