//! Variables of the environment and of libfabric.conf that no provider reads, or whose values are invalid. Source: fi_provider(7), fabric(7).

use std::collections::BTreeSet;
use std::env;
use std::path::Path;

use oxifabric::{Backend, Hints, Parameter, ParameterKind};
use oxifabric_types::conf::{CONF, parse_bool, settings};
use oxifabric_types::nearest;
use oxifabric_types::words::{unknown_word, words};

use super::Finding;
use crate::oxi::conf;

/// The variables that list providers: those to load, and those to log.
const PROVIDERS: [&str; 2] = ["FI_PROVIDER", "FI_LOG_PROV"];

/// Prefixes of variables of the C library's providers that this library does not have. They are spelt right, but no provider reads them
/// unless such a one is loaded, which then lists them itself.
const ELSEWHERE: [(&str, &str); 13] = [
    ("FI_EFA_", "efa"),
    ("FI_VERBS_", "verbs"),
    ("FI_CXI_", "cxi"),
    ("FI_OPX_", "opx"),
    ("FI_PSM2_", "psm2"),
    ("FI_PSM3_", "psm3"),
    ("FI_UCX_", "ucx"),
    ("FI_USNIC_", "usnic"),
    ("FI_GNI_", "gni"),
    ("FI_LPP_", "lpp"),
    ("FI_LNX_", "lnx"),
    ("FI_SM2_", "sm2"),
    ("FI_OFI_MRAIL_", "ofi_mrail"),
];

/// Looks at all variables that begin as those of libfabric do.
pub(super) fn check(backends: &[Backend]) -> Vec<Finding> {
    let known: Vec<Parameter> = backends
        .iter()
        .flat_map(|backend| backend.parameters().unwrap_or_default())
        .collect();
    let mut variables: Vec<Variable> = env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let value = value.to_string_lossy().into_owned();
            let about = name.clone();
            name.starts_with("FI_")
                .then_some(Variable { about, name, value })
        })
        .collect();
    variables.sort_by(|one, other| one.name.cmp(&other.name));
    let (path, text) = conf::read(&known);
    let mut findings = Vec::new();
    match text {
        Ok(text) => variables.extend(in_file(&path, &text)),
        Err(error) => findings.push(Finding::warn(
            CONF,
            format!("{} cannot be read: {error}", path.display()),
            "it is read for what the environment does not set",
        )),
    }
    let providers: BTreeSet<String> = backends
        .iter()
        .flat_map(|backend| names(*backend))
        .collect();
    findings.extend(examine(&variables, &known, &providers));
    findings
}

/// Returns the variables that a file sets.
fn in_file(path: &Path, text: &[u8]) -> impl Iterator<Item = Variable> {
    settings(text).into_iter().map(|(name, value)| Variable {
        about: format!("{name} in {}", path.display()),
        name: name.to_owned(),
        value: String::from_utf8_lossy(value).into_owned(),
    })
}

/// Returns the names of all providers, usable or not, and of those that they are stacked of.
fn names(backend: Backend) -> Vec<String> {
    let all = Hints::anything().providers_only().offers(backend);
    let names = all.unwrap_or_default();
    let parts = names.iter().flat_map(|info| info.provider().split(';'));
    parts.map(str::to_owned).collect()
}

/// A variable that is set.
struct Variable {
    /// It, and where it stands.
    about: String,
    name: String,
    value: String,
}

fn examine(
    variables: &[Variable],
    known: &[Parameter],
    providers: &BTreeSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Variable { about, name, value } in variables {
        match known.iter().find(|parameter| parameter.name == *name) {
            None => {
                findings.push(elsewhere(about, name).unwrap_or_else(|| unknown(about, name, known)))
            }
            Some(parameter) if !holds(parameter.kind, value) => findings.push(Finding::bad(
                about,
                format!("{value:?} is no value of it, so its default is used"),
                format!("it takes {}: {}", spelled(parameter.kind), parameter.help),
            )),
            Some(_) if unknown_word(name, value).is_some() => {
                findings.extend(unknown_word(name, value).map(|word| not_taken(about, word)));
            }
            Some(_) if PROVIDERS.contains(&name.as_str()) => {
                findings.extend(missing_providers(about, value, providers))
            }
            Some(_) => {}
        }
    }
    if findings.is_empty() {
        let text = match variables.len() {
            0 => "no variable FI_* is set".into(),
            1 => "the one variable FI_* that is set is read by a provider".into(),
            count => {
                format!("each of the {count} variables FI_* that are set is read by a provider")
            }
        };
        findings.push(Finding::ok("environment", text));
    }
    findings
}

