//! Requirements on endpoints and domains. Source: fi_getinfo(3), fi_endpoint(3), fi_domain(3).

use oxifabric_abi::{FI_ORDER_DATA, FI_ORDER_STRICT};
use oxifabric_types::{AvType, Caps, Flags, MrMode, Order, Progress, ResourceMgmt};

use super::Hints;
use crate::Level;

/// Requirements on endpoints.
impl Hints {
    /// Asks for endpoints that can send messages of this length (`ep_attr.max_msg_size`).
    pub fn max_message_size(self, bytes: usize) -> Self {
        self.ask(|hints| hints.ep.max_msg_size = bytes)
    }

    /// Asks for endpoints that can inject messages of this length (`tx_attr.inject_size`).
    pub fn inject_size(self, bytes: usize) -> Self {
        self.ask(|hints| hints.tx.inject_size = bytes)
    }

    /// Asks for endpoints that can have `operations` sends in flight (`tx_attr.size`).
    pub fn tx_size(self, operations: usize) -> Self {
        self.ask(|hints| hints.tx.size = operations)
    }

    /// Asks for endpoints that can have `operations` receives posted (`rx_attr.size`).
    pub fn rx_size(self, operations: usize) -> Self {
        self.ask(|hints| hints.rx.size = operations)
    }

    /// Asks for an order among messages and accesses, on both sides (`msg_order` of `tx_attr` and `rx_attr`).
    pub fn order(self, order: Order) -> Self {
        self.tx_order(order).rx_order(order)
    }

    /// Asks for an order in which operations are sent (`tx_attr.msg_order`).
    pub fn tx_order(self, order: Order) -> Self {
        self.ask(|hints| hints.tx.msg_order = order)
    }

    /// Asks for an order in which arriving messages and accesses are processed (`rx_attr.msg_order`).
    pub fn rx_order(self, order: Order) -> Self {
        self.ask(|hints| hints.rx.msg_order = order)
    }

    /// Asks for completions in the order of the posts (`FI_ORDER_STRICT` in `comp_order`), which few providers promise.
    pub fn completions_in_order(self) -> Self {
        self.completion_order(FI_ORDER_STRICT)
    }

    /// Asks for the bytes of each message to be placed first to last (`FI_ORDER_DATA` in `comp_order`), for programs that watch
    /// the memory itself.
    pub fn bytes_in_order(self) -> Self {
        self.completion_order(FI_ORDER_DATA)
    }

    fn completion_order(self, bits: u64) -> Self {
        self.ask(|hints| {
            hints.tx.comp_order |= Order::from_bits_retain(bits);
            hints.rx.comp_order |= Order::from_bits_retain(bits);
        })
    }

    /// Asks for reads that see all of an earlier write to the same memory, up to this length (`ep_attr.max_order_raw_size`).
    pub fn max_ordered_read_after_write(self, bytes: usize) -> Self {
        self.ask(|hints| hints.ep.max_order_raw_size = bytes)
    }

    /// Asks for writes that wait for an earlier read of the same memory, up to this length (`ep_attr.max_order_war_size`).
    pub fn max_ordered_write_after_read(self, bytes: usize) -> Self {
        self.ask(|hints| hints.ep.max_order_war_size = bytes)
    }

    /// Asks for writes that follow an earlier write to the same memory, up to this length (`ep_attr.max_order_waw_size`).
    pub fn max_ordered_write_after_write(self, bytes: usize) -> Self {
        self.ask(|hints| hints.ep.max_order_waw_size = bytes)
    }

    /// Sets when sends and writes complete that have no level of their own (`tx_attr.op_flags`).
    pub fn completion_level(self, level: Level) -> Self {
        self.ask(|hints| hints.tx.op_flags = Flags::from_bits_retain(level.flags()))
    }

    /// Asks for tags with at least the bits that are set in `format` (`ep_attr.mem_tag_format`).
    pub fn tag_format(self, format: u64) -> Self {
        self.ask(|hints| hints.ep.mem_tag_format = format)
    }

