//! Attributes of an endpoint: the owned Rust form of `struct fi_info`, fi_getinfo(3).

use alloc::boxed::Box;
use alloc::string::String;

use crate::nic::Nic;
use crate::{Address, Caps, Flags, MrMode, Order};

/// One kind of endpoint that a provider offers, or (as hints) that an application asks for.
///
/// In hints a zero, empty, `None` or `Unspec` value means "no preference", as in C.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Capabilities.
    pub caps: Caps,
    /// Mode bits (FI_CONTEXT and others): what the provider asks of the application.
    pub mode: u64,
    /// Format of the addresses (FI_SOCKADDR_IN ...), with the C header's value.
    pub addr_format: u32,
    /// Address of the endpoint.
    pub src: Option<Address>,
    /// Address of the peer that it talks to.
    pub dest: Option<Address>,
    /// Transmit attributes.
    pub tx: TxAttr,
    /// Receive attributes.
    pub rx: RxAttr,
    /// Endpoint attributes.
    pub ep: EpAttr,
    /// Domain attributes.
    pub domain: DomainAttr,
    /// Fabric attributes.
    pub fabric: FabricAttr,
    /// The network interface, in offers of providers that know theirs.
    pub nic: Option<Box<Nic>>,
}

/// `struct fi_tx_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxAttr {
    /// Capabilities of the transmit side.
    pub caps: Caps,
    /// Mode bits.
    pub mode: u64,
    /// Default flags of transmit operations.
    pub op_flags: Flags,
    /// Message ordering.
    pub msg_order: Order,
    /// Order of completions.
    pub comp_order: Order,
    /// Largest message that fi_inject takes, in bytes.
    pub inject_size: usize,
    /// How many operations may be outstanding.
    pub size: usize,
    /// In offers: how many an application may ask for; zero for no more than `size`, which it gets unasked. Zero otherwise.
    pub max_size: usize,
    /// Segments per operation.
    pub iov_limit: usize,
    /// Remote segments per RMA operation.
    pub rma_iov_limit: usize,
    /// Traffic class.
    pub tclass: u32,
}

/// `struct fi_rx_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RxAttr {
    /// Capabilities of the receive side.
    pub caps: Caps,
    /// Mode bits.
    pub mode: u64,
    /// Default flags of receive operations.
    pub op_flags: Flags,
    /// Message ordering.
    pub msg_order: Order,
    /// Order of completions.
    pub comp_order: Order,
    /// Bytes that unexpected messages may take together.
    pub total_buffered_recv: usize,
    /// How many receives may be posted.
    pub size: usize,
    /// As [`TxAttr::max_size`].
    pub max_size: usize,
    /// Segments per operation.
    pub iov_limit: usize,
}

/// `struct fi_ep_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpAttr {
    /// Kind of endpoint.
    pub kind: EpType,
    /// Wire protocol (FI_PROTO_*).
    pub protocol: u32,
    /// Its version.
    pub protocol_version: u32,
    /// Longest message, in bytes.
    pub max_msg_size: usize,
    /// Prefix that receive buffers need, in bytes.
    pub msg_prefix_size: usize,
    /// Largest read after write that is ordered, in bytes.
    pub max_order_raw_size: usize,
    /// Largest write after read that is ordered, in bytes.
    pub max_order_war_size: usize,
    /// Largest write after write that is ordered, in bytes.
    pub max_order_waw_size: usize,
    /// Which bits of tags are usable.
    pub mem_tag_format: u64,
    /// Transmit contexts.
    pub tx_ctx_cnt: usize,
    /// Receive contexts.
    pub rx_ctx_cnt: usize,
    /// Length of an authorization key in bytes.
    pub auth_key_size: usize,
}

/// `struct fi_domain_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainAttr {
    /// Name of the domain.
    pub name: String,
    /// Threading level.
    pub threading: Threading,
    /// Progress model of control operations.
    pub control_progress: Progress,
    /// Progress model of data transfers.
    pub data_progress: Progress,
    /// Whether the provider or the application protects queues from overruns.
    pub resource_mgmt: ResourceMgmt,
    /// Kind of address vector.
    pub av_type: AvType,
    /// Registration modes that the application must obey.
    pub mr_mode: MrMode,
    /// Size of a key in bytes.
    pub mr_key_size: usize,
    /// Size of remote completion data in bytes.
    pub cq_data_size: usize,
    /// Advisable number of completion queues.
    pub cq_cnt: usize,
    /// Advisable number of endpoints.
    pub ep_cnt: usize,
    /// Transmit contexts of the domain.
    pub tx_ctx_cnt: usize,
    /// Receive contexts of the domain.
    pub rx_ctx_cnt: usize,
    /// Transmit contexts per endpoint.
    pub max_ep_tx_ctx: usize,
    /// Receive contexts per endpoint.
    pub max_ep_rx_ctx: usize,
    /// Shared transmit contexts.
    pub max_ep_stx_ctx: usize,
    /// Shared receive contexts.
    pub max_ep_srx_ctx: usize,
    /// Advisable number of counters.
    pub cntr_cnt: usize,
    /// Segments per memory region.
    pub mr_iov_limit: usize,
    /// Capabilities of the domain.
    pub caps: Caps,
    /// Mode bits.
    pub mode: u64,
    /// Largest error data in bytes.
    pub max_err_data: usize,
    /// Advisable number of memory regions.
    pub mr_cnt: usize,
    /// Traffic class.
    pub tclass: u32,
    /// Length of an authorization key in bytes.
    pub auth_key_size: usize,
    /// Authorization keys per endpoint.
    pub max_ep_auth_key: usize,
    /// Largest identifier of a group of endpoints.
    pub max_group_id: u32,
    /// Largest value of a counter.
    pub max_cntr_value: u64,
    /// Largest error value of a counter.
    pub max_err_cntr_value: u64,
}

