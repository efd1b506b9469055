//! What happened between two looks: a row for each process, or for each endpoint.

use std::collections::BTreeSet;

use oxifabric_types::stats::{Figures, KINDS, Traffic};

use super::{Endpoint, Process, Sample};

/// Which way operations move data, in the order of [`KINDS`]: receives, and what peers read and write here, are not this
/// process's own.
const OWN: [bool; KINDS.len()] = [true, false, true, true, false, false];

/// Operations and bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) operations: f64,
    pub(super) bytes: f64,
}

impl Rate {
    /// Between two counts; zero if they are not of the same endpoint, or no time has passed.
    fn between(before: Traffic, now: Traffic, seconds: f64) -> Self {
        if seconds <= 0.0 {
            return Self::default();
        }
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        Self {
            operations: rate(before.operations, now.operations),
            bytes: rate(before.bytes, now.bytes),
        }
    }

    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) pid: u32,
    pub(super) command: String,
    /// The provider, or several.
    pub(super) provider: String,
    /// Of an endpoint, its number; of a process, how many endpoints it has.
    pub(super) endpoints: u64,
    pub(super) peers: u64,
    /// What this side began: sends, reads, writes.
    pub(super) out: Rate,
    /// What peers began: receives, and their reads and writes.
    pub(super) into: Rate,
    pub(super) sends: u64,
    pub(super) receives: u64,
    pub(super) unexpected: u64,
    pub(super) retransmissions: u64,
    pub(super) errors: u64,
    /// Since an endpoint was polled last, in seconds.
    pub(super) age_s: f64,
}

/// What lines are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Grain {
    /// A line for each process.
    #[default]
    Processes,
    /// A line for each endpoint.
    Endpoints,
}

/// Compares two looks.
pub(super) fn rows(before: &Sample, now: &Sample, grain: Grain) -> Vec<Row> {
    let mut rows = Vec::new();
    for process in &now.processes {
        let old = same(before, process);
        let of_endpoints = process.endpoints.iter().map(|endpoint| {
            let rates = rates(old, endpoint);
            row(process, endpoint, rates, endpoint.age_s(now.at_ns))
        });
        match grain {
            Grain::Endpoints => rows.extend(of_endpoints),
            Grain::Processes => rows.extend(sum(of_endpoints.collect())),
        }
    }
    rows
}

/// Finds the process at an earlier look.
pub(super) fn same<'a>(before: &'a Sample, process: &Process) -> Option<&'a Process> {
    let mut processes = before.processes.iter();
    processes.find(|old| (old.pid, old.started) == (process.pid, process.started))
}

/// Returns how much an endpoint did a second, by kinds, between what it told at two looks. A new endpoint began from nothing, at a time that is
/// not known: it has no rates yet.
pub(super) fn rates(old: Option<&Process>, endpoint: &Endpoint) -> [Rate; KINDS.len()] {
    let mut endpoints = old.into_iter().flat_map(|old| &old.endpoints);
    let Some(before) = endpoints.find(|old| old.identity == endpoint.identity) else {
        return Default::default();
    };
    let (before, now) = (&before.figures, &endpoint.figures);
    let seconds = now.sampled_ns.saturating_sub(before.sampled_ns) as f64 / 1e9;
    std::array::from_fn(|kind| Rate::between(before.traffic[kind], now.traffic[kind], seconds))
}

fn row(process: &Process, endpoint: &Endpoint, rates: [Rate; KINDS.len()], age_s: f64) -> Row {
    let Figures {
        errors,
        retransmissions,
        peers,
        sends,
        receives,
        unexpected,
        ..
    } = endpoint.figures;
    let mut row = Row {
        pid: process.pid,
        command: process.command.clone(),
        provider: endpoint.identity.provider.clone(),
        endpoints: endpoint.identity.id,
        peers,
        out: Rate::default(),
        into: Rate::default(),
        sends,
        receives,
        unexpected,
        retransmissions,
        errors,
        age_s,
    };
    for (rate, own) in rates.into_iter().zip(OWN) {
        match own {
            true => row.out.add(rate),
            false => row.into.add(rate),
        }
    }
    row
}

/// Adds the rows of one process up. Its age is that of the endpoint that was polled last; its peers are those of the endpoint that has
/// most, since its endpoints usually have the same ones.
fn sum(rows: Vec<Row>) -> Option<Row> {
    let providers: BTreeSet<String> = rows.iter().map(|row| row.provider.clone()).collect();
    let count = rows.len() as u64;
    let mut sum = rows.into_iter().reduce(|mut sum, row| {
        sum.out.add(row.out);
        sum.into.add(row.into);
        sum.peers = sum.peers.max(row.peers);
        sum.age_s = sum.age_s.min(row.age_s);
        let pairs = [
            (&mut sum.sends, row.sends),
            (&mut sum.receives, row.receives),
            (&mut sum.unexpected, row.unexpected),
            (&mut sum.retransmissions, row.retransmissions),
            (&mut sum.errors, row.errors),
        ];
        for (sum, row) in pairs {
            *sum = sum.saturating_add(row);
        }
        sum
    })?;
    sum.endpoints = count;
    sum.provider = Vec::from_iter(providers).join(",");
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{endpoint, sample};
    use super::*;

    fn moved(mut endpoint: Endpoint, sampled_ns: u64) -> Endpoint {
        endpoint.figures.sampled_ns = sampled_ns;
        endpoint
    }

    #[test]
    fn rates_are_by_the_time_between_what_was_told() {
        let before = sample(1, vec![moved(endpoint(1, 1000), 1_000_000_000)]);
        let now = sample(9, vec![moved(endpoint(1, 2000), 3_000_000_000)]);
        let rows = rows(&before, &now, Grain::Endpoints);
        let [row] = &rows[..] else {
            panic!("{rows:?}");
        };
        let expected = Rate {
            operations: 500.0,
            bytes: 50_000.0,
        };
        assert_eq!((row.out, row.into), (expected, expected));
        assert_eq!((row.endpoints, row.age_s), (1, 6.0));
    }

    #[test]
    fn what_told_nothing_new_or_is_new_or_began_anew_has_no_rates() {
        let before = sample(1, vec![endpoint(1, 1000), moved(endpoint(2, 1000), 1)]);
        let now = sample(2, vec![endpoint(1, 1000), endpoint(2, 1), endpoint(3, 5)]);
        for row in rows(&before, &now, Grain::Endpoints) {
            assert_eq!((row.out, row.into), (Rate::default(), Rate::default()));
        }
        let mut another = now.clone();
        another.processes[0].started += 1;
        another.processes[0].endpoints[0].figures.sampled_ns += 1;
        let rows = rows(&before, &another, Grain::Endpoints);
        assert_eq!(rows[0].out, Rate::default(), "another process");
    }

    #[test]
    fn a_process_is_the_sum_of_its_endpoints() {
        let mut second = endpoint(2, 50);
        second.identity.provider = "shm".into();
        second.figures.peers = 9;
        second.figures.errors = u64::MAX;
        let now = sample(2, vec![endpoint(1, 50), second]);
        let rows = rows(&Sample::default(), &now, Grain::Processes);
        let [row] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!((row.endpoints, row.provider.as_str()), (2, "shm,tcp"));
        assert_eq!((row.peers, row.sends, row.errors), (9, 8, u64::MAX));
        let none = sample(2, Vec::new());
        assert!(super::rows(&none, &none, Grain::Processes).is_empty());
    }
}
