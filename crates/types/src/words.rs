//! The words that environment variables with a fixed set of values take. Sources: fabric(7), fi_hook(7), `fi_info -e`.

use crate::format_of_name;

/// Levels that `FI_LOG_LEVEL` takes, most important first; their places are their numbers (`enum fi_log_level`).
pub const LEVELS: [&str; 4] = ["warn", "trace", "info", "debug"];

/// Words by which `FI_LOG_LEVEL` turns the log off.
pub const OFF: [&str; 2] = ["off", "none"];

/// Parts of the library that `FI_LOG_SUBSYS` takes; their places are their numbers (`enum fi_log_subsys`).
pub const SUBSYSTEMS: [&str; 10] = [
    "core", "fabric", "domain", "ep_ctrl", "ep_data", "av", "cq", "eq", "mr", "cntr",
];

/// Hooks that `FI_HOOK` takes, with or without `ofi_hook_` in front.
pub const HOOKS: [&str; 6] = ["perf", "trace", "profile", "monitor", "debug", "noop"];

/// The prefix of the full names of hooks.
pub const HOOK_PREFIX: &str = "ofi_hook_";

/// Which peers `FI_OXI_REGIONS` lets access memory.
pub const REGIONS: [&str; 2] = ["all", "known"];

/// What `FI_PERF_CNTR` lets the hook perf count.
pub const PERF_COUNTERS: [&str; 2] = ["cpu_cycles", "cpu_instr"];

/// Clocks that `FI_SIM_TIME` takes.
pub const TIMES: [&str; 2] = ["virtual", "real"];

/// Some of the formats that `FI_ADDR_FORMAT` takes: those that providers here have.
pub const FORMATS: [&str; 3] = ["FI_SOCKADDR_IN", "FI_SOCKADDR_IN6", "FI_ADDR_STR"];

/// Returns the first word in the value of a variable that the variable does not take; `None` for variables without a fixed set of words.
pub fn unknown_word<'a>(variable: &str, value: &'a str) -> Option<&'a str> {
    let value = value.trim();
    let list = match variable {
        "FI_LOG_SUBSYS" => value.strip_prefix('^').unwrap_or(value),
        _ => value,
    };
    let separator = match variable {
        "FI_LOG_SUBSYS" => ',',
        "FI_HOOK" => ';',
        _ => '\0',
    };
    let mut listed = list.split(separator).map(str::trim);
    listed.find(|word| !word.is_empty() && !takes(variable, word))
}

/// Returns whether a variable takes a word; true for all words of variables that are not of this kind.
fn takes(variable: &str, word: &str) -> bool {
    let is = |known: &&str| word.eq_ignore_ascii_case(known);
    let mut known = words(variable).peekable();
    match variable {
        "FI_LOG_LEVEL" => known.any(|known| is(&known)) || OFF.iter().any(is),
        "FI_HOOK" => {
            let short = word.strip_prefix(HOOK_PREFIX).unwrap_or(word);
            HOOKS.iter().any(|hook| short.eq_ignore_ascii_case(hook))
        }
        "FI_ADDR_FORMAT" => is(&"all") || format_of_name(word).is_some(),
        _ => known.peek().is_none() || known.any(|known| is(&known)),
    }
}

/// Returns the words that a variable takes, for a message about another one; none for variables of other kinds.
pub fn words(variable: &str) -> impl Iterator<Item = &'static str> {
    let lists: [&[&str]; 2] = match variable {
        "FI_LOG_LEVEL" => [&OFF[..1], &LEVELS],
        "FI_LOG_SUBSYS" => [&["all"], &SUBSYSTEMS],
        "FI_HOOK" => [&HOOKS, &[]],
        "FI_OXI_REGIONS" => [&REGIONS, &[]],
        "FI_PERF_CNTR" => [&PERF_COUNTERS, &[]],
        "FI_SIM_TIME" => [&TIMES, &[]],
        "FI_ADDR_FORMAT" => [&["all"], &FORMATS],
        _ => [&[], &[]],
    };
    lists.into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::unknown_word;

    #[test]
    fn words_are_known_in_any_case_and_place() {
        for (variable, value) in [
            ("FI_LOG_LEVEL", " Info "),
            ("FI_LOG_LEVEL", ""),
            ("FI_LOG_LEVEL", "none"),
            ("FI_LOG_SUBSYS", "^av, CQ,"),
            ("FI_LOG_SUBSYS", "all"),
            ("FI_HOOK", "perf; ofi_hook_TRACE;"),
            ("FI_OXI_REGIONS", "known"),
            ("FI_PERF_CNTR", "cpu_cycles"),
            ("FI_SIM_TIME", "real"),
            ("FI_ADDR_FORMAT", "fi_sockaddr_in6"),
            ("FI_ADDR_FORMAT", "FI_ADDR_EFA"),
            ("FI_LOG_PROV", "verbose"),
        ] {
            assert_eq!(unknown_word(variable, value), None, "{variable}={value}");
        }
    }

    #[test]
    fn other_words_are_found() {
        for (variable, value, found) in [
            ("FI_LOG_LEVEL", "verbose", "verbose"),
            ("FI_LOG_SUBSYS", "^av,cp", "cp"),
            ("FI_HOOK", "trace;prf", "prf"),
            ("FI_HOOK", "trace,perf", "trace,perf"),
            ("FI_OXI_REGIONS", "knwn", "knwn"),
            ("FI_PERF_CNTR", "cycles", "cycles"),
            ("FI_SIM_TIME", "virtul", "virtul"),
            ("FI_ADDR_FORMAT", "ipv4", "ipv4"),
        ] {
            assert_eq!(unknown_word(variable, value), Some(found), "{variable}");
        }
    }
}
