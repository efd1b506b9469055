//! Where endpoints may be, under which filter, and what is said of the others; over providers that only describe.

use std::net::SocketAddr;

use oxifabric_provider::device::Unresolved;
use oxifabric_types::{Address, Caps, EpType, Errno, Info};

use super::*;

/// The host of these tests: one network interface with two addresses, and the loopback.
const PLACES: [(&str, &str, &str); 3] = [
    ("192.0.2.2:0", "eth0", "192.0.2.0/24"),
    ("[2001:db8::2]:0", "eth0", "2001:db8::/64"),
    ("127.0.0.1:0", "lo", "127.0.0.1/32"),
];

static NET: ProviderEntry = ProviderEntry {
    name: "net",
    requires_auto_progress: false,
    reads_descriptors: false,
    has_engine: |_| true,
    listed: Listed::Always,
    version: 5 << 16,
    parameters: || &[],
    infos: net_offers,
    obstacle: || None,
    settle: |_, _| {},
    resolve: net_resolve,
    source_for: net_source_for,
    fresh_name: || None,
    fabric_ops: |_| None,
    open_domain: |_| Err(Errno::NOSYS),
    open_endpoint: |_, _, _| Err(Errno::NOSYS),
    open_pair: |_, _| Err(Errno::NOSYS),
    msg: None,
};

static MEM: ProviderEntry = ProviderEntry {
    name: "mem",
    infos: mem_offers,
    resolve: mem_resolve,
    source_for: |_| None,
    fresh_name: || Some(Address::Name("mem://1".into())),
    ..NET
};

/// A provider without a device on this host.
static GONE: ProviderEntry = ProviderEntry {
    name: "gone",
    infos: Vec::new,
    ..NET
};

/// A provider that is set up wrongly.
static STUCK: ProviderEntry = ProviderEntry {
    name: "stuck",
    obstacle: || Some("file.toml, line 3: no such key".to_owned()),
    ..NET
};

/// A provider that has to be asked for by name.
static SHY: ProviderEntry = ProviderEntry {
    name: "shy",
    listed: Listed::ByName,
    ..NET
};

/// A provider whose domains have a thread in any case.
static BUSY: ProviderEntry = ProviderEntry {
    name: "busy",
    requires_auto_progress: true,
    infos: busy_offers,
    ..NET
};

static REGISTRY: Registry = Registry::new(&[&MEM, &NET, &GONE]);

fn inet(text: &str) -> Address {
    Address::Inet(text.parse().expect("an address"))
}

fn net_offers() -> Vec<Info> {
    let offer = |&(at, domain, fabric): &(&str, &str, &str)| {
        let mut info = Info::default();
        info.domain.caps = Caps::LOCAL_COMM;
        info.domain.caps.set(Caps::REMOTE_COMM, domain != "lo");
        info.caps = Caps::MSG | Caps::SEND | Caps::RECV | info.domain.caps;
        info.ep.kind = EpType::Rdm;
        info.domain.name = domain.to_owned();
        info.fabric.name = fabric.to_owned();
        info.src = Some(inet(at));
        info.addr_format = if at.starts_with('[') { 3 } else { 2 };
        info
    };
    PLACES.iter().map(offer).collect()
}

fn busy_offers() -> Vec<Info> {
    let mut offers = net_offers();
    for offer in &mut offers {
        offer.domain.data_progress = Progress::Auto;
        offer.domain.control_progress = Progress::Auto;
    }
    offers
}

fn net_resolve(
    node: Option<&str>,
    service: Option<&str>,
    source: bool,
    _numeric: bool,
    format: u32,
) -> Result<Vec<Address>, Unresolved> {
    if source && node.is_none() && service == Some("*") {
        return Ok(Vec::new());
    }
    let nodes = match node {
        Some("both") => vec!["192.0.2.9", "[2001:db8::9]"],
        Some("nowhere") => vec![],
        Some(node) => vec![node],
        None if source => vec!["0.0.0.0", "[::]"],
        None => vec!["127.0.0.1"],
    };
    let port = service.unwrap_or("0");
    let found = nodes.iter().map(|node| inet(&format!("{node}:{port}")));
    let fits = |at: &Address| match at {
        Address::Inet(at) => format == 0 || at.is_ipv4() == (format == 2),
        Address::Name(_) | Address::Efa(_) => false,
    };
    let found: Vec<Address> = found.filter(fits).collect();
    if found.is_empty() {
        let why = format!("{node:?} has no address");
        return Err(Unresolved {
            errno: Errno::NODATA,
            why,
        });
    }
    Ok(found)
}

