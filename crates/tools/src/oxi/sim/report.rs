//! What was seen, as a table and a chart.

use std::io::{self, Write};
use std::time::Duration;

use oxifabric::PacketCount;
use oxifabric_bench::chart::{Series, terminal};
use oxifabric_bench::units::{spell_count, spell_size, spell_value};

use super::nodes::{Memory, Nodes};
use super::{Options, Pattern};

/// The shares of messages whose times are told.
pub(super) const SHARES: [(f64, &str); 5] = [
    (0.5, "half"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (1.0, "all"),
];

/// Everything that is told.
pub(super) struct Report {
    pub(super) pattern: Pattern,
    pub(super) nodes: u32,
    pub(super) size: usize,
    pub(super) rate: f64,
    pub(super) asked: Duration,
    pub(super) begun: u64,
    pub(super) arrived: u64,
    pub(super) missing: u64,
    pub(super) waiting: usize,
    pub(super) wrong: u64,
    pub(super) took: Duration,
    pub(super) wall: Duration,
    pub(super) set_up: (Duration, Duration),
    pub(super) turns: u64,
    /// Shares, and times in microseconds that these keep to.
    pub(super) times: Vec<(f64, f64)>,
    pub(super) packets: [(PacketCount, u64); 10],
    pub(super) ends: usize,
    pub(super) memory: Memory,
}

impl Report {
    pub(super) fn of(nodes: &Nodes, options: &Options, asked: Duration) -> Self {
        use PacketCount::{
            Accesses, Cut, Delivered, Doubled, Late, Lost, Overflowed, Overtaken, Repeated, Sent,
        };
        let times = &nodes.tally.times;
        // From every second message to one in a million.
        let shares = (1..=20).map(|power| 1.0 - 0.5_f64.powi(power));
        let shares = shares.take_while(|share| (1.0 - share) * nodes.tally.arrived as f64 >= 1.0);
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        let times = shares
            .chain(SHARES.map(|(share, _)| share))
            .map(|share| match share {
                1.0 => (share, micros(times.longest())),
                share => (share, micros(times.quantile(share))),
            });
        let counts = [
            Sent, Repeated, Delivered, Lost, Doubled, Late, Overflowed, Cut, Overtaken, Accesses,
        ];
        Self {
            pattern: options.pattern,
            nodes: options.nodes,
            size: options.size,
            rate: options.rate,
            asked,
            begun: nodes.begun,
            arrived: nodes.tally.arrived,
            missing: nodes.missing(),
            waiting: nodes.waiting(),
            wrong: nodes.tally.wrong,
            took: nodes.took,
            wall: nodes.wall,
            set_up: nodes.set_up,
            turns: nodes.turns,
            times: times.collect(),
            packets: counts.map(|what| (what, nodes.network().count(what))),
            ends: nodes.ends(),
            memory: nodes.memory,
        }
    }

    /// Returns whether everything has arrived, once and as it was sent.
    pub(super) const fn is_good(&self) -> bool {
        self.missing == 0 && self.wrong == 0 && self.arrived == self.begun
    }

    pub(super) fn print(&self, out: &mut dyn Write, colour: bool) -> io::Result<()> {
        self.head(out)?;
        self.traffic(out)?;
        self.costs(out)?;
        writeln!(out)?;
        let points = self.times[..self.times.len() - SHARES.len()]
            .iter()
            .map(|(share, time)| (1.0 / (1.0 - share), *time));
        let series = [Series {
            name: "one message in x takes longer than this".to_owned(),
            points: points.collect(),
        }];
        terminal::print_counts(out, "time from send to receive, µs", &series, colour)
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{} nodes, {}, messages of {}, {} a second and node, for {:?} of the network's time",
            spell_count(self.nodes.into()),
            self.pattern.name(),
            spell_size(self.size),
            spell_value(self.rate),
            self.asked,
        )?;
        let (network, here) = self.set_up;
        writeln!(
            out,
            "set-up: {network:.2?} of the network's time took {here:.2?} here"
        )?;
        writeln!(
            out,
            "run: {:.2?} of the network's time took {:.2?} here, with {} turns of nodes\n",
            self.took,
            self.wall,
            spell_count(self.turns as f64),
        )
    }

    fn traffic(&self, out: &mut dyn Write) -> io::Result<()> {
        let count = |out: &mut dyn Write, name: &str, count: u64| {
            writeln!(out, "  {name:<34} {:>14}", spell_count(count as f64))
        };
        count(out, "messages sent", self.begun)?;
        count(out, "messages received", self.arrived)?;
        for (what, number) in [
            ("missing", self.missing),
            ("still to be posted", self.waiting as u64),
            ("damaged, doubled or out of order", self.wrong),
        ] {
            if number > 0 {
                count(out, what, number)?;
            }
        }
        let seconds = self.took.as_secs_f64().max(1e-9);
        let gbps = self.arrived as f64 * self.size as f64 * 8.0 / 1e9 / seconds;
        writeln!(
            out,
            "  {:<34} {:>14}",
            "goodput, Gbit/s, all nodes",
            spell_value(gbps)
        )?;
        for (what, number) in self.packets {
            if number > 0 {
                let name = format!("packets {}", format!("{what:?}").to_lowercase());
                count(out, &name, number)?;
            }
        }
        writeln!(out)?;
        let told = &self.times[self.times.len() - SHARES.len()..];
        for ((_, name), (_, time)) in SHARES.iter().zip(told) {
            let name = format!("{name} within, µs");
            writeln!(out, "  {name:<34} {:>14}", spell_value(*time))?;
        }
        writeln!(out)
    }

    /// Memory: what an endpoint takes before it has peers, and what a peer takes.
    fn costs(&self, out: &mut dyn Write) -> io::Result<()> {
        for (name, _, value) in self.memory_rows() {
            writeln!(out, "  {name:<34} {:>14}", spell_value(value))?;
        }
        Ok(())
    }

    /// Returns figures of memory: what each is for people and in JSON.
    pub(super) fn memory_rows(&self) -> [(&'static str, &'static str, f64); 5] {
        let Memory {
            before,
            opened,
            first,
            met,
            peak,
        } = self.memory;
        let nodes = self.nodes as usize;
        let each = |bytes: u64, among: usize| bytes as f64 / among.max(1) as f64;
        let idle = each(met.0.saturating_sub(first.0), met.1 - first.1);
        // Traffic makes new peers, and opens those that are there and folded.
        let (grown, new) = (peak.saturating_sub(met.0), self.ends - met.1);
        let traffic = (grown as f64 - new as f64 * idle).max(0.0);
        let active = idle + traffic / self.ends.max(1) as f64;
        [
            (
                "an endpoint, bytes",
                "endpoint_bytes",
                each(opened.saturating_sub(before), nodes),
            ),
            ("an idle peer, bytes", "idle_peer_bytes", idle),
            ("an active peer, bytes", "active_peer_bytes", active),
            (
                "peers of a node",
                "peers_of_a_node",
                each(self.ends as u64, nodes),
            ),
            ("all at most, MB", "memory_mb", peak as f64 / 1e6),
        ]
    }
}
