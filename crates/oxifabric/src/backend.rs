//! The libfabric that implements the objects: the built-in one, or another.

use core::fmt;
use std::path::{Path, PathBuf};

use oxifabric_abi::{FI_PARAM_BOOL, FI_PARAM_INT, FI_PARAM_SIZE_T, FI_PARAM_STRING};
use oxifabric_core::registry::Refusal;
use oxifabric_provider::environment;
use oxifabric_types::{Errno, provider_is_named};

use crate::raw::{HintsImage, Library, RawParameter};
use crate::{Error, Hints, Info, LibraryError, Rejection, WhyNot};

/// A libfabric: the built-in one, or another libfabric.so.1.
///
/// Offers refer to their library, and objects are opened from offers, so two libraries can be used in one process. A library
/// stays loaded for the rest of the process.
#[derive(Clone, Copy)]
pub struct Backend(&'static Library);

/// The environment variable that [`Backend::from_env`] reads.
const VARIABLE: &str = "OXIFABRIC_LIBRARY";

impl Backend {
    /// Returns the library that the variable `OXIFABRIC_LIBRARY` names by its path, or else the built-in one. Programs that run with
    /// another user's rights (secure_getenv(3)) get the built-in one.
    ///
    /// # Errors
    ///
    /// As [`Backend::system`].
    pub fn from_env() -> Result<Self, Error> {
        match environment::variable(VARIABLE) {
            Some(path) if !path.is_empty() => Self::system(path),
            _ => Ok(Self::builtin()),
        }
    }

    /// Returns the built-in library: that of this project.
    pub fn builtin() -> Self {
        Self(Library::builtin())
    }

    pub(crate) fn of(library: &'static Library) -> Self {
        Self(library)
    }

    /// Loads a libfabric.so.1. A path without a slash is looked up as the dynamic loader does.
    ///
    /// # Errors
    ///
    /// [`Error::Library`] when it cannot be loaded or is no libfabric.
    pub fn system(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let library = Library::load(path).map_err(|reason| {
            let path = PathBuf::from(path);
            Error::Library(Box::new(LibraryError { path, reason }))
        })?;
        Ok(Self(Box::leak(Box::new(library))))
    }

    /// Returns the API version in force, major and minor: that of this crate, or of an older library.
    pub fn api_version(self) -> (u16, u16) {
        let version = self.0.api_version();
        ((version >> 16) as u16, version as u16)
    }

    /// Returns the version of the library itself.
    pub fn version(self) -> String {
        self.0.package_version()
    }

    /// Returns the library's text for an error number of either sign.
    pub fn strerror(self, errnum: i32) -> String {
        self.0.strerror(errnum)
    }

    /// Lists the configuration variables that the library and its providers read. Source: fi_provider(3).
    ///
    /// # Errors
    ///
    /// What `fi_getparams` returned.
    pub fn parameters(self) -> Result<Vec<Parameter>, Error> {
        let parameters = self.0.parameters().map_err(Error::call("fi_getparams"))?;
        Ok(parameters.into_iter().map(Parameter::from).collect())
    }

    pub(crate) fn offers(self, hints: &HintsImage) -> Result<Vec<Info>, WhyNot> {
        if let Some(cause) = &hints.malformed {
            return Err(WhyNot::malformed(cause.clone()));
        }
        let offers = match self.0.getinfo(hints) {
            Ok(offers) if !offers.is_empty() => offers,
            Ok(_) => return Err(WhyNot::new(Errno::NODATA, self.rejections(hints))),
            Err(errno) => return Err(WhyNot::new(errno, self.rejections(hints))),
        };
        Ok(offers.into_iter().map(Info::new).collect())
    }

    pub(crate) fn rejections(self, hints: &HintsImage) -> Vec<Rejection> {
        let mut refusals = self.0.refusals(hints);
        refusals.sort_by_key(Refusal::distance);
        let rejections: Vec<_> = refusals.into_iter().map(Rejection::from).collect();
        if !rejections.is_empty()
            && rejections.iter().all(Rejection::is_other)
            && let Some(asked) = hints
                .provider
                .as_deref()
                .and_then(|name| name.to_str().ok())
        {
            let known = self.provider_names();
            if !known.iter().any(|name| provider_is_named(asked, name)) {
                return vec![Rejection::of_name(asked, &known)];
            }
        }
        rejections
    }

    /// Returns the names of all providers, usable or not.
    fn provider_names(self) -> Vec<String> {
        let all = Hints::anything().providers_only();
        let mut names: Vec<String> = Vec::new();
        for info in all.offers(self).unwrap_or_default() {
            if !names.iter().any(|name| name == info.provider()) {
                names.push(info.provider().to_owned());
            }
        }
        names
    }
}

impl PartialEq for Backend {
    /// Returns whether both are the same library, loaded once.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Backend {}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.api_version();
        write!(
            f,
            "Backend(libfabric {}, API {major}.{minor})",
            self.version()
        )
    }
}

/// A configuration variable of the library, set by the environment or by libfabric.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// The name of the variable.
    pub name: String,
    /// The type of its value.
    pub kind: ParameterKind,
    /// The help text.
    pub help: String,
    /// Its value, if it is set.
    pub value: Option<String>,
}

/// The type of a configuration variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterKind {
    /// A string.
    Text,
    /// A signed integer.
    Int,
    /// A truth value.
    Bool,
    /// A size in bytes, or a count.
    Size,
    /// Any other type.
    Unknown,
}

impl Parameter {
    /// Returns the value that is used where none is set, if the help text has it: C has no other place for it.
    #[must_use]
    pub fn default(&self) -> Option<&str> {
        let (_, default) = self.help.rsplit_once("(default: ")?;
        default.strip_suffix(')')
    }
}

impl From<RawParameter> for Parameter {
    fn from(raw: RawParameter) -> Self {
        Self {
            name: raw.name,
            kind: match raw.kind {
                FI_PARAM_STRING => ParameterKind::Text,
                FI_PARAM_INT => ParameterKind::Int,
                FI_PARAM_BOOL => ParameterKind::Bool,
                FI_PARAM_SIZE_T => ParameterKind::Size,
                _ => ParameterKind::Unknown,
            },
            help: raw.help,
            value: raw.value,
        }
    }
}
