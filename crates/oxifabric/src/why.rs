//! Reasons why a request is not met.

use core::fmt;

use oxifabric_core::registry::Refusal;
use oxifabric_types::{Errno, Reason, nearest};

/// The field of a request that names the provider.
const NAME: &str = "fabric_attr.prov_name";

/// The reasons why one provider, or one of its offers, does not meet a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The name of the provider.
    pub provider: String,
    /// The offer that was refused; `None` if the whole provider was.
    pub offer: Option<String>,
    /// The requirements that are not met, one each; the fewer, the nearer the miss.
    pub reasons: Vec<String>,
    /// Whether it is refused for its name only: the request asks for another provider.
    is_other: bool,
}

impl Rejection {
    /// Makes the rejection of a provider that the request names and that does not exist.
    pub(crate) fn of_name(provider: &str, known: &[String]) -> Self {
        let near = nearest(provider, known.iter().map(String::as_str));
        let known = known.join(", ");
        let reason = match near {
            Some(near) => {
                format!("no provider has this name; did you mean {near}? (there are {known})")
            }
            None => format!("no provider has this name; there are {known}"),
        };
        Self {
            provider: provider.to_owned(),
            offer: None,
            reasons: vec![reason],
            is_other: false,
        }
    }

    /// Returns whether the request asks for a provider of another name.
    pub(crate) fn is_other(&self) -> bool {
        self.is_other
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        let is_name = |reason: &Reason| matches!(reason, Reason::Lacks { field: NAME, .. });
        Self {
            is_other: refusal.reasons.iter().any(is_name),
            provider: refusal.provider.to_owned(),
            offer: (!refusal.offer.is_empty()).then_some(refusal.offer),
            reasons: refusal.reasons.iter().map(ToString::to_string).collect(),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.provider)?;
        if let Some(offer) = &self.offer {
            write!(f, " ({offer})")?;
        }
        write!(f, ": {}", self.reasons.join("; "))
    }
}

/// The error of a request that no provider meets.
///
/// [`WhyNot::rejections`] lists the reasons, nearest miss first; the text leaves out providers that were refused only because the request
/// asks for another one by name. Only the built-in library gives reasons; another one gives only
/// the error number.
#[derive(Clone, PartialEq, Eq)]
pub struct WhyNot(Box<Reasons>);

#[derive(Clone, PartialEq, Eq)]
struct Reasons {
    errno: Errno,
    /// What is wrong with the request itself.
    cause: Option<String>,
    rejections: Vec<Rejection>,
}

impl WhyNot {
    pub(crate) fn new(errno: Errno, rejections: Vec<Rejection>) -> Self {
        Self(Box::new(Reasons {
            errno,
            cause: None,
            rejections,
        }))
    }

    /// Makes the error of a request that no library can answer.
    pub(crate) fn malformed(cause: String) -> Self {
        Self(Box::new(Reasons {
            errno: Errno::INVAL,
            cause: Some(cause),
            rejections: Vec::new(),
        }))
    }

    /// Returns what fi_getinfo(3) returned.
    pub fn errno(&self) -> Errno {
        self.0.errno
    }

    /// Returns the reasons, nearest miss first; empty if the library gives none.
    pub fn rejections(&self) -> &[Rejection] {
        &self.0.rejections
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no provider offers this: {} ({})",
            self.0.errno,
            self.0.errno.name()
        )?;
        if let Some(cause) = &self.0.cause {
            write!(f, "; {cause}")?;
        }
        let all = &self.0.rejections;
        let has_nearer = all.iter().any(|rejection| !rejection.is_other());
        all.iter()
            .filter(|rejection| !(has_nearer && rejection.is_other()))
            .try_for_each(|rejection| write!(f, "\n  {rejection}"))
    }
}

impl std::error::Error for WhyNot {}
