//! What the provider offers: one description for each address of this host, and names into addresses. Set-up
//! path; source: fi_getinfo(3), fi_tcp(7).

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use oxifabric_core::device::{RECEIVING, Unresolved, VECTORS};
use oxifabric_core::provider::PROVIDER_VERSION;
use oxifabric_types::{
    Address, Caps, DomainAttr, EpAttr, EpType, Errno, FabricAttr, Flags, Info, MrMode, Order,
    Progress, ResourceMgmt, RxAttr, Threading, TxAttr,
};

use crate::params::Params;
use crate::sys::{self, Interface};

pub(crate) const SOCKADDR_IN: u32 = 2;
pub(crate) const SOCKADDR_IN6: u32 = 3;

const PROTO_SOCK_TCP: u32 = 6;
const PROTO_XNET: u32 = 25;
const PROTO_XNET_VERSION: u32 = 1;
/// How many connections a domain is good for.
const MSG_ENDPOINTS: usize = 8192;
const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
const IOV_LIMIT: usize = oxifabric_mem::MAX_SEGMENTS;

/// An address that endpoints can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: SocketAddr,
    /// The network interface.
    interface: String,
    /// The network that it is in, such as `10.1.0.0/16`.
    network: String,
    loopback: bool,
    speed: u64,
}

/// Describes the endpoints of every usable address, best first: reliable datagrams, then connected ones.
pub(crate) fn offers(params: &Params) -> Vec<Info> {
    let places = addresses(params);
    let datagrams = places.iter().map(|place| describe(place, params));
    let connected = places
        .iter()
        .map(|place| connected(describe(place, params)));
    datagrams.chain(connected).collect()
}

/// Makes a description of a connected endpoint out of that of a reliable datagram endpoint at the same place. There is one
/// peer, so that it needs no naming; and nothing is negotiated, so that what the C library lacks is lacking.
fn connected(mut info: Info) -> Info {
    let lacking = VECTORS
        | Caps::DIRECTED_RECV
        | Caps::TAGGED_DIRECTED_RECV
        | Caps::EXACT_DIRECTED_RECV
        | Caps::SOURCE
        | Caps::SOURCE_ERR
        | Caps::ATOMIC
        | Caps::COLLECTIVE
        | Caps::NAMED_RX_CTX;
    for caps in [&mut info.caps, &mut info.tx.caps, &mut info.rx.caps] {
        caps.remove(lacking);
    }
    info.tx.op_flags.remove(Flags::MATCH_COMPLETE);
    (info.domain.max_ep_tx_ctx, info.domain.max_ep_rx_ctx) = (1, 1);
    info.ep.kind = EpType::Msg;
    info.ep.protocol = PROTO_SOCK_TCP;
    info.ep.protocol_version = 0;
    info.domain.ep_cnt = MSG_ENDPOINTS;
    info
}

/// Lists the usable addresses of this host: fast interfaces first, IPv4 before IPv6, loopback last.
pub(crate) fn addresses(params: &Params) -> Vec<Place> {
    let wanted = |name: &str| params.iface.as_deref().is_none_or(|iface| iface == name);
    let mut places = Vec::new();
    for interface in sys::interfaces().unwrap_or_default() {
        if interface.running && !interface.loopback && wanted(&interface.name) {
            insert(&mut places, Place::of(&interface));
        }
    }
    if wanted("lo") || wanted("loopback") {
        places.push(Place::loopback(Ipv4Addr::LOCALHOST.into(), "127.0.0.1/32"));
        places.push(Place::loopback(Ipv6Addr::LOCALHOST.into(), "::1/128"));
    }
    places
}

/// Keeps the order that applications know from the C library: among equals, the last found comes first.
fn insert(places: &mut Vec<Place>, place: Place) {
    let goes_before = |other: &Place| {
        let (ours, theirs) = (place.at.is_ipv6(), other.at.is_ipv6());
        place.speed > other.speed || place.speed == other.speed && ours <= theirs
    };
    let at = places.iter().position(goes_before).unwrap_or(places.len());
    places.insert(at, place);
}

