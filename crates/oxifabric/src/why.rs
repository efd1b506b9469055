//! Reasons why a request is not met.

use core::fmt;

use oxifabric_core::registry::Refusal;
use oxifabric_types::Errno;

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
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self {
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
/// [`WhyNot::rejections`] lists the reasons, nearest miss first. Only the built-in library gives reasons; another one gives only
/// the error number.
#[derive(Clone, PartialEq, Eq)]
pub struct WhyNot(Box<Reasons>);

#[derive(Clone, PartialEq, Eq)]
struct Reasons {
    errno: Errno,
    rejections: Vec<Rejection>,
}

impl WhyNot {
    pub(crate) fn new(errno: Errno, rejections: Vec<Rejection>) -> Self {
        Self(Box::new(Reasons { errno, rejections }))
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
        self.0
            .rejections
            .iter()
            .try_for_each(|rejection| write!(f, "\n  {rejection}"))
    }
}

impl std::error::Error for WhyNot {}
