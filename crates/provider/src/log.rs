//! The log: FI_LOG_LEVEL, FI_LOG_PROV, FI_LOG_SUBSYS. Source: fi_provider(3) "fi_log", fabric(7) "Logging interface".
//!
//! Warnings are on unless FI_LOG_LEVEL says `off`: a failure that is not seen costs days. To be no flood, warnings of
//! one kind about one host are printed once per FI_LOG_INTERVAL, and then say how often they were held back (`repeats`).
//! An application may take the messages itself ([`import()`]).
//! Setup and failure paths only; nothing on the data path logs unless it fails.
//!
//! ```ignore
//! log::warn!("tcp", EpCtrl, "{address}: {cause}");
//! ```

mod import;
mod repeats;
mod sink;

use core::fmt;
use std::process;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use oxifabric_types::words::{LEVELS, OFF, SUBSYSTEMS, unknown_word, words};

use crate::params::{NameFilter, Parameter, ParameterKind, parse_int};
use repeats::Repeats;
use sink::Sink;

pub use import::{Imported, end_import, import, is_imported};

#[doc(inline)]
pub use crate::__log_warn as warn;
#[doc(inline)]
pub use crate::{__log_debug as debug, __log_info as info, __log_trace as trace};

/// How much a message matters, most important first (`enum fi_log_level`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Something failed.
    Warn = 0,
    /// Steps of a protocol.
    Trace = 1,
    /// Choices made.
    Info = 2,
    /// Everything.
    Debug = 3,
}

/// Which part of the library speaks (`enum fi_log_subsys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Subsys {
    /// Discovery and the library itself.
    Core = 0,
    /// Fabrics.
    Fabric = 1,
    /// Domains.
    Domain = 2,
    /// Connections and set-up of endpoints.
    EpCtrl = 3,
    /// Data transfers.
    EpData = 4,
    /// Address vectors.
    Av = 5,
    /// Completion queues.
    Cq = 6,
    /// Event queues.
    Eq = 7,
    /// Memory regions.
    Mr = 8,
    /// Counters.
    Cntr = 9,
}

/// Logs a failure: `warn!(provider, Subsys, "...", ...)`.
#[macro_export]
#[doc(hidden)]
macro_rules! __log_warn {
    ($prov:expr, $subsys:ident, $($message:tt)+) => { $crate::__log!(Warn, $prov, $subsys, $($message)+) };
}

/// Logs a step of a protocol: `trace!(provider, Subsys, "...", ...)`.
#[macro_export]
#[doc(hidden)]
macro_rules! __log_trace {
    ($prov:expr, $subsys:ident, $($message:tt)+) => { $crate::__log!(Trace, $prov, $subsys, $($message)+) };
}

/// Logs a choice: `info!(provider, Subsys, "...", ...)`.
#[macro_export]
#[doc(hidden)]
macro_rules! __log_info {
    ($prov:expr, $subsys:ident, $($message:tt)+) => { $crate::__log!(Info, $prov, $subsys, $($message)+) };
}

/// Logs a detail: `debug!(provider, Subsys, "...", ...)`.
#[macro_export]
#[doc(hidden)]
macro_rules! __log_debug {
    ($prov:expr, $subsys:ident, $($message:tt)+) => { $crate::__log!(Debug, $prov, $subsys, $($message)+) };
}

#[macro_export]
#[doc(hidden)]
macro_rules! __log {
    ($level:ident, $prov:expr, $subsys:ident, $($message:tt)+) => {
        if $crate::log::enabled($prov, $crate::log::Level::$level, $crate::log::Subsys::$subsys) {
            $crate::log::emit(
                $prov,
                $crate::log::Level::$level,
                $crate::log::Subsys::$subsys,
                (module_path!(), line!()),
                format_args!($($message)+),
            );
        }
    };
}

/// Returns whether messages of this kind are printed.
pub fn enabled(prov: &str, level: Level, subsys: Subsys) -> bool {
    enabled_raw(prov, level as u32, subsys as u32)
}

/// As [`enabled`], for the numbers that C code passes.
pub fn enabled_raw(prov: &str, level: u32, subsys: u32) -> bool {
    import::ask(|log| log.enabled(prov, level, subsys))
        .unwrap_or_else(|| settings().admit(prov, level, subsys))
}

