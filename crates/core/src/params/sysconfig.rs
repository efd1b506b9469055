//! libfabric.conf: values for parameters that the environment does not set. Source: the help of FI_PREFER_SYSCONFIG
//! in `fi_info -e` of the C library.
//!
//! Each line is `FI_NAME=value`; the first line of a name counts, and what is no such line is a comment. Nothing is logged
//! while the file is read, since the log has parameters too: [`report`] says later what was found.

use std::env;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};

use super::{Parameter, ParameterKind, parse_bool};
use crate::log;

/// Where the file lies. `OXI_SYSCONFDIR` names another folder when the library is built.
const FOLDER: &str = match option_env!("OXI_SYSCONFDIR") {
    Some(folder) => folder,
    None => "/etc",
};
const NAME: &str = "libfabric.conf";

/// How much of a file is read: one that is longer is none that somebody wrote.
const LONGEST: u64 = 1 << 20;

pub(crate) static PARAMETERS: [Parameter; 2] = [
    Parameter {
        name: "prefer_sysconfig",
        kind: ParameterKind::Bool,
        help: "What libfabric.conf says wins over the environment",
        default: "false",
    },
    Parameter {
        name: "oxi_conf",
        kind: ParameterKind::Text,
        help: "File to be read in place of libfabric.conf of the system; not to be set in such a file",
        default: "",
    },
];

/// Where the value of a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Environment,
    File,
}

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct Sysconfig {
    path: PathBuf,
    rows: Vec<(String, CString)>,
    preferred: bool,
    /// Why the file that the environment names cannot be read.
    trouble: Option<io::Error>,
}

impl Sysconfig {
    /// Returns that of this system, read once.
    pub(super) fn of_system() -> &'static Self {
        static OF_SYSTEM: OnceLock<Sysconfig> = OnceLock::new();
        OF_SYSTEM.get_or_init(|| {
            let [prefer, named] = PARAMETERS.each_ref().map(|row| row.variable(""));
            let named = env::var_os(named).filter(|path| !path.is_empty());
            Self::read(named.as_deref(), env::var_os(prefer).as_deref())
        })
    }

    /// Reads the file. `named` and `prefer` are what the environment says of it.
    fn read(named: Option<&OsStr>, prefer: Option<&OsStr>) -> Self {
        let path = named.map_or_else(|| PathBuf::from(FOLDER).join(NAME), PathBuf::from);
        let mut config = match read(&path) {
            Ok(bytes) => Self::parse(&bytes),
            // Most systems have none.
            Err(_) if named.is_none() => Self::default(),
            Err(error) => Self {
                trouble: Some(error),
                ..Self::default()
            },
        };
        config.path = path;
        let in_file = config.value(&PARAMETERS[0].variable(""));
        let prefer = prefer.or(in_file.map(|value| OsStr::from_bytes(value.to_bytes())));
        config.preferred = prefer
            .and_then(|value| parse_bool(value.to_str()?.trim()))
            .unwrap_or(false);
        config
    }

    fn parse(bytes: &[u8]) -> Self {
        Self {
            rows: bytes.split(|&byte| byte == b'\n').filter_map(row).collect(),
            ..Self::default()
        }
    }

    /// Returns what the file says of a variable.
    pub(super) fn value(&self, variable: &str) -> Option<&CStr> {
        let row = self.rows.iter().find(|(name, _)| name == variable)?;
        Some(&row.1)
    }

    /// Says which of two values counts.
    pub(super) fn origin(&self, in_environment: bool, in_file: bool) -> Option<Origin> {
        match (in_environment, in_file) {
            (false, false) => None,
            (true, true) if self.preferred => Some(Origin::File),
            (true, _) => Some(Origin::Environment),
            (false, true) => Some(Origin::File),
        }
    }

    /// Returns the value that counts, if there is one.
    pub(super) fn choose(
        &self,
        variable: &str,
        in_environment: Option<OsString>,
    ) -> Option<OsString> {
        let in_file = self.value(variable);
        match self.origin(in_environment.is_some(), in_file.is_some())? {
            Origin::Environment => in_environment,
            Origin::File => in_file.map(|value| OsStr::from_bytes(value.to_bytes()).to_owned()),
        }
    }
}

