//! What a library offers. Source: fi_getinfo(3).

use core::fmt;
use std::sync::Arc;

use oxifabric_types::{AvType, Caps, EpType, MrMode, Order, Progress, ResourceMgmt};

use crate::raw::{InfoHandle, obstacle};
use crate::{Address, AddressFormat, Backend};

/// One kind of endpoint that a provider offers on this host.
///
/// Its `Display` is the long text of `fi_info -v`. Clones share one offer.
#[derive(Clone)]
pub struct Info(Arc<InfoHandle>);

impl Info {
    pub(crate) fn new(handle: InfoHandle) -> Self {
        Self(Arc::new(handle))
    }

    pub(crate) fn handle(&self) -> &Arc<InfoHandle> {
        &self.0
    }

    /// The library that made the offer.
    pub fn backend(&self) -> Backend {
        Backend::of(self.0.library())
    }

    /// The name of the provider.
    pub fn provider(&self) -> &str {
        self.0.provider()
    }

    /// The version of the provider, major and minor.
    pub fn provider_version(&self) -> (u16, u16) {
        let version = self.0.provider_version();
        ((version >> 16) as u16, version as u16)
    }

    /// The name of the fabric: endpoints of one fabric can reach each other.
    pub fn fabric(&self) -> &str {
        self.0.fabric_name()
    }

    /// The name of the domain, usually that of a device.
    pub fn domain(&self) -> &str {
        self.0.domain_name()
    }

    /// The capabilities of its endpoints.
    pub fn caps(&self) -> Caps {
        Caps::from_bits_retain(self.0.caps())
    }

    /// The capabilities of its domain, such as [`Caps::LOCAL_COMM`].
    pub fn domain_caps(&self) -> Caps {
        Caps::from_bits_retain(self.0.domain_caps())
    }

    /// The kind of its endpoints; `None` for one that this crate does not know.
    pub fn ep_type(&self) -> Option<EpType> {
        EpType::from_raw(self.0.ep_type())
    }

    /// The C name of the kind of its endpoints.
    pub fn ep_type_name(&self) -> String {
        self.0.ep_type_text()
    }

    /// The C name of its wire protocol.
    pub fn protocol_name(&self) -> String {
        self.0.protocol_text()
    }

    /// The format of its addresses.
    pub fn address_format(&self) -> AddressFormat {
        AddressFormat(self.0.addr_format())
    }

    /// Where its endpoints are, if that is known before one is opened.
    pub fn source(&self) -> Option<Address> {
        self.address(self.0.source())
    }

    /// The peer that was asked for.
    pub fn destination(&self) -> Option<Address> {
        self.address(self.0.destination())
    }

    fn address(&self, bytes: &[u8]) -> Option<Address> {
        (!bytes.is_empty()).then(|| Address::new(self.address_format(), bytes))
    }

    /// The longest message, in bytes.
    pub fn max_message_size(&self) -> usize {
        self.0.max_message_size()
    }

    /// The longest message that can be injected, in bytes.
    pub fn inject_size(&self) -> usize {
        self.0.inject_size()
    }

    /// How many sends may be in flight.
    pub fn tx_size(&self) -> usize {
        self.0.tx_size()
    }

    /// How many receives may be posted.
    pub fn rx_size(&self) -> usize {
        self.0.rx_size()
    }

    /// How many bytes of data travel beside a message.
    pub fn cq_data_size(&self) -> usize {
        self.0.cq_data_size()
    }

    /// The order in which operations are sent.
    pub fn tx_order(&self) -> Order {
        Order::from_bits_retain(self.0.tx_order())
    }

    /// The order in which what was sent is dealt with.
    pub fn rx_order(&self) -> Order {
        Order::from_bits_retain(self.0.rx_order())
    }

    /// Who moves operations forward.
    pub fn progress(&self) -> Progress {
        Progress::from_raw(self.0.data_progress()).unwrap_or_default()
    }

    /// Who takes care that no queue overruns.
    pub fn resource_management(&self) -> ResourceMgmt {
        ResourceMgmt::from_raw(self.0.resource_mgmt()).unwrap_or_default()
    }

    /// The kind of its address vectors.
    pub fn address_vector_type(&self) -> AvType {
        AvType::from_raw(self.0.av_type()).unwrap_or_default()
    }

    /// The ways of registering memory that it asks for.
    pub fn mr_mode(&self) -> MrMode {
        MrMode::from_bits_retain(self.0.mr_mode())
    }

    /// The length of a region's key, in bytes.
    pub fn key_size(&self) -> usize {
        self.0.mr_key_size()
    }

    /// Why this crate cannot open the offer, if so.
    pub fn obstacle(&self) -> Option<&'static str> {
        obstacle(&self.0)
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text())
    }
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info")
            .field("provider", &self.provider())
            .field("fabric", &self.fabric())
            .field("domain", &self.domain())
            .field("source", &self.source())
            .finish_non_exhaustive()
    }
}
