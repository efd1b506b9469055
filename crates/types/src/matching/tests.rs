//! Each rule of matching once: the field that it refuses, or what the narrowed offer looks like.

extern crate std;

use super::*;
use crate::{AvType, Caps, EpType, Flags, MrMode, Order, Progress, ResourceMgmt, Threading};
use std::string::{String, ToString};

const V1_4: u32 = 1 << 16 | 4;
const V1_5: u32 = 1 << 16 | 5;
const V2_6: u32 = 2 << 16 | 6;

/// An offer like that of a provider over sockets.
fn offer() -> Info {
    let mut offer = Info::default();
    let msg = Caps::MSG | Caps::TAGGED | Caps::RMA;
    offer.tx.caps = msg | Caps::SEND | Caps::READ | Caps::WRITE;
    offer.rx.caps = msg | Caps::RECV | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    offer.rx.caps |= Caps::SOURCE | Caps::DIRECTED_RECV | Caps::MULTI_RECV;
    offer.domain.caps = Caps::LOCAL_COMM | Caps::REMOTE_COMM;
    offer.caps = offer.tx.caps | offer.rx.caps | offer.domain.caps;
    offer.addr_format = 2;
    offer.tx.op_flags = Flags::COMPLETION | Flags::INJECT;
    offer.tx.msg_order = Order::SAS | Order::RAW;
    offer.tx.inject_size = 128;
    offer.tx.size = 1024;
    offer.tx.iov_limit = 4;
    offer.tx.rma_iov_limit = 4;
    offer.rx.op_flags = Flags::COMPLETION | Flags::MULTI_RECV;
    offer.rx.msg_order = Order::SAS;
    offer.rx.size = 1024;
    offer.rx.iov_limit = 4;
    offer.ep.kind = EpType::Rdm;
    offer.ep.protocol = 25;
    offer.ep.protocol_version = 1;
    offer.ep.max_msg_size = 1 << 30;
    offer.ep.mem_tag_format = 0xaaaa_aaaa_aaaa_aaaa;
    offer.ep.tx_ctx_cnt = 1;
    offer.ep.rx_ctx_cnt = 1;
    offer.domain.name = "eth0".into();
    offer.domain.threading = Threading::Safe;
    offer.domain.control_progress = Progress::Manual;
    offer.domain.data_progress = Progress::Manual;
    offer.domain.resource_mgmt = ResourceMgmt::Enabled;
    offer.domain.mr_mode = MrMode::BASIC | MrMode::SCALABLE;
    offer.domain.cq_data_size = 8;
    offer.domain.max_ep_tx_ctx = 1;
    offer.domain.max_ep_rx_ctx = 1;
    offer.domain.mr_iov_limit = 1;
    offer.fabric.name = "192.0.2.0/24".into();
    offer.fabric.prov_name = "tcp".into();
    offer.fabric.prov_version = 206 << 16;
    offer
}

fn hints(set: impl FnOnce(&mut Info)) -> Info {
    let mut hints = Info::default();
    set(&mut hints);
    hints
}

/// Matches the plain offer with hints.
fn fit(set: impl FnOnce(&mut Info)) -> Result<Info, Vec<Reason>> {
    match_info(&offer(), Some(&hints(set)), V2_6)
}

/// Returns the only reason why the plain offer does not fit the hints.
fn reason(set: impl FnOnce(&mut Info)) -> String {
    let reasons = fit(set).expect_err("the offer has to be refused");
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    reasons[0].to_string()
}

#[test]
fn without_hints_the_offer_is_returned_with_all_capabilities() {
    let info = match_info(&offer(), None, V2_6).unwrap();
    assert_eq!(info.caps, offer().caps);
    assert_eq!(info.fabric.api_version, V2_6);
    assert_eq!(info.domain.mr_mode, MrMode::empty());
    assert_eq!(info.domain.max_cntr_value, u64::MAX);
    assert_eq!(
        info.tx.op_flags,
        Flags::empty(),
        "nothing is forced on operations"
    );
}

