//! Finds the processes of this user that tell of their endpoints, by what /proc shows of them.
//!
//! [`report`] decides whether a descriptor is such a file. A forked child has the descriptors of its parent: a file
//! counts for the process that made it. Processes of other users, and what cannot be read, are passed over.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Uid, geteuid};
use oxifabric_types::stats::FILE_NAME;

use super::report::{self, Report};
use super::{Process, Sample};

/// How many descriptors of one process are looked at, and how many of the files that have the name.
const MAX_DESCRIPTORS: usize = 1 << 16;
const MAX_FILES: usize = 16;

/// Where processes are found.
pub(super) struct Finder {
    proc: PathBuf,
    user: Uid,
    /// What the kernel shows of a descriptor of such a file.
    link: PathBuf,
}

impl Finder {
    /// Finds the processes of the user that runs this program.
    pub(super) fn of_this_user() -> Self {
        Self::new("/proc".into(), geteuid())
    }

    fn new(proc: PathBuf, user: Uid) -> Self {
        let name = FILE_NAME.to_string_lossy();
        Self {
            proc,
            user,
            link: format!("/memfd:{name} (deleted)").into(),
        }
    }

    /// Looks at all of them.
    pub(super) fn look(&self) -> Sample {
        let pids = names(&self.proc, usize::MAX).filter_map(|name| name.parse().ok());
        let mut processes: Vec<Process> = pids.filter_map(|pid| self.process(pid)).collect();
        processes.sort_by_key(|process| process.pid);
        Sample {
            at_ns: now_ns(),
            processes,
        }
    }

    /// Looks at one.
    fn process(&self, pid: u32) -> Option<Process> {
        let folder = self.proc.join(pid.to_string());
        if fs::metadata(&folder).ok()?.uid() != self.user.as_raw() {
            return None;
        }
        let report = self.report(&folder, pid)?;
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let command = fs::read(folder.join("comm")).unwrap_or_default();
        Some(Process {
            pid,
            started: started(&stat)?,
            command: printable(&command),
            missed: report.missed,
            endpoints: report.endpoints,
        })
    }

    /// Reads what a process tells, if it does.
    fn report(&self, folder: &Path, pid: u32) -> Option<Report> {
        let descriptors = folder.join("fd");
        let paths = names(&descriptors, MAX_DESCRIPTORS).map(|name| descriptors.join(name));
        let files = paths.filter(|path| fs::read_link(path).is_ok_and(|link| link == self.link));
        let mut reports = files
            .take(MAX_FILES)
            .filter_map(|path| report::read(&path, self.user));
        let own = own_number(&fs::read_to_string(folder.join("status")).ok()?, pid);
        reports.find(|report| report.pid == own)
    }
}

/// Returns the time, in nanoseconds of CLOCK_MONOTONIC.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| {
        now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
    })
}

/// Returns the names in a folder, at most `most`.
fn names(folder: &Path, most: usize) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.take(most)
}

/// Returns when a process started: the 22nd field of proc_pid_stat(5), counted from behind the name, which may contain anything.
fn started(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19)?.parse().ok()
}

/// Returns the number that a process has for itself, in the innermost of its namespaces: proc_pid_status(5), NSpid.
fn own_number(status: &str, pid: u32) -> u32 {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let last = line.and_then(|numbers| numbers.split_whitespace().last());
    last.and_then(|number| number.parse().ok()).unwrap_or(pid)
}

/// Returns a name for terminals: a program may have given itself any.
fn printable(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.trim_ascii_end());
    let printed = name
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter });
    printed.take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let stat = "12 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(started(stat), Some(4711));
        assert_eq!(started("12 (a S 1"), None);
        assert_eq!(started(""), None);
    }

    #[test]
    fn a_process_in_a_container_knows_itself_by_another_number() {
        assert_eq!(own_number("Name:\tx\nNSpid:\t412\t7\n", 412), 7);
        assert_eq!(own_number("NSpid:\t412\n", 412), 412);
        assert_eq!(own_number("Name:\tx\n", 412), 412);
    }

    #[test]
    fn names_do_nothing_to_a_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\xff\n"), "a?[2Jb\u{fffd}");
        assert_eq!(printable(&[b'x'; 1000]).len(), 64);
    }

    #[test]
    fn a_look_finds_no_process_of_another_user() {
        let other = Uid::from_raw(geteuid().as_raw().wrapping_add(1));
        let sample = Finder::new("/proc".into(), other).look();
        let ours = sample
            .processes
            .iter()
            .filter(|process| process.pid == std::process::id());
        assert_eq!(ours.count(), 0);
        assert!(sample.at_ns > 0);
    }
}
