//! The registry's view of a provider: its [`Provider`](oxifabric_provider::device::Provider) calls as plain functions, without the type.

pub mod make;
pub(crate) mod msg;
pub(crate) mod with_engine;

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use std::sync::Arc;

use oxifabric_abi::{fid, fid_ep, fid_pep};
use oxifabric_provider::device::Unresolved;
use oxifabric_provider::domain::ProviderDomain;
use oxifabric_provider::params::Parameter;
use oxifabric_types::{Address, Errno, Info};

use crate::domain::Domain;
use crate::endpoint::context_pair::ContextPair;
use crate::fabric::Fabric;

/// A provider behind plain functions: what is left of a [`Provider`](oxifabric_provider::device::Provider) once its type is out of sight.
///
/// The registry keeps one `static` for each provider, made by [`make::entry`].
#[derive(Clone, Copy, Debug)]
pub struct ProviderEntry {
    /// [`Provider::NAME`](oxifabric_provider::device::Provider::NAME).
    pub name: &'static str,
    /// Its version (`FI_VERSION(major, minor)`).
    pub version: u32,
    /// [`Provider::REQUIRES_AUTO_PROGRESS`](oxifabric_provider::device::Provider::REQUIRES_AUTO_PROGRESS).
    pub requires_auto_progress: bool,
    /// [`Device::READS_DESCRIPTORS`](oxifabric_provider::device::Device::READS_DESCRIPTORS), of any of its devices.
    pub(crate) reads_descriptors: bool,
    /// Whether an engine matches the messages of endpoints with this description; they take receives from shared contexts.
    pub(crate) has_engine: fn(&Info) -> bool,
    /// Which requests it answers.
    pub listed: Listed,
    /// [`Provider::parameters`](oxifabric_provider::device::Provider::parameters).
    pub parameters: fn() -> &'static [Parameter],
    /// [`Provider::infos`](oxifabric_provider::device::Provider::infos).
    pub infos: fn() -> Vec<Info>,
    /// [`Provider::obstacle`](oxifabric_provider::device::Provider::obstacle).
    pub obstacle: fn() -> Option<String>,
    /// [`Provider::settle`](oxifabric_provider::device::Provider::settle).
    pub(crate) settle: fn(&mut Info, Option<&Info>),
    /// [`Provider::resolve`](oxifabric_provider::device::Provider::resolve).
    pub resolve: Resolve,
    /// [`Provider::source_for`](oxifabric_provider::device::Provider::source_for).
    pub source_for: fn(&Address) -> Option<Address>,
    /// [`Provider::fresh_name`](oxifabric_provider::device::Provider::fresh_name).
    pub fresh_name: fn() -> Option<Address>,
    /// [`Provider::fabric_ops`](oxifabric_provider::device::Provider::fabric_ops).
    pub(crate) fabric_ops: fn(&CStr) -> Option<NonNull<c_void>>,
    /// Opens what the provider keeps for a domain.
    pub(crate) open_domain: OpenDomain,
    /// Opens an endpoint of the provider in a domain.
    pub(crate) open_endpoint: OpenEndpoint,
    /// Opens an endpoint whose directions are apart: a pair of contexts.
    pub(crate) open_pair: OpenPair,
    /// How endpoints that are connected are opened, if the provider has some.
    pub(crate) msg: Option<MsgCalls>,
}

/// Which requests a provider answers that it could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All.
    Always,
    /// Those that name it or its protocol, and those that name no provider and say which capabilities they need: what is
    /// listed without requirements does not grow by it.
    OnNeeds,
    /// Those that name it, in the hints or by FI_PROVIDER.
    ByName,
}

/// How the endpoints of a [`MsgProvider`](oxifabric_provider::connection::MsgProvider) are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MsgCalls {
    pub(crate) open_endpoint: OpenConnected,
    pub(crate) open_passive: OpenPassive,
}

/// Opens an active endpoint: its domain, its attributes, the handle in them, the context of its opener.
pub(crate) type OpenConnected =
    unsafe fn(&Domain, Info, *mut fid, *mut c_void) -> Result<*mut fid_ep, Errno>;

/// Opens a passive endpoint: its fabric, its attributes, the context of its opener.
pub(crate) type OpenPassive = fn(&Fabric, Info, *mut c_void) -> Result<*mut fid_pep, Errno>;

/// [`Provider::resolve`](oxifabric_provider::device::Provider::resolve) as a plain function.
pub type Resolve =
    fn(Option<&str>, Option<&str>, bool, bool, u32) -> Result<Vec<Address>, Unresolved>;

/// Opens what the provider keeps for a domain with these attributes.
pub(crate) type OpenDomain = fn(&Info) -> Result<Arc<dyn ProviderDomain>, Errno>;

/// Opens an endpoint: its domain, its attributes, the context of its opener.
pub(crate) type OpenEndpoint = fn(&Domain, Info, *mut c_void) -> Result<*mut fid_ep, Errno>;

/// Opens a pair of contexts: its domain, its attributes.
pub(crate) type OpenPair = fn(&Domain, Info) -> Result<NonNull<dyn ContextPair>, Errno>;

impl ProviderEntry {
    /// Makes the entry of another name for this provider's endpoints (docs/adr/0026): `infos` describes them as
    /// programs that use the name expect them, and `parameters` are those of that name.
    pub const fn alias(
        self,
        name: &'static str,
        listed: Listed,
        infos: fn() -> Vec<Info>,
        parameters: fn() -> &'static [Parameter],
    ) -> Self {
        Self {
            name,
            listed,
            infos,
            parameters,
            ..self
        }
    }

    /// Returns whether devices with this description move data without a thread of this side: no engine stands between them and the
    /// application.
    pub(crate) fn progresses_alone(&self, info: &Info) -> bool {
        !(self.has_engine)(info)
    }

    /// Returns the last name of a stack: `ofi_rxd` of `udp;ofi_rxd`. Variables and external providers have it.
    pub fn layer(&self) -> &'static str {
        self.name.rsplit(';').next().unwrap_or(self.name)
    }
}
