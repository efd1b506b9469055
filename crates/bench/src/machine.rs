//! The machine that is measured, and the processors that the two processes run on.

use core::fmt;
use std::fs;
use std::io::{self, Write};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::Trouble;

/// What a reader must know to judge figures.
#[derive(Debug)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Version of the kernel.
    pub kernel: String,
    /// How many programs wanted to run in the last minute, on average, before anything was measured.
    pub load: f64,
}

impl Machine {
    /// Describes this machine by what the kernel says of it.
    #[must_use]
    pub fn look() -> Self {
        Self {
            cpu: cpu_model().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: usable_cpus().len(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
            load: load().unwrap_or(0.0),
        }
    }

    /// Prints where two processes are measured.
    ///
    /// # Errors
    /// What a write to `out` returns.
    pub fn describe(&self, out: &mut dyn Write, cpus: Option<(usize, usize)>) -> io::Result<()> {
        writeln!(out, "{self}")?;
        match cpus {
            Some((one, other)) => writeln!(out, "two processes, on cores {one} and {other}")?,
            None => writeln!(
                out,
                "two processes that share one core: expect latencies of a scheduler, not of a fabric"
            )?,
        }
        if self.is_busy() {
            writeln!(
                out,
                "the machine is busy (load {:.1}): figures will be worse than it could do, and vary",
                self.load
            )?;
        }
        Ok(())
    }

    /// Returns whether other programs take so much of the processors that figures mean little.
    fn is_busy(&self) -> bool {
        self.load > self.cores as f64 / 2.0
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.cores == 1 { "" } else { "s" };
        write!(
            f,
            "{}, {} core{s}, Linux {}",
            self.cpu, self.cores, self.kernel
        )
    }
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Lists the processors that this process may run on.
fn usable_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return Vec::new();
    };
    (0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .collect()
}

/// Chooses a processor for each process, on different cores if there are some; `None` when there are not two.
#[must_use]
pub fn two_cpus() -> Option<(usize, usize)> {
    let usable = usable_cpus();
    let (one, others) = usable.split_first()?;
    let core = core_of(*one);
    let apart = others.iter().find(|cpu| core_of(**cpu) != core);
    let other = apart.or(others.first())?;
    Some((*one, *other))
}

/// Returns the kernel's list of the processors on one core with this one; `None` where the kernel does not say.
fn core_of(cpu: usize) -> Option<String> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(file).ok()
}

/// Keeps this process on one processor.
///
/// # Errors
/// This process may not run there.
pub fn pin(cpu: usize) -> Result<(), Trouble> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    Ok(())
}
