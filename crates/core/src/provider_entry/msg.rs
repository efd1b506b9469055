//! The connected endpoints of a provider.

use core::marker::PhantomData;

use oxifabric_provider::connection::MsgProvider;
use oxifabric_provider::device::{Provider, Unresolved};
use oxifabric_provider::params::Parameter;
use oxifabric_types::{Address, Info};

/// The connected endpoints of a provider, as a provider: only its devices differ.
pub(crate) struct Msg<P>(PhantomData<P>);

impl<P: MsgProvider> Provider for Msg<P> {
    const NAME: &'static str = P::NAME;
    type Device = P::Connected;

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
