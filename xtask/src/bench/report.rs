//! The comparison as a table for people and as JSON for programs.

use super::cores::Cores;
use super::drawing::Curve;
use super::sample::{Comparison, Quartiles};
use super::workload::Workload;

/// The report so far.
pub(super) struct Report {
    machine: String,
    versions: [String; 2],
    rows: Vec<String>,
    curves: Vec<String>,
}

impl Report {
    pub(super) fn new(versions: [String; 2], cores: &Cores) -> Self {
        Self {
            machine: cores.description().to_owned(),
            versions,
            rows: Vec::new(),
            curves: Vec::new(),
        }
    }

    /// What is compared, and the head of the table.
    pub(super) fn head(&self) -> String {
        let [ours, reference] = &self.versions;
        let columns = [
            "ours, median (quartiles)",
            "reference, median (quartiles)",
            "ratio (quartiles of rounds)",
        ];
        format!(
            "{}\n{ours} against {reference}; ratio is ours / reference\n\n{:<4} {:<36} {:>34} {:>34} {:>28} {:>8} {:>18} {:>18}",
            self.machine,
            "prov",
            "workload",
            columns[0],
            columns[1],
            columns[2],
            "of bests",
            "UCX (ratio)",
            "limit (ratio)"
        )
    }

    /// Takes a result and returns its row of the table.
    pub(super) fn add(
        &mut self,
        workload: &Workload,
        provider: &str,
        compared: Comparison,
    ) -> String {
        self.rows.push(json_row(workload, provider, &compared));
        let unit = workload.figure.unit();
        let figures = |figures: &[f64]| {
            let Quartiles {
                lower,
                median,
                upper,
            } = Quartiles::of(figures);
            format!("{median:.2} {unit} ({lower:.2}..{upper:.2})")
        };
        let Quartiles { lower, upper, .. } = compared.ratios();
        let ratio = format!("{:.3} ({lower:.3}..{upper:.3})", compared.ratio());
        let best = compared.best_ratio(workload.figure.lower_is_better());
        let (ours, reference) = (figures(&compared.ours), figures(&compared.reference));
        let beside = |others: &[f64]| {
            let median = Quartiles::of(others).median;
            let ratio = compared.ratio_to(others);
            ratio.map_or_else(String::new, |ratio| format!("{median:.2} ({ratio:.3})"))
        };
        let (ucx, limit) = (beside(&compared.ucx), beside(&compared.limit));
        format!(
            "{provider:<4} {:<36} {ours:>34} {reference:>34} {ratio:>28} {best:>8.3} {ucx:>18} {limit:>18}",
            workload.name
        )
    }

    /// Takes curves, of which points are medians.
    pub(super) fn add_curves(&mut self, caption: &str, curves: &[Curve]) {
        let point = |(across, upwards): &(f64, f64)| format!("[{across}, {upwards}]");
        let row = |curve: &Curve| {
            let points: Vec<String> = curve.points.iter().map(point).collect();
            format!(
                "    {{\"caption\": {}, \"name\": {}, \"points\": [{}]}}",
                quoted(caption),
                quoted(&curve.name),
                points.join(", ")
            )
        };
        self.curves.extend(curves.iter().map(row));
    }

    /// The whole report, with every single figure.
    pub(super) fn json(&self) -> String {
        let [ours, reference] = &self.versions;
        format!(
            "{{\n  \"machine\": {},\n  \"ours\": {},\n  \"reference\": {},\n  \"results\": [\n{}\n  ],\n  \"curves\": [\n{}\n  ]\n}}\n",
            quoted(&self.machine),
            quoted(ours),
            quoted(reference),
            self.rows.join(",\n"),
            self.curves.join(",\n")
        )
    }
}

fn json_row(workload: &Workload, provider: &str, compared: &Comparison) -> String {
    let list = |figures: &[f64]| {
        let figures: Vec<String> = figures.iter().map(f64::to_string).collect();
        format!("[{}]", figures.join(", "))
    };
    format!(
        "    {{\"provider\": {}, \"workload\": {}, \"unit\": {}, \"ratio\": {:.4}, \"ours\": {}, \"reference\": {}, \"ucx\": {}, \"limit\": {}}}",
        quoted(provider),
        quoted(workload.name),
        quoted(workload.figure.unit()),
        compared.ratio(),
        list(&compared.ours),
        list(&compared.reference),
        list(&compared.ucx),
        list(&compared.limit)
    )
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let escaped = text.chars().flat_map(|c| match c {
        '"' | '\\' => vec!['\\', c],
        c if c.is_control() => vec![' '],
        c => vec![c],
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quoted("a \"b\" \\ c\n"), r#""a \"b\" \\ c ""#);
    }
}