impl Place {
    fn of(interface: &Interface) -> Self {
        Self {
            at: interface.address,
            interface: interface.name.clone(),
            network: network(&interface.address, interface.netmask.as_ref()),
            loopback: false,
            speed: speed(&interface.name),
        }
    }

    fn loopback(ip: IpAddr, network: &str) -> Self {
        Self {
            at: SocketAddr::new(ip, 0),
            interface: "lo".into(),
            network: network.into(),
            loopback: true,
            speed: 0,
        }
    }
}

/// Writes the network part of an address, with the number of its bits.
fn network(address: &SocketAddr, netmask: Option<&SocketAddr>) -> String {
    match (address.ip(), netmask.map(SocketAddr::ip)) {
        (IpAddr::V4(ip), Some(IpAddr::V4(mask))) => {
            let masked = Ipv4Addr::from(u32::from(ip) & u32::from(mask));
            format!("{masked}/{}", u32::from(mask).count_ones())
        }
        (IpAddr::V6(ip), Some(IpAddr::V6(mask))) => {
            let masked = Ipv6Addr::from(u128::from(ip) & u128::from(mask));
            format!("{masked}/{}", u128::from(mask).count_ones())
        }
        (IpAddr::V4(ip), _) => format!("{ip}/32"),
        (IpAddr::V6(ip), _) => format!("{ip}/128"),
    }
}

