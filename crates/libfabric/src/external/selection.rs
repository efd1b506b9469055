//! Which of several providers of one name is active. Source: fabric(7), "Provider installation and selection".

/// What decides between providers of one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderVersion<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: u32,
    /// The user named its file.
    pub(crate) preferred: bool,
}

/// Returns for each provider, in the order of discovery, the index of the one of its name that is active.
///
/// A preferred one wins; otherwise the newest; among equals, or if `first_wins`, the first.
pub(crate) fn select(versions: &[ProviderVersion<'_>], first_wins: bool) -> Vec<usize> {
    let mut winners: Vec<usize> = Vec::new();
    for (index, candidate) in versions.iter().enumerate() {
        let held = |&&winner: &&usize| versions[winner].name.eq_ignore_ascii_case(candidate.name);
        match winners.iter().position(|winner| held(&winner)) {
            None => winners.push(index),
            Some(at) if takes_over(&versions[winners[at]], candidate, first_wins) => {
                winners[at] = index;
            }
            Some(_) => {}
        }
    }
    let winner_of = |candidate: &ProviderVersion<'_>| {
        let same = |&&winner: &&usize| versions[winner].name.eq_ignore_ascii_case(candidate.name);
        *winners.iter().find(same).expect("every name has a winner")
    };
    versions.iter().map(winner_of).collect()
}

fn takes_over(
    holder: &ProviderVersion<'_>,
    candidate: &ProviderVersion<'_>,
    first_wins: bool,
) -> bool {
    if holder.preferred || candidate.preferred {
        return !holder.preferred;
    }
    !first_wins && holder.version < candidate.version
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_of(name: &str, version: u32, preferred: bool) -> ProviderVersion<'_> {
        ProviderVersion {
            name,
            version,
            preferred,
        }
    }

    #[test]
    fn the_newest_of_a_name_wins_and_among_equals_the_first() {
        let versions = [
            version_of("tcp", 1, false),
            version_of("udp", 9, false),
            version_of("TCP", 2, false),
            version_of("tcp", 2, false),
        ];
        assert_eq!(select(&versions, false), [2, 1, 2, 2]);
        assert_eq!(select(&versions, true), [0, 1, 0, 0]);
    }

    #[test]
    fn a_preferred_one_wins_over_every_version() {
        let versions = [
            version_of("tcp", 5, false),
            version_of("tcp", 1, true),
            version_of("tcp", 9, false),
            version_of("tcp", 9, true),
        ];
        assert_eq!(select(&versions, false), [1; 4]);
        assert_eq!(select(&versions, true), [1; 4]);
    }
}
