//! Why an offer was not returned.

use alloc::string::String;
use core::fmt;

/// One way in which an offer falls short of what an application asked for. `Display` gives one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The application asked for more than is offered.
    Lacks {
        /// The field of `struct fi_info`, such as `domain_attr.mr_mode`.
        field: &'static str,
        /// What was asked for and is missing.
        wanted: String,
        /// What there is.
        offered: String,
    },
    /// Members of a set, such as capabilities, that the application asked for are not offered.
    Missing {
        /// The field of `struct fi_info`, such as `caps`.
        field: &'static str,
        /// Those that are missing.
        missing: String,
    },
    /// The provider asks for more than the application accepts.
    Demands {
        /// The field of `struct fi_info`.
        field: &'static str,
        /// What the provider insists on.
        needed: String,
        /// What the hints allow.
        accepted: String,
    },
    /// Something that the offer depends on failed.
    Failed {
        /// The field or the argument that it is about.
        field: &'static str,
        /// The cause, a sentence without a full stop.
        why: String,
    },
}

impl Reason {
    /// Returns whether the request names another provider.
    pub fn is_of_another_provider(&self) -> bool {
        matches!(self, Self::Lacks { field, .. } if *field == "fabric_attr.prov_name")
    }

    /// Returns the field of `struct fi_info`, or the argument of fi_getinfo(3), that the reason is about.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Lacks { field, .. }
            | Self::Missing { field, .. }
            | Self::Demands { field, .. }
            | Self::Failed { field, .. } => field,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks {
                field,
                wanted,
                offered,
            } => write!(f, "{field}: {wanted} was asked for; offered is {offered}"),
            Self::Missing { field, missing } => {
                write!(f, "{field}: {missing} was asked for and is not offered")
            }
            Self::Demands {
                field,
                needed,
                accepted,
            } => write!(f, "{field}: {needed} is needed; the hints allow {accepted}"),
            Self::Failed { field, why } => write!(f, "{field}: {why}"),
        }
    }
}

impl core::error::Error for Reason {}