/// Routes by family and whether the peer is this host.
fn net_source_for(dest: &Address) -> Option<Address> {
    let Address::Inet(dest) = dest else {
        return None;
    };
    Some(inet(match dest {
        SocketAddr::V4(at) if at.ip().is_loopback() => "127.0.0.1:0",
        SocketAddr::V4(_) => "192.0.2.2:0",
        SocketAddr::V6(_) => "[2001:db8::2]:0",
    }))
}

fn mem_offers() -> Vec<Info> {
    let mut info = Info {
        caps: Caps::MSG | Caps::SEND | Caps::RECV | Caps::LOCAL_COMM,
        addr_format: 9,
        ..Info::default()
    };
    info.ep.kind = EpType::Rdm;
    info.domain.name = "mem".to_owned();
    info.domain.caps = Caps::LOCAL_COMM;
    info.fabric.name = "mem".to_owned();
    vec![info]
}

fn mem_resolve(
    node: Option<&str>,
    service: Option<&str>,
    _source: bool,
    _numeric: bool,
    _format: u32,
) -> Result<Vec<Address>, Unresolved> {
    let (node, service) = (node.unwrap_or("*"), service.unwrap_or("*"));
    Ok(vec![Address::Name(
        format!("mem://{node}:{service}").into(),
    )])
}

fn answer(request: Request<'_>) -> Answer {
    let version = 2 << 16 | 6;
    REGISTRY.query_filtered(&Request { version, ..request }, &NameFilter::default())
}

/// Asks the provider `net` alone.
fn ask_net(request: Request<'_>, set: impl FnOnce(&mut Info)) -> Answer {
    let mut hints = Info::default();
    hints.fabric.prov_name = "net".to_owned();
    set(&mut hints);
    answer(Request {
        hints: Some(&hints),
        ..request
    })
}

/// Where entries are: domain, local address, peer.
fn places_of(answer: &Answer) -> Vec<(String, String, String)> {
    let text = |at: &Option<Address>| at.as_ref().map_or("-".to_owned(), Address::to_string);
    let infos = answer.infos.iter();
    infos
        .map(|info| (info.domain.name.clone(), text(&info.src), text(&info.dest)))
        .collect()
}

fn expect(answer: &Answer, places: &[(&str, &str, &str)]) {
    let found = places_of(answer);
    let found: Vec<_> = found
        .iter()
        .map(|(a, b, c)| (&a[..], &b[..], &c[..]))
        .collect();
    assert_eq!(found, places);
}

#[test]
fn every_address_of_every_provider_is_returned_in_order() {
    let answer = answer(Request::default());
    expect(
        &answer,
        &[
            ("mem", "mem://1", "-"),
            ("eth0", "192.0.2.2:0", "-"),
            ("eth0", "[2001:db8::2]:0", "-"),
            ("lo", "127.0.0.1:0", "-"),
        ],
    );
    assert_eq!(answer.infos[1].fabric.prov_name, "net");
    assert_eq!(answer.infos[1].fabric.prov_version, 5 << 16);
}

#[test]
fn the_peer_is_resolved_and_the_route_chooses_the_interface() {
    let request = Request {
        node: Some("192.0.2.9"),
        service: Some("7"),
        ..Request::default()
    };
    let answer = ask_net(request, |_| {});
    expect(&answer, &[("eth0", "192.0.2.2:0", "192.0.2.9:7")]);
}