    /// Asks for a wire protocol by its number (`FI_PROTO_*`), in at least this version.
    pub fn protocol(self, number: u32, version: u32) -> Self {
        self.ask(|hints| (hints.ep.protocol, hints.ep.protocol_version) = (number, version))
    }

    /// Asks the network for a class of service (`FI_TC_*`, or a value of the Differentiated Services field as fi_tc_dscp_set(3)
    /// returns it) for everything that is sent (`tclass` of `tx_attr` and `domain_attr`).
    pub fn traffic_class(self, class: u32) -> Self {
        self.ask(|hints| (hints.tx.tclass, hints.domain.tclass) = (class, class))
    }
}

/// Requirements on domains.
impl Hints {
    /// Sets what drives progress (`control_progress` and `data_progress` of `domain_attr`): [`Progress::Auto`] asks for a provider that
    /// makes progress by itself, with a thread if need be.
    pub fn progress(self, progress: Progress) -> Self {
        self.ask(|hints| {
            (hints.domain.control_progress, hints.domain.data_progress) = (progress, progress);
        })
    }

    /// Sets which side prevents overruns of queues, the provider or the application (`domain_attr.resource_mgmt`).
    pub fn resource_management(self, side: ResourceMgmt) -> Self {
        self.ask(|hints| hints.domain.resource_mgmt = side)
    }

    /// Asks for address vectors of a type (`domain_attr.av_type`). A [`Peer`](crate::Peer) is the same with either.
    pub fn address_vector_type(self, kind: AvType) -> Self {
        self.ask(|hints| hints.domain.av_type = kind)
    }

    /// Sets the modes of memory registration that the program supports (`domain_attr.mr_mode`).
    ///
    /// [`Hints::new`] sets all that [`Domain::open`](crate::Domain::open) supports. Without [`MrMode::LOCAL`] only offers remain that
    /// take every [`Buffer`](crate::Buffer), and borrowed memory, too.
    pub fn mr_mode(self, mode: MrMode) -> Self {
        self.ask(|hints| hints.domain.mr_mode = mode)
    }

    /// Asks for keys of regions of this length (`domain_attr.mr_key_size`).
    pub fn key_size(self, bytes: usize) -> Self {
        self.ask(|hints| hints.domain.mr_key_size = bytes)
    }

    /// Asks for `bytes` bytes of remote completion data beside a message (`domain_attr.cq_data_size`).
    pub fn cq_data_size(self, bytes: usize) -> Self {
        self.ask(|hints| hints.domain.cq_data_size = bytes)
    }

    /// Asks for `count` completion queues without loss of speed (`domain_attr.cq_cnt`).
    pub fn queues(self, count: usize) -> Self {
        self.ask(|hints| hints.domain.cq_cnt = count)
    }

    /// Asks for `count` endpoints without loss of speed (`domain_attr.ep_cnt`).
    pub fn endpoints(self, count: usize) -> Self {
        self.ask(|hints| hints.domain.ep_cnt = count)
    }

    /// Asks for `count` counters without loss of speed (`domain_attr.cntr_cnt`).
    pub fn counters(self, count: usize) -> Self {
        self.ask(|hints| hints.domain.cntr_cnt = count)
    }

    /// Asks for `count` regions without loss of speed (`domain_attr.mr_cnt`).
    pub fn regions(self, count: usize) -> Self {
        self.ask(|hints| hints.domain.mr_cnt = count)
    }

    /// Asks for capabilities of the domain (`domain_attr.caps`), such as [`Caps::LOCAL_COMM`].
    pub fn domain_caps(self, caps: Caps) -> Self {
        self.ask(|hints| hints.domain.caps = caps)
    }

    /// Sets the modes of domains (as bits) that the program supports (`domain_attr.mode`).
    pub fn domain_mode(self, bits: u64) -> Self {
        self.ask(|hints| hints.domain.mode = bits)
    }

    /// Names the key that keeps endpoints and regions apart from those of others (`domain_attr.auth_key`).
    pub fn authorization_key(self, key: &[u8]) -> Self {
        self.ask(|hints| hints.auth_key = key.into())
    }
}
