//! Names of endpoints: `fi_sim://NODE`, `fi_sim://NODE/SERVICE`, docs/sim.md.
//!
//! A node is a number, or a word that stands for one.

/// What every name begins with.
pub(crate) const PREFIX: &str = "fi_sim://";

/// Maximum number of nodes.
pub(crate) const NODES: u32 = 1 << 24;

/// Makes the name of an endpoint.
pub(crate) fn of(node: Option<&str>, service: Option<&str>) -> String {
    match (node, service) {
        (Some(node), None) if node.starts_with(PREFIX) => node.to_owned(),
        (node, service) => {
            let node = node.unwrap_or("0");
            let slash = if service.is_some() { "/" } else { "" };
            format!("{PREFIX}{node}{slash}{}", service.unwrap_or_default())
        }
    }
}

/// Returns the node of a name: its number, or the word for it; `None` for what is no name.
pub(crate) fn node(name: &str) -> Option<Result<u32, &str>> {
    let rest = name.strip_prefix(PREFIX)?;
    let node = rest
        .split(['/', '#'])
        .next()
        .filter(|node| !node.is_empty())?;
    Some(match node.parse() {
        Ok(number) if number < NODES => Ok(number),
        _ => Err(node),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_node_and_perhaps_a_service() {
        assert_eq!(of(Some("3"), None), "fi_sim://3");
        assert_eq!(of(Some("3"), Some("7")), "fi_sim://3/7");
        assert_eq!(of(None, Some("7")), "fi_sim://0/7");
        assert_eq!(of(Some("fi_sim://3/7"), None), "fi_sim://3/7");
        assert_eq!(node("fi_sim://3/7"), Some(Ok(3)));
        assert_eq!(node("fi_sim://3#1"), Some(Ok(3)));
        assert_eq!(node("fi_sim://here"), Some(Err("here")));
        assert_eq!(node("fi_sim://99999999"), Some(Err("99999999")));
        assert_eq!(node("fi_sim://"), None);
        assert_eq!(node("fi_shm://3"), None);
    }
}
