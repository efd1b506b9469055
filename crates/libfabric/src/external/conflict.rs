//! Which of several providers of one name is active. Source: fabric(7), "Provider installation and selection".

/// What decides between providers of one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rival<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: u32,
    /// The user named its file.
    pub(crate) preferred: bool,
}

/// Returns for each provider, in the order of discovery, the index of the one of its name that is active.
///
/// A preferred one wins; otherwise the newest; among equals, or if `first_wins`, the first.
pub(crate) fn contest(rivals: &[Rival<'_>], first_wins: bool) -> Vec<usize> {
    let mut winners: Vec<usize> = Vec::new();
    for (index, rival) in rivals.iter().enumerate() {
        let held = |&&winner: &&usize| rivals[winner].name.eq_ignore_ascii_case(rival.name);
        match winners.iter().position(|winner| held(&winner)) {
            None => winners.push(index),
            Some(at) if takes_over(&rivals[winners[at]], rival, first_wins) => winners[at] = index,
            Some(_) => {}
        }
    }
    let winner_of = |rival: &Rival<'_>| {
        let same = |&&winner: &&usize| rivals[winner].name.eq_ignore_ascii_case(rival.name);
        *winners.iter().find(same).expect("every name has a winner")
    };
    rivals.iter().map(winner_of).collect()
}

fn takes_over(holder: &Rival<'_>, rival: &Rival<'_>, first_wins: bool) -> bool {
    if holder.preferred || rival.preferred {
        return !holder.preferred;
    }
    !first_wins && holder.version < rival.version
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rival(name: &str, version: u32, preferred: bool) -> Rival<'_> {
        Rival {
            name,
            version,
            preferred,
        }
    }

    #[test]
    fn the_newest_of_a_name_wins_and_among_equals_the_first() {
        let rivals = [
            rival("tcp", 1, false),
            rival("udp", 9, false),
            rival("TCP", 2, false),
            rival("tcp", 2, false),
        ];
        assert_eq!(contest(&rivals, false), [2, 1, 2, 2]);
        assert_eq!(contest(&rivals, true), [0, 1, 0, 0]);
    }

    #[test]
    fn a_preferred_one_wins_over_every_version() {
        let rivals = [
            rival("tcp", 5, false),
            rival("tcp", 1, true),
            rival("tcp", 9, false),
            rival("tcp", 9, true),
        ];
        assert_eq!(contest(&rivals, false), [1; 4]);
        assert_eq!(contest(&rivals, true), [1; 4]);
    }
}
