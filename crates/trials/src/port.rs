//! TCP ports: free ones, and who listens.

use std::fs;
use std::net::TcpListener;

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

/// Whether any process listens on `port`, read from the kernel's tables, so that nothing has to connect.
#[must_use]
pub fn is_listening(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .any(|table| table.lines().skip(1).any(|row| listens_on(row, port)))
}

/// A row reads `sl: local_address:port remote_address:port state ...`, in hexadecimal; state 0A is LISTEN.
fn listens_on(row: &str, port: u16) -> bool {
    let mut columns = row.split_ascii_whitespace().skip(1);
    let local = columns.next().and_then(|address| address.rsplit_once(':'));
    let state = columns.nth(1);
    let number = local.and_then(|(_, hex)| u16::from_str_radix(hex, 16).ok());
    number == Some(port) && state == Some("0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_seen_only_while_it_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        assert!(is_listening(port));
        drop(listener);
        assert!(!is_listening(port));
    }

    #[test]
    fn only_the_listening_state_counts() {
        let listening = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000";
        let connected = "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000";
        assert!(listens_on(listening, 8080));
        assert!(!listens_on(listening, 8081));
        assert!(!listens_on(connected, 8080));
        assert!(!listens_on("", 8080));
    }
}
