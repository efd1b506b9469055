//! `fi_info --why`: why offers are not returned.

use std::io::{self, Write};

use oxifabric::{Info, Rejection};

use crate::output::{columns, wrap};

/// Prints what is returned, and for everything else why it is not, nearest miss first.
pub(super) fn explain(
    out: &mut dyn Write,
    returned: &[Info],
    rejections: &[Rejection],
) -> io::Result<()> {
    for (provider, count) in count_by_provider(returned) {
        let s = if count == 1 { "" } else { "s" };
        writeln!(out, "{provider}: returned, {count} offer{s}")?;
    }
    let (groups, columns) = (group(rejections), columns());
    for (at, group) in groups.iter().enumerate() {
        let nearest = at == 0 && groups.len() > 1 && returned.is_empty();
        let mark = if nearest { " (nearest miss)" } else { "" };
        let head = format!("{}: not returned{mark}", group.name());
        writeln!(out, "{}", wrap(&head, "", "  ", columns))?;
        for reason in group.reasons {
            writeln!(out, "{}", wrap(reason, "    ", "      ", columns))?;
        }
    }
    if returned.is_empty() && groups.is_empty() {
        writeln!(
            out,
            "nothing is returned, and this library does not say why"
        )?;
    }
    Ok(())
}

/// Offers of one provider that are refused for the same reasons.
struct Group<'a> {
    provider: &'a str,
    offers: Vec<&'a str>,
    reasons: &'a [String],
}

impl Group<'_> {
    fn name(&self) -> String {
        if self.offers.is_empty() {
            self.provider.to_owned()
        } else {
            format!("{} ({})", self.provider, self.offers.join(", "))
        }
    }
}

fn group(rejections: &[Rejection]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for rejection in rejections {
        let same = groups.iter_mut().find(|group| {
            group.provider == rejection.provider && group.reasons == rejection.reasons
        });
        let offer = rejection.offer.as_deref();
        match same {
            Some(group) => {
                let new = offer.filter(|offer| !group.offers.contains(offer));
                group.offers.extend(new);
            }
            None => groups.push(Group {
                provider: &rejection.provider,
                offers: offer.into_iter().collect(),
                reasons: &rejection.reasons,
            }),
        }
    }
    groups
}

pub(super) fn count_by_provider(offers: &[Info]) -> Vec<(&str, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for info in offers {
        match counts.iter_mut().find(|(name, _)| *name == info.provider()) {
            Some((_, count)) => *count += 1,
            None => counts.push((info.provider(), 1)),
        }
    }
    counts
}
