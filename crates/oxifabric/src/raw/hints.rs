//! Requests in the layout of C.

use core::ffi::{c_char, c_void};
use core::ptr;
use std::ffi::CString;

use oxifabric_abi::{fi_domain_attr, fi_fabric_attr, fi_info};
use oxifabric_core::info::{domain_attr, ep_attr, rx_attr, tx_attr};
use oxifabric_types::{DomainAttr, EpAttr, RxAttr, TxAttr};

/// A request for `fi_getinfo`: plain values, laid out for C only during the call.
#[derive(Clone, Debug, Default)]
pub(crate) struct HintsImage {
    /// Whether there are hints at all; without them the library offers everything.
    pub(crate) any: bool,
    /// Why an address is malformed, so that nothing can meet the request.
    pub(crate) malformed: Option<String>,
    pub(crate) node: Option<CString>,
    pub(crate) service: Option<CString>,
    pub(crate) flags: u64,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) tx: TxAttr,
    pub(crate) rx: RxAttr,
    pub(crate) ep: EpAttr,
    /// Domain attributes without name and authorization key, which are below.
    pub(crate) domain: DomainAttr,
    pub(crate) domain_name: Option<CString>,
    pub(crate) auth_key: Vec<u8>,
    pub(crate) provider: Option<CString>,
    pub(crate) provider_version: u32,
    pub(crate) fabric: Option<CString>,
    /// Source address, at least as long as its format demands, because a provider may read all of it.
    pub(crate) source: Vec<u8>,
    pub(crate) destination: Vec<u8>,
}

impl HintsImage {
    /// Calls `use_it` with the request, or with null if there are no hints.
    pub(super) fn with_c<T>(&self, use_it: impl FnOnce(*const fi_info) -> T) -> T {
        if !self.any {
            return use_it(ptr::null());
        }
        let (mut tx, mut rx) = (tx_attr(&self.tx), rx_attr(&self.rx));
        let mut ep = ep_attr(&self.ep);
        let mut domain = fi_domain_attr {
            name: text(&self.domain_name),
            auth_key: bytes(&self.auth_key).cast(),
            auth_key_size: self.auth_key.len(),
            ..domain_attr(&self.domain)
        };
        let mut fabric = fi_fabric_attr {
            name: text(&self.fabric),
            prov_name: text(&self.provider),
            prov_version: self.provider_version,
            ..fi_fabric_attr::ZERO
        };
        let image = fi_info {
            caps: self.caps,
            mode: self.mode,
            addr_format: self.addr_format,
            src_addrlen: self.source.len(),
            src_addr: bytes(&self.source),
            dest_addrlen: self.destination.len(),
            dest_addr: bytes(&self.destination),
            tx_attr: &mut tx,
            rx_attr: &mut rx,
            ep_attr: &mut ep,
            domain_attr: &mut domain,
            fabric_attr: &mut fabric,
            ..fi_info::ZERO
        };
        use_it(&image)
    }
}

/// Returns a pointer to the string for C, which does not write to it; null if there is none.
fn text(text: &Option<CString>) -> *mut c_char {
    text.as_ref()
        .map_or(ptr::null_mut(), |text| text.as_ptr().cast_mut())
}

