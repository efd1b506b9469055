//! Memory that processes share, and memory of each other that they may read.

use std::io::IoSliceMut;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use oxifabric_bench::units::spell_size;

use super::Finding;
use super::place::Place;

const SHM: &str = "/dev/shm";
/// What containers get by default; MPI libraries and the C library's shm run out of it soon.
const SMALL: u64 = 64 << 20;

pub(super) fn check(place: &Place) -> Vec<Finding> {
    vec![
        shared(&place.path(SHM)),
        yama(place.text("/proc/sys/kernel/yama/ptrace_scope").as_deref()),
        reading(read_own()),
    ]
}

fn shared(folder: &Path) -> Finding {
    match statvfs(folder) {
        Ok(stat) => {
            let block = stat.fragment_size();
            let (size, free) = (stat.blocks() * block, stat.blocks_available() * block);
            room(size, free)
        }
        Err(error) => Finding::bad(
            SHM,
            format!("it cannot be used: {}", error.desc()),
            "mount a tmpfs there: address vectors with names, FI_SHM_DIR and most MPI libraries need it",
        ),
    }
}

fn room(size: u64, free: u64) -> Finding {
    let [size_text, free_text] = [size, free].map(mebibytes);
    let text = match free >> 20 {
        0 => format!("nothing of {size_text} is free"),
        _ => format!("{free_text} of {size_text} are free"),
    };
    if free < SMALL / 8 {
        let advice = "look for what dead programs have left there, or mount it with a larger size=";
        return Finding::bad(SHM, text, advice);
    }
    if size <= SMALL {
        let advice = "shm of oxifabric does not need it, others do: docker run --shm-size=1g, or mount it with a larger size=";
        return Finding::warn(SHM, text, advice);
    }
    Finding::ok(SHM, text)
}

fn mebibytes(bytes: u64) -> String {
    spell_size((bytes >> 20 << 20) as usize)
}

/// Returns what the security module Yama allows (ptrace(2), "/proc/sys/kernel/yama/ptrace_scope").
fn yama(scope: Option<&str>) -> Finding {
    let about = "ptrace scope";
    let pieces =
        "long messages of shm go in pieces through shared memory there, with one copy more";
    match scope {
        None | Some("0") => Finding::ok(about, "processes of one user may read each other"),
        Some("1") => Finding::warn(
            about,
            format!("processes may read their children only; {pieces}"),
            "sysctl kernel.yama.ptrace_scope=0, if you trust the users of this machine",
        ),
        Some(scope) => Finding::warn(
            about,
            format!("scope {scope}: only the superuser may read other processes; {pieces}"),
            "sysctl kernel.yama.ptrace_scope=0, where that is still possible (from 3 it is not before a restart)",
        ),
    }
}

/// Reads memory of this process by the system call that reads those of others, which a container may forbid.
fn read_own() -> Result<(), Errno> {
    let (from, mut to) = (*b"probe", [0; 5]);
    let remote = RemoteIoVec {
        base: from.as_ptr().expose_provenance(),
        len: from.len(),
    };
    process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut to)], &[remote]).map(drop)
}

fn reading(read: Result<(), Errno>) -> Finding {
    let about = "process_vm_readv";
    match read {
        Ok(()) => Finding::ok(about, "the system call is allowed"),
        Err(error) => Finding::warn(
            about,
            format!("the system call is refused: {}", error.desc()),
            "in a container: docker run --cap-add=SYS_PTRACE, or a seccomp profile that allows it; until then long messages of shm are copied once more",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn shared_memory_is_judged_by_size_and_room() {
        assert_eq!(room(8 << 30, 7 << 30).grade, Grade::Ok);
        assert_eq!(room(SMALL, SMALL).grade, Grade::Warn);
        assert_eq!(room(8 << 30, 1 << 20).grade, Grade::Bad);
        assert_eq!(room(8 << 30, 1 << 20).text, "1 MiB of 8 GiB are free");
        assert_eq!(room(8 << 30, 9).text, "nothing of 8 GiB is free");
        assert_eq!(shared(Path::new("/nowhere/at/all")).grade, Grade::Bad);
    }

    #[test]
    fn scopes_of_ptrace_are_told_apart() {
        let grades = [None, Some("0"), Some("1"), Some("3")].map(|scope| yama(scope).grade);
        assert_eq!(grades, [Grade::Ok, Grade::Ok, Grade::Warn, Grade::Warn]);
    }

    #[test]
    fn a_refused_system_call_is_no_more_than_slow() {
        assert_eq!(reading(Err(Errno::EPERM)).grade, Grade::Warn);
        assert_eq!(reading(Ok(())).grade, Grade::Ok);
    }
}