#[test]
fn a_node_with_several_addresses_gives_an_entry_for_each() {
    let request = Request {
        node: Some("both"),
        service: Some("7"),
        ..Request::default()
    };
    let answer = ask_net(request, |_| {});
    expect(
        &answer,
        &[
            ("eth0", "192.0.2.2:0", "192.0.2.9:7"),
            ("eth0", "[2001:db8::2]:0", "[2001:db8::9]:7"),
        ],
    );
    assert_eq!(
        (answer.infos[0].addr_format, answer.infos[1].addr_format),
        (2, 3)
    );
    let only_v6 = ask_net(request, |hints| hints.addr_format = 3);
    expect(&only_v6, &[("eth0", "[2001:db8::2]:0", "[2001:db8::9]:7")]);
}

#[test]
fn a_source_is_the_address_of_its_interface() {
    let request = Request {
        node: Some("127.0.0.1"),
        service: Some("47592"),
        flags: FI_SOURCE,
        ..Request::default()
    };
    expect(&ask_net(request, |_| {}), &[("lo", "127.0.0.1:47592", "-")]);
}

#[test]
fn an_address_that_the_application_names_is_not_held_against_it() {
    let request = Request {
        node: Some("127.0.0.1"),
        ..Request::default()
    };
    let remote = |hints: &mut Info| hints.caps = Caps::MSG | Caps::REMOTE_COMM;
    expect(
        &ask_net(request, remote),
        &[("lo", "127.0.0.1:0", "127.0.0.1:0")],
    );
    let everywhere = ask_net(Request::default(), remote);
    assert_eq!(
        everywhere.infos.len(),
        2,
        "the loopback reaches no other host"
    );
}

#[test]
fn what_was_answered_is_found_again() {
    let request = Request {
        node: Some("127.0.0.1"),
        flags: FI_SOURCE,
        ..Request::default()
    };
    let first = ask_net(request, |_| {}).infos.remove(0);
    let again = ask_net(Request::default(), |hints| {
        *hints = Info { src: None, ..first };
    });
    expect(&again, &[("lo", "127.0.0.1:0", "-")]);
}

#[test]
fn a_wildcard_source_belongs_to_no_interface_unless_one_is_named() {
    let request = Request {
        service: Some("80"),
        flags: FI_SOURCE,
        ..Request::default()
    };
    expect(
        &ask_net(request, |_| {}),
        &[("net", "0.0.0.0:80", "-"), ("net", "[::]:80", "-")],
    );
    let named = ask_net(request, |hints| hints.domain.name = "lo".to_owned());
    expect(&named, &[("lo", "127.0.0.1:80", "-")]);
}

#[test]
fn addresses_of_the_hints_are_kept() {
    let answer = ask_net(Request::default(), |hints| {
        hints.src = Some(inet("192.0.2.2:1"));
        hints.dest = Some(inet("192.0.2.9:2"));
    });
    expect(&answer, &[("eth0", "192.0.2.2:1", "192.0.2.9:2")]);
    let routed = ask_net(Request::default(), |hints| {
        hints.dest = Some(inet("127.0.0.1:2"))
    });
    expect(&routed, &[("lo", "127.0.0.1:0", "127.0.0.1:2")]);
}

#[test]
fn hints_say_which_peer_a_source_talks_to() {
    let request = Request {
        node: Some("192.0.2.2"),
        flags: FI_SOURCE,
        ..Request::default()
    };
    let answer = ask_net(request, |hints| {
        hints.src = Some(inet("127.0.0.1:9"));
        hints.dest = Some(inet("192.0.2.9:2"));
    });
    expect(&answer, &[("eth0", "192.0.2.2:0", "192.0.2.9:2")]);
}

#[test]
fn a_source_that_no_interface_has_is_returned_under_the_providers_name() {
    let answer = ask_net(Request::default(), |hints| {
        hints.src = Some(inet("198.51.100.1:0"))
    });
    expect(&answer, &[("net", "198.51.100.1:0", "-")]);
}

#[test]
fn names_are_addresses_too() {
    let mut hints = Info::default();
    hints.fabric.prov_name = "mem".to_owned();
    let request = Request {
        node: Some("a"),
        service: Some("b"),
        hints: Some(&hints),
        ..Request::default()
    };
    expect(&answer(request), &[("mem", "mem://1", "mem://a:b")]);
    let flags = FI_SOURCE;
    expect(
        &answer(Request { flags, ..request }),
        &[("mem", "mem://a:b", "-")],
    );
}