/// Says in the log, once, what the file sets.
pub(crate) fn report() {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        let config = Sysconfig::of_system();
        let path = config.path.display();
        if let Some(error) = &config.trouble {
            log::warn!(
                "core",
                Core,
                "{} names {path}, which cannot be read: {error}",
                PARAMETERS[1].variable("")
            );
        }
        for (name, value) in &config.rows {
            let value = value.to_string_lossy();
            log::info!("core", Core, "{path} says {name}={value}");
        }
    });
}

fn read(path: &PathBuf) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a line.
fn row(line: &[u8]) -> Option<(String, CString)> {
    let at = line.iter().position(|&byte| byte == b'=')?;
    let (name, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
    let name = core::str::from_utf8(name).ok()?;
    let value = CString::new(value).ok()?;
    name.starts_with("FI_").then(|| (name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"# FI_PROVIDER=udp is what we had\n\
        FI_PROVIDER=tcp;ofi_rxm\n\
        \x20FI_TCP_IFACE = eth0 \r\n\
        FI_PROVIDER=shm\n\
        FI_EMPTY=\n\
        \n\
        FI_LONELY\n\
        PATH=/bin\n\
        FI_TEXT=a=b";

    fn value<'a>(config: &'a Sysconfig, name: &str) -> Option<&'a str> {
        config.value(name).and_then(|value| value.to_str().ok())
    }

    #[test]
    fn the_first_line_of_a_name_counts() {
        let config = Sysconfig::parse(TEXT);
        for (name, expected) in [
            ("FI_PROVIDER", Some("tcp;ofi_rxm")),
            ("FI_TCP_IFACE", Some("eth0")),
            ("FI_EMPTY", Some("")),
            ("FI_TEXT", Some("a=b")),
            ("FI_LONELY", None),
            ("# FI_PROVIDER", None),
            ("PATH", None),
        ] {
            assert_eq!(value(&config, name), expected, "{name}");
        }
    }

    #[test]
    fn lines_that_are_no_text_are_comments() {
        let config = Sysconfig::parse(b"FI_\xff=1\nFI_ZERO=a\0b\nFI_LAST=\xff");
        assert_eq!(config.rows.len(), 1);
        assert_eq!(config.value("FI_LAST"), Some(c"\xff"));
    }

    #[test]
    fn the_environment_wins_unless_the_file_is_preferred() {
        let mut config = Sysconfig::parse(TEXT);
        let chosen = |config: &Sysconfig, name: &str, environment: Option<&str>| {
            let chosen = config.choose(name, environment.map(OsString::from));
            chosen.map(|value| value.into_string().expect("text"))
        };
        for (preferred, winner) in [(false, "sim"), (true, "tcp;ofi_rxm")] {
            config.preferred = preferred;
            let chosen = |name, environment| chosen(&config, name, environment);
            assert_eq!(chosen("FI_PROVIDER", Some("sim")).as_deref(), Some(winner));
            assert_eq!(chosen("FI_PROVIDER", None).as_deref(), Some("tcp;ofi_rxm"));
            assert_eq!(chosen("FI_OTHER", Some("1")).as_deref(), Some("1"));
            assert_eq!(chosen("FI_OTHER", None), None);
        }
    }

    #[test]
    fn a_named_file_is_read_and_one_that_is_not_there_is_trouble() {
        let path = env::temp_dir().join(format!("oxifabric-conf-{}", std::process::id()));
        std::fs::write(&path, "FI_PREFER_SYSCONFIG=yes\nFI_PROVIDER=shm\n").expect("a file");
        let config = Sysconfig::read(Some(path.as_os_str()), None);
        let overruled = Sysconfig::read(Some(path.as_os_str()), Some(OsStr::new("no")));
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(value(&config, "FI_PROVIDER"), Some("shm"));
        assert!(config.preferred && config.trouble.is_none());
        assert!(!overruled.preferred, "the environment says how it is read");
        let missing = Sysconfig::read(Some(path.as_os_str()), Some(OsStr::new("1")));
        assert!(missing.trouble.is_some() && missing.preferred);
    }
}