/// Returns whether FI_LOG_LEVEL is set: the user looks for something, and is told also what is no failure by itself.
pub fn is_chosen() -> bool {
    settings().is_chosen
}

/// Prints a message from `place` (module and line). Call it if [`enabled`]; the macros do.
pub fn emit(
    prov: &str,
    level: Level,
    subsys: Subsys,
    place: (&str, u32),
    text: fmt::Arguments<'_>,
) {
    static REPEATS: Repeats = Repeats::new();
    let settings = settings();
    let mut text = text.to_string();
    if level == Level::Warn {
        let Some(held) = REPEATS.admit(place, &text, now_ms(), settings.interval_ms) else {
            return;
        };
        if held.alike > 0 {
            text = format!("{text} ({} more since the last time)", held.alike);
        }
        if held.others > 0 {
            text = format!("{text} ({} other warnings were left out)", held.others);
        }
    }
    let module = place.0.rsplit("::").next().unwrap_or(place.0);
    let prov = if prov.is_empty() { "core" } else { prov };
    write_line(
        prov,
        level as u32,
        subsys as u32,
        (module, place.1),
        &format!("{text}\n"),
    );
}

/// Prints a message of C code, which ends its lines itself.
pub fn write_line(prov: &str, level: u32, subsys: u32, place: (&str, u32), text: &str) {
    let taken = import::ask(|log| Some(log.log(prov, level, subsys, place, text)));
    if taken == Some(true) {
        return;
    }
    let level = LEVELS.get(level as usize).unwrap_or(&"unknown");
    let subsys = SUBSYSTEMS.get(subsys as usize).unwrap_or(&"unknown");
    let (pid, seconds) = (process::id(), now_ms() / 1000);
    let (place, line) = place;
    settings().sink.write(format_args!(
        "libfabric:{pid}:{seconds}::{prov}:{subsys}:{place}():{line}<{level}> {text}"
    ));
}

/// Returns whether a message may be printed again, and when so moves `next_ms` on by FI_LOG_INTERVAL (fi_log_ready).
pub fn ready(prov: &str, level: u32, subsys: u32, next_ms: &mut u64) -> bool {
    if let Some(ready) = import::ask(|log| log.ready(prov, level, subsys, next_ms)) {
        return ready;
    }
    let now = now_ms();
    if !enabled_raw(prov, level, subsys) || now < *next_ms {
        return false;
    }
    *next_ms = now + settings().interval_ms;
    true
}

/// Parameters of the log.
pub static PARAMETERS: [Parameter; 6] = [
    Parameter {
        name: "log_level",
        kind: ParameterKind::Text,
        help: "What is logged: off, warn, trace, info, debug, each with all before it",
        default: "warn",
    },
    Parameter {
        name: "log_prov",
        kind: ParameterKind::Text,
        help: "Providers that are logged, with commas between them; a ^ in front leaves them out",
        default: "all",
    },
    Parameter {
        name: "log_subsys",
        kind: ParameterKind::Text,
        help: "Parts that are logged: core, fabric, domain, ep_ctrl, ep_data, av, cq, eq, mr, cntr",
        default: "all",
    },
    Parameter {
        name: "log_interval",
        kind: ParameterKind::Int,
        help: "Milliseconds in which warnings of a kind about a host are printed once, and beyond 32 a second none; 0 prints all",
        default: "2000",
    },
    Parameter {
        name: "log_location",
        kind: ParameterKind::Text,
        help: "Where the log goes: stderr, stdout, a new file, or a folder for one file a process",
        default: "stderr",
    },
    Parameter {
        name: "log_location_mode",
        kind: ParameterKind::Int,
        help: "Users that may read and write the file of the log, as in chmod(1)",
        default: "0600",
    },
];

/// What the parameters say about the log.
struct Settings {
    /// The last level that is printed; `None` if none is.
    level: Option<u32>,
    /// FI_LOG_LEVEL is set.
    is_chosen: bool,
    providers: NameFilter,
    /// One bit a part.
    subsystems: u32,
    interval_ms: u64,
    sink: Sink,
}

