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
