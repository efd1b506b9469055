//! TCP ports: free ones, and the processes that listen.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below this one are those of well-known services.
const LOWEST: u16 = 10_000;
/// Number of ports that processes which run side by side find each their own among.
const ENOUGH: u16 = 1_000;
/// How many ports this process has tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// Returns a port that no socket of this machine has, at any of its addresses. It is below those that the kernel gives to sockets that ask for
/// none, so that no connection takes it before the caller's program listens there.
///
/// # Panics
/// There is no such port.
#[must_use]
pub fn free() -> u16 {
    let count = usize::from(first_unwanted() - LOWEST);
    // Processes that run side by side begin at different places.
    let begin = std::process::id() as usize * 101;
    let tries = (0..count).map(|_| begin + usize::from(TRIED.fetch_add(1, Ordering::Relaxed)));
    tries
        .map(|place| LOWEST + (place % count) as u16)
        .find(|&port| is_free(port))
        .expect("a port is free")
}

/// Returns the port below which ports are taken: the first that the kernel gives, or the last one of all where it gives nearly all.
fn first_unwanted() -> u16 {
    let first = first_ephemeral();
    if first < LOWEST + ENOUGH {
        u16::MAX
    } else {
        first
    }
}

/// Returns the lowest port that the kernel gives to sockets that ask for none (ip(7) "ip_local_port_range").
fn first_ephemeral() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range = range.unwrap_or_default();
    let first = range.split_ascii_whitespace().next();
    first
        .and_then(|first| first.parse().ok())
        .unwrap_or(u16::MAX)
}

/// Returns whether a program may listen on the port at all addresses: of IPv6 and IPv4 together, where there is IPv6.
fn is_free(port: u16) -> bool {
    let bound = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    match bound {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
        }
        bound => bound.is_ok(),
    }
}

/// Returns whether the process listens on any TCP port, read from the kernel's tables, so that nothing has to connect.
#[must_use]
pub fn is_listening(process: u32) -> bool {
    let open = sockets_of(process);
    let mut listening = ["tcp", "tcp6"]
        .into_iter()
        .flat_map(|table| listed(process, table, tcp_listener));
    listening.any(|socket| open.contains(&socket))
}

/// Returns whether an endpoint of the process can be reached: over tcp it listens; over shm it listens too, on a local
/// socket, or, as the C library does, keeps memory under a name.
#[must_use]
pub fn is_reachable(process: u32) -> bool {
    let open = sockets_of(process);
    let is_local = listed(process, "unix", local_listener).any(|socket| open.contains(&socket));
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    is_local || maps.contains(" /dev/shm/") || is_listening(process)
}

/// Returns whether the process has a UDP socket that may receive from any peer.
#[must_use]
pub fn is_bound(process: u32) -> bool {
    let open = sockets_of(process);
    let mut bound = ["udp", "udp6"]
        .into_iter()
        .flat_map(|table| listed(process, table, udp_socket));
    bound.any(|socket| open.contains(&socket))
}

/// Returns what `find` finds in the rows of one of the kernel's tables of sockets.
fn listed(
    process: u32,
    table: &str,
    find: fn(&str) -> Option<&str>,
) -> impl Iterator<Item = String> {
    let rows = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
    let sockets: Vec<String> = rows.lines().filter_map(find).map(str::to_owned).collect();
    sockets.into_iter()
}

/// Returns the numbers of the sockets that a process has open.
fn sockets_of(process: u32) -> HashSet<String> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
    let targets = descriptors
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .filter_map(|target| {
            let socket = target.to_str()?.strip_prefix("socket:[")?;
            socket.strip_suffix(']').map(str::to_owned)
        })
        .collect()
}

/// Returns the socket's number in a row of a table of TCP sockets, if its state is LISTEN (0A). The columns are `sl
/// local_address remote_address state queues timer retransmits uid timeout inode ...`.
fn tcp_listener(row: &str) -> Option<&str> {
    let columns: Vec<&str> = row.split_ascii_whitespace().collect();
    let is_listening = columns.get(3) == Some(&"0A");
    columns.get(9).filter(|_| is_listening).copied()
}

/// Returns the socket's number in a row of a table of UDP sockets, if it is not connected (07). The columns are those of TCP.
fn udp_socket(row: &str) -> Option<&str> {
    let columns: Vec<&str> = row.split_ascii_whitespace().collect();
    let is_open = columns.get(3) == Some(&"07");
    columns.get(9).filter(|_| is_open).copied()
}

/// Returns the socket's number in a row of the table of local sockets, if its flags say that it listens. The columns are
/// `num count protocol flags type state inode path`.
fn local_listener(row: &str) -> Option<&str> {
    let columns: Vec<&str> = row.split_ascii_whitespace().collect();
    let is_listening = columns.get(3) == Some(&"00010000");
    columns.get(6).filter(|_| is_listening).copied()
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    #[test]
    fn a_free_port_is_one_that_no_socket_has_at_any_address() {
        let port = free();
        assert!((LOWEST..first_unwanted()).contains(&port));
        for address in ["127.0.0.1", "127.0.0.2"] {
            let held = TcpListener::bind((address, port)).expect("it is free");
            assert!(!is_free(port), "{address}");
            drop(held);
        }
        assert_ne!(free(), port);
    }

    #[test]
    fn a_process_is_seen_to_listen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        assert!(is_listening(std::process::id()));
        drop(listener);
    }

    #[test]
    fn only_the_listening_state_counts() {
        let listening = "0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 00000000 0 0 77 1";
        let connected = "1: 0100007F:1F90 0100007F:C350 01 0:0 00:0 00000000 0 0 78 1";
        assert_eq!(tcp_listener(listening), Some("77"));
        assert_eq!(tcp_listener(connected), None);
        assert_eq!(tcp_listener(""), None);
    }

    #[test]
    fn a_process_is_seen_to_be_reachable_locally() {
        let name = format!("oxi-trial-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).expect("the name is short");
        let listener = UnixListener::bind_addr(&address).expect("the name is this process's own");
        assert!(is_reachable(std::process::id()));
        drop(listener);
    }

    #[test]
    fn a_process_is_seen_to_have_a_socket_for_datagrams() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        assert!(is_bound(std::process::id()));
        drop(socket);
        let connected = "1: 0100007F:1F90 0100007F:C350 01 0:0 00:0 00000000 0 0 78 1";
        assert_eq!(udp_socket(connected), None);
    }

    #[test]
    fn only_listening_local_sockets_count() {
        let listening = "0000: 00000002 00000000 00010000 0001 01 4711 @name";
        let connected = "0000: 00000003 00000000 00000000 0001 03 4712";
        assert_eq!(local_listener(listening), Some("4711"));
        assert_eq!(local_listener(connected), None);
    }
}