/// Returns the finding about a variable of a provider that is not here.
fn elsewhere(about: &str, name: &str) -> Option<Finding> {
    let (_, provider) = ELSEWHERE.iter().find(|(head, _)| name.starts_with(head))?;
    let text = format!("it is for the provider {provider}, which is not here");
    Some(Finding::ok(about, text))
}

/// Returns the finding about a word that a variable does not take.
fn not_taken(about: &str, word: &str) -> Finding {
    let variable = about.split(' ').next().unwrap_or(about);
    let known: Vec<&str> = words(variable).collect();
    let advice = match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("it takes {}", known.join(", ")),
    };
    Finding::bad(about, format!("it does not take {word:?}"), advice)
}

fn unknown(about: &str, name: &str, known: &[Parameter]) -> Finding {
    let names = known.iter().map(|parameter| parameter.name.as_str());
    let advice = match nearest(name, names) {
        Some(near) => format!("did you mean {near}?"),
        None => "`fi_info -e` lists those that are read".to_owned(),
    };
    Finding::warn(about, "no provider here reads it", advice)
}

/// Returns findings about providers in a list that do not exist. The log calls the library itself core.
fn missing_providers(about: &str, list: &str, providers: &BTreeSet<String>) -> Vec<Finding> {
    let named = list.trim_start_matches('^').split([',', ';']);
    let missing = named.map(str::trim).filter(|name| {
        let is_there = |provider: &String| provider.eq_ignore_ascii_case(name);
        let is_library = about.starts_with("FI_LOG_PROV") && name.eq_ignore_ascii_case("core");
        !name.is_empty() && !is_library && !providers.iter().any(is_there)
    });
    let findings = missing.map(|name| {
        let advice = match nearest(name, providers.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => "`fi_info -l` lists those that are here".to_owned(),
        };
        Finding::bad(about, format!("there is no provider {name:?}"), advice)
    });
    findings.collect()
}

/// Returns whether a value is one of its kind, as the library reads it.
fn holds(kind: ParameterKind, value: &str) -> bool {
    let value = value.trim();
    let digits = value.strip_prefix("0x").or(value.strip_prefix("0X"));
    match kind {
        ParameterKind::Int => match digits {
            Some(digits) => i64::from_str_radix(digits, 16).is_ok(),
            None => value.parse::<i64>().is_ok(),
        },
        ParameterKind::Size => match digits {
            Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
            None => value.parse::<u64>().is_ok(),
        },
        ParameterKind::Bool => parse_bool(value).is_some(),
        _ => true,
    }
}

