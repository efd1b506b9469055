//! Ranges of nodes and services: fi_av(3) "fi_av_insertsym".

use std::net::{Ipv4Addr, Ipv6Addr};

use oxifabric_types::Errno;

/// How many addresses one call may insert.
const LIMIT: usize = 1 << 20;

/// How many digits a name may count with; no number has more, but zeros may precede it.
const MAX_DIGITS: usize = 255;

/// Lists the pairs of node and service, all services of a node before the next node.
///
/// # Errors
/// `INVAL` when a range has no next element: a name without a number at its end, a service that is no port.
pub(super) fn pairs(
    node: &str,
    nodes: usize,
    service: Option<&str>,
    services: usize,
) -> Result<Vec<(String, Option<String>)>, Errno> {
    let total = nodes.checked_mul(services).ok_or(Errno::INVAL)?;
    if total > LIMIT {
        return Err(Errno::TOOBIG);
    }
    let services: Vec<Option<String>> = match service {
        None if services > 1 => return Err(Errno::INVAL),
        None => vec![None; services],
        Some(first) => (0..services)
            .map(|step| next_service(first, step, services).map(Some))
            .collect::<Result<_, _>>()?,
    };
    let mut pairs = Vec::with_capacity(total);
    for step in 0..nodes {
        let node = next_node(node, step, nodes)?;
        pairs.extend(
            services
                .iter()
                .map(|service| (node.clone(), service.clone())),
        );
    }
    Ok(pairs)
}

fn next_service(first: &str, step: usize, count: usize) -> Result<String, Errno> {
    if count == 1 {
        return Ok(first.to_owned());
    }
    let port: u16 = first.trim().parse().map_err(|_| Errno::INVAL)?;
    let port = u16::try_from(usize::from(port) + step).map_err(|_| Errno::INVAL)?;
    Ok(port.to_string())
}

fn next_node(first: &str, step: usize, count: usize) -> Result<String, Errno> {
    if count == 1 {
        return Ok(first.to_owned());
    }
    if let Ok(ip) = first.parse::<Ipv4Addr>() {
        let next = u32::from(ip).checked_add(step as u32).ok_or(Errno::INVAL)?;
        return Ok(Ipv4Addr::from(next).to_string());
    }
    if let Ok(ip) = first.parse::<Ipv6Addr>() {
        let next = u128::from(ip)
            .checked_add(step as u128)
            .ok_or(Errno::INVAL)?;
        return Ok(Ipv6Addr::from(next).to_string());
    }
    next_name(first, step)
}

/// Counts the number at the end of a host name up; leading zeros stay.
fn next_name(first: &str, step: usize) -> Result<String, Errno> {
    let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &first[stem.len()..];
    // Longer names are of no host.
    if digits.len() > MAX_DIGITS {
        return Err(Errno::INVAL);
    }
    let number: usize = digits.parse().map_err(|_| Errno::INVAL)?;
    let next = number.checked_add(step).ok_or(Errno::INVAL)?;
    Ok(format!("{stem}{next:0width$}", width = digits.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(node: &str, nodes: usize, service: &str, services: usize) -> Vec<String> {
        pairs(node, nodes, Some(service), services)
            .expect("the range is valid")
            .into_iter()
            .map(|(node, service)| format!("{node}:{}", service.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn the_example_of_the_man_page() {
        let want = [
            "10.1.1.1:5000",
            "10.1.1.1:5001",
            "10.1.1.2:5000",
            "10.1.1.2:5001",
        ];
        assert_eq!(spelled("10.1.1.1", 2, "5000", 2), want);
        assert_eq!(
            spelled("host10", 2, "5000", 1),
            ["host10:5000", "host11:5000"]
        );
    }

    #[test]
    fn other_kinds_of_nodes() {
        assert_eq!(spelled("fe80::ff", 2, "1", 1)[1], "fe80::100:1");
        assert_eq!(spelled("n009", 2, "x", 1)[1], "n010:x");
    }

    #[test]
    fn ranges_without_a_next_element() {
        assert_eq!(pairs("host", 2, Some("1"), 1), Err(Errno::INVAL));
        assert_eq!(pairs("h1", 1, Some("http"), 2), Err(Errno::INVAL));
        assert_eq!(pairs("h1", 1, Some("65535"), 2), Err(Errno::INVAL));
        assert_eq!(pairs("255.255.255.255", 2, Some("1"), 1), Err(Errno::INVAL));
        let endless = format!("h{}1", "0".repeat(70_000));
        assert_eq!(pairs(&endless, 2, Some("1"), 1), Err(Errno::INVAL));
        assert_eq!(pairs("h1", usize::MAX, Some("1"), 2), Err(Errno::INVAL));
        assert_eq!(pairs("h1", 1 << 21, Some("1"), 1), Err(Errno::TOOBIG));
    }
}