#[test]
fn empty_hints_get_all_capabilities_but_the_source() {
    let info = fit(|_| {}).unwrap();
    assert_eq!(info.caps, offer().caps);
}

#[test]
fn primary_capabilities_are_only_those_asked_for() {
    let info = fit(|h| h.caps = Caps::TAGGED).unwrap();
    let secondary = Caps::MULTI_RECV | Caps::LOCAL_COMM | Caps::REMOTE_COMM;
    assert_eq!(
        info.caps,
        Caps::TAGGED | Caps::SEND | Caps::RECV | secondary
    );
    assert_eq!(info.tx.caps, Caps::TAGGED | Caps::SEND);
    assert_eq!(info.rx.caps & (Caps::RMA | Caps::MSG), Caps::empty());
}

#[test]
fn directions_limit_what_was_asked_for() {
    let info = fit(|h| h.caps = Caps::MSG | Caps::SEND | Caps::RMA | Caps::READ).unwrap();
    assert!(
        !info
            .caps
            .intersects(Caps::RECV | Caps::WRITE | Caps::REMOTE_READ)
    );
}

#[test]
fn the_source_of_messages_is_reported_only_on_request() {
    assert!(
        !fit(|h| h.caps = Caps::MSG)
            .unwrap()
            .caps
            .contains(Caps::SOURCE)
    );
    let asked = Caps::MSG | Caps::SOURCE;
    assert!(fit(|h| h.caps = asked).unwrap().caps.contains(Caps::SOURCE));
}

#[test]
fn a_missing_capability_is_named() {
    let text = reason(|h| h.caps = Caps::MSG | Caps::ATOMIC);
    assert_eq!(text, "caps: FI_ATOMIC was asked for and is not offered");
}

#[test]
fn an_unknown_capability_is_shown_as_a_number() {
    let text = reason(|h| h.caps = Caps::from_bits_retain(1 << 60));
    assert!(
        text.starts_with("caps: 0x1000000000000000 was asked for"),
        "{text}"
    );
}

#[test]
fn capabilities_of_the_other_side_are_ignored_as_in_old_programs() {
    assert!(fit(|h| h.tx.caps = Caps::TAGGED | Caps::RECV | Caps::SOURCE).is_ok());
    assert!(fit(|h| h.rx.caps = Caps::TAGGED | Caps::SEND | Caps::FENCE).is_ok());
    assert!(reason(|h| h.tx.caps = Caps::ATOMIC).starts_with("tx_attr.caps: FI_ATOMIC"));
}

#[test]
fn every_reason_is_listed() {
    let reasons = fit(|h| {
        h.ep.kind = EpType::Msg;
        h.tx.inject_size = 129;
        h.domain.cq_data_size = 9;
    })
    .unwrap_err();
    let fields: Vec<&str> = reasons.iter().map(Reason::field).collect();
    assert_eq!(
        fields,
        [
            "ep_attr.type",
            "domain_attr.cq_data_size",
            "tx_attr.inject_size"
        ]
    );
}

#[test]
fn endpoint_types_differ() {
    assert_eq!(
        reason(|h| h.ep.kind = EpType::Dgram),
        "ep_attr.type: FI_EP_DGRAM was asked for; offered is FI_EP_RDM"
    );
}

#[test]
fn modes_that_the_provider_needs_have_to_be_accepted() {
    let mut demanding = offer();
    demanding.mode = 1 << 59;
    let refused = match_info(&demanding, Some(&hints(|_| {})), V2_6).unwrap_err();
    assert_eq!(
        refused[0].to_string(),
        "mode: FI_CONTEXT is needed; the hints allow none"
    );
    let accepting = hints(|h| h.mode = u64::MAX);
    assert_eq!(
        match_info(&demanding, Some(&accepting), V2_6).unwrap().mode,
        1 << 59
    );
}

#[test]
fn address_formats_agree_with_their_general_forms() {
    for format in [0, 1, 2, 17] {
        assert!(fit(|h| h.addr_format = format).is_ok(), "{format}");
    }
    assert_eq!(
        reason(|h| h.addr_format = 9),
        "addr_format: FI_ADDR_STR was asked for; offered is FI_SOCKADDR_IN"
    );
    assert!(fit(|h| h.addr_format = 3).is_err());
}