#[test]
fn every_refusal_says_why() {
    let answer = ask_net(Request::default(), |hints| hints.caps = Caps::ATOMIC);
    assert!(answer.infos.is_empty());
    let text: Vec<String> = answer.refusals.iter().map(Refusal::to_string).collect();
    assert_eq!(
        text[0],
        "mem: fabric_attr.prov_name: net was asked for; offered is mem"
    );
    assert_eq!(
        text[1],
        "net eth0 FI_EP_RDM: caps: FI_ATOMIC was asked for and is not offered"
    );
    assert_eq!(text.len(), 5);
}

#[test]
fn a_provider_without_a_device_says_so() {
    let refusals = answer(Request::default()).refusals;
    assert_eq!(refusals.len(), 1);
    assert_eq!((refusals[0].provider, &refusals[0].offer[..]), ("gone", ""));
}

#[test]
fn a_node_that_is_unknown_is_named() {
    let request = Request {
        node: Some("nowhere"),
        ..Request::default()
    };
    let answer = ask_net(request, |_| {});
    let refusal = answer
        .refusals
        .iter()
        .find(|refusal| refusal.provider == "net");
    assert_eq!(
        refusal.expect("net refuses").to_string(),
        "net: node: Some(\"nowhere\") has no address"
    );
}

#[test]
fn a_source_that_says_nothing_is_any_interface() {
    let request = |flags, service| Request {
        flags,
        service,
        ..Request::default()
    };
    let named = ask_net(request(FI_SOURCE, Some("*")), |_| {});
    let any = ask_net(request(0, None), |_| {});
    assert!(!any.infos.is_empty());
    assert_eq!(places_of(&named), places_of(&any));
}

#[test]
fn a_source_needs_a_node_or_a_service() {
    let request = Request {
        flags: FI_SOURCE,
        ..Request::default()
    };
    let answer = answer(request);
    assert!(answer.infos.is_empty());
    assert!(
        answer
            .refusals
            .iter()
            .all(|refusal| refusal.reasons[0].field() == "flags")
    );
}

#[test]
fn the_filter_lets_in_or_keeps_out() {
    let providers = |filter: &str| {
        let answer = REGISTRY.query_filtered(&Request::default(), &NameFilter::parse(filter));
        let infos = answer.infos.into_iter();
        let mut names: Vec<String> = infos.map(|info| info.fabric.prov_name).collect();
        names.dedup();
        names
    };
    assert_eq!(providers(""), ["mem", "net"]);
    assert_eq!(providers("NET"), ["net"]);
    assert_eq!(
        providers("net, mem"),
        ["mem", "net"],
        "the order is the registry's"
    );
    assert_eq!(providers("^mem,gone"), ["net"]);
    assert_eq!(providers("net;ofi_rxm"), [""; 0]);
}

#[test]
fn why_lists_one_row_for_each_reason() {
    let mut hints = Info::default();
    hints.fabric.prov_name = "mem".to_owned();
    hints.caps = Caps::RMA;
    hints.ep.kind = EpType::Msg;
    let request = Request {
        version: 2 << 16 | 6,
        hints: Some(&hints),
        ..Request::default()
    };
    let rows = REGISTRY.why(&request);
    let of_mem = rows.iter().filter(|(provider, ..)| *provider == "mem");
    let fields: Vec<&str> = of_mem.map(|(_, _, reason)| reason.field()).collect();
    assert_eq!(fields, ["ep_attr.type", "caps"]);
    assert_eq!(rows[0].1, "mem FI_EP_RDM");
}

