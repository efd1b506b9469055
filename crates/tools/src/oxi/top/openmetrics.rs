//! One look as OpenMetrics text, version 1.0.0. Parsers of the older Prometheus text format read it as well.

use std::fmt::Write;

use oxifabric_types::stats::{Figures, KINDS};

use super::{Endpoint, Process, Sample};

/// What HTTP calls it.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Numbers of an endpoint under one name.
struct Family {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    values: Values,
}

/// Where the numbers are.
enum Values {
    /// One for each kind of operations.
    Kinds(fn(&Figures) -> [u64; KINDS.len()]),
    /// A single value.
    One(fn(&Figures) -> u64),
    /// How long ago the others were true.
    Age,
    /// Always 1, with labels that say more about the endpoint.
    About,
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

const FAMILIES: [Family; 11] = [
    Family {
        name: "oxifabric_endpoint_info",
        kind: GAUGE,
        unit: "",
        help: "Which endpoints there are, with their types and addresses.",
        values: Values::About,
    },
    Family {
        name: "oxifabric_operations",
        kind: COUNTER,
        unit: "",
        help: "Operations that ended well, by kinds.",
        values: Values::Kinds(|figures| figures.traffic.map(|traffic| traffic.operations)),
    },
    Family {
        name: "oxifabric_transferred_bytes",
        kind: COUNTER,
        unit: "bytes",
        help: "Bytes that operations moved, by kinds.",
        values: Values::Kinds(|figures| figures.traffic.map(|traffic| traffic.bytes)),
    },
    Family {
        name: "oxifabric_errors",
        kind: COUNTER,
        unit: "",
        help: "Operations that failed, other than by being cancelled.",
        values: Values::One(|figures| figures.errors),
    },
    Family {
        name: "oxifabric_retransmissions",
        kind: COUNTER,
        unit: "",
        help: "Packets that were sent again.",
        values: Values::One(|figures| figures.retransmissions),
    },
    Family {
        name: "oxifabric_peers",
        kind: GAUGE,
        unit: "",
        help: "Peers that the endpoint has named or heard of.",
        values: Values::One(|figures| figures.peers),
    },
    Family {
        name: "oxifabric_pending_sends",
        kind: GAUGE,
        unit: "",
        help: "Sends, reads, writes and atomics that are under way.",
        values: Values::One(|figures| figures.sends),
    },
    Family {
        name: "oxifabric_posted_receives",
        kind: GAUGE,
        unit: "",
        help: "Receives that wait for a message.",
        values: Values::One(|figures| figures.receives),
    },
    Family {
        name: "oxifabric_unexpected_messages",
        kind: GAUGE,
        unit: "",
        help: "Messages that wait for a receive.",
        values: Values::One(|figures| figures.unexpected),
    },
    Family {
        name: "oxifabric_unexpected_bytes",
        kind: GAUGE,
        unit: "bytes",
        help: "Room that the messages take that wait for a receive.",
        values: Values::One(|figures| figures.unexpected_bytes),
    },
    Family {
        name: "oxifabric_sample_age_seconds",
        kind: GAUGE,
        unit: "seconds",
        help: "How long ago the endpoint told of itself, which it does while it is polled.",
        values: Values::Age,
    },
];

/// Writes everything that was seen.
pub(super) fn text(sample: &Sample) -> String {
    let mut text = String::new();
    for family in &FAMILIES {
        family.write(&mut text, sample);
    }
    text.push_str("# EOF\n");
    text
}

impl Family {
    fn write(&self, text: &mut String, sample: &Sample) {
        let Self {
            name,
            kind,
            unit,
            help,
            ..
        } = self;
        push(text, format_args!("# TYPE {name} {kind}\n"));
        if !unit.is_empty() {
            push(text, format_args!("# UNIT {name} {unit}\n"));
        }
        push(text, format_args!("# HELP {name} {help}\n"));
        for process in &sample.processes {
            for endpoint in &process.endpoints {
                self.write_values(text, process, endpoint, sample.at_ns);
            }
        }
    }

    fn write_values(&self, text: &mut String, process: &Process, endpoint: &Endpoint, at_ns: u64) {
        let total = if self.kind == COUNTER { "_total" } else { "" };
        let name = self.name;
        let labels = labels(process, endpoint);
        match &self.values {
            Values::Kinds(values) => {
                for (kind, value) in KINDS.iter().zip(values(&endpoint.figures)) {
                    push(
                        text,
                        format_args!("{name}{total}{{{labels},operation=\"{kind}\"}} {value}\n"),
                    );
                }
            }
            Values::One(value) => {
                let value = value(&endpoint.figures);
                push(text, format_args!("{name}{total}{{{labels}}} {value}\n"));
            }
            Values::Age => {
                let age_s = endpoint.age_s(at_ns);
                push(text, format_args!("{name}{{{labels}}} {age_s:.3}\n"));
            }
            Values::About => {
                let kind = endpoint.identity.kind.name();
                let address = escape(&endpoint.identity.address);
                push(
                    text,
                    format_args!("{name}{{{labels},type=\"{kind}\",address=\"{address}\"}} 1\n"),
                );
            }
        }
    }
}

/// Returns what tells one endpoint from others.
fn labels(process: &Process, endpoint: &Endpoint) -> String {
    format!(
        "pid=\"{}\",command=\"{}\",provider=\"{}\",endpoint=\"{}\"",
        process.pid,
        escape(&process.command),
        escape(&endpoint.identity.provider),
        endpoint.identity.id
    )
}

/// Returns a value of a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // A string takes everything.
    _ = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{endpoint, sample};
    use super::*;

    #[test]
    fn counters_end_in_total_labels_are_escaped_and_it_has_an_end() {
        let text = text(&sample(1, vec![endpoint(1, 10)]));
        let labels = r#"pid="4242",command="ring \"\\x\"",provider="tcp",endpoint="1""#;
        for line in [
            "# TYPE oxifabric_operations counter".to_owned(),
            "# UNIT oxifabric_transferred_bytes bytes".to_owned(),
            format!("oxifabric_operations_total{{{labels},operation=\"send\"}} 10"),
            format!("oxifabric_transferred_bytes_total{{{labels},operation=\"receive\"}} 1000"),
            format!("oxifabric_errors_total{{{labels}}} 1"),
            format!("oxifabric_unexpected_bytes{{{labels}}} 700"),
            format!("oxifabric_sample_age_seconds{{{labels}}} 0.100"),
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
        assert_eq!(text.matches("# EOF").count(), 1);
    }

    #[test]
    fn units_end_the_names_and_each_family_has_help() {
        let text = text(&Sample::default());
        for family in &FAMILIES {
            assert!(family.name.ends_with(family.unit), "{}", family.name);
            assert!(text.contains(&format!("# HELP {} ", family.name)));
        }
    }
}