#[test]
fn threading_is_refused_only_if_the_provider_is_weaker() {
    let mut weak = offer();
    weak.domain.threading = Threading::Domain;
    let safe = hints(|h| h.domain.threading = Threading::Safe);
    let refused = match_info(&weak, Some(&safe), V2_6).unwrap_err();
    assert_eq!(
        refused[0].to_string(),
        "domain_attr.threading: FI_THREAD_SAFE was asked for; offered is FI_THREAD_DOMAIN"
    );
    for threading in [Threading::Completion, Threading::Fid, Threading::Endpoint] {
        let info = fit(|h| h.domain.threading = threading).unwrap();
        assert_eq!(info.domain.threading, threading);
    }
}

#[test]
fn automatic_progress_is_refused_by_a_provider_without_it() {
    assert_eq!(
        reason(|h| h.domain.data_progress = Progress::Auto),
        "domain_attr.progress: FI_PROGRESS_AUTO was asked for; offered is FI_PROGRESS_MANUAL"
    );
    assert!(fit(|h| h.domain.control_progress = Progress::Auto).is_ok());
}

#[test]
fn progress_becomes_what_was_asked_for() {
    let mut auto = offer();
    auto.domain.data_progress = Progress::Auto;
    let manual = hints(|h| h.domain.data_progress = Progress::Manual);
    let info = match_info(&auto, Some(&manual), V2_6).unwrap();
    assert_eq!(info.domain.data_progress, Progress::Manual);
    assert_eq!(info.domain.control_progress, Progress::Manual);
    let control = hints(|h| h.domain.control_progress = Progress::Auto);
    let info = match_info(&auto, Some(&control), V2_6).unwrap();
    assert_eq!(info.domain.control_progress, Progress::Auto);
    assert_eq!(info.domain.data_progress, Progress::Manual);
}

#[test]
fn threads_and_locks_are_not_given_unasked() {
    let mut rich = offer();
    rich.domain.data_progress = Progress::Auto;
    rich.domain.control_progress = Progress::Auto;
    for caps in [&mut rich.caps, &mut rich.tx.caps, &mut rich.rx.caps] {
        *caps |= Caps::TRIGGER;
    }
    for asked in [None, Some(&hints(|h| h.caps = Caps::MSG))] {
        let info = match_info(&rich, asked, V2_6).unwrap();
        assert_eq!(info.domain.data_progress, Progress::Manual);
        assert_eq!(info.domain.control_progress, Progress::Manual);
    }
    let asked = hints(|h| {
        h.caps = Caps::MSG;
        h.domain.data_progress = Progress::Auto;
    });
    let info = match_info(&rich, Some(&asked), V2_6).unwrap();
    assert!(!info.caps.contains(Caps::TRIGGER));
    assert!(!(info.tx.caps | info.rx.caps).contains(Caps::TRIGGER));
    assert_eq!(info.domain.data_progress, Progress::Auto);
    assert_eq!(info.domain.control_progress, Progress::Auto);
    let asked = hints(|h| h.caps = Caps::MSG | Caps::TRIGGER);
    let info = match_info(&rich, Some(&asked), V2_6).unwrap();
    assert!(info.caps.contains(Caps::TRIGGER));
    assert!((info.tx.caps & info.rx.caps).contains(Caps::TRIGGER));
}

#[test]
fn resource_management_and_address_vectors_have_to_agree() {
    let mut other = offer();
    other.domain.resource_mgmt = ResourceMgmt::Disabled;
    other.domain.av_type = AvType::Map;
    let asked = hints(|h| {
        h.domain.resource_mgmt = ResourceMgmt::Enabled;
        h.domain.av_type = AvType::Table;
    });
    let refused = match_info(&other, Some(&asked), V2_6).unwrap_err();
    let fields: Vec<&str> = refused.iter().map(Reason::field).collect();
    assert_eq!(fields, ["domain_attr.resource_mgmt", "domain_attr.av_type"]);
    let info = fit(|h| h.domain.av_type = AvType::Map).unwrap();
    assert_eq!(info.domain.av_type, AvType::Map);
    // Open MPI 4.1 asks for FI_AV_MAP whatever there is.
    let mut tables = offer();
    tables.domain.av_type = AvType::Table;
    let asked = hints(|h| h.domain.av_type = AvType::Map);
    let info = match_info(&tables, Some(&asked), V2_6).unwrap();
    assert_eq!(info.domain.av_type, AvType::Table);
}