fn spelled(kind: ParameterKind) -> &'static str {
    match kind {
        ParameterKind::Int => "a number",
        ParameterKind::Size => "a size",
        ParameterKind::Bool => "yes or no",
        _ => "text",
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    /// Returns what is found of one variable.
    fn found(name: &str, value: &str) -> Vec<Finding> {
        let known = Backend::builtin().parameters().unwrap();
        let providers = names(Backend::builtin()).into_iter().collect();
        let variable = Variable {
            about: name.into(),
            name: name.into(),
            value: value.into(),
        };
        examine(&[variable], &known, &providers)
    }

    fn only(name: &str, value: &str) -> (Grade, String) {
        let [finding] = <[Finding; 1]>::try_from(found(name, value)).unwrap();
        (finding.grade, finding.advice)
    }

    #[test]
    fn no_variable_and_one_are_told_as_such() {
        let none = examine(&[], &[], &BTreeSet::new());
        assert_eq!(none[0].text, "no variable FI_* is set");
        let one = found("FI_PROVIDER", "tcp");
        assert!(
            one[0].text.starts_with("the one variable"),
            "{}",
            one[0].text
        );
    }

    #[test]
    fn a_variable_that_is_misspelt_is_found_with_what_was_meant() {
        let meant = "did you mean FI_PROVIDER?".to_owned();
        assert_eq!(only("FI_PROVIDR", "tcp"), (Grade::Warn, meant));
        let (grade, advice) = only("FI_SOMETHING_ELSE_ENTIRELY", "1");
        assert_eq!((grade, advice.contains("fi_info -e")), (Grade::Warn, true));
    }

    #[test]
    fn variables_of_the_c_library_are_known() {
        for (name, value) in [
            ("FI_OFI_RXM_USE_SRX", "1"),
            ("FI_OFI_RXM_DEF_TCP_WAIT_OBJ", "pollfd"),
            ("FI_OFI_RXD_RETRY", "0"),
            ("FI_OFI_RXD_PATIENCE_MS", "1000"),
            ("FI_SOCKETS_IFACE", "eth0"),
            ("FI_HMEM_DISABLE_P2P", "1"),
            ("FI_HMEM_CUDA_USE_GDRCOPY", "0"),
            ("FI_MR_CUDA_CACHE_MONITOR_ENABLED", "1"),
            ("FI_EFA_USE_DEVICE_RDMA", "1"),
            ("FI_CXI_RX_MATCH_MODE", "hybrid"),
        ] {
            assert_eq!(only(name, value).0, Grade::Ok, "{name}");
        }
        assert_eq!(only("FI_OFI_RXM_USE_SXR", "1").0, Grade::Warn);
    }

    #[test]
    fn a_provider_that_is_misspelt_is_found() {
        let meant = "did you mean tcp?".to_owned();
        for variable in PROVIDERS {
            assert_eq!(only(variable, "tpc,shm"), (Grade::Bad, meant.clone()));
            for fine in ["tcp", "^sim", "tcp,shm", "udp;ofi_rxd", "TCP", ""] {
                assert_eq!(only(variable, fine).0, Grade::Ok, "{fine}");
            }
        }
        assert_eq!(only("FI_LOG_PROV", "core,tcp").0, Grade::Ok);
        assert_eq!(only("FI_PROVIDER", "core,tcp").0, Grade::Bad);
    }

    #[test]
    fn a_word_that_a_variable_does_not_take_is_found() {
        for (name, value, meant) in [
            ("FI_HOOK", "trace;prf", "did you mean perf?"),
            ("FI_OXI_REGIONS", "knwn", "did you mean known?"),
            ("FI_PERF_CNTR", "cpu_instrs", "did you mean cpu_instr?"),
            ("FI_SIM_TIME", "virtul", "did you mean virtual?"),
            (
                "FI_ADDR_FORMAT",
                "ipv4",
                "it takes all, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_ADDR_STR",
            ),
        ] {
            assert_eq!(only(name, value), (Grade::Bad, meant.to_owned()), "{name}");
        }
        let meant = "did you mean warn?".to_owned();
        assert_eq!(only("FI_LOG_LEVEL", "wrn"), (Grade::Bad, meant));
        let (grade, advice) = only("FI_LOG_LEVEL", "verbose");
        assert_eq!(
            (grade, &*advice),
            (Grade::Bad, "it takes off, warn, trace, info, debug")
        );
        assert_eq!(only("FI_LOG_SUBSYS", "av,everything").0, Grade::Bad);
        assert_eq!(only("FI_LOG_SUBSYS", "^av,cq").0, Grade::Ok);
    }

    #[test]
    fn a_value_that_is_none_is_found() {
        assert_eq!(only("FI_TCP_CONNECT_TIMEOUT_MS", "soon").0, Grade::Bad);
        assert_eq!(only("FI_TCP_CONNECT_TIMEOUT_MS", "0x10").0, Grade::Ok);
        assert_eq!(only("FI_SHM_DISABLE_CMA", "maybe").0, Grade::Bad);
        assert_eq!(only("FI_SHM_DISABLE_CMA", "Yes").0, Grade::Ok);
    }
}
