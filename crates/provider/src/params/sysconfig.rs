//! libfabric.conf: values for parameters that the environment does not set. Source: the help of FI_PREFER_SYSCONFIG
//! in `fi_info -e` of the C library.
//!
//! Nothing is logged while the file is read, since the log has parameters too: [`report`] says later what was found.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use oxifabric_types::conf::{CONF, settings};

use super::{Parameter, ParameterKind, parse_bool};
use crate::{environment, log};

/// The file, unless `OXI_CONF` named another one when the library was built.
const PATH: &str = match option_env!("OXI_CONF") {
    Some(path) => path,
    None => "/etc/libfabric.conf",
};

/// Length that a file may have, in bytes; a longer one is not a configuration.
const LONGEST: u64 = 1 << 20;

const PREFER: &str = "FI_PREFER_SYSCONFIG";

/// How the file is read.
pub static PARAMETERS: [Parameter; 2] = [
    Parameter {
        name: "prefer_sysconfig",
        kind: ParameterKind::Bool,
        help: "What libfabric.conf says wins over the environment",
        default: "false",
    },
    Parameter {
        name: "oxi_conf",
        kind: ParameterKind::Text,
        help: "File that is read as libfabric.conf; of the environment only",
        default: PATH,
    },
];

/// Where the value of a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// In the environment.
    Environment,
    /// In the file, with the value.
    File(&'a CStr),
}

/// What the file says.
#[derive(Debug, Default)]
pub struct Sysconfig {
    path: PathBuf,
    rows: Vec<(String, CString)>,
    preferred: bool,
    /// Why it cannot be read. That there is none is trouble only where the environment names one.
    trouble: Option<io::Error>,
}

impl Sysconfig {
    /// Returns that of this system, read once.
    pub fn of_system() -> &'static Self {
        static OF_SYSTEM: OnceLock<Sysconfig> = OnceLock::new();
        OF_SYSTEM.get_or_init(|| {
            let named = environment::variable(CONF).filter(|path| !path.is_empty());
            Self::read(named.as_deref(), environment::variable(PREFER).as_deref())
        })
    }

    /// Reads the file. `named` and `prefer` are what the environment says of it.
    fn read(named: Option<&OsStr>, prefer: Option<&OsStr>) -> Self {
        let path = PathBuf::from(named.unwrap_or(OsStr::new(PATH)));
        let mut config = match read(&path) {
            Ok(text) => Self::parse(&text),
            Err(error) => Self {
                trouble: Some(error),
                ..Self::default()
            },
        };
        let is_absent = |error: &mut io::Error| error.kind() == io::ErrorKind::NotFound;
        if named.is_none() {
            config.trouble.take_if(is_absent);
        }
        config.path = path;
        let in_file = config.value(PREFER).and_then(|value| value.to_str().ok());
        let prefer = match prefer {
            Some(prefer) => prefer.to_str(),
            None => in_file,
        };
        config.preferred = prefer
            .and_then(|text| parse_bool(text.trim()))
            .unwrap_or(false);
        config
    }

    fn parse(text: &[u8]) -> Self {
        let rows = settings(text).into_iter();
        let row = |(name, value): (&str, &[u8])| Some((name.to_owned(), CString::new(value).ok()?));
        Self {
            rows: rows.filter_map(row).collect(),
            ..Self::default()
        }
    }

    fn value(&self, variable: &str) -> Option<&CStr> {
        let row = self.rows.iter().find(|(name, _)| name == variable)?;
        Some(&row.1)
    }

    /// Returns where the value of a variable comes from, if it has one.
    pub fn origin(&self, variable: &str, in_environment: bool) -> Option<Origin<'_>> {
        let wins = self.preferred && variable != PREFER;
        match self.value(variable) {
            Some(value) if wins || !in_environment => Some(Origin::File(value)),
            _ => in_environment.then_some(Origin::Environment),
        }
    }
}

/// Logs once what the file sets.
pub fn report() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    // The log may be the application's, which may call anything.
    if REPORTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let config = Sysconfig::of_system();
    let path = config.path.display();
    if let Some(error) = &config.trouble {
        log::warn!("", Core, "{path} cannot be read: {error}");
    }
    for (name, value) in &config.rows {
        let value = value.to_string_lossy();
        log::info!("", Core, "{path} says {name}={value}");
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut text)?;
    match text.len() as u64 == LONGEST {
        true => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    /// The name of a file of this test that does not exist yet.
    fn file(name: &str) -> PathBuf {
        env::temp_dir().join(format!("oxifabric-{name}-{}.conf", std::process::id()))
    }

    #[test]
    fn the_environment_wins_unless_the_file_is_preferred() {
        let mut config = Sysconfig::parse(b"FI_PROVIDER=tcp\nFI_PREFER_SYSCONFIG=0\nFI_ZERO=a\0b");
        for (preferred, winner) in [(false, Origin::Environment), (true, Origin::File(c"tcp"))] {
            config.preferred = preferred;
            assert_eq!(config.origin("FI_PROVIDER", true), Some(winner));
            let in_file = Some(Origin::File(c"tcp"));
            assert_eq!(config.origin("FI_PROVIDER", false), in_file);
            assert_eq!(config.origin("FI_OTHER", true), Some(Origin::Environment));
            assert_eq!(config.origin("FI_OTHER", false), None);
            assert_eq!(config.origin("FI_ZERO", false), None);
            // It says how the file is read, so the file cannot overrule it.
            assert_eq!(config.origin(PREFER, true), Some(Origin::Environment));
        }
    }

    #[test]
    fn a_named_file_is_read_and_one_that_is_not_there_is_trouble() {
        let path = file("named");
        std::fs::write(&path, "FI_PREFER_SYSCONFIG=yes\nFI_PROVIDER=shm\n").expect("a file");
        let config = Sysconfig::read(Some(path.as_os_str()), None);
        let overruled = Sysconfig::read(Some(path.as_os_str()), Some(OsStr::new("no")));
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(config.value("FI_PROVIDER"), Some(c"shm"));
        assert!(config.preferred && config.trouble.is_none());
        assert!(!overruled.preferred, "the environment says how it is read");
        let missing = Sysconfig::read(Some(path.as_os_str()), Some(OsStr::new("1")));
        assert!(missing.trouble.is_some() && missing.preferred);
    }

    #[test]
    fn a_file_that_is_too_long_is_trouble_and_not_cut() {
        let path = file("long");
        let text = "FI_PROVIDER=shm\n".repeat(1 << 16);
        std::fs::write(&path, text).expect("a file");
        let config = Sysconfig::read(Some(path.as_os_str()), None);
        std::fs::remove_file(&path).expect("it is there");
        assert!(config.trouble.is_some() && config.rows.is_empty());
    }
}
