//! Which processors the two processes run on, and what machine that is.

use oxifabric_bench::machine::{Machine, two_cpus};
use oxifabric_trials::Program;

/// Two of the processors that this process may use, on different cores where there are some.
pub(crate) struct Cores {
    pair: Option<[usize; 2]>,
    description: String,
}

impl Cores {
    /// Takes the first processor and the next one that is not its sibling on the same core.
    pub(crate) fn choose() -> Self {
        let (pair, machine) = (two_cpus().map(<[usize; 2]>::from), Machine::look());
        let placed = pair.map_or_else(
            || "both processes on one core".to_owned(),
            |[one, other]| format!("processes on processors {one} and {other}"),
        );
        let load = machine.load;
        Self {
            pair,
            description: format!("{machine}, {placed}, load {load} at the start"),
        }
    }

    /// Returns two processors, or nothing where there is only one.
    pub(crate) const fn pair(&self) -> Option<[usize; 2]> {
        self.pair
    }

    /// Binds a program to the first or the second processor, if there are two.
    pub(crate) fn place(&self, program: Program, at: usize) -> Program {
        match self.pair {
            Some(pair) => program.under("taskset", ["-c", &pair[at].to_string()]),
            None => program,
        }
    }

    /// Returns one line about the machine.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_processors_differ() {
        let chosen = Cores::choose();
        assert!(chosen.pair.is_none_or(|[one, other]| one != other));
        assert!(chosen.description().contains("Linux "));
    }
}
