//! Where the log goes.

use core::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

/// An opened destination.
pub(super) enum Sink {
    Stderr,
    Stdout,
    File(File),
}

impl Sink {
    /// Opens FI_LOG_LOCATION. A file that exists is never written over; what cannot be opened becomes stderr.
    pub(super) fn open(location: &str, mode: u32) -> Self {
        match location {
            "" | "stderr" => Self::Stderr,
            "stdout" => Self::Stdout,
            path => create(Path::new(path), mode).map_or_else(
                |cause| {
                    eprintln!("libfabric: FI_LOG_LOCATION={path}: {cause}; the log goes to stderr");
                    Self::Stderr
                },
                Self::File,
            ),
        }
    }

    /// Writes one line at once, so that lines of several processes do not mix. Failures have nowhere to go.
    pub(super) fn write(&self, line: fmt::Arguments<'_>) {
        let line = line.to_string();
        let _ = match self {
            Self::Stderr => io::stderr().write_all(line.as_bytes()),
            Self::Stdout => io::stdout().write_all(line.as_bytes()),
            Self::File(file) => (&mut &*file).write_all(line.as_bytes()),
        };
    }
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    let path = if path.is_dir() {
        path.join(format!("ofi_{}.log", process::id()))
    } else {
        PathBuf::from(path)
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_or_link_that_is_there_is_neither_written_nor_followed() {
        let name = format!("oxifabric-log-{}", process::id());
        let folder = env::temp_dir().join(name);
        fs::create_dir(&folder).expect("the folder for temporary files takes one");
        let (victim, link) = (folder.join("victim"), folder.join("link"));
        fs::write(&victim, "precious").expect("a file");
        symlink(&victim, &link).expect("a link");
        // A link that leads nowhere yet would be a way to make files elsewhere.
        let (loose, absent) = (folder.join("loose"), folder.join("absent"));
        symlink(&absent, &loose).expect("a link");
        for path in [&victim, &link, &loose] {
            let kind = create(path, 0o600).map(drop).map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::AlreadyExists), "{path:?}");
            let text = path.to_str().expect("a name of letters");
            assert!(matches!(Sink::open(text, 0o600), Sink::Stderr));
        }
        assert_eq!(fs::read(&victim).expect("a file"), b"precious");
        assert!(!absent.exists());
        // In a folder, the file has the name of the process, once.
        assert!(create(&folder, 0o600).is_ok());
        assert!(create(&folder, 0o600).is_err());
        let own = folder.join(format!("ofi_{}.log", process::id()));
        assert!(own.exists());
        fs::remove_dir_all(&folder).expect("nothing else is in it");
    }
}