#[test]
fn sizes_are_limits_and_become_what_was_asked_for() {
    let info = fit(|h| {
        h.tx.size = 16;
        h.tx.inject_size = 64;
        h.rx.iov_limit = 2;
        h.ep.max_msg_size = 4096;
    })
    .unwrap();
    assert_eq!((info.tx.size, info.tx.inject_size), (16, 64));
    assert_eq!((info.rx.iov_limit, info.rx.size), (2, 1024));
    assert_eq!(info.ep.max_msg_size, 1 << 30, "the limit stays what it is");
    assert_eq!(
        reason(|h| h.rx.size = 1025),
        "rx_attr.size: 1025 was asked for; offered is 1024"
    );
}

#[test]
fn a_size_above_the_default_is_given_up_to_the_largest() {
    let mut roomy = offer();
    (roomy.tx.max_size, roomy.rx.max_size) = (1 << 16, 1 << 15);
    let asked = |tx, rx| {
        let hints = hints(|h| (h.tx.size, h.rx.size) = (tx, rx));
        match_info(&roomy, Some(&hints), V2_6).map(|info| (info.tx.size, info.rx.size))
    };
    assert_eq!(asked(0, 0), Ok((1024, 1024)), "unasked it is the default");
    assert_eq!(asked(4096, 512), Ok((4096, 512)));
    assert_eq!(asked(1 << 16, 1 << 15), Ok((1 << 16, 1 << 15)));
    let refused = asked(1 << 16, 1 + (1 << 15)).unwrap_err();
    assert_eq!(
        refused[0].to_string(),
        "rx_attr.size: 32769 was asked for; offered is 32768"
    );
    let info = match_info(&roomy, None, V2_6).expect("it fits");
    assert_eq!((info.tx.max_size, info.rx.max_size), (0, 0));
}

#[test]
fn operation_flags_and_orders_are_subsets() {
    let info = fit(|h| h.tx.op_flags = Flags::COMPLETION).unwrap();
    assert_eq!(info.tx.op_flags, Flags::COMPLETION);
    assert!(reason(|h| h.tx.op_flags = Flags::FENCE).starts_with("tx_attr.op_flags: FI_FENCE"));
    assert!(reason(|h| h.rx.msg_order = Order::SAR).starts_with("rx_attr.msg_order: FI_ORDER_SAR"));
    assert!(reason(|h| h.tx.comp_order = Order::RAR).starts_with("tx_attr.comp_order"));
}

#[test]
fn a_general_order_implies_those_among_rma_and_atomics() {
    let info = fit(|h| h.tx.msg_order = Order::RMA_RAW | Order::ATOMIC_RAW).unwrap();
    assert!(info.tx.msg_order.contains(Order::RMA_RAW | Order::RAW));
    assert!(fit(|h| h.tx.msg_order = Order::RMA_WAR).is_err());
}

#[test]
fn contexts_are_counted_and_may_be_shared() {
    let text = reason(|h| h.ep.tx_ctx_cnt = 2);
    assert_eq!(text, "ep_attr.tx_ctx_cnt: 2 was asked for; offered is 1");
    let text = reason(|h| h.ep.rx_ctx_cnt = usize::MAX);
    assert!(text.contains("FI_SHARED_CONTEXT was asked for"), "{text}");
    let mut shared = offer();
    shared.domain.max_ep_srx_ctx = 8;
    let asked = hints(|h| h.ep.rx_ctx_cnt = usize::MAX);
    assert!(match_info(&shared, Some(&asked), V2_6).is_ok());
    shared.ep.rx_ctx_cnt = usize::MAX;
    let refused = match_info(&shared, Some(&hints(|_| {})), V2_6).unwrap_err();
    assert!(matches!(
        refused[0],
        Reason::Demands {
            field: "ep_attr.rx_ctx_cnt",
            ..
        }
    ));
}

