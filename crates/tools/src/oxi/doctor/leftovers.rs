//! Files in /dev/shm that no process uses any more.
//!
//! This library has named files there for shared address vectors only. A process that uses one holds a lock of it, which the kernel
//! drops with the process. To find unused files, `oxi doctor` reads the kernel's list of locks: taking the lock would disturb a process that
//! opens the vector at that moment. Before it removes a file it takes the lock, which only succeeds for a file that no process uses, here or
//! in another container.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::{major, minor};

use super::Finding;
use super::place::Place;

const FOLDER: &str = "/dev/shm";
const OURS: &str = "oxifabric-av-";
const ABOUT: &str = "leftovers";

pub(super) fn check(place: &Place, remove: bool) -> Vec<Finding> {
    let locks = place.text("/proc/locks").unwrap_or_default();
    let names = place.names(FOLDER);
    let ours = names.iter().filter(|name| name.starts_with(OURS));
    let left: Vec<Finding> = ours
        .filter_map(|name| examine(&place.path(FOLDER).join(name), &locks, remove))
        .collect();
    match left.is_empty() {
        true => vec![Finding::ok(
            ABOUT,
            "no process that has ended has left a file in /dev/shm",
        )],
        false => left,
    }
}

/// Returns the finding about a file, if no process uses it.
fn examine(path: &Path, locks: &str, remove: bool) -> Option<Finding> {
    let about = fs::symlink_metadata(path).ok()?;
    if !about.is_file() || is_locked(locks, about.dev(), about.ino()) {
        return None;
    }
    let name = path.display();
    if !remove {
        let text = format!("no process uses {name} any more");
        let advice = "oxi doctor --remove, or start the program again";
        return Some(Finding::warn(ABOUT, text, advice));
    }
    match removed(path) {
        Ok(true) => Some(Finding::ok(ABOUT, format!("{name} is removed"))),
        Ok(false) => None,
        Err(error) => Some(Finding::bad(
            ABOUT,
            format!("{name} cannot be removed: {error}"),
            "ask its owner",
        )),
    }
}

/// Returns whether a process holds a lock of flock(2) on a file (proc_locks(5)).
fn is_locked(locks: &str, device: u64, inode: u64) -> bool {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let mut held = locks.lines().filter(|line| line.contains("FLOCK"));
    held.any(|line| line.split_whitespace().any(|word| word == file))
}

/// Removes a file; returns false if a process uses it after all, or has removed it.
fn removed(path: &Path) -> io::Result<bool> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    // Held until the file is closed. A process that waits for the lock then finds the file without its name, and makes a new one.
    if file.try_lock().is_err() || !is_at(&file, path)? {
        return Ok(false);
    }
    fs::remove_file(path).map(|()| true)
}

/// Returns whether a file is still the one of this name.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (held, named) = (file.metadata()?, fs::symlink_metadata(path)?);
    Ok((held.dev(), held.ino()) == (named.dev(), named.ino()))
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::super::place::tests::Made;
    use super::*;

    const LOCKS: &str = "\
1: FLOCK  ADVISORY  READ 6631 fe:01:10010734 0 EOF
2: POSIX  ADVISORY  WRITE 6603 fe:01:10993698 0 EOF
2: -> FLOCK  ADVISORY  WRITE 6604 00:1f:12 0 EOF";

    #[test]
    fn locks_are_found_in_the_list_of_the_kernel() {
        let device = nix::sys::stat::makedev(0xfe, 1);
        assert!(is_locked(LOCKS, device, 10_010_734));
        assert!(!is_locked(LOCKS, device, 1_001_073));
        assert!(!is_locked(LOCKS, device, 10_993_698), "of another kind");
        assert!(is_locked(LOCKS, nix::sys::stat::makedev(0, 0x1f), 12));
    }

    #[test]
    fn files_of_the_dead_are_found_and_removed_and_others_stay() {
        let files = ["dead", "alive"].map(|name| format!("{FOLDER}/{OURS}0-{name}"));
        let other = format!("{FOLDER}/something");
        let made = Made::of(
            "leftovers",
            &[(&files[0], ""), (&files[1], ""), (&other, "")],
        );
        let path = made.0.path(&files[1]);
        let user = File::open(&path).unwrap();
        user.lock_shared().unwrap();

        let about = user.metadata().unwrap();
        let (device, inode) = (about.dev(), about.ino());
        let locks = format!(
            "1: FLOCK  ADVISORY  READ 1 {:02x}:{:02x}:{inode} 0 EOF",
            major(device),
            minor(device)
        );
        assert_eq!(examine(&path, &locks, false), None);
        assert!(!removed(&path).unwrap(), "the lock says more than the list");

        let dead = made.0.path(&files[0]);
        let found = examine(&dead, &locks, false).unwrap();
        assert_eq!(found.grade, Grade::Warn);
        let found = examine(&dead, &locks, true).unwrap();
        assert_eq!(found.grade, Grade::Ok);
        let there = [&files[0], &files[1], &other].map(|name| made.0.path(name).exists());
        assert_eq!(there, [false, true, true]);
        assert_eq!(check(&made.0, true)[0].grade, Grade::Ok);
    }
}
