//! Lists of names in parameters: FI_PROVIDER, FI_LOG_PROV, FI_LOG_SUBSYS.

use core::fmt;

use oxifabric_types::stack_has_all;

/// Names that are admitted, or with a `^` in front those that are excluded. An empty list admits everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameFilter {
    names: Vec<String>,
    negated: bool,
}

impl NameFilter {
    /// Parses names with commas between them. Case does not matter.
    pub fn parse(text: &str) -> Self {
        let (negated, names) = match text.trim().strip_prefix('^') {
            Some(names) => (true, names),
            None => (false, text),
        };
        let names = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        Self {
            names: names.map(str::to_owned).collect(),
            negated,
        }
    }

    /// Lists the names, admitted or excluded.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns whether a name is admitted. A stack such as `udp;ofi_rxd` is listed with all of its names or with some.
    pub fn admits(&self, name: &str) -> bool {
        if self.names.is_empty() {
            return true;
        }
        self.names.iter().any(|listed| stack_has_all(name, listed)) != self.negated
    }

    /// Returns whether one of the admitted names is that of a provider, by itself or in a stack.
    pub fn mentions(&self, name: &str) -> bool {
        !self.negated && self.names.iter().any(|listed| stack_has_all(listed, name))
    }

    /// Returns whether a provider at the bottom of a stack is admitted: it is, or a stack upon it is. Source:
    /// fi_provider(7).
    pub fn admits_core(&self, name: &str) -> bool {
        let is_core = |stack: &String| {
            stack
                .split(';')
                .next()
                .is_some_and(|core| core.eq_ignore_ascii_case(name))
        };
        self.admits(name) || (!self.negated && self.names.iter().any(is_core))
    }

    /// Returns whether the endpoints of a stack are admitted: it is named, or the provider at its bottom is.
    pub fn admits_stack(&self, stack: &str) -> bool {
        let core = stack.split(';').next().unwrap_or(stack);
        if self.negated {
            self.admits(stack) && self.admits(core)
        } else {
            self.admits(stack) || self.admits(core)
        }
    }

    /// Returns whether a stack is admitted by name that has this layer.
    pub fn has_layer(&self, name: &str) -> bool {
        !self.negated && self.names.iter().any(|stack| stack_has_all(stack, name))
    }

    /// Returns the filter for providers at the bottom of stacks alone: a stack admits its core.
    pub fn of_cores(&self) -> Self {
        let mut filter = self.clone();
        if !self.negated {
            for name in &mut filter.names {
                let core = name.split(';').next().unwrap_or(name).len();
                name.truncate(core);
            }
        }
        filter
    }

    /// Returns whether the names are kept out.
    pub fn is_negated(&self) -> bool {
        self.negated
    }
}

impl fmt::Display for NameFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negated { "^" } else { "" };
        write!(f, "{sign}{}", self.names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_written_as_it_was_read() {
        assert_eq!(NameFilter::parse("^tcp, shm").to_string(), "^tcp,shm");
        assert_eq!(NameFilter::parse(" tcp").to_string(), "tcp");
    }

    #[test]
    fn a_filter_for_the_bottoms_of_stacks_lets_in_what_a_listed_stack_is_upon() {
        let cores = |text: &str| NameFilter::parse(text).of_cores();
        assert!(cores("tcp;ofi_rxm,shm").admits("tcp") && cores("tcp;ofi_rxm").admits("TCP"));
        assert!(!cores("tcp;ofi_rxm").admits("udp"));
        assert!(cores("^tcp;ofi_rxm").admits("tcp") && !cores("^tcp").admits("tcp"));
        assert!(cores("").admits("tcp"));
        let layered = NameFilter::parse("tcp;ofi_rxm");
        assert!(layered.has_layer("ofi_rxm") && !layered.has_layer("ofi_rxd"));
        assert!(!NameFilter::parse("^tcp;ofi_rxm").has_layer("ofi_rxm"));
    }
}
