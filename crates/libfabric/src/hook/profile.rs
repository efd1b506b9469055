//! The hook profile: how often each operation was called and with how many bytes, when the fabric is closed.
//! Source: fi_hook(7).

use core::ops::Range;

use oxifabric_provider::log;

use super::counts::{BUCKET_NAMES, Counts, ROWS, name_of};
use super::{Call, Completion, Hook};

#[derive(Debug)]
pub(super) struct Profile {
    provider: String,
    counts: Counts,
}

impl Profile {
    pub(super) fn start(provider: &str) -> Option<Box<dyn Hook>> {
        Some(Box::new(Self {
            provider: provider.to_owned(),
            counts: Counts::new(),
        }))
    }
}

impl Hook for Profile {
    fn after(&self, call: &Call<'_>, _token: u64, result: i64) {
        self.counts.add(call, result);
    }

    fn completed(&self, completion: Completion) {
        self.counts.add_completion(completion);
    }

    fn finish(&self, _open: usize) {
        for line in report(&self.counts) {
            log::trace!(&self.provider, Core, "{line}");
        }
    }
}

/// Operations whose shares are of one whole: the heading, the name of the sum, the rows.
const GROUPS: [(&str, &str, Range<usize>); 6] = [
    ("XFER_API", "recv", 0..6),
    ("XFER_API", "send", 6..18),
    ("XFER_API", "read", 18..21),
    ("XFER_API", "write", 21..27),
    ("CQ", "cq read", 35..ROWS),
    ("MR REG", "mr reg", 27..30),
];

/// Returns the lines of the report: one for each operation and class of sizes that there were.
fn report(counts: &Counts) -> Vec<String> {
    let mut lines = Vec::new();
    for (heading, group, rows) in GROUPS {
        let cells = rows.flat_map(|row| (0..BUCKET_NAMES.len()).map(move |bucket| (row, bucket)));
        let used: Vec<_> = cells
            .map(|(row, bucket)| (row, bucket, counts.rows()[row].bucket(bucket)))
            .filter(|(_, _, (count, _))| *count != 0)
            .collect();
        if used.is_empty() {
            continue;
        }
        let count: u64 = used.iter().map(|(_, _, (count, _))| count).sum();
        let bytes: u64 = used.iter().map(|(_, _, (_, bytes))| bytes).sum();
        lines.push(line(
            heading, "Size", "Count", "Amount", "% Count", "% Amount",
        ));
        if used.len() > 1 {
            lines.push(figures(group, "Any", (count, bytes), (count, bytes)));
        }
        for (row, bucket, cell) in used {
            let size = if cell.1 == 0 {
                "Any"
            } else {
                BUCKET_NAMES[bucket]
            };
            lines.push(figures(name_of(row), size, cell, (count, bytes)));
        }
    }
    lines
}

fn figures(name: &str, size: &str, part: (u64, u64), whole: (u64, u64)) -> String {
    let share = |part: u64, whole: u64| match whole {
        0 => "-".to_owned(),
        whole => format!("{:.2}", 100.0 * part as f64 / whole as f64),
    };
    let amount = if part.1 == 0 {
        "-".to_owned()
    } else {
        part.1.to_string()
    };
    let shares = (share(part.0, whole.0), share(part.1, whole.1));
    line(
        name,
        size,
        &part.0.to_string(),
        &amount,
        &shares.0,
        &shares.1,
    )
}

fn line(name: &str, size: &str, count: &str, amount: &str, counts: &str, amounts: &str) -> String {
    format!("{name:<20} {size:<10} {count:>12} {amount:>14} {counts:>9} {amounts:>9}")
}

#[cfg(test)]
mod tests {
    use super::super::counts::place_of;
    use super::*;

    #[test]
    fn a_report_has_shares_of_its_group() {
        let counts = Counts::new();
        let call = |op, size| Call {
            table: "fi_ops_msg",
            op,
            counted: place_of("fi_ops_msg", op),
            size,
            arguments: format_args!(""),
        };
        for _ in 0..3 {
            counts.add(&call("send", 100), 0);
        }
        counts.add(&call("inject", 100), 0);
        counts.add(&call("inject", 100), -11);
        let lines = report(&counts);
        let words = |line: &String| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(lines.len(), 4);
        assert_eq!(
            words(&lines[1]),
            ["send", "Any", "4", "400", "100.00", "100.00"]
        );
        assert_eq!(
            words(&lines[2]),
            ["fi_send", "64_512", "3", "300", "75.00", "75.00"]
        );
        assert_eq!(
            words(&lines[3]),
            ["fi_inject", "64_512", "1", "100", "25.00", "25.00"]
        );
    }
}
