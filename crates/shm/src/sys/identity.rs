//! Which process a number stands for: the number of a process that has ended belongs to another one sooner or later.
//!
//! Long messages are read from a process by its number, process_vm_readv(2). An [`Identity`] holds the process by a descriptor
//! (pidfd_open(2)), or has its start time, so that the next owner of the number is never taken for it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;
use super::socket::Credentials;
use crate::recently::Recently;

/// Divisor of the number of descriptors that this process may open; only numbers below the quotient hold processes. Where
/// an endpoint has hundreds of peers, start times are compared instead, which costs more and no descriptor.
const DESCRIPTOR_SHARE: u64 = 2;

/// The process at the other end of a socket.
#[derive(Debug)]
pub(crate) struct Identity {
    credentials: Credentials,
    hold: Hold,
    /// When it was seen to run.
    seen: Recently,
}

/// How the process is told from a later one of the same number.
#[derive(Debug)]
enum Hold {
    /// By a descriptor that is readable when it has ended.
    Descriptor(OwnedFd),
    /// By the time of its start, in clock ticks since the system's.
    Started(u64),
    /// Not at all: it cannot be seen from here.
    Nothing,
    /// It has ended.
    Ended,
}

impl Identity {
    /// Finds the process that has made a socket's other end. If it has ended already, another one may be found, which
    /// the incarnation number in its memory tells.
    pub(crate) fn of(credentials: Credentials) -> Self {
        let hold = match credentials.pid {
            ..=0 => Hold::Nothing,
            pid => open(pid)
                .map(Hold::Descriptor)
                .or_else(|_| started(pid).map(Hold::Started))
                .unwrap_or(Hold::Nothing),
        };
        Self {
            credentials,
            hold,
            seen: Recently::default(),
        }
    }

    /// Returns an earlier process of the same number, which has ended.
    #[cfg(test)]
    pub(crate) fn of_predecessor(credentials: Credentials) -> Self {
        Self {
            hold: Hold::Started(0),
            ..Self::of(credentials)
        }
    }

    /// Returns the process's number; zero when it cannot be seen.
    pub(crate) const fn pid(&self) -> i32 {
        self.credentials.pid
    }

    /// Returns the process's effective user when the connection was made.
    pub(crate) const fn uid(&self) -> u32 {
        self.credentials.uid
    }

    /// Returns whether the process can be told from a later one of its number.
    pub(crate) const fn is_certain(&self) -> bool {
        !matches!(self.hold, Hold::Nothing)
    }

    /// Returns a descriptor that is readable as soon as the process has ended, if there is one.
    pub(crate) fn end(&self) -> Option<BorrowedFd<'_>> {
        match &self.hold {
            Hold::Descriptor(file) => Some(file.as_fd()),
            Hold::Started(_) | Hold::Nothing | Hold::Ended => None,
        }
    }

    /// Returns whether the process still runs; true of one that cannot be seen.
    pub(crate) fn runs(&self) -> bool {
        self.hold.runs(self.credentials.pid)
    }

    /// Gives back the descriptor of a process that has ended.
    pub(crate) fn release_if_ended(&mut self) {
        if !self.runs() {
            self.hold = Hold::Ended;
            self.seen.forget();
        }
    }

    /// Returns whether the process runs, or did a moment ago: before anything is read from it or written to it.
    pub(crate) fn ran_just_now(&mut self) -> bool {
        let (hold, pid) = (&self.hold, self.credentials.pid);
        self.seen.found_or(|| hold.runs(pid))
    }
}

impl Hold {
    /// Returns whether the process of this number that is held still runs.
    fn runs(&self, pid: i32) -> bool {
        match self {
            Self::Descriptor(file) => !is_readable(file),
            Self::Started(time) => started(pid).is_ok_and(|now| now == *time),
            Self::Nothing => true,
            Self::Ended => false,
        }
    }
}

/// Opens a process, unless there are many descriptors already.
fn open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; a new descriptor is returned, which is closed on exec.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int)?;
    // SAFETY: no other code knows the descriptor.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // The lowest free number is given out, so that it shows how many there are.
    if fd as u64 >= most_descriptors() / DESCRIPTOR_SHARE {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    Ok(file)
}

/// Returns how many descriptors this process may have.
pub(crate) fn most_descriptors() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel fills the structure, or leaves it as it is.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

fn is_readable(file: &OwnedFd) -> bool {
    let mut asked = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure is lent; the call does not wait.
    unsafe { libc::poll(&raw mut asked, 1, 0) > 0 }
}

/// Returns when the process of this number started, unless it has ended.
fn started(pid: i32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    time_of(&stat).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the 22nd field of a process's status, its start time, proc_pid_stat(5). The second is its name in
/// parentheses, which may hold anything, and the third its state: there is none of one that has ended and was not
/// waited for.
fn time_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let ended = matches!(state, "Z" | "X" | "x");
    (!ended).then(|| fields.nth(18)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn child() -> Child {
        Command::new("sleep").arg("1000").spawn().expect("sleep(1)")
    }

    fn identity_of(child: &Child, hold: Hold) -> Identity {
        let pid = child.id() as i32;
        let credentials = Credentials { pid, uid: 0 };
        Identity {
            hold,
            ..Identity::of(credentials)
        }
    }

    #[test]
    fn a_process_that_has_ended_does_not_run_however_it_was_held() {
        let mut child = child();
        let pid = child.id() as i32;
        let time = started(pid).expect("a process of this user");
        // Older kernels have no descriptors of processes.
        let descriptor = open(pid).ok().map(Hold::Descriptor);
        let holds = [Hold::Started(time)].into_iter().chain(descriptor);
        let mut held: Vec<_> = holds.map(|hold| identity_of(&child, hold)).collect();
        assert!(held.iter_mut().all(|one| one.runs() && one.ran_just_now()));
        child.kill().expect("a child");
        child.wait().expect("a child");
        assert!(held.iter().all(|one| !one.runs()));
    }

    #[test]
    fn the_next_process_of_the_same_number_is_another_one() {
        let mut child = child();
        let time = started(child.id() as i32).expect("a process of this user");
        let earlier = identity_of(&child, Hold::Started(time - 1));
        assert!(!earlier.runs());
        child.kill().expect("a child");
        child.wait().expect("a child");
    }

    #[test]
    fn a_process_that_cannot_be_seen_is_not_certain() {
        let hidden = Identity::of(Credentials { pid: 0, uid: 0 });
        assert!(!hidden.is_certain() && hidden.end().is_none());
    }

    #[test]
    fn the_time_of_start_is_found_behind_a_hostile_name() {
        let stat = "7 (a) 1 (b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 100";
        assert_eq!(time_of(stat), Some(4711));
        assert_eq!(time_of(&stat.replace("S 1", "Z 1")), None);
        assert_eq!(time_of("7"), None);
    }
}
