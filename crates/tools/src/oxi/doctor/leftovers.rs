//! Files in /dev/shm whose users are dead.
//!
//! This library has named files there for shared address vectors only. Who uses one holds a lock of it, which the kernel drops with
//! the process; so a file that can be locked is nobody's.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Finding;
use super::place::Place;

const FOLDER: &str = "/dev/shm";
const OURS: &str = "oxifabric-av-";

pub(super) fn check(place: &Place, remove: bool) -> Vec<Finding> {
    let names = place.names(FOLDER);
    let ours = names.iter().filter(|name| name.starts_with(OURS));
    let left: Vec<Finding> = ours
        .filter_map(|name| examine(&place.path(FOLDER).join(name), remove))
        .collect();
    match left.is_empty() {
        true => vec![Finding::ok(
            "leftovers",
            "no dead process has left a file in /dev/shm",
        )],
        false => left,
    }
}

/// What there is to say of a file, if nobody uses it.
fn examine(path: &Path, remove: bool) -> Option<Finding> {
    let (about, name) = ("leftovers", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            let text = format!("{name} cannot be looked at: {error}");
            return Some(Finding::warn(about, text, "ask its owner"));
        }
    };
    // The lock is held until the file is closed, so nobody begins to use what is removed.
    file.try_lock().ok()?;
    if !remove {
        let text = format!("{name} belongs to processes that are dead");
        return Some(Finding::warn(
            about,
            text,
            "oxi doctor --remove, or start the program again",
        ));
    }
    Some(match removed(&file, path) {
        Ok(()) => Finding::ok(about, format!("{name} is removed")),
        Err(error) => Finding::bad(about, format!("{name}: {error}"), "ask its owner"),
    })
}

/// Removes the file if it is still the one of this name.
fn removed(file: &File, path: &Path) -> io::Result<()> {
    let (held, named) = (file.metadata()?, fs::symlink_metadata(path)?);
    match (held.dev(), held.ino()) == (named.dev(), named.ino()) {
        true => fs::remove_file(path),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::super::place::tests::Made;
    use super::*;

    #[test]
    fn files_of_the_dead_are_found_and_removed_and_others_stay() {
        let files = ["dead", "alive"].map(|name| format!("{FOLDER}/{OURS}0-{name}"));
        let other = format!("{FOLDER}/something");
        let made = Made::of(
            "leftovers",
            &[(&files[0], ""), (&files[1], ""), (&other, "")],
        );
        let user = File::open(made.0.path(&files[1])).unwrap();
        user.lock_shared().unwrap();

        let found = check(&made.0, false);
        assert_eq!((found.len(), found[0].grade), (1, Grade::Warn));
        assert!(found[0].text.contains("-dead"), "{}", found[0]);
        let found = check(&made.0, true);
        assert_eq!((found.len(), found[0].grade), (1, Grade::Ok));
        let there = [&files[0], &files[1], &other].map(|name| made.0.path(name).exists());
        assert_eq!(there, [false, true, true]);
        assert_eq!(
            check(&made.0, true)[0].text,
            "no dead process has left a file in /dev/shm"
        );
    }
}
