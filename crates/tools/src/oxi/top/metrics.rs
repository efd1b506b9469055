//! Metrics for Prometheus: into a file after each delay, or for HTTP clients when they ask.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::process::Finder;
use super::{openmetrics, server};
use crate::oxi::Trouble;

/// Where metrics go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// Into a file.
    File(PathBuf),
    /// To clients of this address.
    Address(SocketAddr),
}

impl Destination {
    /// Reads `HOST:PORT` with a numeric host, `:PORT` for this host only, or else the name of a file.
    ///
    /// # Errors
    /// A sentence about a port that is none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| format!("no port: {port:?}"))?;
            return Ok(Self::Address((Ipv4Addr::LOCALHOST, port).into()));
        }
        match text.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => Ok(Self::File(text.into())),
        }
    }
}

/// Writes metrics until the program is ended, or once.
pub(super) fn run(
    finder: &Finder,
    to: &Destination,
    delay: Duration,
    once: bool,
) -> Result<(), Trouble> {
    let text = || openmetrics::text(&finder.look());
    match to {
        Destination::Address(_) if once => {
            Err("an address is served until the end, not --once".into())
        }
        Destination::Address(address) => {
            let listener =
                TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
            // With port 0, the port is news.
            eprintln!("metrics are at http://{}/metrics", listener.local_addr()?);
            server::serve(&listener, &text);
            Ok(())
        }
        Destination::File(path) => loop {
            replace(path, &text()).map_err(|error| format!("{}: {error}", path.display()))?;
            if once {
                return Ok(());
            }
            thread::sleep(delay);
        },
    }
}

/// Writes a file so that its readers find either the old one or the new one, whole.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(hidden);
    let written = write_new(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // It is of no use to anything.
        _ = fs::remove_file(&beside);
    }
    written
}

/// Writes a file that did not exist; what a program with the same number left behind is removed.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let create = || OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()?
        }
        created => created?,
    };
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_address_has_a_port_and_is_of_this_host_unless_it_says_more() {
        let read = |text| Destination::parse(text);
        let address = |text: &str| Ok(Destination::Address(text.parse().unwrap()));
        assert_eq!(read(":9464"), address("127.0.0.1:9464"));
        assert_eq!(read("0.0.0.0:1"), address("0.0.0.0:1"));
        assert_eq!(read("[::1]:1"), address("[::1]:1"));
        assert_eq!(read("x.prom"), Ok(Destination::File("x.prom".into())));
        assert!(read(":x").is_err());
    }

    #[test]
    fn a_file_is_replaced_whole_and_links_are_not_followed() {
        let folder = std::env::temp_dir().join(format!("oxi-metrics-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (target, victim) = (folder.join("oxi.prom"), folder.join("victim"));
        let hidden = folder.join(format!(".oxi.prom.{}", std::process::id()));
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, &target).unwrap();
        symlink(&victim, &hidden).unwrap();
        let results = [replace(&target, "first\n"), replace(&target, "second\n")];
        let names = fs::read_dir(&folder).unwrap().count();
        let texts = [&target, &victim].map(|path| fs::read_to_string(path).unwrap());
        let missing = replace(&folder.join("none/oxi.prom"), "x").is_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(texts, ["second\n", "mine"]);
        assert_eq!(names, 2, "nothing is left behind");
        assert!(missing);
    }
}
