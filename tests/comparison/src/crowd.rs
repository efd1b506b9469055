//! Threads and processes on few processors: `crowd`, a program of the trials, in which threads share an endpoint and poll.

use std::rc::Rc;

use oxifabric_trials::source;

use crate::workload::{Figure, Workload};

/// Name, threads in each process, processes, work, bytes.
#[rustfmt::skip]
const CROWDS: [(&str, u32, u32, &str, u64); 12] = [
    ("messages of 8 B, 1 thread x 4", 1, 4, "messages", 8),
    ("messages of 8 B, 4 threads x 2", 4, 2, "messages", 8),
    ("messages of 8 B, 4 threads x 4", 4, 4, "messages", 8),
    ("messages of 16 KiB, 4 threads x 4", 4, 4, "messages", 1 << 14),
    ("writes of 8 B, 1 thread x 4", 1, 4, "writes", 8),
    ("writes of 8 B, 4 threads x 2", 4, 2, "writes", 8),
    ("writes of 8 B, 4 threads x 4", 4, 4, "writes", 8),
    ("writes of 16 KiB, 4 threads x 4", 4, 4, "writes", 1 << 14),
    ("reads of 8 B, 1 thread x 4", 1, 4, "reads", 8),
    ("reads of 8 B, 4 threads x 2", 4, 2, "reads", 8),
    ("reads of 8 B, 4 threads x 4", 4, 4, "reads", 8),
    ("reads of 16 KiB, 4 threads x 4", 4, 4, "reads", 1 << 14),
];

/// Operations of a thread. More would take minutes where threads that poll do not yield.
const COUNT: u32 = 300;

/// All of them, if there are a compiler and headers.
pub(crate) fn workloads(short: bool) -> Vec<Workload> {
    let Ok(program) = source::compile_client("crowd").map(Rc::new) else {
        return Vec::new();
    };
    let count = if short { COUNT / 10 } else { COUNT };
    let workload = |(name, threads, processes, work, bytes)| {
        let options = format!("{threads} {processes} {work} {bytes} {count}");
        Workload::alone(name, &program, options, Figure::Microseconds, None)
    };
    CROWDS.into_iter().map(workload).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_run() {
        for (name, threads, processes, work, _) in CROWDS {
            let plural = if threads == 1 { "" } else { "s" };
            let shape = format!("{threads} thread{plural} x {processes}");
            assert!(name.starts_with(work) && name.ends_with(&shape), "{name}");
        }
    }
}