#[test]
fn ordered_sizes_and_tags_matter_only_with_their_capability() {
    assert!(fit(|h| h.ep.max_order_war_size = 8).is_ok());
    let text = reason(|h| {
        h.caps = Caps::RMA;
        h.ep.max_order_war_size = 8;
    });
    assert_eq!(
        text,
        "ep_attr.max_order_war_size: 8 was asked for; offered is 0"
    );
    let mut narrow = offer();
    narrow.ep.mem_tag_format = 0xaaaa;
    let wide = hints(|h| {
        h.caps = Caps::TAGGED;
        h.ep.mem_tag_format = 0xaaaa_aaaa;
    });
    let refused = match_info(&narrow, Some(&wide), V2_6).unwrap_err();
    assert_eq!(
        refused[0].to_string(),
        "ep_attr.mem_tag_format: a tag of 32 bits was asked for; offered is 16 bits"
    );
}

#[test]
fn names_are_compared_without_case() {
    assert!(fit(|h| h.domain.name = "ETH0".into()).is_ok());
    assert!(fit(|h| h.fabric.prov_name = "TCP".into()).is_ok());
    assert_eq!(
        reason(|h| h.fabric.name = "ib0".into()),
        "fabric_attr.name: ib0 was asked for; offered is 192.0.2.0/24"
    );
}

#[test]
fn a_stack_of_providers_is_no_single_provider() {
    assert!(provider_is_named("tcp", "tcp"));
    assert!(provider_is_named("tcp;^ofi_rxm", "tcp"));
    assert!(provider_is_named("^shm", "tcp"));
    assert!(!provider_is_named("^tcp", "tcp"));
    assert!(!provider_is_named("tcp;ofi_rxm", "tcp"));
    assert!(!provider_is_named("ofi_rxm", "tcp"));
}

#[test]
fn a_stack_is_found_by_any_of_its_names() {
    for asked in ["udp;ofi_rxd", "OFI_RXD;udp", "ofi_rxd", "udp", "^tcp"] {
        assert!(provider_is_named(asked, "udp;ofi_rxd"), "{asked}");
    }
    for asked in [
        "^ofi_rxd",
        "^udp",
        "tcp;ofi_rxd",
        "udp;ofi_rxm",
        "udp;^ofi_rxd",
    ] {
        assert!(!provider_is_named(asked, "udp;ofi_rxd"), "{asked}");
    }
}

#[test]
fn a_newer_provider_or_protocol_is_not_there() {
    assert_eq!(
        reason(|h| h.fabric.prov_version = 207 << 16),
        "fabric_attr.prov_version: 207.0 was asked for; offered is 206.0"
    );
    assert!(reason(|h| h.ep.protocol_version = 2).starts_with("ep_attr.protocol_version"));
    assert!(reason(|h| h.ep.protocol = 6).starts_with("ep_attr.protocol: protocol 6"));
}

#[test]
fn fields_that_old_programs_lack_are_not_read() {
    let asked = hints(|h| h.domain.mr_cnt = 5);
    assert!(match_info(&offer(), Some(&asked), V1_4).is_ok());
    assert!(match_info(&offer(), Some(&asked), V1_5).is_err());
}

#[test]
fn formats_of_addresses_agree_with_their_general_forms() {
    let mut v4 = offer();
    v4.addr_format = 2;
    // FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IP; FI_SOCKADDR_IN6, FI_SOCKADDR_IB, FI_ADDR_STR.
    for (format, fits) in [
        (0, true),
        (1, true),
        (2, true),
        (17, true),
        (3, false),
        (4, false),
        (9, false),
    ] {
        let asked = hints(|h| h.addr_format = format);
        let info = match_info(&v4, Some(&asked), V2_6);
        assert_eq!(
            info.map(|info| info.addr_format).ok(),
            fits.then_some(2),
            "{format}"
        );
    }
}