impl Settings {
    fn read() -> Self {
        let text = |index: usize| PARAMETERS[index].text("").unwrap_or_default();
        let subsystems = match text(2).trim() {
            all if all.eq_ignore_ascii_case("all") => NameFilter::default(),
            some => NameFilter::parse(some),
        };
        let settings = Self {
            level: parse_level(&text(0)),
            is_chosen: !text(0).is_empty(),
            providers: NameFilter::parse(&text(1)),
            subsystems: (0..SUBSYSTEMS.len())
                .filter(|&index| subsystems.admits(SUBSYSTEMS[index]))
                .fold(0, |bits, index| bits | 1 << index),
            interval_ms: text(3).trim().parse().unwrap_or(2000),
            sink: Sink::open(&text(4), parse_mode(&text(5))),
        };
        settings.report_unknown(&[&PARAMETERS[0], &PARAMETERS[2]]);
        settings
    }

    /// Warns of words that variables of the log do not take. The log is being made: it cannot be asked to print this.
    fn report_unknown(&self, parameters: &[&Parameter]) {
        for parameter in parameters {
            let (variable, value) = (parameter.variable(""), parameter.text(""));
            let value = value.unwrap_or_default();
            if let Some(word) = unknown_word(&variable, &value) {
                let (pid, seconds) = (process::id(), now_ms() / 1000);
                let known = words(&variable).collect::<Vec<_>>().join(", ");
                self.sink.write(format_args!(
                    "libfabric:{pid}:{seconds}::core:core:log():{}<warn> {variable}: {word:?} is none of {known}\n",
                    line!()
                ));
            }
        }
    }

    fn admit(&self, prov: &str, level: u32, subsys: u32) -> bool {
        let part = 1_u32.checked_shl(subsys).unwrap_or(0);
        self.level.is_some_and(|last| level <= last)
            && self.subsystems & part != 0
            && (prov.is_empty() || self.providers.admits(prov))
    }
}

/// Parses FI_LOG_LEVEL; a word that is no level means warnings, as does none.
fn parse_level(text: &str) -> Option<u32> {
    let is = |word: &str| text.trim().eq_ignore_ascii_case(word);
    if OFF.iter().any(|word| is(word)) {
        return None;
    }
    Some(LEVELS.iter().position(|level| is(level)).unwrap_or(0) as u32)
}

/// Parses FI_LOG_LOCATION_MODE; what is no mode of a file means that it is its user's alone.
fn parse_mode(text: &str) -> u32 {
    let mode = parse_int(text.trim()).and_then(|mode| u32::try_from(mode).ok());
    mode.filter(|mode| (1..=0o777).contains(mode))
        .unwrap_or(0o600)
}

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(Settings::read)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_in_any_case() {
        assert_eq!(parse_level(""), Some(0));
        assert_eq!(parse_level("Info"), Some(2));
        assert_eq!(parse_level("verbose"), Some(0));
        assert_eq!(parse_level("off"), None);
    }

    #[test]
    fn modes_of_files_are_octal_if_they_say_so() {
        for (text, mode) in [
            ("0644", 0o644),
            ("", 0o600),
            ("rw", 0o600),
            ("-1", 0o600),
            ("010000", 0o600),
        ] {
            assert_eq!(parse_mode(text), mode, "{text:?}");
        }
    }

    #[test]
    fn settings_admit_by_level_provider_and_part() {
        let settings = Settings {
            level: Some(Level::Info as u32),
            is_chosen: true,
            providers: NameFilter::parse("tcp"),
            subsystems: 1 << Subsys::Av as u32,
            interval_ms: 0,
            sink: Sink::open("", 0),
        };
        let admit = |prov, level, subsys| settings.admit(prov, level as u32, subsys as u32);
        assert!(admit("tcp", Level::Warn, Subsys::Av));
        assert!(!admit("tcp", Level::Debug, Subsys::Av));
        assert!(!admit("tcp", Level::Warn, Subsys::Cq));
        assert!(!admit("shm", Level::Warn, Subsys::Av));
        assert!(!settings.admit("tcp", 0, 77));
    }
}
