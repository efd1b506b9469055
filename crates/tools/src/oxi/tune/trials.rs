//! Two pairs of workers that measure the same sizes in turns.

use std::io::{self, Write};

use indicatif::ProgressBar;
use oxifabric::Parameter;
use oxifabric_bench::statistics::median;
use oxifabric_bench::table::{Column, Table};
use oxifabric_bench::units::{spell_size, spell_value};

use super::worker_pair::{Start, WorkerPair};
use crate::output::quote;
use crate::oxi::Trouble;
use crate::oxi::conf::Setting;

/// The cost of messages of one size with one pair of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Half of the median time there and back, in microseconds.
    pub(super) latency_us: f64,
    /// Messages a second of a stream.
    pub(super) rate: f64,
}

impl Cost {
    /// Returns one number for both, in microseconds: less is better.
    pub(super) fn total_us(self) -> f64 {
        (self.latency_us * 1e6 / self.rate).sqrt()
    }
}

/// One size, measured by two pairs of workers.
pub(super) struct Row {
    pub(super) size: usize,
    pub(super) costs: [Cost; 2],
}

impl Row {
    /// Returns the cost with the second pair in parts of that with the first.
    pub(super) fn ratio(&self) -> f64 {
        let [first, second] = self.costs.map(Cost::total_us);
        second / first
    }
}

/// How often each pair measures every size; an odd number has a median.
const ROUNDS: usize = 5;

/// The settings of trials.
pub(super) struct Trials<'a> {
    /// The parameters of the library.
    pub(super) known: &'a [Parameter],
    pub(super) quick: bool,
    /// Whether nothing is printed before the end.
    pub(super) is_quiet: bool,
    pub(super) bar: ProgressBar,
}

impl Trials<'_> {
    /// Returns how many trials a pair makes for `sizes` sizes.
    pub(super) fn count(&self, sizes: usize) -> usize {
        match self.quick {
            true => sizes.min(2),
            false => sizes * ROUNDS,
        }
    }

    /// Has two pairs measure sizes in turns.
    pub(super) fn measure(
        &self,
        settings: &[Vec<Setting>; 2],
        sizes: &[usize],
    ) -> Result<Vec<Row>, Trouble> {
        let mut pairs = [self.pair(&settings[0])?, self.pair(&settings[1])?];
        let (rounds, step) = match self.quick {
            true => (1, sizes.len().saturating_sub(1).max(1)),
            false => (ROUNDS, 1),
        };
        let row = |size: &usize| {
            let mut costs = [vec![], vec![]];
            for turn in 0..rounds * 2 {
                // Each pair begins every second round.
                let which = (turn + turn / 2) % 2;
                costs[which].push(pairs[which].measure(*size)?);
                self.bar.inc(1);
            }
            Ok(Row {
                size: *size,
                costs: costs.map(|costs| middle(&costs)),
            })
        };
        let rows: Result<Vec<Row>, Trouble> = sizes.iter().step_by(step).map(row).collect();
        for pair in pairs {
            pair.dismiss()?;
        }
        rows
    }

    fn pair(&self, settings: &[Setting]) -> Result<WorkerPair, Trouble> {
        match WorkerPair::start(settings, self.known, self.quick)? {
            Start::Ready(pair) => Ok(pair),
            Start::Apart(why) => Err(why.into()),
        }
    }
}

fn middle(costs: &[Cost]) -> Cost {
    let of = |part: fn(&Cost) -> f64| median(&costs.iter().map(part).collect::<Vec<_>>());
    Cost {
        latency_us: of(|cost| cost.latency_us),
        rate: of(|cost| cost.rate),
    }
}

const COLUMNS: [Column; 6] = [
    Column::numbers("size", 9),
    Column::numbers("one-way µs", 10),
    Column::numbers("MB/s", 9),
    Column::numbers("one-way µs", 10),
    Column::numbers("MB/s", 9),
    Column::numbers("ratio", 6),
];

/// What two pairs of workers measured.
pub(super) struct Comparison {
    pub(super) question: &'static str,
    /// What the pairs differ in.
    pub(super) ways: [&'static str; 2],
    pub(super) rows: Vec<Row>,
}

impl Comparison {
    /// Prints the costs of the pairs.
    pub(super) fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let (table, [one, other]) = (Table(&COLUMNS), self.ways);
        writeln!(out, "\n{}", self.question)?;
        writeln!(out, "  {:>9}  {one:>21}  {other:>21}", "")?;
        writeln!(out, "{}\n{}", table.head(), table.rule())?;
        for row in &self.rows {
            let mut cells = vec![spell_size(row.size)];
            for cost in row.costs {
                let bandwidth = cost.rate * row.size as f64 / 1e6;
                cells.extend([cost.latency_us, bandwidth].map(spell_value));
            }
            cells.push(format!("{:.2}", row.ratio()));
            writeln!(out, "{}", table.row(&cells))?;
        }
        writeln!(out, "  lower is better: one-way µs; higher is better: MB/s")?;
        writeln!(out, "  ratio below 1: {other} is better than {one}")
    }

    /// Returns them as a JSON object.
    pub(super) fn json(&self) -> String {
        let sizes = self.rows.iter().map(|row| {
            let latencies = row.costs.map(|cost| format!("{:.4}", cost.latency_us));
            let rates = row.costs.map(|cost| format!("{:.0}", cost.rate));
            format!(
                "{{\"bytes\": {}, \"latency_us\": [{}], \"messages_per_s\": [{}]}}",
                row.size,
                latencies.join(", "),
                rates.join(", ")
            )
        });
        format!(
            "{{\"question\": {}, \"ways\": [{}], \"sizes\": [{}]}}",
            quote(self.question),
            self.ways.map(quote).join(", "),
            sizes.collect::<Vec<_>>().join(", ")
        )
    }
}