#[test]
fn modes_that_an_application_offers_are_not_required_of_it() {
    const MSG_PREFIX: u64 = 1 << 58;
    for mode in [MSG_PREFIX, u64::MAX] {
        let offers = hints(|h| (h.mode, h.tx.mode, h.rx.mode) = (mode, mode, mode));
        let info = match_info(&offer(), Some(&offers), V2_6).expect("it fits");
        assert_eq!((info.mode, info.tx.mode, info.rx.mode), (0, 0, 0));
        assert_eq!(info.ep.msg_prefix_size, 0);
    }
}

#[test]
fn old_registration_modes_are_given_as_asked() {
    let mode = |asked, version| {
        let asked = hints(|h| h.domain.mr_mode = asked);
        match_info(&offer(), Some(&asked), version).map(|info| info.domain.mr_mode)
    };
    assert_eq!(mode(MrMode::empty(), V1_4), Ok(MrMode::BASIC));
    assert_eq!(mode(MrMode::SCALABLE, V1_4), Ok(MrMode::SCALABLE));
    assert_eq!(mode(MrMode::BASIC, V2_6), Ok(MrMode::BASIC));
    assert_eq!(mode(MrMode::LOCAL, V2_6), Ok(MrMode::empty()));
    assert!(mode(MrMode::LOCAL, V1_4).is_err());
    assert!(mode(MrMode::BASIC | MrMode::LOCAL, V2_6).is_err());
}

#[test]
fn registration_rules_have_to_be_accepted_by_a_target_of_rma() {
    let mut strict = offer();
    strict.domain.mr_mode = MrMode::VIRT_ADDR | MrMode::LOCAL;
    let asked = hints(|h| {
        h.caps = Caps::RMA;
        h.domain.mr_mode = MrMode::LOCAL;
    });
    let refused = match_info(&strict, Some(&asked), V2_6).unwrap_err();
    assert_eq!(
        refused[0].to_string(),
        "domain_attr.mr_mode: FI_MR_VIRT_ADDR is needed; the hints allow FI_MR_LOCAL"
    );
    let no_target = hints(|h| {
        h.caps = Caps::MSG;
        h.domain.mr_mode = MrMode::LOCAL;
    });
    assert!(match_info(&strict, Some(&no_target), V2_6).is_ok());
}

#[test]
fn a_request_that_ignores_the_rules_of_targets_is_no_target() {
    let mut strict = offer();
    strict.domain.mr_mode |= MrMode::VIRT_ADDR;
    let asked = hints(|h| h.caps = Caps::RMA);
    let info = match_info(&strict, Some(&asked), V2_6).unwrap();
    assert!(!info.caps.intersects(Caps::REMOTE_READ | Caps::REMOTE_WRITE));
    assert!(info.caps.contains(Caps::READ | Caps::WRITE));
}

#[test]
fn real_programs_find_the_offer() {
    // Open MPI 4.1.4, mtl/ofi, API 1.5.
    let open_mpi = hints(|h| {
        h.caps = Caps::TAGGED | Caps::DIRECTED_RECV | Caps::LOCAL_COMM | Caps::REMOTE_COMM;
        h.mode = 1 << 59 | 1 << 52;
        h.ep.kind = EpType::Rdm;
        h.domain.threading = Threading::Domain;
        h.domain.resource_mgmt = ResourceMgmt::Enabled;
        h.domain.av_type = AvType::Map;
        h.domain.cq_data_size = 4;
        h.tx.op_flags = Flags::COMPLETION;
        h.tx.msg_order = Order::SAS;
        h.rx.msg_order = Order::SAS;
    });
    assert!(match_info(&offer(), Some(&open_mpi), V1_5).is_ok());
    let mut one_host = offer();
    one_host.caps.remove(Caps::REMOTE_COMM);
    let refused = match_info(&one_host, Some(&open_mpi), V1_5).unwrap_err();
    assert_eq!(refused.len(), 1);
    assert!(
        refused[0]
            .to_string()
            .starts_with("caps: FI_REMOTE_COMM was asked for")
    );
}

