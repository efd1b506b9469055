//! Which processors the two processes run on, and what machine that is.

use std::fs;

use oxifabric_trials::Program;

/// The processors that this process may use, and two of them on different cores.
pub(super) struct Cores {
    pair: Option<[u32; 2]>,
    description: String,
}

impl Cores {
    /// Takes the first processor and the next one that is not its sibling on the same core.
    pub(super) fn choose() -> Self {
        let allowed = allowed();
        let first = allowed.first().copied();
        let siblings = first.map(siblings).unwrap_or_default();
        let second = allowed.iter().copied().find(|cpu| !siblings.contains(cpu));
        let pair = first.zip(second).map(|(one, other)| [one, other]);
        Self {
            pair,
            description: describe(allowed.len(), pair),
        }
    }

    /// Two processors, or nothing where there is only one core.
    pub(super) const fn pair(&self) -> Option<[u32; 2]> {
        self.pair
    }

    /// Binds a program to the first or the second processor, if there are two.
    pub(super) fn place(&self, program: Program, at: usize) -> Program {
        match self.pair {
            Some(pair) => program.under("taskset", ["-c", &pair[at].to_string()]),
            None => program,
        }
    }

    /// One line about the machine.
    pub(super) fn description(&self) -> &str {
        &self.description
    }
}

fn describe(allowed: usize, pair: Option<[u32; 2]>) -> String {
    let cpu_info = read("/proc/cpuinfo");
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let placed = pair.map_or_else(
        || "both processes on one core".to_owned(),
        |[one, other]| format!("processes on processors {one} and {other}"),
    );
    format!(
        "{model}, {allowed} processors, Linux {}, {placed}, load {load} at the start",
        kernel.trim()
    )
}

fn allowed() -> Vec<u32> {
    let status = read("/proc/self/status");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    parse_list(list.unwrap_or_default())
}

fn siblings(cpu: u32) -> Vec<u32> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let mut siblings = parse_list(&read(&file));
    siblings.push(cpu);
    siblings
}

/// Lists read `0-3,8`.
fn parse_list(text: &str) -> Vec<u32> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse().ok()?..=to.parse().ok()?)
    });
    ranges.flatten().collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_list("\t0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse_list(""), []);
    }

    #[test]
    fn the_two_processors_differ() {
        let chosen = Cores::choose();
        assert!(chosen.pair.is_none_or(|[one, other]| one != other));
        assert!(chosen.description().contains("Linux "));
    }
}