/// Returns a pointer to the bytes for C, which does not write to them; null if there are none.
fn bytes(bytes: &[u8]) -> *mut c_void {
    if bytes.is_empty() {
        ptr::null_mut()
    } else {
        bytes.as_ptr().cast_mut().cast()
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use oxifabric_abi::*;

    use super::*;
    use crate::{
        Address, AvType, Caps, Dgram, Hints, Level, MrMode, Order, Progress, ResourceMgmt,
    };

    /// A request and its parts, as the library gets them.
    struct Asked<'a> {
        info: &'a fi_info,
        tx: &'a fi_tx_attr,
        rx: &'a fi_rx_attr,
        ep: &'a fi_ep_attr,
        domain: &'a fi_domain_attr,
        fabric: &'a fi_fabric_attr,
    }

    /// Asserts what the library gets of hints with one requirement.
    #[track_caller]
    fn asks(ask: impl FnOnce(Hints) -> Hints, is_asked: impl FnOnce(Asked<'_>) -> bool) {
        let hints = ask(Hints::default());
        // SAFETY: the request and its attributes are there during the call.
        let asked = hints.0.with_c(|info| unsafe {
            let info = info.as_ref().expect("there are hints");
            is_asked(Asked {
                info,
                tx: &*info.tx_attr,
                rx: &*info.rx_attr,
                ep: &*info.ep_attr,
                domain: &*info.domain_attr,
                fabric: &*info.fabric_attr,
            })
        });
        assert!(asked, "{hints:?}");
    }

    #[track_caller]
    fn is_text(text: *const c_char, expected: &CStr) -> bool {
        assert!(!text.is_null());
        // SAFETY: the text is one that the hints have.
        unsafe { CStr::from_ptr(text) == expected }
    }

    #[test]
    fn without_a_requirement_there_are_no_hints() {
        assert!(Hints::default().0.with_c(|info| info.is_null()));
        let named = Hints::default().peer(Some("node"), None).numeric();
        assert!(named.0.with_c(|info| info.is_null()));
    }

    #[test]
    fn the_general_part_reaches_the_library() {
        asks(|all| all.caps(Caps::RMA), |asked| asked.info.caps == FI_RMA);
        asks(
            |all| all.mode(FI_CONTEXT),
            |asked| asked.info.mode == FI_CONTEXT,
        );
        asks(
            |all| all.address_format(crate::AddressFormat::NAME),
            |asked| asked.info.addr_format == FI_ADDR_STR,
        );
        let at = Address::from(std::net::SocketAddr::from(([127, 0, 0, 1], 7)));
        let len = at.bytes().len();
        asks(
            |all| all.source(&at),
            |asked| {
                let Asked { info, .. } = asked;
                info.src_addrlen == len && !info.src_addr.is_null() && info.dest_addr.is_null()
            },
        );
        asks(
            |all| all.destination(&at),
            |asked| asked.info.dest_addrlen == len && asked.info.addr_format == FI_SOCKADDR_IN,
        );
    }

    #[test]
    fn names_and_versions_reach_the_library() {
        asks(
            |all| all.provider("tcp"),
            |asked| is_text(asked.fabric.prov_name, c"tcp") && asked.fabric.name.is_null(),
        );
        asks(
            |all| all.fabric("f"),
            |asked| is_text(asked.fabric.name, c"f"),
        );
        asks(
            |all| all.domain("d"),
            |asked| is_text(asked.domain.name, c"d"),
        );
        asks(
            |all| all.provider_version(1, 20),
            |asked| asked.fabric.prov_version == FI_VERSION(1, 20),
        );
        asks(
            |all| all.protocol(FI_PROTO_UDP, 3),
            |asked| (asked.ep.protocol, asked.ep.protocol_version) == (FI_PROTO_UDP, 3),
        );
    }

    #[test]
    fn sizes_reach_the_library() {
        asks(
            |all| all.max_message_size(5),
            |asked| asked.ep.max_msg_size == 5,
        );
        asks(|all| all.inject_size(6), |asked| asked.tx.inject_size == 6);
        asks(|all| all.tx_size(7), |asked| asked.tx.size == 7);
        asks(|all| all.rx_size(8), |asked| asked.rx.size == 8);
        asks(
            |all| all.max_ordered_read_after_write(9),
            |asked| asked.ep.max_order_raw_size == 9,
        );
        asks(
            |all| all.max_ordered_write_after_read(1),
            |asked| asked.ep.max_order_war_size == 1,
        );
        asks(
            |all| all.max_ordered_write_after_write(2),
            |asked| asked.ep.max_order_waw_size == 2,
        );
        asks(
            |all| all.tag_format(0xff),
            |asked| asked.ep.mem_tag_format == 0xff,
        );
        asks(|all| all.key_size(8), |asked| asked.domain.mr_key_size == 8);
        asks(
            |all| all.cq_data_size(4),
            |asked| asked.domain.cq_data_size == 4,
        );
        asks(|all| all.queues(3), |asked| asked.domain.cq_cnt == 3);
        asks(|all| all.endpoints(4), |asked| asked.domain.ep_cnt == 4);
        asks(|all| all.counters(5), |asked| asked.domain.cntr_cnt == 5);
        asks(|all| all.regions(6), |asked| asked.domain.mr_cnt == 6);
    }

    #[test]
    fn orders_and_levels_reach_the_library() {
        asks(
            |all| all.order(Order::SAS),
            |asked| (asked.tx.msg_order, asked.rx.msg_order) == (FI_ORDER_SAS, FI_ORDER_SAS),
        );
        asks(
            |all| all.tx_order(Order::RAW).rx_order(Order::WAW),
            |asked| (asked.tx.msg_order, asked.rx.msg_order) == (FI_ORDER_RAW, FI_ORDER_WAW),
        );
        asks(
            |all| all.completions_in_order().bytes_in_order(),
            |asked| {
                let both = FI_ORDER_STRICT | FI_ORDER_DATA;
                (asked.tx.comp_order, asked.rx.comp_order) == (both, both)
            },
        );
        asks(
            |all| all.completion_level(Level::Delivery),
            |asked| asked.tx.op_flags == FI_DELIVERY_COMPLETE && asked.rx.op_flags == 0,
        );
        asks(
            |all| all.traffic_class(FI_TC_BULK_DATA),
            |asked| asked.tx.tclass == FI_TC_BULK_DATA && asked.domain.tclass == FI_TC_BULK_DATA,
        );
    }

    #[test]
    fn models_reach_the_library() {
        asks(
            |all| all.kind::<Dgram>(),
            |asked| asked.ep.type_ == FI_EP_DGRAM,
        );
        asks(Hints::one_thread, |asked| {
            asked.domain.threading == FI_THREAD_DOMAIN
        });
        asks(
            |all| all.progress(Progress::Auto),
            |asked| {
                let Asked { domain, .. } = asked;
                let both = (domain.control_progress, domain.data_progress);
                both == (FI_PROGRESS_AUTO, FI_PROGRESS_AUTO)
            },
        );
        asks(
            |all| all.resource_management(ResourceMgmt::Enabled),
            |asked| asked.domain.resource_mgmt == FI_RM_ENABLED,
        );
        asks(
            |all| all.address_vector_type(AvType::Table),
            |asked| asked.domain.av_type == FI_AV_TABLE,
        );
        asks(
            |all| all.mr_mode(MrMode::VIRT_ADDR),
            |asked| asked.domain.mr_mode == FI_MR_VIRT_ADDR,
        );
        asks(
            |all| all.domain_caps(Caps::LOCAL_COMM).domain_mode(1),
            |asked| (asked.domain.caps, asked.domain.mode) == (FI_LOCAL_COMM, 1),
        );
        asks(
            |all| all.authorization_key(&[1, 2, 3]),
            |asked| asked.domain.auth_key_size == 3 && !asked.domain.auth_key.is_null(),
        );
    }
}
