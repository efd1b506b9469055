//! Run-time parameters: one table a provider, each variable read once.

/// A parameter that an environment variable `FI_<PROVIDER>_<NAME>` sets.
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