/// Returns what an interface can carry in Mb/s; zero when it does not say.
fn speed(interface: &str) -> u64 {
    fs::read_to_string(format!("/sys/class/net/{interface}/speed"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

fn describe(place: &Place, params: &Params) -> Info {
    let mut transfers = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC;
    // Only the extension has messages of collectives.
    transfers.set(Caps::COLLECTIVE, params.extension);
    let sends =
        Caps::SEND | Caps::READ | Caps::WRITE | Caps::FENCE | Caps::NAMED_RX_CTX | Caps::TRIGGER;
    let targets = Caps::REMOTE_READ | Caps::REMOTE_WRITE | Caps::RMA_EVENT;
    let receives = RECEIVING | targets | Caps::TRIGGER;
    let reach = if place.loopback {
        Caps::LOCAL_COMM
    } else {
        Caps::LOCAL_COMM | Caps::REMOTE_COMM
    };
    let sockaddr = if place.at.is_ipv4() {
        SOCKADDR_IN
    } else {
        SOCKADDR_IN6
    };
    Info {
        caps: transfers | sends | receives | reach | VECTORS,
        mode: 0,
        addr_format: sockaddr,
        src: Some(Address::Inet(place.at)),
        dest: None,
        tx: TxAttr {
            caps: transfers | sends,
            op_flags: Flags::INJECT
                | Flags::INJECT_COMPLETE
                | Flags::TRANSMIT_COMPLETE
                | Flags::DELIVERY_COMPLETE
                | Flags::MATCH_COMPLETE
                | Flags::COMPLETION,
            msg_order: order(),
            inject_size: params.max_inject,
            size: params.tx_size,
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: transfers | receives,
            op_flags: Flags::COMPLETION | Flags::MULTI_RECV,
            msg_order: order(),
            size: params.rx_size,
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        },
        ep: endpoint(),
        domain: domain(place),
        fabric: FabricAttr {
            name: place.network.clone(),
            prov_name: "tcp".into(),
            prov_version: PROVIDER_VERSION,
            api_version: 0,
        },
    }
}

/// Frames are dealt with in their order, but what a read brings is taken when its response leaves: later writes and
/// sends may overtake it. What an atomic fetches is taken when it is carried out.
fn order() -> Order {
    let messages = Order::RAS | Order::WAS | Order::SAW | Order::SAS;
    Order::RAR | Order::RAW | Order::ATOMIC_WAR | Order::WAW | messages
}

fn endpoint() -> EpAttr {
    EpAttr {
        kind: EpType::Rdm,
        protocol: PROTO_XNET,
        protocol_version: PROTO_XNET_VERSION,
        max_msg_size: usize::MAX,
        max_order_raw_size: usize::MAX,
        max_order_war_size: oxifabric_engine::MAX_ATOMIC_BYTES,
        max_order_waw_size: usize::MAX,
        mem_tag_format: TAG_GENERIC,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        ..EpAttr::default()
    }
}

fn domain(place: &Place) -> DomainAttr {
    DomainAttr {
        name: place.interface.clone(),
        threading: Threading::Safe,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        resource_mgmt: ResourceMgmt::Enabled,
        mr_mode: MrMode::BASIC | MrMode::SCALABLE,
        mr_key_size: 8,
        cq_data_size: 8,
        cq_cnt: 256,
        ep_cnt: 256,
        tx_ctx_cnt: 256,
        rx_ctx_cnt: 256,
        max_ep_tx_ctx: oxifabric_core::MAX_CONTEXTS,
        max_ep_rx_ctx: oxifabric_core::MAX_CONTEXTS,
        max_ep_stx_ctx: 256,
        max_ep_srx_ctx: 256,
        mr_iov_limit: IOV_LIMIT,
        caps: Caps::LOCAL_COMM | Caps::REMOTE_COMM | VECTORS,
        ..DomainAttr::default()
    }
}

/// Resolves what fi_getinfo(3) was given.
pub(crate) fn resolve(
    node: Option<&str>,
    service: Option<&str>,
    source: bool,
    numeric: bool,
    addr_format: u32,
) -> Result<Vec<Address>, Unresolved> {
    let v6 = match addr_format {
        SOCKADDR_IN => Some(false),
        SOCKADDR_IN6 => Some(true),
        _ => None,
    };
    let refuse = |why: String| Unresolved {
        errno: Errno::NODATA,
        why: format!(
            "{}{}{}: {why}",
            node.unwrap_or("*"),
            if service.is_some() { ":" } else { "" },
            service.unwrap_or("")
        ),
    };
    let (host, port, v6) = match node.and_then(uri) {
        Some(_) if service.is_some() => {
            return Err(refuse(
                "an address of the format FI_ADDR_STR has its own service".into(),
            ));
        }
        Some(uri) => (uri.host, uri.port, uri.v6.or(v6)),
        None => (node, service, v6),
    };
    let found = sys::resolve(host, port, v6, source, numeric).map_err(refuse)?;
    if found.is_empty() {
        return Err(refuse("no address of the wanted format".into()));
    }
    Ok(found.into_iter().map(Address::Inet).collect())
}

/// An address of the format FI_ADDR_STR in its parts.
struct Uri<'a> {
    host: Option<&'a str>,
    port: Option<&'a str>,
    /// The family that its scheme names.
    v6: Option<bool>,
}

/// Splits what a node is if it is an address of the format FI_ADDR_STR, such as `fi_sockaddr_in6://[::1]:7471?qos=3`.
fn uri(node: &str) -> Option<Uri<'_>> {
    let (scheme, rest) = node.split_once("://")?;
    let v6 = match scheme.to_ascii_lowercase().as_str() {
        "fi_sockaddr" | "fi_sockaddr_ip" => None,
        "fi_sockaddr_in" => Some(false),
        "fi_sockaddr_in6" => Some(true),
        _ => return None,
    };
    let rest = rest.split(['/', '?']).next().unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[') {
        Some(inner) => {
            let (host, behind) = inner.split_once(']')?;
            (host, behind.strip_prefix(':'))
        }
        None => match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let given = |text: &&str| !text.is_empty();
    Some(Uri {
        host: Some(host).filter(given),
        port: port.filter(given),
        v6,
    })
}

/// Asks the kernel from where it would reach an address; nothing is sent.
pub(crate) fn source_for(dest: &Address) -> Option<Address> {
    let Address::Inet(dest) = dest else {
        return None;
    };
    let any: IpAddr = if dest.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    let mut to = *dest;
    if to.port() == 0 {
        to.set_port(9);
    }
    socket.connect(to).ok()?;
    let mut from = socket.local_addr().ok()?;
    from.set_port(0);
    Some(Address::Inet(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("a socket address")
    }

    fn place(text: &str, speed: u64) -> Place {
        Place {
            at: at(text),
            interface: "eth0".into(),
            network: String::new(),
            loopback: false,
            speed,
        }
    }

    #[test]
    fn faster_interfaces_come_first_and_ipv4_before_ipv6() {
        let mut places = Vec::new();
        for (text, speed) in [
            ("10.0.0.1:0", 1000),
            ("[fd00::2]:0", 1000),
            ("[fe80::1]:0", 1000),
            ("10.1.0.1:0", 40_000),
        ] {
            insert(&mut places, place(text, speed));
        }
        let order: Vec<_> = places.iter().map(|place| place.at.to_string()).collect();
        assert_eq!(
            order,
            ["10.1.0.1:0", "10.0.0.1:0", "[fe80::1]:0", "[fd00::2]:0"]
        );
    }

    #[test]
    fn networks_are_written_with_their_bits() {
        let mask = at("255.255.240.0:0");
        assert_eq!(network(&at("10.9.8.7:0"), Some(&mask)), "10.9.0.0/20");
        let mask = at("[ffff:ffff:ffff:ffff::]:0");
        assert_eq!(network(&at("[fd00::2]:0"), Some(&mask)), "fd00::/64");
        assert_eq!(network(&at("10.9.8.7:0"), None), "10.9.8.7/32");
    }

    #[test]
    fn loopback_is_always_offered_last_and_is_local() {
        let offers = offers(Params::read());
        let last = offers.last().expect("loopback is there");
        assert_eq!(last.src, Some(Address::Inet(at("[::1]:0"))));
        assert_eq!(last.fabric.name, "::1/128");
        assert!(!last.caps.contains(Caps::REMOTE_COMM));
        assert!(last.caps.contains(Caps::LOCAL_COMM | Caps::TAGGED));
    }

    #[test]
    fn numbers_are_resolved_and_names_may_be_forbidden() {
        let found = resolve(Some("127.0.0.1"), Some("80"), false, true, 0);
        assert_eq!(
            found.map_err(|error| error.why),
            Ok(vec![Address::Inet(at("127.0.0.1:80"))])
        );
        let refused = resolve(Some("localhost"), None, false, true, 0).expect_err("a name");
        assert!(refused.why.starts_with("localhost: "), "{}", refused.why);
        assert!(resolve(Some("::1"), None, false, false, SOCKADDR_IN).is_err());
    }

    #[test]
    fn addresses_that_are_text_are_taken_for_what_they_say() {
        for (text, want) in [
            ("fi_sockaddr://127.0.0.1:7471", "127.0.0.1:7471"),
            ("fi_sockaddr_in://127.0.0.1:7471?qos=3", "127.0.0.1:7471"),
            ("FI_SOCKADDR_IN6://[::1]:7471/x", "[::1]:7471"),
            ("fi_sockaddr_in6://[::1]", "[::1]:0"),
            ("fi_sockaddr_ip://127.0.0.1", "127.0.0.1:0"),
        ] {
            let found = resolve(Some(text), None, false, true, 0);
            let want = vec![Address::Inet(at(want))];
            assert_eq!(found.map_err(|error| error.why), Ok(want), "{text}");
        }
        let twice = resolve(Some("fi_sockaddr://127.0.0.1:1"), Some("2"), false, true, 0);
        assert!(twice.is_err_and(|error| error.why.contains("FI_ADDR_STR")));
        for other in [
            "fi_sockaddr_in6://127.0.0.1:1",
            "fi_shm://127.0.0.1",
            "fi_sockaddr_in://[::1",
        ] {
            assert!(
                resolve(Some(other), None, false, true, 0).is_err(),
                "{other}"
            );
        }
    }

    #[test]
    fn the_kernel_says_from_where_a_peer_is_reached() {
        let dest = Address::Inet(at("127.0.0.1:4000"));
        assert_eq!(source_for(&dest), Some(Address::Inet(at("127.0.0.1:0"))));
        assert_eq!(source_for(&Address::Name("x".into())), None);
    }
}
