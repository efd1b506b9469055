//! The comparison as a table for people and as JSON for programs.

use oxifabric_bench::chart::Series;
use oxifabric_bench::statistics::{Quartiles, median};
use oxifabric_bench::table::{Column, Table};
use serde_json::{Value, json};

use crate::comparison::Comparison;
use crate::cores::Cores;
use crate::workload::Workload;

/// The report so far.
pub(crate) struct Report {
    machine: String,
    versions: [String; 2],
    rows: Vec<Value>,
    curves: Vec<Value>,
}

const TABLE: Table<'static> = Table(&[
    Column::text("prov", 4),
    Column::text("workload", 38),
    Column::numbers("ours, median (quartiles)", 34),
    Column::numbers("reference, median (quartiles)", 34),
    Column::numbers("ratio (quartiles of rounds)", 28),
    Column::numbers("of bests", 8),
    Column::numbers("UCX (ratio)", 18),
    Column::numbers("limit (ratio)", 18),
]);

impl Report {
    pub(crate) fn new(versions: [String; 2], cores: &Cores) -> Self {
        Self {
            machine: cores.description().to_owned(),
            versions,
            rows: Vec::new(),
            curves: Vec::new(),
        }
    }

    /// Returns what is compared, and the head of the table.
    pub(crate) fn head(&self) -> String {
        let [ours, reference] = &self.versions;
        format!(
            "{}\n{ours} against {reference}; ratio is ours / reference\n\n{}\n{}",
            self.machine,
            TABLE.head(),
            TABLE.rule()
        )
    }

    /// Takes a result and returns its row of the table.
    pub(crate) fn add(
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
        let best = compared.best_ratio(workload.figure.lower_is_better());
        let beside = |others: &[f64]| {
            let ratio = compared.ratio_to(others);
            ratio.map_or_else(String::new, |ratio| {
                format!("{:.2} ({ratio:.3})", median(others))
            })
        };
        TABLE.row([
            provider,
            workload.name,
            &figures(&compared.ours),
            &figures(&compared.reference),
            &format!("{:.3} ({lower:.3}..{upper:.3})", compared.ratio()),
            &format!("{best:.3}"),
            &beside(&compared.ucx),
            &beside(&compared.limit),
        ])
    }

    /// Takes curves, of which points are medians.
    pub(crate) fn add_curves(&mut self, caption: &str, curves: &[Series]) {
        let row = |curve: &Series| json!({ "caption": caption, "name": curve.name, "points": curve.points });
        self.curves.extend(curves.iter().map(row));
    }

    /// Returns the whole report, with every single figure.
    pub(crate) fn json(&self) -> String {
        let [ours, reference] = &self.versions;
        let report = json!({
            "machine": self.machine,
            "ours": ours,
            "reference": reference,
            "results": self.rows,
            "curves": self.curves,
        });
        format!("{report:#}\n")
    }
}

fn json_row(workload: &Workload, provider: &str, compared: &Comparison) -> Value {
    json!({
        "provider": provider,
        "workload": workload.name,
        "unit": workload.figure.unit(),
        "ratio": compared.ratio(),
        "ours": compared.ours,
        "reference": compared.reference,
        "ucx": compared.ucx,
        "limit": compared.limit,
    })
}
