//! Interfaces, and the buffers that sockets may have.

use super::Finding;
use super::place::Place;
use oxifabric_bench::units::spell_size;

/// What a socket of udp;ofi_rxd asks for in each direction.
const SOCKET_BYTES: u64 = 4 << 20;
/// The bits of `flags` in sysfs, netdevice(7).
const UP: u64 = 1;
const LOOPBACK: u64 = 8;
const POINT_TO_POINT: u64 = 16;

pub(super) fn check(place: &Place) -> Vec<Finding> {
    let limits = ["rmem_max", "wmem_max"].map(|name| {
        let limit = place.number(&format!("/proc/sys/net/core/{name}"));
        limit.map(|limit| buffers(name, limit))
    });
    let mut findings = interfaces(place);
    findings.extend(limits.into_iter().flatten());
    findings
}

fn interfaces(place: &Place) -> Vec<Finding> {
    let (mut loopback, mut others) = (false, Vec::new());
    let (mut tunnels, mut down) = (Vec::new(), Vec::new());
    for name in place.names("/sys/class/net") {
        let flags = place.text(&format!("/sys/class/net/{name}/flags"));
        let flags =
            flags.and_then(|flags| u64::from_str_radix(flags.trim_start_matches("0x"), 16).ok());
        match flags.unwrap_or(0) {
            flags if flags & UP == 0 => down.push(name),
            flags if flags & LOOPBACK != 0 => loopback = true,
            flags if flags & POINT_TO_POINT != 0 => tunnels.push(name),
            _ => others.push(name),
        }
    }
    let mut findings = vec![own(loopback), outward(&others, &down)];
    findings.extend(tunnels.iter().map(|name| unasked(name)));
    findings
}

fn own(is_up: bool) -> Finding {
    match is_up {
        true => Finding::ok("loopback", "it is up"),
        false => Finding::bad(
            "loopback",
            "it is down, so tcp and udp cannot reach this host itself",
            "ip link set lo up",
        ),
    }
}

fn outward(up: &[String], down: &[String]) -> Finding {
    let about = "interfaces";
    match (up, down) {
        ([], []) => Finding::warn(
            about,
            "there is none but the loopback, so nothing reaches other hosts",
            "in a container: give it a network",
        ),
        ([], down) => Finding::warn(
            about,
            format!("none is up but the loopback; down: {}", down.join(", ")),
            format!("ip link set {} up", down[0]),
        ),
        (up, []) => Finding::ok(about, format!("up: {}", up.join(", "))),
        (up, down) => Finding::ok(
            about,
            format!("up: {}; down: {}", up.join(", "), down.join(", ")),
        ),
    }
}

/// Returns the finding about an interface to a single host, such as the tunnel of a private network.
fn unasked(name: &str) -> Finding {
    Finding::ok(
        "interfaces",
        format!(
            "{name} leads to one other host: used only with FI_TCP_IFACE={name} or FI_UDP_IFACE={name}"
        ),
    )
}

fn buffers(name: &str, limit: u64) -> Finding {
    let about = format!("net.core.{name}");
    let text = match limit {
        0 => "sockets may hold nothing".to_owned(),
        limit => format!("sockets may hold {}", spell_size(limit as usize)),
    };
    if limit >= SOCKET_BYTES {
        return Finding::ok(about, text);
    }
    Finding::warn(
        about.clone(),
        format!("{text}: udp;ofi_rxd loses and repeats more than it has to"),
        format!("sysctl {about}={SOCKET_BYTES}"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::place::tests::Made;
    use super::super::{Finding, Grade};
    use super::*;

    fn grades(findings: &[Finding]) -> Vec<Grade> {
        findings.iter().map(|finding| finding.grade).collect()
    }

    #[test]
    fn a_machine_that_is_well() {
        let made = Made::of(
            "well",
            &[
                ("/sys/class/net/lo/flags", "0x9\n"),
                ("/sys/class/net/eth0/flags", "0x1003\n"),
                ("/sys/class/net/eth1/flags", "0x1002\n"),
                ("/proc/sys/net/core/rmem_max", "4194304\n"),
                ("/proc/sys/net/core/wmem_max", "212992\n"),
            ],
        );
        let findings = check(&made.0);
        assert_eq!(
            grades(&findings),
            [Grade::Ok, Grade::Ok, Grade::Ok, Grade::Warn]
        );
        assert_eq!(findings[1].text, "up: eth0; down: eth1");
        assert_eq!(findings[2].text, "sockets may hold 4 MiB");
        assert!(findings[3].text.starts_with("sockets may hold 208 KiB: "));
        assert!(
            buffers("rmem_max", 0)
                .text
                .starts_with("sockets may hold nothing: ")
        );
        assert_eq!(findings[3].advice, "sysctl net.core.wmem_max=4194304");
    }

    #[test]
    fn a_machine_without_a_network() {
        let made = Made::of("alone", &[("/sys/class/net/lo/flags", "0x8")]);
        assert_eq!(grades(&check(&made.0)), [Grade::Bad, Grade::Warn]);
    }

    #[test]
    fn a_tunnel_is_no_way_to_other_hosts_unless_it_is_named() {
        let made = Made::of(
            "tunnel",
            &[
                ("/sys/class/net/lo/flags", "0x9"),
                ("/sys/class/net/tun0/flags", "0x10d1"),
            ],
        );
        let findings = check(&made.0);
        assert_eq!(grades(&findings), [Grade::Ok, Grade::Warn, Grade::Ok]);
        assert!(findings[2].text.contains("FI_TCP_IFACE=tun0"));
    }
}