#[test]
fn what_old_applications_do_not_know_is_not_listed_unasked() {
    let directed = Caps::TAGGED_DIRECTED_RECV | Caps::EXACT_DIRECTED_RECV;
    let rare = Caps::SOURCE_ERR | directed | Caps::TAGGED_MULTI_RECV;
    let mut offer = offer();
    offer.caps |= rare;
    offer.rx.caps |= rare;
    let of = |hints: Option<&Info>| match_info(&offer, hints, V2_6).expect("it fits");
    assert!(!of(None).caps.intersects(rare));
    assert!(!of(None).rx.caps.intersects(rare));
    assert!(!of(Some(&Info::default())).rx.caps.intersects(rare));
    let hints = Info {
        caps: Caps::TAGGED | Caps::SOURCE | rare,
        ..Info::default()
    };
    assert!(of(Some(&hints)).caps.contains(rare));
    assert!(of(Some(&hints)).rx.caps.contains(rare));
}

#[test]
fn variable_messages_of_old_applications_are_not_exact_receives() {
    let variable_msg = Caps::EXACT_DIRECTED_RECV;
    let mut offer = offer();
    offer.caps |= variable_msg;
    offer.rx.caps |= variable_msg;
    let mut hints = Info {
        caps: Caps::TAGGED | variable_msg,
        ..Info::default()
    };
    assert!(match_info(&offer, Some(&hints), V2_6).is_ok());
    assert!(match_info(&offer, Some(&hints), V1_5).is_err());
    (hints.caps, hints.rx.caps) = (Caps::TAGGED, variable_msg);
    assert!(match_info(&offer, Some(&hints), V1_5).is_err());
}

#[test]
fn formats_of_addresses_are_known_by_their_names() {
    for format in 0..18 {
        assert_eq!(format_of_name(&format_name(format)), Some(format));
    }
    assert_eq!(format_of_name("fi_sockaddr_in6"), Some(3));
    assert_eq!(format_of_name("FI_SOCKADDR_XY"), None);
}

#[test]
fn traffic_classes_are_what_the_application_says() {
    let mut hints = Info::default();
    (hints.tx.tclass, hints.domain.tclass) = (0x201, 0x12e);
    let info = match_info(&offer(), Some(&hints), V2_6).expect("it fits");
    assert_eq!((info.tx.tclass, info.domain.tclass), (0x201, 0x12e));
}

#[test]
fn limits_of_contexts_are_returned_to_requests_for_contexts() {
    let mut roomy = offer();
    (roomy.domain.max_ep_tx_ctx, roomy.domain.max_ep_rx_ctx) = (16, 16);
    (roomy.domain.max_ep_stx_ctx, roomy.domain.max_ep_srx_ctx) = (256, 128);
    let limits = |offer: &Info, set: fn(&mut Info)| {
        let domain = match_info(offer, Some(&hints(set)), V2_6)
            .expect("it fits")
            .domain;
        let own = [domain.max_ep_tx_ctx, domain.max_ep_rx_ctx];
        [own, [domain.max_ep_stx_ctx, domain.max_ep_srx_ctx]].concat()
    };
    for unasked in [|_: &mut Info| (), |h: &mut Info| h.ep.tx_ctx_cnt = 1] {
        assert_eq!(limits(&roomy, unasked), [1, 1, 0, 0]);
    }
    let asked: [fn(&mut Info); 4] = [
        |h| h.ep.rx_ctx_cnt = 2,
        |h| h.ep.tx_ctx_cnt = usize::MAX,
        |h| h.domain.max_ep_stx_ctx = 1,
        |h| h.domain.max_ep_tx_ctx = 4,
    ];
    for set in asked {
        assert_eq!(limits(&roomy, set), [16, 16, 256, 128]);
    }
    roomy.ep.kind = EpType::Msg;
    assert_eq!(limits(&roomy, |_| ()), [1, 1, 0, 128]);
}
