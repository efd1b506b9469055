//! What `oxi top --once --json` prints; the fields are in guide/src/watching.md.

use std::io::{self, Write};

use oxifabric_types::stats::KINDS;

use super::row::{rates, same};
use super::{Endpoint, Process, Sample};
use crate::output::quote;

/// Prints everything as one JSON object. All numbers are finite.
pub(super) fn print(out: &mut dyn Write, before: &Sample, now: &Sample) -> io::Result<()> {
    let seconds = now.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
    let processes = now.processes.iter();
    let processes = processes.map(|process| of_process(same(before, process), process, now.at_ns));
    let processes = processes.collect::<Vec<_>>().join(",");
    writeln!(
        out,
        "{{\n  \"interval_s\": {seconds:.3},\n  \"processes\": [{processes}\n  ]\n}}"
    )
}

fn of_process(old: Option<&Process>, process: &Process, at_ns: u64) -> String {
    let endpoints = process.endpoints.iter();
    let endpoints = endpoints.map(|endpoint| of_endpoint(old, endpoint, at_ns));
    format!(
        "\n    {{\"pid\": {}, \"command\": {}, \"endpoints_missed\": {}, \"endpoints\": [{}]}}",
        process.pid,
        quote(&process.command),
        process.missed,
        endpoints.collect::<Vec<_>>().join(",")
    )
}

fn of_endpoint(old: Option<&Process>, endpoint: &Endpoint, at_ns: u64) -> String {
    let (identity, figures) = (&endpoint.identity, &endpoint.figures);
    let rates = rates(old, endpoint);
    let kinds = KINDS.iter().zip(&figures.traffic).zip(rates);
    let kinds = kinds.map(|((kind, traffic), rate)| {
        format!(
            "\"{kind}\": {{\"operations\": {}, \"bytes\": {}, \"operations_per_s\": {:.3}, \"bytes_per_s\": {:.3}}}",
            traffic.operations, traffic.bytes, rate.operations, rate.bytes
        )
    });
    format!(
        "\n      {{\"id\": {}, \"provider\": {}, \"type\": {}, \"address\": {}, \"age_s\": {:.3}, \"peers\": {}, \
         \"sends\": {}, \"receives\": {}, \"unexpected_messages\": {}, \"unexpected_bytes\": {}, \"retransmissions\": {}, \
         \"errors\": {}, \"traffic\": {{{}}}}}",
        identity.id,
        quote(&identity.provider),
        quote(identity.kind.name()),
        quote(&identity.address),
        endpoint.age_s(at_ns),
        figures.peers,
        figures.sends,
        figures.receives,
        figures.unexpected,
        figures.unexpected_bytes,
        figures.retransmissions,
        figures.errors,
        kinds.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{endpoint, sample};
    use super::*;

    #[test]
    fn a_json_parser_reads_it() {
        let before = sample(1, vec![endpoint(1, 0)]);
        let mut later = endpoint(1, 20);
        later.figures.sampled_ns += 2_000_000_000;
        let now = sample(3, vec![later, endpoint(2, u64::MAX / 100)]);
        let mut out = Vec::new();
        print(&mut out, &before, &now).expect("memory takes everything");
        let read: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
        assert_eq!(read["interval_s"], 2.0);
        let process = &read["processes"][0];
        assert_eq!(process["command"], "ring \"\\x\"");
        let first = &process["endpoints"][0];
        assert_eq!(first["type"], "FI_EP_RDM");
        assert_eq!(first["traffic"]["send"]["operations_per_s"], 10.0);
        assert_eq!(first["traffic"]["receive"]["bytes_per_s"], 1000.0);
        assert_eq!(first["traffic"]["remote_read"]["operations"], 0);
        assert_eq!(
            process["endpoints"][1]["traffic"]["send"]["operations_per_s"],
            0.0
        );
    }

    #[test]
    fn nothing_is_an_empty_list() {
        let mut out = Vec::new();
        print(&mut out, &Sample::default(), &Sample::default()).expect("memory takes everything");
        let read: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
        assert_eq!(read["processes"].as_array().map(Vec::len), Some(0));
    }
}
