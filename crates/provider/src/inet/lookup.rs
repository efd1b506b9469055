//! Names into addresses, and from where an address is reached. Set-up path; source: fi_getinfo(3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use oxifabric_abi::{FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use oxifabric_types::{Address, Errno};

use super::resolver;
use crate::device::Unresolved;

/// Resolves what fi_getinfo(3) was given, as [`crate::device::Provider::resolve`] does.
///
/// # Errors
/// As there.
pub fn resolve(
    node: Option<&str>,
    service: Option<&str>,
    source: bool,
    numeric: bool,
    addr_format: u32,
) -> Result<Vec<Address>, Unresolved> {
    let v6 = match addr_format {
        FI_SOCKADDR_IN => Some(false),
        FI_SOCKADDR_IN6 => Some(true),
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
    let found = resolver::resolve(host, port, v6, source, numeric).map_err(refuse)?;
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
pub fn source_for(dest: &Address) -> Option<Address> {
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
    use std::net::SocketAddr;

    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("a socket address")
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
        assert!(resolve(Some("::1"), None, false, false, FI_SOCKADDR_IN).is_err());
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
