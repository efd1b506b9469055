//! Words that the variables of the log take. Source: fabric(7) "FI_LOG_LEVEL", "FI_LOG_SUBSYS".

/// Levels that `FI_LOG_LEVEL` takes, most important first; their places are their numbers (`enum fi_log_level`).
pub const LEVELS: [&str; 4] = ["warn", "trace", "info", "debug"];

/// Words by which `FI_LOG_LEVEL` turns the log off.
pub const OFF: [&str; 2] = ["off", "none"];

/// Parts of the library that `FI_LOG_SUBSYS` takes; their places are their numbers (`enum fi_log_subsys`).
pub const SUBSYSTEMS: [&str; 10] = [
    "core", "fabric", "domain", "ep_ctrl", "ep_data", "av", "cq", "eq", "mr", "cntr",
];

/// Returns the first word of a value of `FI_LOG_LEVEL` or `FI_LOG_SUBSYS` that the variable does not take; `None` for other variables.
pub fn unknown_word<'a>(variable: &str, value: &'a str) -> Option<&'a str> {
    let is = |word: &str, known: &str| word.eq_ignore_ascii_case(known);
    let is_level = |word: &str| LEVELS.iter().chain(&OFF).any(|level| is(word, level));
    let is_subsystem = |word: &str| is(word, "all") || SUBSYSTEMS.iter().any(|part| is(word, part));
    let value = value.trim();
    match variable {
        "FI_LOG_LEVEL" => (!value.is_empty() && !is_level(value)).then_some(value),
        "FI_LOG_SUBSYS" => {
            let list = value.strip_prefix('^').unwrap_or(value);
            let mut words = list.split(',').map(str::trim);
            words.find(|word| !word.is_empty() && !is_subsystem(word))
        }
        _ => None,
    }
}

/// Returns the words that such a variable takes, for a message about another one.
pub fn words(variable: &str) -> impl Iterator<Item = &'static str> {
    let lists: [&[&str]; 2] = match variable {
        "FI_LOG_LEVEL" => [&OFF[..1], &LEVELS],
        _ => [&["all"], &SUBSYSTEMS],
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
            ("FI_LOG_PROV", "verbose"),
        ] {
            assert_eq!(unknown_word(variable, value), None, "{variable}={value}");
        }
    }

    #[test]
    fn other_words_are_found() {
        let found = unknown_word("FI_LOG_LEVEL", "verbose");
        assert_eq!(found, Some("verbose"));
        assert_eq!(unknown_word("FI_LOG_SUBSYS", "^av,cp"), Some("cp"));
    }
}
