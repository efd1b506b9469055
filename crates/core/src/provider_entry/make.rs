//! From a [`Provider`] to its entry.

use std::sync::Arc;

use oxifabric_provider::PROVIDER_VERSION;
use oxifabric_provider::connection::{DomainOf, MsgProvider};
use oxifabric_provider::device::{Device, EngineProvider, Provider};
use oxifabric_provider::domain::ProviderDomain;
use oxifabric_provider::operations::Operations;
use oxifabric_types::{Errno, Info};

use super::msg::Msg;
use super::with_engine;
use super::{Listed, MsgCalls, ProviderEntry};
use crate::endpoint::Endpoint;
use crate::endpoint::apart;
use crate::passive::PassiveEndpoint;

/// Makes the entry of a provider.
pub const fn entry<P: Provider>() -> ProviderEntry {
    ProviderEntry {
        name: P::NAME,
        requires_auto_progress: P::REQUIRES_AUTO_PROGRESS,
        reads_descriptors: P::Device::READS_DESCRIPTORS,
        has_engine: |_| matches::<P::Device>(),
        listed: match P::BY_NAME_ONLY {
            true => Listed::ByName,
            false => Listed::Always,
        },
        version: PROVIDER_VERSION,
        parameters: P::parameters,
        infos: P::infos,
        obstacle: P::obstacle,
        settle: P::settle,
        resolve: P::resolve,
        source_for: P::source_for,
        fresh_name: P::fresh_name,
        fabric_ops: P::fabric_ops,
        open_domain: open_domain::<P>,
        open_endpoint: Endpoint::<P>::open,
        open_pair: apart::open::<P>,
        msg: None,
    }
}

/// Returns whether an engine matches the messages of a device.
const fn matches<D: Device>() -> bool {
    D::Operations::MATCHES
}

fn open_domain<P: Provider>(info: &Info) -> Result<Arc<dyn ProviderDomain>, Errno> {
    Ok(Arc::new(DomainOf::<P>::open(info)?))
}

/// Makes the entry of a provider that offers connected endpoints as well.
pub const fn msg_entry<P: MsgProvider>() -> ProviderEntry {
    ProviderEntry {
        reads_descriptors: P::Device::READS_DESCRIPTORS || P::Connected::READS_DESCRIPTORS,
        has_engine: |_| matches::<P::Device>() || matches::<P::Connected>(),
        msg: Some(MsgCalls {
            open_endpoint: Endpoint::<Msg<P>>::open_connected,
            open_passive: PassiveEndpoint::<P>::open,
        }),
        ..entry::<P>()
    }
}

/// Makes the entry of a provider some of whose endpoints have an engine.
pub const fn engine_entry<P: EngineProvider>() -> ProviderEntry {
    ProviderEntry {
        reads_descriptors: P::Device::READS_DESCRIPTORS || P::WithEngine::READS_DESCRIPTORS,
        has_engine: P::has_engine,
        open_endpoint: with_engine::open::<P>,
        open_pair: with_engine::open_pair::<P>,
        ..entry::<P>()
    }
}
