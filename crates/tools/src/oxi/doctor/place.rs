//! The files that tell about a machine: those of this one, or for tests those in a folder.

use std::fs;
use std::path::{Path, PathBuf};

/// Where `/proc`, `/sys` and `/dev` are.
pub(super) struct Place(PathBuf);

impl Place {
    /// Returns this machine.
    pub(super) fn here() -> Self {
        Self(PathBuf::from("/"))
    }

    /// Returns the path of a file that is named from the root.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(Path::new(name.trim_start_matches('/')))
    }

    /// Returns the text of a file without the white space around it; `None` if there is no such file.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Returns the number in a file.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the names of what is in a folder, in order.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine made of files, which are removed in the end.
    pub(in super::super) struct Made(pub(in super::super) Place);

    impl Made {
        /// Makes a machine with these files, each with its text.
        pub(in super::super) fn of(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = format!("oxi-doctor-{}-{name}", std::process::id());
            let place = Place(std::env::temp_dir().join(folder));
            for (name, text) in files {
                let path = place.path(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(place)
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0.0);
        }
    }
}