/// `struct fi_fabric_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricAttr {
    /// Name of the fabric.
    pub name: String,
    /// Name of the provider.
    pub prov_name: String,
    /// Version of the provider (`FI_VERSION(major, minor)`).
    pub prov_version: u32,
    /// API version that the application asked for.
    pub api_version: u32,
}

macro_rules! c_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal, $c_name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$vdoc])* $variant = $value,)*
        }
        impl $name {
            /// Returns the variant with the C header's value.
            pub const fn from_raw(value: u32) -> Option<Self> {
                match value {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
            /// Returns the C header's value.
            pub const fn raw(self) -> u32 {
                self as u32
            }
            /// Returns the name of the C constant.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $c_name,)*
                }
            }
        }
    };
}

c_enum! {
    /// Kinds of endpoints (`enum fi_ep_type`).
    EpType {
        /// No preference.
        #[default]
        Unspec = 0, "FI_EP_UNSPEC";
        /// Reliable, connected.
        Msg = 1, "FI_EP_MSG";
        /// Unreliable datagrams.
        Dgram = 2, "FI_EP_DGRAM";
        /// Reliable datagrams.
        Rdm = 3, "FI_EP_RDM";
    }
}

c_enum! {
    /// What the application promises about threads (`enum fi_threading`).
    Threading {
        /// No preference.
        #[default]
        Unspec = 0, "FI_THREAD_UNSPEC";
        /// Any thread may do anything at any time.
        Safe = 1, "FI_THREAD_SAFE";
        /// FI_THREAD_FID.
        Fid = 2, "FI_THREAD_FID";
        /// One thread at a time per domain.
        Domain = 3, "FI_THREAD_DOMAIN";
        /// One thread at a time per completion queue and its endpoints.
        Completion = 4, "FI_THREAD_COMPLETION";
        /// FI_THREAD_ENDPOINT.
        Endpoint = 5, "FI_THREAD_ENDPOINT";
    }
}

c_enum! {
    /// Progress model: what makes operations progress (`enum fi_progress`).
    Progress {
        /// No preference.
        #[default]
        Unspec = 0, "FI_PROGRESS_UNSPEC";
        /// The provider, by itself.
        Auto = 1, "FI_PROGRESS_AUTO";
        /// The application, by its calls.
        Manual = 2, "FI_PROGRESS_MANUAL";
        /// FI_PROGRESS_CONTROL_UNIFIED.
        ControlUnified = 3, "FI_PROGRESS_CONTROL_UNIFIED";
    }
}

c_enum! {
    /// Whether the provider or the application protects queues from overruns (`enum fi_resource_mgmt`).
    ResourceMgmt {
        /// No preference.
        #[default]
        Unspec = 0, "FI_RM_UNSPEC";
        /// The application.
        Disabled = 1, "FI_RM_DISABLED";
        /// The provider.
        Enabled = 2, "FI_RM_ENABLED";
    }
}

c_enum! {
    /// Kinds of address vectors (`enum fi_av_type`).
    AvType {
        /// No preference.
        #[default]
        Unspec = 0, "FI_AV_UNSPEC";
        /// Addresses map to opaque values.
        Map = 1, "FI_AV_MAP";
        /// Addresses map to indices in order of insertion.
        Table = 2, "FI_AV_TABLE";
    }
}

impl AvType {
    /// Whether vectors of this type do for an application that asks for `wanted`. Indices do for one that stores opaque values: FI_AV_MAP is deprecated, and
    /// fi_av(3) has providers align it with FI_AV_TABLE.
    pub const fn serves(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Self::Unspec | Self::Table, _) | (_, Self::Unspec | Self::Map) => true,
            (Self::Map, Self::Table) => false,
        }
    }
}
