//! Run-time parameters: one table a provider, each variable read once. Source: fi_provider(7), fi_getparams in fabric(7).
//!
//! A provider keeps a `static` table of [`Parameter`] and reads the values when it is first used, into a structure that
//! it keeps; the same table prints `fi_info -e`. Values come from the environment, or from the system's file
//! (`sysconfig`), the former only where it may be believed ([`environment`]). Parameters of providers outside this library are in core's module `external`.

mod name_filter;
pub mod sysconfig;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use oxifabric_abi::{FI_PARAM_BOOL, FI_PARAM_INT, FI_PARAM_SIZE_T, FI_PARAM_STRING};

pub use oxifabric_types::conf::parse_bool;
use oxifabric_types::words::{unknown_word, words};

use crate::{environment, log};
pub use name_filter::NameFilter;
use sysconfig::{Origin, Sysconfig};

/// A parameter that a variable `FI_<PROVIDER>_<NAME>` sets, in the environment or in libfabric.conf.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name in lower case, without the provider's.
    pub name: &'static str,
    /// What kind of value it takes.
    pub kind: ParameterKind,
    /// One sentence for `fi_info -e`.
    pub help: &'static str,
    /// The value used when the variable is not set, as text.
    pub default: &'static str,
}

/// Kinds of parameter values (`enum fi_param_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text.
    Text,
    /// A signed integer.
    Int,
    /// A truth value: 0/1, true/false, yes/no, on/off.
    Bool,
    /// A size in bytes, decimal or `0x` hexadecimal.
    Size,
}

impl ParameterKind {
    /// Returns the value of `enum fi_param_type`.
    pub const fn raw(self) -> u32 {
        match self {
            Self::Text => FI_PARAM_STRING,
            Self::Int => FI_PARAM_INT,
            Self::Bool => FI_PARAM_BOOL,
            Self::Size => FI_PARAM_SIZE_T,
        }
    }
}

impl Parameter {
    /// Returns the name of the variable. `provider` is empty for parameters of the library itself.
    pub fn variable(&self, provider: &str) -> String {
        variable(provider, self.name)
    }

    /// Returns the sentence that `fi_info -e` prints.
    pub fn description(&self, provider: &str) -> String {
        let prefix = if provider.is_empty() { "" } else { ": " };
        let (help, default) = (self.help, self.default);
        if default.is_empty() {
            return format!("{provider}{prefix}{help}");
        }
        format!("{provider}{prefix}{help} (default: {default})")
    }

    /// Reads the variable as text; `None` if it is not set.
    pub fn text(&self, provider: &str) -> Option<String> {
        setting(&self.variable(provider)).map(|value| value.to_string_lossy().into_owned())
    }

    /// Reads the variable as an integer, or the default. A value that is none is logged and ignored.
    pub fn int(&self, provider: &str) -> i64 {
        self.read(provider, parse_int)
    }

    /// Reads the variable as a truth value, or the default. A value that is none is logged and ignored.
    pub fn bool(&self, provider: &str) -> bool {
        self.read(provider, parse_bool)
    }

    /// Reads the variable as a size in bytes, or the default. A value that is none is logged and ignored.
    pub fn size(&self, provider: &str) -> usize {
        self.read(provider, |text| {
            parse_int(text).and_then(|size| usize::try_from(size).ok())
        })
    }

    /// Reads the variable as text that has only words which it takes ([`oxifabric_types::words`]). The first other one is logged.
    pub fn words(&self, provider: &str) -> Option<String> {
        let text = self.text(provider)?;
        let variable = self.variable(provider);
        if let Some(word) = unknown_word(&variable, &text) {
            let known = words(&variable).collect::<Vec<_>>().join(", ");
            log::warn!(provider, Core, "{variable}: {word:?} is none of {known}");
        }
        Some(text)
    }

    fn read<T: Default>(&self, provider: &str, parse: impl Fn(&str) -> Option<T>) -> T {
        if let Some(text) = self.text(provider) {
            match parse(text.trim()) {
                Some(value) => return value,
                None => log::warn!(
                    provider,
                    Core,
                    "{}: {text:?} is no value of that parameter; {} is used",
                    self.variable(provider),
                    self.default
                ),
            }
        }
        parse(self.default).unwrap_or_default()
    }
}

/// Returns the value of a variable: that of the environment, else that of libfabric.conf, unless FI_PREFER_SYSCONFIG
/// turns them round. `None` if neither sets it. The environment is empty for programs that must not believe it
/// ([`environment::is_trusted`]).
pub fn setting(variable: &str) -> Option<OsString> {
    let in_environment = environment::variable(variable);
    match Sysconfig::of_system().origin(variable, in_environment.is_some())? {
        Origin::Environment => in_environment,
        Origin::File(value) => Some(OsStr::from_bytes(value.to_bytes()).to_owned()),
    }
}

/// Returns `FI_<PROVIDER>_<NAME>`, or `FI_<NAME>` for the library itself.
pub fn variable(provider: &str, name: &str) -> String {
    let separator = if provider.is_empty() { "" } else { "_" };
    format!("FI_{provider}{separator}{name}").to_ascii_uppercase()
}

/// Parses an integer as C's `strtol` with base 0 does: decimal, `0x` hexadecimal or `0` octal.
pub fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    // A number has one sign, in front of its base.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -value } else { value }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_upper_case_with_the_providers_name() {
        assert_eq!(variable("", "log_level"), "FI_LOG_LEVEL");
        assert_eq!(variable("tcp", "iface"), "FI_TCP_IFACE");
    }

    #[test]
    fn integers_have_the_bases_of_strtol() {
        assert_eq!(parse_int("42"), Some(42));
        assert_eq!(parse_int("-7"), Some(-7));
        assert_eq!(parse_int("0x1f"), Some(31));
        assert_eq!(parse_int("010"), Some(8));
        assert_eq!(parse_int("0"), Some(0));
        assert_eq!(parse_int("0x"), None);
        assert_eq!(parse_int("-"), None);
        assert_eq!(parse_int("lots"), None);
    }

    #[test]
    fn integers_have_one_sign_and_fit() {
        for text in ["--7", "+-7", "-+7", "0x-5", "0+5", "--9223372036854775808"] {
            assert_eq!(parse_int(text), None, "{text}");
        }
        assert_eq!(parse_int("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_int("-0x8000000000000000"), Some(i64::MIN));
        assert_eq!(parse_int("9223372036854775808"), None);
    }

    #[test]
    fn truth_values_are_read_in_any_case() {
        assert_eq!(parse_bool("Yes"), Some(true));
        assert_eq!(parse_bool("off"), Some(false));
        assert_eq!(parse_bool("perhaps"), None);
    }

    #[test]
    fn help_names_provider_and_default() {
        let parameter = Parameter {
            name: "iface",
            kind: ParameterKind::Text,
            help: "Use only this interface",
            default: "all",
        };
        assert_eq!(
            parameter.description("tcp"),
            "tcp: Use only this interface (default: all)"
        );
        assert_eq!(
            parameter.description(""),
            "Use only this interface (default: all)"
        );
    }
}
