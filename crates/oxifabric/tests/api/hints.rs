//! The library offers what hints ask for, or gives a reason why not.

use oxifabric::{
    AvType, Backend, Caps, Dgram, Hints, Info, Level, MrMode, Order, Progress, ResourceMgmt,
};

/// Returns the best offer of tcp or shm endpoints that meets further requirements.
fn best(backend: Backend, provider: &str, ask: impl FnOnce(Hints) -> Hints) -> Info {
    let hints = Hints::new().caps(Caps::MSG | Caps::TAGGED | Caps::RMA);
    ask(hints.provider(provider)).best(backend).unwrap()
}

#[test]
fn offers_are_what_was_asked_for() {
    for provider in ["tcp", "shm"] {
        let info = best(Backend::builtin(), provider, |hints| {
            hints
                .progress(Progress::Auto)
                .resource_management(ResourceMgmt::Enabled)
                .address_vector_type(AvType::Table)
                .mr_mode(MrMode::VIRT_ADDR)
                .order(Order::SAS)
                .completion_level(Level::Transmit)
                .inject_size(64)
                .tx_size(100)
                .rx_size(200)
                .max_message_size(1 << 20)
                .cq_data_size(8)
                .provider_version(1, 0)
        });
        assert_eq!(info.provider(), provider);
        assert_eq!(info.progress(), Progress::Auto);
        assert_eq!(info.resource_management(), ResourceMgmt::Enabled);
        assert_eq!(info.address_vector_type(), AvType::Table);
        assert!(MrMode::VIRT_ADDR.contains(info.mr_mode()));
        assert!(info.tx_order().contains(Order::SAS) && info.rx_order().contains(Order::SAS));
        assert!(info.inject_size() >= 64 && info.cq_data_size() >= 8 && info.key_size() > 0);
        assert!(info.tx_size() >= 100 && info.rx_size() >= 200);
        assert!(info.max_message_size() >= 1 << 20);
    }
}

/// Returns hints of which no provider meets the last requirement, and the field that the reason names.
fn impossible() -> Vec<(Hints, &'static str)> {
    let (rdm, most) = (Hints::new().caps(Caps::TAGGED | Caps::RMA), usize::MAX);
    let ask = |ask: &dyn Fn(Hints) -> Hints| ask(rdm.clone());
    vec![
        (ask(&|all| all.inject_size(most)), "tx_attr.inject_size"),
        (ask(&|all| all.tx_size(most)), "tx_attr.size"),
        (ask(&|all| all.rx_size(most)), "rx_attr.size"),
        (ask(&|all| all.completions_in_order()), "tx_attr.comp_order"),
        (ask(&|all| all.bytes_in_order()), "rx_attr.comp_order"),
        (ask(&|all| all.cq_data_size(64)), "domain_attr.cq_data_size"),
        (ask(&|all| all.counters(most)), "domain_attr.cntr_cnt"),
        (ask(&|all| all.regions(most)), "domain_attr.mr_cnt"),
        (
            ask(&|all| all.authorization_key(b"key")),
            "domain_attr.auth_key_size",
        ),
        (
            ask(&|all| all.max_ordered_write_after_read(most)),
            "ep_attr.max_order_war_size",
        ),
        (
            ask(&|all| all.provider_version(9000, 0)),
            "fabric_attr.prov_version",
        ),
        (ask(&|all| all.protocol(0xffff, 0)), "ep_attr.protocol"),
        (
            ask(&|all| all.domain_caps(Caps::ATOMIC)),
            "domain_attr.caps",
        ),
        (ask(&|all| all.fabric("nowhere")), "fabric_attr.name"),
        (ask(&|all| all.domain("nothing")), "domain_attr.name"),
        (ask(&|all| all.kind::<Dgram>()), "caps"),
    ]
}

#[test]
fn each_requirement_that_no_provider_meets_is_named() {
    for (hints, field) in impossible() {
        let why = match hints.best(Backend::builtin()) {
            Ok(info) => panic!("{field} is met by {info:?}"),
            Err(why) => why,
        };
        let reasons = why.rejections().iter().flat_map(|one| &one.reasons);
        let named = reasons.filter(|reason| reason.contains(field)).count();
        assert!(named > 0, "{field}: {why}");
    }
}

#[test]
fn another_library_gets_the_requirements_too() {
    let Some(system) = crate::system() else {
        return;
    };
    let info = best(system, "tcp", |hints| {
        hints.inject_size(16).order(Order::SAS)
    });
    assert!(info.inject_size() >= 16 && info.tx_order().contains(Order::SAS));
    let refused = Hints::new().provider("tcp").inject_size(usize::MAX);
    assert!(refused.best(system).is_err());
}
