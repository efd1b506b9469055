//! TCP ports: free ones, and who listens.

use std::collections::HashSet;
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// A port on which nobody listens at the moment.
///
/// # Panics
/// The machine has no loopback interface or no free port.
#[must_use]
pub fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("the loopback interface has a free port")
        .port()
}

/// Waits until nobody uses `port` of the loopback interface; false if that does not happen in time.
#[must_use]
pub fn becomes_free(port: u16, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while TcpListener::bind(("127.0.0.1", port)).is_err() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Whether the process listens on any port, read from the kernel's tables, so that nothing has to connect.
#[must_use]
pub fn is_listening(process: u32) -> bool {
    let open = sockets_of(process);
    ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{process}/net/{table}")).ok())
        .any(|table| {
            table
                .lines()
                .filter_map(listening_socket)
                .any(|socket| open.contains(socket))
        })
}

/// The numbers of the sockets that a process has open.
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

/// The socket's number in a row of the kernel's table, if its state is LISTEN (0A). The columns are `sl
/// local_address remote_address state queues timer retransmits uid timeout inode ...`.
fn listening_socket(row: &str) -> Option<&str> {
    let columns: Vec<&str> = row.split_ascii_whitespace().collect();
    let is_listening = columns.get(3) == Some(&"0A");
    columns.get(9).filter(|_| is_listening).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(listening_socket(listening), Some("77"));
        assert_eq!(listening_socket(connected), None);
        assert_eq!(listening_socket(""), None);
    }
}