#[test]
fn a_shy_provider_is_offered_if_it_is_asked_for_by_name() {
    let is_offered = |filter: &str, asked: &str| {
        let mut hints = Info::default();
        hints.fabric.prov_name = asked.to_owned();
        let request = Request {
            hints: Some(&hints),
            ..Request::default()
        };
        admitted(&SHY, &request, &NameFilter::parse(filter)).is_ok()
    };
    for (filter, asked) in [("", "shy"), ("shy", ""), ("net,SHY", ""), ("^net", "shy")] {
        assert!(is_offered(filter, asked), "{filter} {asked}");
    }
    for (filter, asked) in [("", ""), ("^net", ""), ("net", "shy"), ("", "^net")] {
        assert!(!is_offered(filter, asked), "{filter} {asked}");
    }
}

#[test]
fn a_thread_that_is_there_in_any_case_is_reported() {
    static ALONE: Registry = Registry::new(&[&BUSY]);
    static QUIET: Registry = Registry::new(&[&NET]);
    let told = |registry: &Registry, asked| {
        let mut hints = Info::default();
        hints.domain.data_progress = asked;
        let request = Request {
            version: 2 << 16 | 6,
            hints: Some(&hints),
            ..Request::default()
        };
        let answer = registry.query_filtered(&request, &NameFilter::default());
        answer.infos[0].domain.data_progress
    };
    assert_eq!(told(&ALONE, Progress::Unspec), Progress::Auto);
    assert_eq!(told(&ALONE, Progress::Manual), Progress::Manual);
    assert_ne!(told(&QUIET, Progress::Unspec), Progress::Auto);
}

/// Another name for a provider, which says what it needs.
static OTHER: ProviderEntry = NET.alias("net;ofi_other", Listed::OnNeeds, net_offers, || &[]);

#[test]
fn another_name_answers_requests_that_name_it_or_say_what_they_need() {
    let answers = |filter: &str, set: fn(&mut Info)| {
        let mut hints = Info::default();
        set(&mut hints);
        let request = Request {
            hints: Some(&hints),
            ..Request::default()
        };
        admitted(&OTHER, &request, &NameFilter::parse(filter)).is_ok()
    };
    assert!(answers("", |h| h.fabric.prov_name = "net;ofi_other".into()));
    assert!(answers("", |h| h.fabric.prov_name = "ofi_OTHER;net".into()));
    assert!(answers("", |h| h.fabric.prov_name = "ofi_other".into()));
    assert!(answers("net;ofi_other", |_| ()) && answers("ofi_other", |_| ()));
    assert!(answers("", |h| h.caps = Caps::MSG));
    assert!(answers("net", |h| h.caps = Caps::MSG));
    assert!(answers("", |h| {
        h.ep.protocol = 11;
        h.fabric.prov_name = "net".into();
    }));
    assert!(!answers("", |_| ()) && !answers("net", |_| ()));
    assert!(!answers("^net", |h| h.caps = Caps::MSG));
    assert!(!answers("", |h| h.fabric.prov_name = "net".into()));
    assert!(!answers("", |h| {
        h.fabric.prov_name = "net".into();
        h.caps = Caps::MSG;
    }));
    assert!(admitted(&OTHER, &Request::default(), &NameFilter::default()).is_err());
    assert_eq!(OTHER.layer(), "ofi_other");
}

#[test]
fn a_filter_that_leaves_no_provider_is_told_what_was_meant() {
    let text = |filter| REGISTRY.unknown(&NameFilter::parse(filter));
    let warning = text("nte").unwrap();
    let meant = "FI_PROVIDER=nte leaves no provider; did you mean net? there are mem, net, ";
    assert!(warning.starts_with(meant), "{warning}");
    let warning = text("verbs").unwrap();
    let listed = "FI_PROVIDER=verbs leaves no provider; there are mem, net, ";
    assert!(warning.starts_with(listed), "{warning}");
    assert_eq!(text("net"), None);
}

#[test]
fn a_provider_that_is_set_up_wrongly_offers_nothing_and_says_why() {
    static ALONE: Registry = Registry::new(&[&STUCK]);
    let answer = ALONE.query_filtered(&Request::default(), &NameFilter::parse(""));
    assert!(answer.infos.is_empty());
    let why: Vec<String> = answer.refusals.iter().map(ToString::to_string).collect();
    assert_eq!(why, ["stuck: provider: file.toml, line 3: no such key"]);
}
