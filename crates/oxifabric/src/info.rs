//! Offers of a library: the endpoints that its providers have. Source: fi_getinfo(3).

use core::fmt;
use std::sync::Arc;

use oxifabric_types::{AvType, Caps, EpType, MrMode, Order, Progress, ResourceMgmt};

use crate::raw::{InfoHandle, obstacle};
use crate::{Address, AddressFormat, Backend};

/// An offer: one type of endpoint that a provider has on this host, with its attributes (`struct fi_info`).
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

    /// Returns the library that made the offer.
    pub fn backend(&self) -> Backend {
        Backend::of(self.0.library())
    }

    /// Returns the name of the provider.
    pub fn provider(&self) -> &str {
        self.0.provider()
    }

    /// Returns the version of the provider, major and minor.
    pub fn provider_version(&self) -> (u16, u16) {
        let version = self.0.provider_version();
        ((version >> 16) as u16, version as u16)
    }

    /// Returns the name of the fabric: endpoints of one fabric can reach each other.
    pub fn fabric(&self) -> &str {
        self.0.fabric_name()
    }

    /// Returns the name of the domain, usually that of a device.
    pub fn domain(&self) -> &str {
        self.0.domain_name()
    }

    /// Returns the capabilities of its endpoints.
    pub fn caps(&self) -> Caps {
        Caps::from_bits_retain(self.0.caps())
    }

    /// Returns the capabilities of its domain, such as [`Caps::LOCAL_COMM`].
    pub fn domain_caps(&self) -> Caps {
        Caps::from_bits_retain(self.0.domain_caps())
    }

    /// Returns the type of its endpoints; `None` for one that this crate does not support.
    pub fn ep_type(&self) -> Option<EpType> {
        EpType::from_raw(self.0.ep_type())
    }

    /// Returns the C name of the type of its endpoints.
    pub fn ep_type_name(&self) -> String {
        self.0.ep_type_text()
    }

    /// Returns the C name of its wire protocol.
    pub fn protocol_name(&self) -> String {
        self.0.protocol_text()
    }

    /// Returns the format of its addresses.
    pub fn address_format(&self) -> AddressFormat {
        AddressFormat(self.0.addr_format())
    }

    /// Returns the address of its endpoints, if that is known before one is opened.
    pub fn source(&self) -> Option<Address> {
        self.address(self.0.source())
    }

    /// Returns the address of the peer that the hints asked for.
    pub fn destination(&self) -> Option<Address> {
        self.address(self.0.destination())
    }

    fn address(&self, bytes: &[u8]) -> Option<Address> {
        (!bytes.is_empty()).then(|| Address::new(self.address_format(), bytes))
    }

    /// Returns the length of the longest message, in bytes.
    pub fn max_message_size(&self) -> usize {
        self.0.max_message_size()
    }

    /// Returns the length of the longest message that can be injected, in bytes.
    pub fn inject_size(&self) -> usize {
        self.0.inject_size()
    }

    /// Returns how many sends may be in flight.
    pub fn tx_size(&self) -> usize {
        self.0.tx_size()
    }

    /// Returns how many receives may be posted.
    pub fn rx_size(&self) -> usize {
        self.0.rx_size()
    }

    /// Returns how many bytes of remote completion data can go with a message.
    pub fn cq_data_size(&self) -> usize {
        self.0.cq_data_size()
    }

    /// Returns the order in which operations are sent.
    pub fn tx_order(&self) -> Order {
        Order::from_bits_retain(self.0.tx_order())
    }

    /// Returns the order in which arriving messages and accesses are processed.
    pub fn rx_order(&self) -> Order {
        Order::from_bits_retain(self.0.rx_order())
    }

    /// Returns what drives progress: the provider by itself, or calls of the application.
    pub fn progress(&self) -> Progress {
        Progress::from_raw(self.0.data_progress()).unwrap_or_default()
    }

    /// Returns which side prevents overruns of queues, the provider or the application.
    pub fn resource_management(&self) -> ResourceMgmt {
        ResourceMgmt::from_raw(self.0.resource_mgmt()).unwrap_or_default()
    }

    /// Returns the type of its address vectors.
    pub fn address_vector_type(&self) -> AvType {
        AvType::from_raw(self.0.av_type()).unwrap_or_default()
    }

    /// Returns the modes of memory registration that it requires.
    pub fn mr_mode(&self) -> MrMode {
        MrMode::from_bits_retain(self.0.mr_mode())
    }

    /// Returns the length of a region's key, in bytes.
    pub fn key_size(&self) -> usize {
        self.0.mr_key_size()
    }

    /// Returns why this crate cannot open the offer, if it cannot.
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
