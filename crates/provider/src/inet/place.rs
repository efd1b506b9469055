//! The addresses that endpoints can have on this host. Set-up path.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use oxifabric_abi::{FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use oxifabric_types::Caps;

use super::netif::{Interface, interfaces};

/// An address that endpoints can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address, with port zero.
    pub at: SocketAddr,
    /// The network interface.
    pub interface: String,
    /// The network that it is in, such as `10.1.0.0/16`.
    pub network: String,
    /// It reaches this host only.
    loopback: bool,
    /// In Mb/s; zero when it does not say.
    speed: u64,
}

/// Lists the usable addresses of this host, or of one interface: fast interfaces first, IPv4 before IPv6, loopback last.
/// Tunnels and other links to a single host are left out unless they are named.
pub fn addresses(iface: Option<&str>) -> Vec<Place> {
    let wanted = |name: &str| iface.is_none_or(|iface| iface == name);
    let mut places = Vec::new();
    for interface in interfaces().unwrap_or_default() {
        if is_usable(&interface, iface) {
            insert(&mut places, Place::of(&interface));
        }
    }
    if wanted("lo") || wanted("loopback") {
        places.push(Place::loopback(Ipv4Addr::LOCALHOST.into(), "127.0.0.1/32"));
        places.push(Place::loopback(Ipv6Addr::LOCALHOST.into(), "::1/128"));
    }
    places
}

/// Returns whether endpoints may be at an interface, where none or the one named `iface` is asked for.
fn is_usable(interface: &Interface, iface: Option<&str>) -> bool {
    let wanted = match iface {
        Some(iface) => iface == interface.name,
        None => !interface.point_to_point,
    };
    wanted && interface.running && !interface.loopback
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
    /// Returns the format of its address: `FI_SOCKADDR_IN` or `FI_SOCKADDR_IN6`.
    pub const fn addr_format(&self) -> u32 {
        match self.at {
            SocketAddr::V4(_) => FI_SOCKADDR_IN,
            SocketAddr::V6(_) => FI_SOCKADDR_IN6,
        }
    }

    /// Returns which peers endpoints there reach: `LOCAL_COMM`, and `REMOTE_COMM` unless it is a loopback address.
    pub fn reach(&self) -> Caps {
        match self.loopback {
            true => Caps::LOCAL_COMM,
            false => Caps::LOCAL_COMM | Caps::REMOTE_COMM,
        }
    }

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
    fn a_tunnel_is_used_only_if_it_is_named() {
        let tunnel = Interface {
            name: "tun0".into(),
            address: at("10.8.0.1:0"),
            netmask: None,
            loopback: false,
            point_to_point: true,
            running: true,
        };
        assert!(!is_usable(&tunnel, None));
        assert!(is_usable(&tunnel, Some("tun0")));
        assert!(!is_usable(&tunnel, Some("eth0")));
    }

    #[test]
    fn an_interface_may_be_chosen() {
        let found = addresses(Some("lo"));
        assert!(found.iter().all(|place| place.loopback), "{found:?}");
        assert_eq!(found.len(), 2);
        assert!(addresses(Some("no such interface")).is_empty());
    }
}
