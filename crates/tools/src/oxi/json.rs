//! Figures for programs.

use std::io::{self, Write};

use super::bench::{Measured, Report};
use crate::output::quote;

/// Prints everything as one JSON object. Latencies are in microseconds, bandwidths in 1,000,000 bytes a second.
pub(super) fn print(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let machine = &report.machine;
    writeln!(out, "{{")?;
    writeln!(
        out,
        "  \"machine\": {{\"cpu\": {}, \"cores\": {}, \"kernel\": {}, \"load\": {:.2}}},",
        quote(&machine.cpu),
        machine.cores,
        quote(&machine.kernel),
        machine.load
    )?;
    writeln!(out, "  \"library\": {},", quote(&report.library))?;
    writeln!(out, "  \"pinned\": {},", report.cpus.is_some())?;
    writeln!(out, "  \"providers\": [")?;
    for (at, result) in report.results.iter().enumerate() {
        let comma = if at + 1 < report.results.len() {
            ","
        } else {
            ""
        };
        provider(out, result)?;
        writeln!(out, "{comma}")?;
    }
    writeln!(out, "  ]\n}}")
}

fn provider(out: &mut dyn Write, result: &Measured) -> io::Result<()> {
    write!(out, "    {{\"name\": {}", quote(&result.provider))?;
    if let Some(trouble) = &result.trouble {
        write!(out, ", \"error\": {}", quote(trouble))?;
    }
    write!(out, ", \"sizes\": [")?;
    for (at, row) in result.figures.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(
            out,
            "{comma}\n      {{\"bytes\": {}, \"latency_us\": {:.4}, \"bandwidth_mbps\": {:.2}, \"messages_per_s\": {:.0}, \
             \"wrong\": {}}}",
            row.size, row.latency_us, row.bandwidth_mbps, row.rate, row.wrong
        )?;
    }
    write!(out, "]}}")
}
