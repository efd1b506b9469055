//! The endpoints of a provider that have an engine, beside others that have none.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::NonNull;

use oxifabric_abi::fid_ep;
use oxifabric_provider::device::{EngineProvider, Provider, Unresolved};
use oxifabric_provider::params::Parameter;
use oxifabric_types::{Address, Errno, Info};

use crate::domain::Domain;
use crate::endpoint::context_pair::ContextPair;
use crate::endpoint::{Endpoint, apart};

/// The endpoints with an engine, as a provider: only its devices differ.
pub(crate) struct WithEngine<P>(PhantomData<P>);

/// Opens an endpoint of the kind that the domain is for.
pub(crate) fn open<P: EngineProvider>(
    domain: &Domain,
    info: Info,
    context: *mut c_void,
) -> Result<*mut fid_ep, Errno> {
    match P::has_engine(domain.info()) {
        true => Endpoint::<WithEngine<P>>::open(domain, info, context),
        false => Endpoint::<P>::open(domain, info, context),
    }
}

/// Opens a pair of contexts of the kind that the domain is for.
pub(crate) fn open_pair<P: EngineProvider>(
    domain: &Domain,
    info: Info,
) -> Result<NonNull<dyn ContextPair>, Errno> {
    match P::has_engine(domain.info()) {
        true => apart::open::<WithEngine<P>>(domain, info),
        false => apart::open::<P>(domain, info),
    }
}

impl<P: EngineProvider> Provider for WithEngine<P> {
    const NAME: &'static str = P::NAME;
    type Device = P::WithEngine;

    fn parameters() -> &'static [Parameter] {
        P::parameters()
    }

    fn infos() -> Vec<Info> {
        P::infos()
    }

    fn obstacle() -> Option<String> {
        P::obstacle()
    }

    fn resolve(
        node: Option<&str>,
        service: Option<&str>,
        source: bool,
        numeric: bool,
        addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        P::resolve(node, service, source, numeric, addr_format)
    }

    fn source_for(dest: &Address) -> Option<Address> {
        P::source_for(dest)
    }

    fn fresh_name() -> Option<Address> {
        P::fresh_name()
    }
}
