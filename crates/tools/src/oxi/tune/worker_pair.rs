//! A pair of workers: two processes that measure over shared memory with settings of their own. They wait for commands, so that pairs
//! with different settings can take turns.

use std::fs::{self, File};
use std::io::{IoSliceMut, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::getppid;
use oxifabric::{Backend, Parameter};
use oxifabric_bench::child::{ChildProcess, end_with_starter};
use oxifabric_bench::machine::{pin, two_cpus};
use oxifabric_bench::measure::{Effort, Pair};
use oxifabric_types::conf::CONF;

use super::trials::Cost;
use crate::oxi::Trouble;
use crate::oxi::conf::{self, Setting};

/// The provider that is tuned, so far the only one.
const PROVIDER: &str = "shm";

/// Memory that workers read from the process that starts them, to find out whether processes may read each other here.
static PROBE: [u8; 8] = *b"oxi tune";
const READY: &str = "ready";

/// Options of the first process of a pair.
#[derive(Args)]
pub(in crate::oxi) struct Options {
    /// Measure for a few milliseconds only
    #[arg(long)]
    quick: bool,
    /// Where the probe of the process lies that started this one
    #[arg(long)]
    probe: usize,
    /// A line NAME=VALUE that must be in force
    #[arg(long)]
    setting: Vec<String>,
}

/// A pair of workers, as the process that compares pairs has it.
pub(super) struct WorkerPair {
    child: ChildProcess,
    _conf: Option<OwnConf>,
}

/// The result of starting a pair.
pub(super) enum Start {
    Ready(WorkerPair),
    /// Processes may not read each other's memory, for this reason.
    Apart(String),
}

impl WorkerPair {
    /// Starts a pair with these settings beside those in force.
    pub(super) fn start(
        settings: &[Setting],
        known: &[Parameter],
        quick: bool,
    ) -> Result<Start, Trouble> {
        let probe = PROBE.as_ptr().expose_provenance();
        let mut arguments = vec!["worker-pair".to_owned(), format!("--probe={probe}")];
        arguments.extend(quick.then(|| "--quick".to_owned()));
        let lines = settings.iter().map(conf::spell);
        arguments.extend(lines.map(|line| format!("--setting={line}")));
        let mut variables = settings.to_vec();
        // The settings take effect both ways, whichever the library prefers.
        let own = match settings {
            [] => None,
            _ => Some(OwnConf::write(settings, known)?),
        };
        variables.extend(own.iter().map(|own| (CONF, own.0.display().to_string())));
        let mut child = ChildProcess::start(&arguments, &variables)?;
        Ok(match child.answer()? {
            answer if answer == READY => Start::Ready(Self { child, _conf: own }),
            why => Start::Apart(why),
        })
    }

    /// Has it measure one size.
    pub(super) fn measure(&mut self, size: usize) -> Result<Cost, Trouble> {
        self.child.say(&size.to_string())?;
        let answer = self.child.answer()?;
        parse(&answer).ok_or_else(|| format!("the other process said {answer:?}").into())
    }

    pub(super) fn dismiss(self) -> Result<(), Trouble> {
        self.child.dismiss()
    }
}

/// A file that only one pair reads: the system's file, with the pair's settings. Removed when dropped.
struct OwnConf(PathBuf);

impl OwnConf {
    fn write(settings: &[Setting], known: &[Parameter]) -> Result<Self, Trouble> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("oxi-tune-{}-{number}.conf", std::process::id());
        let path = std::env::temp_dir().join(name);
        let text = conf::read(known).1.unwrap_or_default();
        let mut file =
            File::create_new(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let own = Self(path);
        file.write_all(&conf::with(&text, settings))?;
        Ok(own)
    }
}

impl Drop for OwnConf {
    fn drop(&mut self) {
        // Nothing can be done if it stays.
        _ = fs::remove_file(&self.0);
    }
}

/// Runs the first process of a pair: measures sizes until the pipe closes.
pub(in crate::oxi) fn serve(options: &Options) -> Result<(), Trouble> {
    end_with_starter()?;
    let backend = Backend::from_env()?;
    let known = backend.parameters()?;
    let missing = options.setting.iter().find(|line| !holds(&known, line));
    if let Some(line) = missing {
        return Err(format!("{line} has no effect in another process").into());
    }
    match read_starter(options.probe) {
        Ok(()) => println!("{READY}"),
        Err(why) => {
            println!("{why}");
            return Ok(());
        }
    }
    let cpus = two_cpus();
    if let Some((cpu, _)) = cpus {
        pin(cpu)?;
    }
    let mut pair = Pair::start(backend, PROVIDER, cpus)?;
    let effort = match options.quick {
        true => Effort::BLINK,
        false => Effort::GLANCE,
    };
    for line in std::io::stdin().lines() {
        let size = line?.parse()?;
        let (latency_us, wrong) = pair.latency_us(size, effort)?;
        let (rate, also_wrong) = pair.rate(size, effort)?;
        if wrong + also_wrong > 0 {
            return Err(format!("messages of {size} bytes were wrong").into());
        }
        println!("{}", spell(Cost { latency_us, rate }));
    }
    pair.dismiss()
}

fn holds(known: &[Parameter], line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, value)| {
        let parameter = known.iter().find(|parameter| parameter.name == name);
        parameter.is_some_and(|parameter| parameter.value.as_deref() == Some(value))
    })
}

/// Reads the probe of the process that started this one: Yama lets processes read their children, but not the other way
/// round (ptrace(2)).
fn read_starter(address: usize) -> Result<(), String> {
    let mut read = [0; PROBE.len()];
    let remote = RemoteIoVec {
        base: address,
        len: read.len(),
    };
    let result = process_vm_readv(getppid(), &mut [IoSliceMut::new(&mut read)], &[remote]);
    match result {
        Ok(_) if read == PROBE => Ok(()),
        Ok(_) => Err("another memory was read".to_owned()),
        Err(error) => Err(format!("process_vm_readv: {}", error.desc())),
    }
}

fn spell(cost: Cost) -> String {
    format!("{} {}", cost.latency_us, cost.rate)
}

fn parse(line: &str) -> Option<Cost> {
    let (latency_us, rate) = line.split_once(' ')?;
    Some(Cost {
        latency_us: latency_us.parse().ok()?,
        rate: rate.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_survive_the_pipe() {
        let cost = Cost {
            latency_us: 1.25,
            rate: 1e6 / 3.0,
        };
        assert_eq!(parse(&spell(cost)), Some(cost));
        for line in ["", "1", "1 x", "x 1"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
